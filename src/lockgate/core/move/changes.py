"""How a move's record changes, step by step. Pure: a record in, the next one out.

Two things change in one record wherever the first of them leads to the second without anybody
acting in between: that a step is done and that the next one runs; that the seal is on and that
traffic changes hands. While writers are blocked each record costs them time.
"""

from typing import Final

from lockgate.core.move.plans import PLANS, TIMED_FROM, UNDO_FOR_PEOPLE, UNDO_ORDER
from lockgate.core.move.requests import answered, outcome
from lockgate.core.move.words import CANCELLED
from lockgate.model.ids import Millis
from lockgate.model.move_config import feed_name
from lockgate.model.moves import (
    Command,
    MoveFacts,
    MoveOrder,
    MoveRecord,
    MoveTrouble,
    MoveVerdict,
    Side,
    Step,
    StepRecord,
    StepState,
)

__all__ = [
    "called_off",
    "closed",
    "current",
    "finished",
    "giving",
    "is_acting",
    "is_disposed_of",
    "opened",
    "other_first",
    "troubled",
    "turned",
    "undone",
    "without",
]

_ACTING: Final = frozenset({StepState.RUNNING, StepState.UNDOING})
_DISPOSING: Final = frozenset({Step.DISPOSE, Step.DROP_COPIES})
_TOUCHED: Final = frozenset({StepState.RUNNING, StepState.DONE})


# --- reading ----------------------------------------------------------------------------------


def _at(record: MoveRecord) -> int:
    """Which step is acting."""
    return next(n for n, one in enumerate(record.steps) if one.state in _ACTING)


def is_acting(record: MoveRecord) -> bool:
    """A step is to be done or undone."""
    return any(one.state in _ACTING for one in record.steps)


def is_disposed_of(record: MoveRecord) -> bool:
    """The tables of a complete or a cancel are what they are to become."""
    return any(one.step in _DISPOSING and one.state is StepState.DONE for one in record.steps)


def current(record: MoveRecord) -> StepRecord:
    """The step that is done or undone now."""
    return record.steps[_at(record)]


def giving(record: MoveRecord) -> Side:
    """Who had the traffic when the command began."""
    flipped = any(one.step is Step.FLIP and one.state is StepState.DONE for one in record.steps)
    return record.traffic.other if flipped else record.traffic


def _with(record: MoveRecord, at: int, step: StepRecord) -> tuple[StepRecord, ...]:
    return (*record.steps[:at], step, *record.steps[at + 1 :])


# --- forward ----------------------------------------------------------------------------------


def opened(record: MoveRecord, order: MoveOrder, now: Millis) -> MoveRecord:
    """A command begins: its plan, the first step about to run. Whose command it takes the place of
    is told that."""
    superseded = order.command is Command.CANCEL and not record.ended
    facts = record.facts.changed(blocked_at=0, back_from=0, sealed=False, unfinished=superseded)
    steps = tuple(StepRecord(step) for step in PLANS[order.command])
    fresh = answered(record, MoveVerdict.REFUSED, CANCELLED).changed(
        order=order, ended=False, steps=steps, facts=facts, trouble=None, stuck=False
    )
    return _begun(fresh, 0, now)


def _begun(record: MoveRecord, at: int, now: Millis) -> MoveRecord:
    step = record.steps[at].changed(state=StepState.RUNNING, started_ms=now)
    facts = record.facts
    if step.step is Step.FORWARD:
        # The feed has a name before it is there: whoever cancels knows what to look for.
        facts = facts.changed(feed=feed_name(record.move, facts.flips))
    return record.changed(steps=_with(record, at, step), facts=facts)


def finished(
    record: MoveRecord, facts: MoveFacts | None, detail: str, now: Millis
) -> tuple[MoveRecord, bool]:
    """The step is done, and the next one runs. True: that begins the time which a flip has."""
    at = _at(record)
    record = _ended(record, at, facts or record.facts, detail, now)
    at += 1
    if at < len(record.steps) and record.steps[at].step is Step.FLIP:
        record = _flipped(record, at, now)
        at += 1
    if at == len(record.steps):
        return _over(record), False
    return _begun(record, at, now), record.steps[at].step is TIMED_FROM


def _ended(record: MoveRecord, at: int, facts: MoveFacts, detail: str, now: Millis) -> MoveRecord:
    done = record.steps[at].changed(state=StepState.DONE, ended_ms=now, detail=detail)
    if done.step is Step.SEAL:
        facts = facts.changed(sealed=True)
    elif done.step is Step.RETIRE:
        facts = facts.changed(frozen="")
    elif done.step is Step.END_FEED:
        facts = facts.changed(feed="", frozen="")
    return record.changed(steps=_with(record, at, done), facts=facts, trouble=None, stuck=False)


def _flipped(record: MoveRecord, at: int, now: Millis) -> MoveRecord:
    """Traffic changes hands, in the record that says the giving side is sealed."""
    assert record.facts.sealed, "traffic changes hands behind the seal only"
    taking, facts = record.traffic.other, record.facts
    flip = record.steps[at].changed(
        state=StepState.DONE,
        started_ms=now,
        ended_ms=now,
        detail=f"traffic is at the {taking.value}",
    )
    flips = facts.flips + 1
    facts = facts.changed(flips=flips, feed=feed_name(record.move, flips), frozen=facts.feed)
    return record.changed(steps=_with(record, at, flip), facts=facts, traffic=taking)


def without(record: MoveRecord, order: MoveOrder, found: str, now: Millis) -> MoveRecord:
    """A look has found the side gone that the order gives up. Its command goes on without it, or
    takes the place of the one that was under way."""
    if order.command is record.order.command:
        return record.changed(order=order, trouble=None, stuck=False)
    # Its check is the look: asked again it might refuse, and nobody would be left who works for
    # the command that was under way.
    begun, _ = finished(opened(record, order, now), None, found, now)
    return begun


def troubled(record: MoveRecord, trouble: MoveTrouble, *, stuck: bool) -> MoveRecord:
    """The step did not succeed, for now. Why a flip is being put back is more than what holds that
    up: this stands with the step."""
    if not record.undoing:
        return record.changed(trouble=trouble, stuck=stuck)
    at = _at(record)
    step = record.steps[at].changed(detail=f"cannot be undone yet: {trouble.what}")
    return record.changed(steps=_with(record, at, step), stuck=stuck)


# --- back -------------------------------------------------------------------------------------


def turned(record: MoveRecord, trouble: MoveTrouble, now: Millis) -> MoveRecord:
    """The command is put back: what is to be undone first is about to be, if there is any."""
    return _next_undo(record.changed(trouble=trouble, stuck=False), now)


def undone(record: MoveRecord, detail: str, now: Millis) -> MoveRecord:
    """The step is undone, and the next one is about to be."""
    at = _at(record)
    step = record.steps[at].changed(state=StepState.UNDONE, ended_ms=now, detail=detail)
    return _next_undo(record.changed(steps=_with(record, at, step), stuck=False), now)


def _next_undo(record: MoveRecord, now: Millis) -> MoveRecord:
    touched = {one.step: n for n, one in enumerate(record.steps) if one.state in _TOUCHED}
    at = next((touched[step] for step in UNDO_ORDER if step in touched), None)
    if at is None:
        return closed(record, now)
    step = record.steps[at].changed(state=StepState.UNDOING, detail="")
    return record.changed(steps=_with(record, at, step))


def other_first(record: MoveRecord) -> MoveRecord | None:
    """The step cannot be undone yet. If another one lets people go on, that is about to be;
    None, if there is none."""
    at = _at(record)
    held = {one.step: n for n, one in enumerate(record.steps) if one.state in _TOUCHED}
    other = next((n for step, n in held.items() if step in UNDO_FOR_PEOPLE), None)
    if other is None or record.steps[at].step not in UNDO_FOR_PEOPLE:
        return None
    steps = _with(record, at, record.steps[at].changed(state=StepState.DONE))
    step = steps[other].changed(state=StepState.UNDOING)
    return record.changed(steps=(*steps[:other], step, *steps[other + 1 :]), stuck=False)


def closed(record: MoveRecord, now: Millis) -> MoveRecord:
    """The command is over, and nothing of it is left."""
    steps = tuple(
        one.changed(state=StepState.UNDONE, ended_ms=one.ended_ms or now)
        if one.state in _TOUCHED
        else one
        for one in record.steps
    )
    facts = record.facts.changed(blocked_at=0, back_from=0)
    return _over(record.changed(steps=steps, facts=facts))


def _over(record: MoveRecord) -> MoveRecord:
    return answered(record, *outcome(record)).changed(ended=True)


def called_off(record: MoveRecord, facts: MoveFacts | None) -> MoveRecord:
    """A step ended that nobody wanted any more. What it found out is kept: it may be needed to put
    things back."""
    return record if facts is None else record.changed(facts=facts)
