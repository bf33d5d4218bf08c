"""Under one name nothing is done twice, whoever was lost and whatever others have asked since."""

import msgspec

from lockgate.core.move.requests import REQUESTS_MAX
from lockgate.core.move.stages import Stage
from lockgate.model.move_events import StepOutcome
from lockgate.model.move_instructions import MoveVerdict
from lockgate.model.moves import Command, Disposal, MoveRecord, Side, Step
from tests.core.move.keeping import NEW, RUNNING, SWITCHED, TROUBLE, Keeping

BEGUN, BUSY, DONE = MoveVerdict.BEGUN, MoveVerdict.BUSY, MoveVerdict.DONE


def successor(keeping: Keeping) -> Keeping:
    """The next keeper, which has put back or gone on with what was under way."""
    follows = Keeping(keeping.durable)
    follows.tick()
    follows.through()
    return follows


def test_a_switch_that_others_have_reversed_is_not_made_again() -> None:
    keeping = Keeping(RUNNING)
    keeping.command(Command.SWITCH, "mine")
    keeping.until(Step.OPEN)
    keeping = successor(keeping)
    keeping.command(Command.REVERSE, "another's")
    keeping.through()
    keeping = successor(keeping)
    keeping.command(Command.SWITCH, "mine")
    assert keeping.verdicts("mine") == [DONE]
    assert not keeping.asked
    assert keeping.durable.traffic is Side.SOURCE


def test_who_joined_a_flip_that_was_put_back_begins_no_other() -> None:
    keeping = Keeping(RUNNING)
    keeping.command(Command.SWITCH, "another's")
    keeping.until(Step.BLOCK)
    keeping.command(Command.SWITCH, "mine")
    keeping.record_lands()
    keeping = successor(keeping)
    keeping.command(Command.SWITCH, "mine")
    assert keeping.verdicts("mine") == [MoveVerdict.ROLLED_BACK]
    assert not keeping.asked


def test_who_joins_is_told_so_when_that_is_durable() -> None:
    keeping = Keeping(RUNNING)
    keeping.command(Command.SWITCH)
    keeping.until(Step.BLOCK)
    keeping.command(Command.SWITCH, "late")
    assert not keeping.verdicts("late")
    keeping.record_lands()
    assert keeping.verdicts("late") == [BEGUN]


def test_a_cancel_is_not_told_begun_by_a_record_of_the_create_that_it_ends() -> None:
    keeping = Keeping(NEW)
    keeping.tick()
    keeping.until(Step.FORWARD)
    keeping.command(Command.CREATE, "late")
    keeping.command(Command.CANCEL, "cancel")
    assert keeping.verdicts("late") == [MoveVerdict.REFUSED]
    keeping.record_lands()
    assert not keeping.verdicts("cancel")
    keeping.end(StepOutcome.FAILED)
    keeping.through()
    assert keeping.verdicts("cancel") == [BEGUN, DONE]
    keeping = successor(keeping)
    keeping.command(Command.CREATE, "late")
    assert keeping.verdicts("late") == [MoveVerdict.REFUSED]


def test_a_request_that_was_refused_is_told_so_again_and_why() -> None:
    keeping = Keeping(RUNNING)
    keeping.command(Command.SWITCH, "mine")
    keeping.until(Step.CHECK)
    keeping.end(StepOutcome.REFUSED)
    keeping.through()
    keeping = successor(keeping)
    keeping.command(Command.SWITCH, "mine")
    [told] = keeping.answers
    assert (told.verdict, told.what, told.hint) == (
        MoveVerdict.REFUSED,
        TROUBLE.what,
        TROUBLE.hint,
    )


def test_a_request_that_is_being_put_back_is_under_way_and_not_busy() -> None:
    keeping = Keeping(RUNNING)
    keeping.command(Command.SWITCH, "mine")
    keeping.until(Step.BLOCK)
    keeping = Keeping(keeping.durable)
    keeping.tick()
    keeping.until(Step.BLOCK, undo=True)
    keeping.command(Command.SWITCH, "mine")
    keeping.through()
    assert keeping.verdicts("mine") == [BEGUN, MoveVerdict.ROLLED_BACK]


def test_whoever_asked_first_is_known_when_others_have_changed_what_is_to_be_done() -> None:
    keeping = Keeping(SWITCHED)
    keeping.command(Command.COMPLETE, "mine", disposal=Disposal.RENAME)
    keeping.until(Step.DISPOSE)
    keeping.end(StepOutcome.REFUSED)
    keeping.record_lands()
    keeping.command(Command.COMPLETE, "another's", disposal=Disposal.KEEP)
    keeping.through()
    keeping = successor(keeping)
    keeping.command(Command.COMPLETE, "mine", disposal=Disposal.RENAME)
    assert keeping.verdicts("mine") == [DONE]


def test_the_record_knows_the_last_requests_and_none_that_is_under_way_makes_room() -> None:
    keeping = Keeping(RUNNING)
    keeping.command(Command.SWITCH, "first")
    keeping.through()
    keeping.command(Command.REVERSE, "0")
    for number in range(1, REQUESTS_MAX + 1):
        keeping.command(Command.REVERSE, str(number))
    assert keeping.verdicts(str(REQUESTS_MAX)) == [BUSY]
    keeping.through()
    assert keeping.stage is Stage.RESTING
    known = [one.name for one in keeping.durable.requests]
    assert known == [str(number) for number in range(REQUESTS_MAX)]
    assert {one.verdict for one in keeping.durable.requests} == {DONE}


def test_a_record_of_before_it_knew_requests_is_read() -> None:
    body = msgspec.to_builtins(RUNNING)
    del body["requests"]
    assert msgspec.convert(body, MoveRecord) == RUNNING
