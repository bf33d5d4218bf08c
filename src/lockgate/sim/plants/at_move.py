"""Bugs of a move's keeper and of its plan.

The steps are many and each is simple; what is hard is their order, and who may still act when. So
many of these are a step at another place in the plan.
"""

import msgspec

from lockgate.core.move import changes, keeper
from lockgate.core.move.callers import Callers
from lockgate.core.move.changes import closed
from lockgate.core.move.dry import DryRun
from lockgate.core.move.keeper import MoveKeeper
from lockgate.core.move.plans import PLANS, UNDO_ORDER
from lockgate.core.move.rules import Judgement, judge
from lockgate.model.ids import Millis
from lockgate.model.move_events import StepEnded, StepOutcome, Tick
from lockgate.model.move_instructions import MoveAnswer, MoveVerdict, RunStep
from lockgate.model.moves import Command, MoveOrder, MoveRecord, MoveTrouble, Step
from lockgate.sim.plants.registry import MOVE, plant
from lockgate.sim.violation import Law

# --- the plan ---------------------------------------------------------------------------------


def _moved(step: Step, behind: Step | None, *commands: Command) -> dict[Command, tuple[Step, ...]]:
    """The plans with a step directly behind another one, or left out."""

    def plan(steps: tuple[Step, ...]) -> tuple[Step, ...]:
        left = [one for one in steps if one is not step]
        if behind is not None:
            left.insert(left.index(behind) + 1, step)
        return tuple(left)

    return {one: plan(steps) if one in commands else steps for one, steps in PLANS.items()}


_FLIPS = (Command.SWITCH, Command.REVERSE)

plant(
    "move-rename-before-drain",
    "a complete renames the tables before the way back has run out and is removed",
    Law.DRAIN,
    changes,
    "PLANS",
    MOVE,
)(_moved(Step.DISPOSE, Step.CHECK_COMPLETE, Command.COMPLETE))

plant(
    "move-drop-before-stop",
    "a cancel drops the copies while the feed may still apply",
    Law.DRAIN,
    changes,
    "PLANS",
    MOVE,
)(_moved(Step.DROP_COPIES, Step.CHECK_CANCEL, Command.CANCEL))

plant(
    "move-open-before-seal",
    "the taking side is opened before the giving side is sealed",
    Law.RECORD,
    changes,
    "PLANS",
    MOVE,
)(_moved(Step.OPEN, Step.WAY_BACK, *_FLIPS))

plant(
    "move-no-catch-up",
    "the feed is frozen before the taking side has everything",
    Law.TOGETHER,
    changes,
    "PLANS",
    MOVE,
)(_moved(Step.CATCH_UP, None, *_FLIPS))

plant(
    "move-no-sequences",
    "sequences of the taking side are left where they were",
    Law.TOGETHER,
    changes,
    "PLANS",
    MOVE,
)(_moved(Step.SEQUENCES, None, *_FLIPS))

plant(
    "move-feed-before-way-back",
    "the frozen feed goes on before the way back is removed, which carries back what it brings",
    Law.TOGETHER,
    changes,
    "UNDO_ORDER",
    MOVE,
)((*UNDO_ORDER[:2], *reversed(UNDO_ORDER[2:])))


plant(
    "move-hook-not-undone",
    "a flip is put back, and the hook goes on holding the traffic",
    Law.LIVENESS,
    changes,
    "UNDO_ORDER",
    MOVE,
)(tuple(step for step in UNDO_ORDER if step is not Step.HOOK_BEFORE))


# --- the keeper -------------------------------------------------------------------------------


@plant(
    "move-rollback-forgotten",
    "a flip that fails before its seal is over at once, and nothing is put back",
    Law.LIVENESS,
    changes,
    "turned",
    MOVE,
)
def _rollback_forgotten(record: MoveRecord, trouble: MoveTrouble, now: Millis) -> MoveRecord:
    return closed(record.changed(trouble=trouble), now)


@plant(
    "move-route-before-seal",
    "traffic changes hands in the record that says the seal is about to be set",
    Law.RECORD,
    changes,
    "_begun",
    MOVE,
)
def _route_before_seal(record: MoveRecord, at: int, now: Millis) -> MoveRecord:
    begun = _begun(record, at, now)
    sealing = begun.steps[at].step is Step.SEAL
    return begun.changed(traffic=begun.traffic.other) if sealing else begun


_begun = changes._begun


@plant(
    "move-act-before-record",
    "a step acts before it is durable that it does",
    Law.RECORD,
    MoveKeeper,
    "_note",
    MOVE,
)
def _act_before_record(self: MoveKeeper, record: MoveRecord) -> None:
    self._recorder.note(self.now, record)
    self._go()


@plant(
    "move-undo-after-seal",
    "a seal of unknown outcome is taken for one that is not on, and the flip is put back",
    Law.LIVENESS,
    MoveKeeper,
    "_step_ended",
    MOVE,
)
def _undo_after_seal(self: MoveKeeper, ended: StepEnded) -> None:
    if ended.step is Step.SEAL and ended.outcome is StepOutcome.FAILED:
        ended = msgspec.structs.replace(ended, outcome=StepOutcome.REFUSED)
    _step_ended(self, ended)


_step_ended = MoveKeeper._step_ended


@plant(
    "move-lost-flip-goes-on",
    "a successor takes up a flip before its seal, and nobody ever gives it up",
    Law.LIVENESS,
    keeper,
    "is_before_seal",
    MOVE,
)
def _lost_flip_goes_on(step: Step) -> bool:
    return step is Step.CHECK


@plant(
    "move-flip-done-twice",
    "a successor begins a flip anew that it has found behind its seal",
    Law.RECORD,
    MoveKeeper,
    "_resume",
    MOVE,
)
def _flip_done_twice(self: MoveKeeper, tick: Tick) -> None:
    record = self.record
    if record.steps and record.facts.sealed and not record.undoing:
        self._begin(record, record.order)
    else:
        _resume(self, tick)


_resume = MoveKeeper._resume


@plant(
    "move-begun-too-early",
    "people are told that it has begun before that is durable",
    Law.RECORD,
    Callers,
    "add",
    MOVE,
)
def _begun_too_early(self: Callers, request: str) -> None:
    self._waiting.append(request)
    self.answer(request, MoveVerdict.BEGUN, MoveTrouble(""))


@plant(
    "move-dry-run-acts",
    "a dry run does what it was to tell",
    Law.RECORD,
    DryRun,
    "ask",
    MOVE,
)
def _dry_run_acts(self: DryRun, now: Millis) -> RunStep | MoveAnswer:
    asked = _ask_dry(self, now)
    return msgspec.structs.replace(asked, dry=False) if isinstance(asked, RunStep) else asked


_ask_dry = DryRun.ask


@plant(
    "move-cancel-switched",
    "a move is cancelled although traffic is at the target",
    Law.TOGETHER,
    keeper,
    "judge",
    MOVE,
)
def _cancel_switched(record: MoveRecord, order: MoveOrder) -> Judgement | None:
    return None if order.command is Command.CANCEL and record.facts.feed else _judge(record, order)


_judge = judge
