"""A side that is gone for ever: who may give it up, when, and what has to be known before."""

import pytest

from lockgate.core.move.stages import Stage
from lockgate.model.move_events import MoveKeeperOver, StepEnded, StepOutcome
from lockgate.model.move_instructions import MoveVerdict, RunStep
from lockgate.model.moves import Command, Disposal, MoveOrder, MoveRecord, Side, Step, StepState
from tests.core.move.keeping import NEW, RUNNING, SWITCHED, Keeping, states

BEGUN, DONE, REFUSED = MoveVerdict.BEGUN, MoveVerdict.DONE, MoveVerdict.REFUSED
CANCELS = (RUNNING, Command.CANCEL, Side.TARGET)
COMPLETES = (SWITCHED, Command.COMPLETE, Side.SOURCE)
WAYS = pytest.mark.parametrize(("record", "command", "lost"), [CANCELS, COMPLETES])


def held_up(record: MoveRecord, command: Command, step: Step, outcome: StepOutcome) -> Keeping:
    """A command whose step did not succeed, for want of a side."""
    keeping = Keeping(record)
    keeping.command(command)
    keeping.until(step)
    keeping.end(outcome)
    keeping.record_lands()
    return keeping


def looks(keeping: Keeping) -> RunStep:
    """The check that is asked whether the side is gone."""
    run = keeping.running()
    assert keeping.stage is Stage.LOOKING
    assert run.dry
    assert run.step in {Step.CHECK_CANCEL, Step.CHECK_COMPLETE}
    assert run.order.lost is not None
    return run


# --- at rest --------------------------------------------------------------------------------------


@WAYS
def test_that_a_side_is_given_up_is_durable_before_anything_acts(
    record: MoveRecord, command: Command, lost: Side
) -> None:
    keeping = Keeping(record)
    keeping.command(command, lost=lost)
    assert not any(isinstance(one, RunStep) for one in keeping.asked)
    assert keeping.record_lands().order.lost is lost
    keeping.through()
    assert keeping.verdicts() == [BEGUN, DONE]


@WAYS
def test_a_check_that_reaches_the_side_ends_it_with_nothing_changed(
    record: MoveRecord, command: Command, lost: Side
) -> None:
    keeping = Keeping(record)
    keeping.command(command, lost=lost)
    keeping.record_lands()
    keeping.end(StepOutcome.REFUSED)
    keeping.through()
    assert keeping.verdicts() == [BEGUN, REFUSED]
    assert [step for step, _ in keeping.ran] == [keeping.durable.steps[0].step]
    keeping.command(command, "now")
    keeping.through()
    assert keeping.durable.order.lost is None, "the next one waits for the side"


@pytest.mark.parametrize(
    ("record", "command", "lost", "hint"),
    [
        (RUNNING, Command.CANCEL, Side.SOURCE, "restore it under the same URL"),
        (SWITCHED, Command.COMPLETE, Side.TARGET, "restore it under the same URL"),
        (SWITCHED, Command.CANCEL, Side.TARGET, "restore it under the same URL"),
        (RUNNING, Command.COMPLETE, Side.SOURCE, "restore it under the same URL"),
        (RUNNING, Command.COMPLETE, Side.TARGET, "lockgate move cancel m --lost target"),
        (SWITCHED, Command.CANCEL, Side.SOURCE, "lockgate move complete m --keep --lost source"),
        (RUNNING, Command.SWITCH, Side.TARGET, "lockgate move cancel m --lost target"),
    ],
)
@pytest.mark.parametrize("dry", [False, True])
def test_what_has_the_traffic_is_never_given_up(
    record: MoveRecord, command: Command, lost: Side, hint: str, dry: bool
) -> None:
    keeping = Keeping(record)
    keeping.command(command, lost=lost, dry=dry)
    assert keeping.verdicts() == [REFUSED]
    assert hint in keeping.answers[0].hint
    assert not keeping.asked


def test_a_dry_run_asks_the_check_with_the_side_that_is_lost() -> None:
    keeping = Keeping(RUNNING)
    keeping.command(Command.CANCEL, lost=Side.TARGET, dry=True)
    run = keeping.take(RunStep)
    assert (run.step, run.order.lost, run.dry) == (Step.CHECK_CANCEL, Side.TARGET, True)
    keeping.give(StepEnded(run.number, run.step, StepOutcome.REFUSED))
    assert keeping.verdicts() == [REFUSED]


# --- under way ------------------------------------------------------------------------------------


@pytest.mark.parametrize("outcome", [StepOutcome.FAILED, StepOutcome.REFUSED])
@pytest.mark.parametrize(
    ("way", "step"),
    [
        (CANCELS, Step.STOP),
        (CANCELS, Step.END_FEED),
        (CANCELS, Step.CLEAN),
        (COMPLETES, Step.RUN_OUT),
        (COMPLETES, Step.DISPOSE),
    ],
)
def test_a_command_that_is_held_up_goes_on_where_it_was_without_the_side(
    way: tuple[MoveRecord, Command, Side], step: Step, outcome: StepOutcome
) -> None:
    record, command, lost = way
    keeping = held_up(record, command, step, outcome)
    keeping.command(command, "without", lost=lost)
    looks(keeping)
    assert keeping.durable.order.lost is None
    keeping.end()
    assert not any(isinstance(one, RunStep) for one in keeping.asked), "first it is recorded"
    noted = keeping.record_lands()
    assert (noted.order.lost, noted.stuck, noted.trouble) == (lost, False, None)
    assert (keeping.running().step, keeping.running().order.lost) == (step, lost)
    keeping.through()
    assert keeping.verdicts("without") == keeping.verdicts() == [BEGUN, DONE]


def test_a_step_that_runs_is_stopped_for_the_look() -> None:
    keeping = Keeping(RUNNING)
    keeping.command(Command.CANCEL)
    keeping.until(Step.END_FEED)
    keeping.command(Command.CANCEL, "without", lost=Side.TARGET)
    assert keeping.stops() == [keeping.running().number]
    keeping.end(StepOutcome.FAILED)
    looks(keeping)
    keeping.through()
    assert keeping.verdicts("without") == [BEGUN, DONE]
    assert keeping.durable.order.lost is Side.TARGET


def test_what_the_step_had_done_by_then_counts() -> None:
    keeping = Keeping(RUNNING)
    keeping.command(Command.CANCEL)
    keeping.until(Step.STOP)
    keeping.command(Command.CANCEL, "without", lost=Side.TARGET)
    keeping.end()
    assert states(keeping.record_lands(), [Step.STOP]) == [StepState.DONE]
    looks(keeping)
    keeping.end()
    keeping.record_lands()
    assert keeping.running().step is Step.END_FEED


def test_a_record_that_is_on_its_way_is_waited_for_before_the_look() -> None:
    keeping = Keeping(RUNNING)
    keeping.command(Command.CANCEL)
    keeping.command(Command.CANCEL, "without", lost=Side.TARGET)
    keeping.record_lands()
    looks(keeping)
    keeping.through()
    assert keeping.verdicts("without") == [BEGUN, DONE]


def test_a_command_that_is_over_by_then_is_all_there_was_to_do() -> None:
    keeping = Keeping(RUNNING)
    keeping.command(Command.CANCEL)
    keeping.until(Step.CLEAN)
    keeping.command(Command.CANCEL, "without", lost=Side.TARGET)
    keeping.end()
    keeping.through()
    assert keeping.verdicts() == [BEGUN, DONE]
    assert keeping.verdicts("without") == [MoveVerdict.NOTHING]
    assert keeping.durable.order.lost is None


@pytest.mark.parametrize("outcome", [StepOutcome.FAILED, StepOutcome.REFUSED])
def test_a_side_that_answers_is_drained_as_it_was_to_be(outcome: StepOutcome) -> None:
    keeping = held_up(RUNNING, Command.CANCEL, Step.STOP, StepOutcome.FAILED)
    keeping.command(Command.CANCEL, "without", lost=Side.TARGET)
    keeping.end(outcome)
    assert keeping.verdicts("without") == [REFUSED]
    assert keeping.running().step is Step.STOP
    assert keeping.running().order.lost is None
    keeping.through()
    assert keeping.durable.order.lost is None
    assert keeping.verdicts() == [BEGUN, DONE]


def test_a_successor_is_asked_as_the_one_before() -> None:
    keeping = Keeping(held_up(RUNNING, Command.CANCEL, Step.STOP, StepOutcome.FAILED).durable)
    keeping.command(Command.CANCEL, "without", lost=Side.TARGET)
    keeping.tick()
    looks(keeping)
    keeping.through()
    assert keeping.verdicts("without") == [BEGUN, DONE]


def test_a_successor_goes_on_without_the_side() -> None:
    keeping = Keeping(RUNNING)
    keeping.command(Command.CANCEL, lost=Side.TARGET)
    keeping.until(Step.END_FEED)
    later = Keeping(keeping.durable)
    later.tick()
    assert (later.running().step, later.running().order.lost) == (Step.END_FEED, Side.TARGET)


def test_a_create_is_cancelled_without_a_target_only_if_that_is_gone() -> None:
    for outcome in (StepOutcome.REFUSED, StepOutcome.DONE):
        keeping = Keeping(NEW)
        keeping.tick()
        keeping.until(Step.FORWARD)
        keeping.command(Command.CANCEL, lost=Side.TARGET)
        keeping.end(StepOutcome.FAILED)
        looks(keeping)
        keeping.end(outcome)
        if outcome is StepOutcome.REFUSED:
            assert keeping.running().step is Step.FORWARD, "it is created all the same"
            keeping.through()
            assert keeping.durable.order.command is Command.CREATE
        else:
            noted = keeping.record_lands()
            assert states(noted, [Step.CHECK_CANCEL]) == [StepState.DONE], "it was looked"
            keeping.through()
            assert keeping.verdicts() == [BEGUN, DONE]
            assert keeping.durable.order == MoveOrder(Command.CANCEL, lost=Side.TARGET)


def test_what_has_the_traffic_is_not_given_up_by_a_command_that_is_under_way() -> None:
    keeping = held_up(RUNNING, Command.CANCEL, Step.STOP, StepOutcome.FAILED)
    keeping.command(Command.CANCEL, "without", lost=Side.SOURCE)
    assert keeping.verdicts("without") == [REFUSED]
    assert keeping.stage is Stage.WAITING


def test_a_flip_comes_to_its_end_first() -> None:
    keeping = Keeping(RUNNING)
    keeping.command(Command.SWITCH)
    keeping.until(Step.BLOCK)
    keeping.command(Command.CANCEL, "without", lost=Side.TARGET)
    assert keeping.verdicts("without") == [MoveVerdict.BUSY]


def test_while_it_is_looked_others_join_or_are_told_busy() -> None:
    keeping = held_up(RUNNING, Command.CANCEL, Step.STOP, StepOutcome.FAILED)
    keeping.command(Command.CANCEL, "without", lost=Side.TARGET)
    keeping.command(Command.CANCEL, "too", lost=Side.TARGET)
    assert keeping.verdicts("too") == [MoveVerdict.BUSY]
    keeping.command(Command.CANCEL, "with")
    keeping.through()
    assert keeping.verdicts("with") == keeping.verdicts("without") == [BEGUN, DONE]


def test_what_becomes_of_the_tables_of_a_lost_side_is_nobodys_choice() -> None:
    keeping = Keeping(SWITCHED)
    keeping.command(Command.COMPLETE, disposal=Disposal.RENAME, lost=Side.SOURCE)
    keeping.until(Step.END_FEED)
    keeping.command(Command.COMPLETE, "too", disposal=Disposal.KEEP, lost=Side.SOURCE)
    keeping.through()
    assert keeping.verdicts("too") == [BEGUN, DONE]


def test_who_waits_for_a_look_is_told_that_nobody_knows_when_the_keeper_ends() -> None:
    keeping = held_up(RUNNING, Command.CANCEL, Step.STOP, StepOutcome.FAILED)
    keeping.command(Command.CANCEL, "without", lost=Side.TARGET)
    keeping.give(MoveKeeperOver())
    assert keeping.verdicts("without") == [MoveVerdict.UNKNOWN]
    assert keeping.stops() == [keeping.running().number]
    assert keeping.durable.order.lost is None
