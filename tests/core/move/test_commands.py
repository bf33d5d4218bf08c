"""What may be asked when, and what people are told."""

import pytest

from lockgate.core.move.stages import Stage
from lockgate.model.move_events import (
    MoveCommand,
    MoveKeeperOver,
    MoveOutdated,
    StepEnded,
    StepOutcome,
)
from lockgate.model.move_instructions import MoveVerdict, RunStep
from lockgate.model.moves import (
    CHECK_MS,
    Command,
    Disposal,
    MoveFacts,
    MoveOrder,
    MoveRecord,
    Side,
    Step,
    StepState,
)
from tests.core.move.keeping import NEW, RUNNING, SWITCHED, Keeping, states

REVERSED = SWITCHED.changed(traffic=Side.SOURCE, facts=MoveFacts(flips=2, feed="m--2"))
COMPLETED = SWITCHED.changed(order=MoveOrder(Command.COMPLETE), facts=MoveFacts(flips=1))
CANCELLED = RUNNING.changed(order=MoveOrder(Command.CANCEL), facts=MoveFacts())

BEGUN, NOTHING, REFUSED = MoveVerdict.BEGUN, MoveVerdict.NOTHING, MoveVerdict.REFUSED
TABLE: list[tuple[MoveRecord, dict[Command, MoveVerdict]]] = [
    (RUNNING, {Command.SWITCH: BEGUN, Command.CANCEL: BEGUN, Command.COMPLETE: REFUSED}),
    (RUNNING, {Command.REVERSE: NOTHING, Command.CREATE: NOTHING}),
    (REVERSED, {Command.SWITCH: BEGUN, Command.CANCEL: BEGUN, Command.REVERSE: NOTHING}),
    (SWITCHED, {Command.SWITCH: NOTHING, Command.REVERSE: BEGUN, Command.COMPLETE: BEGUN}),
    (SWITCHED, {Command.CANCEL: REFUSED, Command.CREATE: NOTHING}),
    (COMPLETED, {Command.COMPLETE: NOTHING, Command.CANCEL: REFUSED, Command.SWITCH: REFUSED}),
    (COMPLETED, {Command.REVERSE: REFUSED, Command.CREATE: REFUSED}),
    (CANCELLED, {Command.CANCEL: NOTHING, Command.SWITCH: REFUSED, Command.COMPLETE: REFUSED}),
    (CANCELLED, {Command.REVERSE: REFUSED, Command.CREATE: REFUSED}),
]


@pytest.mark.parametrize(
    ("record", "command", "verdict"),
    [(record, command, verdict) for record, row in TABLE for command, verdict in row.items()],
)
@pytest.mark.parametrize("dry", [False, True])
def test_a_command_begins_or_says_why_not(
    record: MoveRecord, command: Command, verdict: MoveVerdict, dry: bool
) -> None:
    keeping = Keeping(record)
    keeping.command(command, dry=dry)
    if verdict is not BEGUN:
        assert keeping.verdicts() == [verdict]
        assert keeping.answers[0].what
        assert not keeping.asked
    elif dry:
        assert keeping.stage is Stage.DRYING
    else:
        keeping.record_lands()
        assert keeping.verdicts() == [BEGUN]


# --- create -----------------------------------------------------------------------------------


def test_a_create_is_begun_by_its_record() -> None:
    keeping = Keeping(NEW)
    keeping.tick()
    keeping.through()
    assert [step for step, _ in keeping.ran] == [Step.CHECK_CREATE, Step.FORWARD, Step.GUARD]
    assert keeping.durable.ended
    assert keeping.durable.facts.feed == "m--0"


def test_a_feed_has_its_name_before_it_is_made() -> None:
    keeping = Keeping(NEW)
    keeping.tick()
    keeping.until(Step.FORWARD)
    assert keeping.durable.facts.feed == "m--0"
    assert keeping.running().facts.feed == "m--0"


def test_a_create_that_was_refused_can_be_created_again_or_cancelled_and_nothing_else() -> None:
    def refused() -> Keeping:
        keeping = Keeping(NEW)
        keeping.tick()
        keeping.until(Step.CHECK_CREATE)
        keeping.end(StepOutcome.REFUSED)
        keeping.through()
        assert keeping.durable.ended
        return keeping

    for command, verdict in {
        Command.CREATE: MoveVerdict.DONE,
        Command.CANCEL: MoveVerdict.DONE,
        Command.SWITCH: MoveVerdict.REFUSED,
        Command.COMPLETE: MoveVerdict.REFUSED,
        Command.REVERSE: MoveVerdict.REFUSED,
    }.items():
        keeping = refused()
        keeping.command(command)
        keeping.through()
        assert keeping.verdicts()[-1] is verdict, command


def test_a_create_is_cancelled_when_the_step_that_acts_has_ended() -> None:
    keeping = Keeping(NEW)
    keeping.tick()
    keeping.until(Step.FORWARD)
    keeping.command(Command.CANCEL)
    assert keeping.stops() == [keeping.running().number]
    keeping.command(Command.CANCEL, "too")
    keeping.command(Command.CREATE, "not")
    assert not keeping.verdicts()
    assert keeping.verdicts("not") == [MoveVerdict.BUSY]
    keeping.end(StepOutcome.FAILED)
    keeping.through()
    assert [step for step, _ in keeping.ran][-5:] == [
        Step.CHECK_CANCEL,
        Step.STOP,
        Step.END_FEED,
        Step.DROP_COPIES,
        Step.CLEAN,
    ]
    assert keeping.verdicts() == keeping.verdicts("too") == [BEGUN, MoveVerdict.DONE]


def test_a_second_cancel_of_a_create_with_another_disposal_is_busy() -> None:
    keeping = Keeping(NEW)
    keeping.tick()
    keeping.until(Step.FORWARD)
    keeping.command(Command.CANCEL, disposal=Disposal.DROP)
    assert keeping.stage is Stage.STOPPING
    keeping.command(Command.CANCEL, "keep", disposal=Disposal.KEEP)
    assert keeping.verdicts("keep") == [MoveVerdict.BUSY]
    assert keeping.answers[-1].what == "cancel is under way, to drop the tables"
    keeping.end(StepOutcome.FAILED)
    keeping.through()
    assert keeping.verdicts() == [BEGUN, MoveVerdict.DONE]
    assert keeping.verdicts("keep") == [MoveVerdict.BUSY]


@pytest.mark.parametrize("outcome", [StepOutcome.FAILED, StepOutcome.REFUSED])
def test_a_create_that_does_not_get_on_can_be_cancelled(outcome: StepOutcome) -> None:
    keeping = Keeping(NEW)
    keeping.tick()
    keeping.until(Step.FORWARD)
    keeping.end(outcome)
    keeping.command(Command.CANCEL)
    keeping.through()
    assert keeping.verdicts() == [BEGUN, MoveVerdict.DONE]
    assert keeping.durable.order.command is Command.CANCEL


def test_a_cancel_that_took_a_create_s_place_waits_when_it_is_refused() -> None:
    """Left alone, a half-made move would look like one that can be switched."""
    keeping = Keeping(NEW)
    keeping.tick()
    keeping.until(Step.FORWARD)
    keeping.command(Command.CANCEL)
    keeping.end(StepOutcome.FAILED)
    keeping.until(Step.CHECK_CANCEL)
    keeping.end(StepOutcome.REFUSED)
    keeping.record_lands()
    assert keeping.stage is Stage.STUCK
    assert not keeping.durable.ended
    keeping.command(Command.SWITCH, "no")
    assert keeping.verdicts("no") == [MoveVerdict.BUSY]
    keeping.command(Command.CANCEL, "keep", disposal=Disposal.KEEP)
    keeping.through()
    assert keeping.verdicts("keep") == [BEGUN, MoveVerdict.DONE]
    assert keeping.durable.order.disposal is Disposal.KEEP


def test_a_cancel_that_is_refused_leaves_a_move_that_runs() -> None:
    keeping = Keeping(RUNNING)
    keeping.command(Command.CANCEL)
    keeping.until(Step.CHECK_CANCEL)
    keeping.end(StepOutcome.REFUSED)
    keeping.through()
    assert keeping.verdicts() == [BEGUN, MoveVerdict.REFUSED]
    keeping.command(Command.SWITCH, "go")
    keeping.through()
    assert keeping.verdicts("go") == [BEGUN, MoveVerdict.DONE]


# --- while something is under way -------------------------------------------------------------


@pytest.mark.parametrize("command", [Command.CANCEL, Command.COMPLETE, Command.REVERSE])
def test_another_command_is_told_busy(command: Command) -> None:
    keeping = Keeping(RUNNING)
    keeping.command(Command.SWITCH)
    keeping.until(Step.BLOCK)
    keeping.command(command, "other")
    assert keeping.verdicts("other") == [MoveVerdict.BUSY]
    keeping.through()
    assert keeping.verdicts() == [BEGUN, MoveVerdict.DONE]


def test_the_same_command_is_told_the_same_end() -> None:
    keeping = Keeping(RUNNING)
    keeping.command(Command.SWITCH)
    keeping.command(Command.SWITCH, "early")
    assert not keeping.answers
    keeping.until(Step.BLOCK)
    keeping.command(Command.SWITCH, "late")
    keeping.through()
    for request in ("r", "early", "late"):
        assert keeping.verdicts(request) == [BEGUN, MoveVerdict.DONE]


def test_a_flip_that_is_put_back_cannot_be_asked_for_before_it_is() -> None:
    keeping = Keeping(RUNNING)
    keeping.command(Command.SWITCH)
    keeping.until(Step.BLOCK)
    keeping.end(StepOutcome.REFUSED)
    keeping.until(Step.BLOCK, undo=True)
    keeping.command(Command.SWITCH, "again")
    assert keeping.verdicts("again") == [MoveVerdict.BUSY]


# --- complete and cancel ----------------------------------------------------------------------


def test_nothing_is_renamed_before_the_feed_has_ended() -> None:
    keeping = Keeping(SWITCHED)
    keeping.command(Command.COMPLETE)
    run = keeping.until(Step.DISPOSE)
    assert run.giving is Side.TARGET
    assert states(keeping.durable, [Step.RUN_OUT, Step.END_FEED]) == [StepState.DONE] * 2
    assert keeping.durable.facts.feed == ""
    keeping.through()
    assert keeping.verdicts() == [BEGUN, MoveVerdict.DONE]


@pytest.mark.parametrize("step", [Step.RUN_OUT, Step.END_FEED, Step.DISPOSE, Step.CLEAN])
def test_a_refused_step_of_a_complete_waits_for_somebody(step: Step) -> None:
    keeping = Keeping(SWITCHED)
    keeping.command(Command.COMPLETE)
    keeping.until(step)
    keeping.end(StepOutcome.REFUSED)
    assert keeping.record_lands().stuck
    keeping.tick(100_000)
    assert keeping.stage is Stage.STUCK
    assert not any(isinstance(one, RunStep) for one in keeping.asked)
    keeping.command(Command.REVERSE, "other")
    assert keeping.verdicts("other") == [MoveVerdict.BUSY]
    keeping.command(Command.COMPLETE, "again")
    assert not keeping.record_lands().stuck
    assert keeping.running().step is step
    keeping.through()
    assert keeping.verdicts("again") == [BEGUN, MoveVerdict.DONE]


def test_a_failed_step_of_a_complete_is_tried_again() -> None:
    keeping = Keeping(SWITCHED)
    keeping.command(Command.COMPLETE)
    keeping.until(Step.RUN_OUT)
    keeping.end(StepOutcome.FAILED)
    keeping.record_lands()
    keeping.tick(100)
    assert keeping.running().step is Step.RUN_OUT


def test_what_becomes_of_the_tables_can_be_changed_while_it_waits_for_somebody() -> None:
    keeping = Keeping(SWITCHED)
    keeping.command(Command.COMPLETE, disposal=Disposal.RENAME)
    keeping.until(Step.DISPOSE)
    keeping.command(Command.COMPLETE, "too early", disposal=Disposal.KEEP)
    assert keeping.verdicts("too early") == [MoveVerdict.BUSY]
    keeping.end(StepOutcome.REFUSED)
    keeping.record_lands()
    keeping.command(Command.COMPLETE, "now", disposal=Disposal.KEEP)
    assert keeping.record_lands().order.disposal is Disposal.KEEP
    assert keeping.running().order.disposal is Disposal.KEEP
    keeping.through()
    assert keeping.verdicts() == keeping.verdicts("now") == [BEGUN, MoveVerdict.DONE]


def test_what_has_become_of_the_tables_cannot_be_changed_any_more() -> None:
    keeping = Keeping(SWITCHED)
    keeping.command(Command.COMPLETE, disposal=Disposal.KEEP)
    keeping.until(Step.CLEAN)
    keeping.end(StepOutcome.REFUSED)
    keeping.record_lands()
    keeping.command(Command.COMPLETE, "dropped now", disposal=Disposal.DROP)
    assert keeping.verdicts("dropped now") == [MoveVerdict.BUSY]
    keeping.command(Command.COMPLETE, "as before", disposal=Disposal.KEEP)
    assert keeping.record_lands().order.disposal is Disposal.KEEP
    keeping.through()
    assert keeping.verdicts("as before") == [BEGUN, MoveVerdict.DONE]


# --- the end ----------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["over", "outdated", "stale"])
@pytest.mark.parametrize("undo", [False, True])
def test_a_keeper_that_is_not_the_newest_ends_at_once_and_claims_nothing(
    how: str, undo: bool
) -> None:
    keeping = Keeping(RUNNING)
    keeping.command(Command.SWITCH)
    keeping.until(Step.BLOCK)
    if undo:
        keeping.end(StepOutcome.REFUSED)
        keeping.until(Step.BLOCK, undo=True)
    match how:
        case "over":
            keeping.give(MoveKeeperOver())
        case "outdated":
            keeping.give(MoveOutdated(99))
        case _:
            keeping.end(StepOutcome.STALE)
    assert keeping.stage is Stage.ENDED
    assert keeping.verdicts() == [BEGUN, MoveVerdict.UNKNOWN]
    keeping.asked.clear()
    keeping.tick(100_000)
    assert not keeping.asked
    keeping.command(Command.SWITCH, "later")
    assert keeping.verdicts("later") == [MoveVerdict.REFUSED]


def test_who_was_not_told_yet_that_it_began_is_told_that_nobody_knows() -> None:
    keeping = Keeping(RUNNING)
    keeping.command(Command.SWITCH)
    keeping.give(MoveKeeperOver())
    assert keeping.verdicts() == [MoveVerdict.UNKNOWN]


# --- dry runs ---------------------------------------------------------------------------------


def dry_end(keeping: Keeping, outcome: StepOutcome = StepOutcome.DONE) -> None:
    run = keeping.take(RunStep)
    assert run.dry
    keeping.give(StepEnded(run.number, run.step, outcome, detail=f"would {run.step.value}"))


def test_a_dry_run_goes_through_the_same_plan_and_records_nothing() -> None:
    keeping = Keeping(RUNNING)
    keeping.command(Command.SWITCH, dry=True)
    while keeping.stage is Stage.DRYING:
        dry_end(keeping)
    [answer] = keeping.answers
    assert answer.verdict is MoveVerdict.DONE
    steps = dict(answer.steps)
    wet = Keeping(RUNNING)
    wet.command(Command.SWITCH)
    wet.through()
    assert list(steps) == [one.step for one in wet.durable.steps]
    assert steps[Step.BLOCK] == "would block"
    assert "routes" in steps[Step.FLIP]
    assert not keeping.records
    assert not keeping.asked
    assert keeping.stage is Stage.RESTING


def test_a_dry_run_goes_from_where_the_traffic_is_whatever_the_last_command_was() -> None:
    keeping = Keeping(RUNNING)
    for command, side in ((Command.SWITCH, Side.TARGET), (Command.REVERSE, Side.SOURCE)):
        keeping.command(command, command.value)
        keeping.through()
        keeping.command(command.REVERSE if side is Side.TARGET else command.SWITCH, dry=True)
        assert keeping.running().giving is side
        while keeping.stage is Stage.DRYING:
            dry_end(keeping)
        flip = dict(keeping.answers[-1].steps)[Step.FLIP]
        assert f"from the {side.value}" in flip


def test_a_dry_run_ends_at_the_step_that_would_not_succeed() -> None:
    keeping = Keeping(RUNNING)
    keeping.command(Command.SWITCH, dry=True)
    dry_end(keeping)
    dry_end(keeping, StepOutcome.REFUSED)
    [answer] = keeping.answers
    assert answer.verdict is MoveVerdict.REFUSED
    assert "hook-before" in answer.what
    assert answer.steps == ((Step.CHECK, "would check"),)


def test_a_command_during_a_dry_run_is_told_busy() -> None:
    keeping = Keeping(RUNNING)
    keeping.command(Command.SWITCH, dry=True)
    keeping.command(Command.SWITCH, "now")
    assert keeping.verdicts("now") == [MoveVerdict.BUSY]


def test_a_dry_run_that_takes_too_long_is_stopped() -> None:
    keeping = Keeping(RUNNING)
    keeping.command(Command.SWITCH, dry=True, timeout_ms=1_000, max_lag_ms=1_000)
    keeping.tick(1_000 + CHECK_MS)
    assert keeping.stops() == [keeping.running().number]


def test_a_dry_run_during_a_command_is_told_busy() -> None:
    keeping = Keeping(RUNNING)
    keeping.command(Command.SWITCH)
    keeping.give(MoveCommand("dry", MoveOrder(Command.SWITCH), dry=True))
    assert keeping.verdicts("dry") == [MoveVerdict.BUSY]


def test_a_dry_run_whose_keeper_ends_is_answered() -> None:
    keeping = Keeping(RUNNING)
    keeping.command(Command.SWITCH, dry=True)
    keeping.give(MoveKeeperOver())
    assert keeping.verdicts() == [MoveVerdict.UNKNOWN]
