"""Bugs of a move's keeper, of its plan, and of what the sides promise it.

The steps are many and each is simple; what is hard is their order, and who may still act when. So
most of these are a step at another place in the plan, or a fence that lets somebody through.
"""

from collections.abc import Callable
from typing import Any

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
from lockgate.model.move_instructions import MoveVerdict, RunStep
from lockgate.model.moves import Command, MoveOrder, MoveRecord, MoveTrouble, Step
from lockgate.sim.move.feeds import SimFeed, SimFeeds
from lockgate.sim.move.hook import SimHook
from lockgate.sim.move.side import FeedKey, Guard, SimSide
from lockgate.sim.move.verbs import Acts, Verbs
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
    keeper,
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
def _act_before_record(
    self: MoveKeeper, record: MoveRecord, then: Callable[[], None] | None
) -> None:
    _note(self, record, None)
    if then is not None:
        then()


_note = MoveKeeper._note


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
def _dry_run_acts(self: DryRun, number: int, now: Millis) -> RunStep | None:
    step = _ask_dry(self, number, now)
    return None if step is None else msgspec.structs.replace(step, dry=False)


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


# --- the sides --------------------------------------------------------------------------------


@plant(
    "move-no-keeper-fence",
    "a side does not compare the keeper's number with the last one that was there",
    Law.FENCE,
    SimSide,
    "admits",
    MOVE,
)
def _no_keeper_fence(_self: SimSide, _keeper: int) -> bool:
    return True


@plant(
    "move-no-revoke",
    "a feed is stopped and removed, and its tokens at the sink stay good",
    Law.DRAIN,
    SimSide,
    "void",
    MOVE,
)
def _no_revoke(_self: SimSide, _feed: FeedKey, _epoch: int) -> bool:
    return True


@plant(
    "move-seal-ignores-deadline",
    "a block is sealed although it has run out and writers were let through",
    Law.TOGETHER,
    SimSide,
    "in_time",
    MOVE,
)
def _seal_ignores_deadline(_self: SimSide, _guard: Guard) -> bool:
    return True


@plant(
    "move-block-without-end",
    "a block does not end by itself",
    Law.LIVENESS,
    SimSide,
    "block",
    MOVE,
)
def _block_without_end(self: SimSide, keeper_: int, left_ms: Millis) -> int | None:
    number = _block(self, keeper_, left_ms)
    if number is not None:
        self.guard = Guard(self.clock + 1_000_000, number)
    return number


@plant(
    "move-block-does-not-wait",
    "a block does not wait for those who are writing",
    Law.TOGETHER,
    SimSide,
    "block",
    MOVE,
)
def _block_does_not_wait(self: SimSide, keeper_: int, left_ms: Millis) -> int | None:
    writing, self.writing = self.writing, 0
    try:
        return _block(self, keeper_, left_ms)
    finally:
        self.writing = writing


_block = SimSide.block


# --- feeds ------------------------------------------------------------------------------------


@plant(
    "move-way-back-late",
    "the way back begins where the log is when it first runs, not where nobody wrote yet",
    Law.TOGETHER,
    SimFeeds,
    "_set_up",
    MOVE,
)
def _way_back_late(self: SimFeeds, feed: SimFeed) -> None:
    _set_up(self, feed)
    sunk = self.sink(feed).sunk.get(feed.key)
    if feed.copies or sunk is None:
        return

    def first_runs(row: Any) -> None:
        if not row.void:
            row.position = self.source(feed).head

    self._world.loop.after(400, first_runs, sunk)


_set_up = SimFeeds._set_up


@plant(
    "move-no-fence-at-feeds",
    "a former keeper's step enters or removes a feed",
    Law.FENCE,
    SimFeeds,
    "admits",
    MOVE,
)
def _no_fence_at_feeds(_self: SimFeeds, _keeper: int) -> bool:
    return True


@plant(
    "move-no-fence-at-hold",
    "a freeze does not look at the move's row, and comes after its undoing",
    Law.FENCE,
    Verbs,
    "_may_hold",
    MOVE,
)
def _no_fence_at_hold(_self: Verbs, _sink: SimSide) -> None:
    pass


@plant(
    "move-no-fence-at-hook",
    "a hook does what a former keeper says",
    Law.FENCE,
    SimHook,
    "admits",
    MOVE,
)
def _no_fence_at_hook(_self: SimHook, _keeper: int) -> bool:
    return True


@plant(
    "move-as-of-guessed",
    "a complete takes the end of the log for where the way back was stopped",
    Law.TOGETHER,
    Verbs,
    "_run_out",
    MOVE,
)
def _as_of_guessed(self: Verbs) -> Acts:
    facts = yield from _run_out(self)
    assert facts is not None
    return facts.changed(as_of=self._giving.head)


_run_out = Verbs._run_out
