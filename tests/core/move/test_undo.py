"""A flip that does not go well: put back before the seal; the seal is asked until it is known."""

import pytest

from lockgate.core.move.plans import PLANS, UNDO_ORDER
from lockgate.core.move.stages import Stage
from lockgate.model.move_events import MoveRecorded, StepOutcome
from lockgate.model.move_instructions import MoveVerdict, RecordMove
from lockgate.model.moves import Command, MoveOrder, Side, Step, StepState
from tests.core.move.keeping import RUNNING, Keeping

FLIP = PLANS[Command.SWITCH]
BEFORE = FLIP[1 : FLIP.index(Step.SEAL)]


def switching(until: Step) -> Keeping:
    keeping = Keeping(RUNNING)
    keeping.command(Command.SWITCH, timeout_ms=10_000)
    keeping.until(until)
    return keeping


def expected(upto: Step) -> list[Step]:
    begun = FLIP[: FLIP.index(upto) + 1]
    return [step for step in UNDO_ORDER if step in begun]


def assert_put_back(keeping: Keeping) -> None:
    record = keeping.durable
    assert record.ended
    assert record.undoing
    assert record.traffic is Side.SOURCE
    assert record.facts.feed == "m--0"
    assert not record.facts.sealed
    assert {one.state for one in record.steps} <= {StepState.UNDONE, StepState.PENDING}
    assert keeping.verdicts() == [MoveVerdict.BEGUN, MoveVerdict.ROLLED_BACK]


@pytest.mark.parametrize("step", [*BEFORE, Step.SEAL])
def test_a_refused_step_puts_everything_back_that_was_begun(step: Step) -> None:
    keeping = switching(step)
    keeping.end(StepOutcome.REFUSED)
    keeping.through()
    assert keeping.undone() == expected(step)
    assert_put_back(keeping)
    assert keeping.durable.trouble is not None


@pytest.mark.parametrize("step", BEFORE)
def test_a_step_that_fails_until_it_is_too_late_puts_everything_back(step: Step) -> None:
    keeping = switching(step)
    while not keeping.undone():
        if keeping.stage is Stage.RUNNING:
            keeping.end(StepOutcome.FAILED)
        elif any(isinstance(one, RecordMove) for one in keeping.asked):
            keeping.record_lands()
        else:
            keeping.tick(50)
    assert 11_000 <= keeping.now < 11_500
    keeping.through()
    assert keeping.undone() == expected(step)
    assert_put_back(keeping)


@pytest.mark.parametrize("step", BEFORE)
@pytest.mark.parametrize("outcome", [StepOutcome.DONE, StepOutcome.FAILED])
def test_a_step_that_takes_too_long_is_stopped_and_waited_for(
    step: Step, outcome: StepOutcome
) -> None:
    keeping = switching(step)
    keeping.tick(10_000)
    assert keeping.stops() == [keeping.running().number]
    assert keeping.stage is Stage.STOPPING
    assert not keeping.undone()
    keeping.end(outcome)
    keeping.through()
    assert keeping.undone() == expected(step)
    assert_put_back(keeping)
    assert keeping.durable.trouble is not None
    assert "within 10 s" in keeping.durable.trouble.what


def test_undoing_is_durable_before_it_acts() -> None:
    keeping = switching(Step.CATCH_UP)
    keeping.end(StepOutcome.REFUSED)
    assert not keeping.undone()
    record = keeping.record_lands()
    assert [one.step for one in record.steps if one.state is StepState.UNDOING] == [Step.BLOCK]
    assert keeping.undone() == [Step.BLOCK]


def test_people_are_let_go_before_feeds_are_put_right_and_the_way_back_goes_first() -> None:
    assert UNDO_ORDER[:2] == (Step.BLOCK, Step.HOOK_BEFORE)
    assert UNDO_ORDER.index(Step.WAY_BACK) < UNDO_ORDER.index(Step.FREEZE)


@pytest.mark.parametrize("outcome", [StepOutcome.FAILED, StepOutcome.REFUSED])
def test_undoing_is_tried_until_it_is_done(outcome: StepOutcome) -> None:
    keeping = switching(Step.WAY_BACK)
    keeping.end(StepOutcome.REFUSED)
    keeping.until(Step.WAY_BACK, undo=True)
    for _ in range(5):
        keeping.end(outcome)
        if any(isinstance(one, RecordMove) for one in keeping.asked):
            record = keeping.record_lands()
            assert record.stuck is (outcome is StepOutcome.REFUSED)
            [step] = [one for one in record.steps if one.state is StepState.UNDOING]
            assert "cannot be undone yet" in step.detail
        keeping.tick(20_000)
    keeping.through()
    assert_put_back(keeping)
    assert keeping.durable.trouble is not None
    assert "undone" not in keeping.durable.trouble.what


def test_a_hook_lets_traffic_go_on_also_when_the_guard_cannot_be_taken_away_yet() -> None:
    """The guard ends by itself; a hook that waited for it would hold the traffic for ever."""
    keeping = switching(Step.CATCH_UP)
    keeping.end(StepOutcome.REFUSED)
    for step in (Step.BLOCK, Step.HOOK_BEFORE, Step.BLOCK):
        keeping.until(step, undo=True)
        keeping.end(StepOutcome.FAILED)
        keeping.tick(20_000)
    keeping.through()
    assert keeping.undone() == [Step.BLOCK, Step.HOOK_BEFORE] * 2 + [Step.BLOCK]
    assert_put_back(keeping)


def test_a_check_that_refuses_leaves_nothing_to_be_undone() -> None:
    keeping = switching(Step.CHECK)
    keeping.end(StepOutcome.REFUSED)
    keeping.through()
    assert not keeping.undone()
    assert keeping.verdicts() == [MoveVerdict.BEGUN, MoveVerdict.REFUSED]
    assert keeping.durable.ended
    assert keeping.durable.trouble is not None


def test_a_check_may_take_longer_than_writers_may_be_blocked() -> None:
    """It holds nobody up."""
    keeping = switching(Step.CHECK)
    keeping.tick(10_000)
    assert keeping.stops() == []
    keeping.tick(MoveOrder(Command.SWITCH, timeout_ms=10_000).check_ms - 10_000)
    assert len(keeping.stops()) == 1


def test_a_check_that_finds_no_server_is_given_up_in_time() -> None:
    keeping = switching(Step.CHECK)
    keeping.end(StepOutcome.FAILED)
    keeping.record_lands()
    keeping.tick(MoveOrder(Command.SWITCH, timeout_ms=10_000).check_ms)
    keeping.through()
    assert keeping.verdicts() == [MoveVerdict.BEGUN, MoveVerdict.REFUSED]


def test_a_record_that_does_not_land_in_time_is_given_up() -> None:
    keeping = switching(Step.FREEZE)
    keeping.end()
    keeping.tick(10_000)
    keeping.through()
    assert (Step.SEQUENCES, False) not in keeping.ran
    assert keeping.undone() == [Step.BLOCK, Step.HOOK_BEFORE, Step.FREEZE]
    assert_put_back(keeping)


def test_a_seal_that_is_not_recorded_in_time_is_never_set() -> None:
    keeping = switching(Step.WAY_BACK)
    keeping.end()
    seal = keeping.take(RecordMove).record
    keeping.tick(10_000)
    keeping.give(MoveRecorded(seal.serial))
    keeping.through()
    assert (Step.SEAL, False) not in keeping.ran
    assert_put_back(keeping)


def test_a_seal_of_unknown_outcome_is_asked_for_again_however_late_it_is() -> None:
    keeping = switching(Step.SEAL)
    for _ in range(5):
        keeping.tick(20_000)
        assert keeping.stage is Stage.RUNNING
        keeping.end(StepOutcome.FAILED)
        if any(isinstance(one, RecordMove) for one in keeping.asked):
            keeping.record_lands()
        keeping.tick(400)
        assert keeping.running().step is Step.SEAL
    keeping.end()
    keeping.through()
    assert not keeping.undone()
    assert keeping.durable.traffic is Side.TARGET


def test_after_it_was_put_back_the_flip_can_be_asked_for_again() -> None:
    keeping = switching(Step.WAY_BACK)
    keeping.end(StepOutcome.REFUSED)
    keeping.through()
    keeping.command(Command.SWITCH, "again")
    keeping.through()
    assert keeping.verdicts("again") == [MoveVerdict.BEGUN, MoveVerdict.DONE]
    assert keeping.durable.traffic is Side.TARGET
    assert keeping.durable.trouble is None
