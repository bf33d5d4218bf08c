"""A successor finds every record that a keeper can leave behind, and does right by it."""

import pytest

from lockgate.core.move.plans import PLANS, UNDO_ORDER
from lockgate.core.move.stages import Stage
from lockgate.model.move_events import StepOutcome
from lockgate.model.move_instructions import RecordMove
from lockgate.model.moves import Command, MoveRecord, Side, Step
from tests.core.move.keeping import NEW, RUNNING, SWITCHED, Keeping

FLIP = PLANS[Command.SWITCH]
SEAL = FLIP.index(Step.SEAL)


def left_at(step: Step, *, undo: bool = False) -> MoveRecord:
    """What is durable when the keeper is lost while this acts."""
    keeping = Keeping(RUNNING)
    keeping.command(Command.SWITCH)
    if undo:
        keeping.until(Step.WAY_BACK)
        keeping.end(StepOutcome.REFUSED)
    keeping.until(step, undo=undo)
    return keeping.durable


@pytest.mark.parametrize("step", FLIP[:SEAL])
def test_a_flip_before_its_seal_is_put_back(step: Step) -> None:
    keeping = Keeping(left_at(step))
    keeping.tick()
    assert not keeping.ran
    keeping.through()
    begun = FLIP[: FLIP.index(step) + 1]
    assert keeping.ran == [(one, True) for one in UNDO_ORDER if one in begun]
    assert keeping.durable.ended
    assert keeping.durable.traffic is Side.SOURCE
    assert keeping.durable.trouble is not None
    assert "lost" in keeping.durable.trouble.what


@pytest.mark.parametrize("outcome", [StepOutcome.DONE, StepOutcome.REFUSED])
def test_a_seal_that_may_be_on_is_asked_for_and_gone_by(outcome: StepOutcome) -> None:
    keeping = Keeping(left_at(Step.SEAL))
    keeping.tick()
    assert keeping.running().step is Step.SEAL
    assert not keeping.running().undo
    keeping.end(outcome)
    keeping.through()
    sealed = outcome is StepOutcome.DONE
    assert keeping.durable.traffic is (Side.TARGET if sealed else Side.SOURCE)
    assert keeping.durable.ended
    assert bool(keeping.undone()) is not sealed


@pytest.mark.parametrize("step", FLIP[SEAL + 2 :])
def test_a_flip_behind_its_seal_goes_on(step: Step) -> None:
    keeping = Keeping(left_at(step))
    keeping.tick()
    assert keeping.running().giving is Side.SOURCE
    keeping.through()
    assert keeping.ran == [(one, False) for one in FLIP[FLIP.index(step) :]]
    assert keeping.durable.traffic is Side.TARGET


@pytest.mark.parametrize("step", UNDO_ORDER)
def test_undoing_goes_on_where_it_was(step: Step) -> None:
    record = left_at(step, undo=True)
    keeping = Keeping(record)
    keeping.tick()
    keeping.through()
    assert keeping.undone() == list(UNDO_ORDER[UNDO_ORDER.index(step) :])
    assert keeping.durable.trouble == record.trouble


@pytest.mark.parametrize("command", [Command.CREATE, Command.COMPLETE, Command.CANCEL])
def test_all_else_is_taken_up_at_the_step_that_acted(command: Command) -> None:
    for step in PLANS[command]:
        before = Keeping(
            {Command.CREATE: NEW, Command.COMPLETE: SWITCHED, Command.CANCEL: RUNNING}[command]
        )
        if command is Command.CREATE:
            before.tick()
        else:
            before.command(command)
        before.until(step)
        keeping = Keeping(before.durable)
        keeping.tick()
        keeping.through()
        plan = PLANS[command]
        assert keeping.ran == [(one, False) for one in plan[plan.index(step) :]]
        assert keeping.durable.ended


def test_a_step_that_waited_for_somebody_is_tried_by_a_new_keeper() -> None:
    before = Keeping(SWITCHED)
    before.command(Command.COMPLETE)
    before.until(Step.DISPOSE)
    before.end(StepOutcome.REFUSED)
    before.record_lands()
    keeping = Keeping(before.durable)
    keeping.tick()
    assert keeping.running().step is Step.DISPOSE


def test_a_new_keeper_writes_under_its_own_number() -> None:
    keeping = Keeping(left_at(Step.BLOCK))
    keeping.tick()
    record = keeping.take(RecordMove).record
    assert (record.keeper, record.serial) == (keeping.durable.keeper, 1)
    keeping = Keeping(left_at(Step.OPEN))
    keeping.tick()
    assert keeping.running().keeper == keeping.durable.keeper


def test_a_move_at_rest_stays_at_rest() -> None:
    keeping = Keeping(RUNNING)
    keeping.tick(100_000)
    assert keeping.stage is Stage.RESTING
    assert not keeping.asked
