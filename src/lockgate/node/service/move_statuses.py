"""Moves as people see them: the record, the feed that runs, and what can be done next."""

from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec

from lockgate.endpoints.postgres.schema.identifiers import set_aside
from lockgate.endpoints.postgres.source.slot import lsn_text
from lockgate.model.errors import NotFound
from lockgate.model.feed_status import CopyProgress, FeedStatus
from lockgate.model.feeds import FeedState
from lockgate.model.ids import Millis
from lockgate.model.move_status import BLOCKED, MoveFeed, MoveStatus, MoveStep
from lockgate.model.moves import (
    Command,
    Disposal,
    MoveRecord,
    MoveState,
    Side,
    Step,
    StepRecord,
    StepState,
)
from lockgate.model.tables import parse_table
from lockgate.node.service.forcing import TURNED_UP, notes_of
from lockgate.node.service.statuses import Statuses
from lockgate.node.service.stores import Stores
from lockgate.store.moves import MoveEntry

__all__ = ["MoveStatuses", "again"]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

_UNDER_WAY: Final = {
    Command.CREATE: MoveState.COPYING,
    Command.SWITCH: MoveState.SWITCHING,
    Command.REVERSE: MoveState.REVERSING,
    Command.COMPLETE: MoveState.COMPLETING,
    Command.CANCEL: MoveState.CANCELLING,
}
_OVER: Final = {
    Command.CREATE: MoveState.CANCELLED,
    Command.COMPLETE: MoveState.COMPLETED,
    Command.CANCEL: MoveState.CANCELLED,
}
_ACTING: Final = (StepState.RUNNING, StepState.UNDOING)
_BLOCKING: Final = (StepState.RUNNING, StepState.DONE, StepState.UNDOING)


class MoveStatuses:
    """Answers what is asked about moves, on any node."""

    def __init__(self, stores: Stores, feeds: Statuses) -> None:
        self._stores = stores
        self._feeds = feeds

    def all(self) -> list[MoveStatus]:
        """Every move, by name."""
        entries = self._stores.moves.all()
        feeds = {each.name: each for each in self._feeds.all()} if entries else {}
        version = self._stores.moves.version()
        return [self._status(each, feeds.get(each.record.facts.feed), version) for each in entries]

    def one(self, entry: MoveEntry) -> MoveStatus:
        """One of them."""
        feed = entry.record.facts.feed
        try:
            found = self._feeds.one(feed) if feed else None
        except NotFound:
            found = None
        return self._status(entry, found, self._stores.moves.version())

    def _status(self, entry: MoveEntry, feed: FeedStatus | None, version: int) -> MoveStatus:
        record = entry.record
        copied = self._is_copied(entry)
        state = _state(entry, feed, copied)
        trouble = record.trouble if not record.ended or record.undoing else None
        failed = feed is not None and feed.state is FeedState.FAILED
        error = trouble.what if trouble is not None else feed.error if failed and feed else ""
        shown = None if feed is None else _feed(feed)
        back = record.traffic is Side.TARGET
        return MoveStatus(
            name=entry.move,
            state=state,
            step=next((each.step.value for each in record.steps if each.state in _ACTING), ""),
            steps=tuple(map(_step, record.steps)),
            traffic=BLOCKED if _is_blocked(entry) else record.traffic.value,
            lag_s=None if feed is None else feed.lag_s,
            copy=_copy(feed, copied),
            forward=None if back else shown,
            reverse=shown if back else None,
            as_of=lsn_text(record.facts.as_of) if record.facts.as_of else "",
            error=error,
            next_steps=_next_steps(entry, state, feed, trouble.hint if trouble else ""),
            command=record.order.command.value,
            source=entry.config.source,
            target=entry.config.target,
            tables=entry.tables,
            kept=_kept(entry),
            route_version=version,
            hook=entry.config.hook,
            notes=(
                *(() if feed is None or state is MoveState.COPYING else feed.notes),
                *notes_of(record.facts.left),
            ),
        )

    def _is_copied(self, entry: MoveEntry) -> bool:
        """Rows, indexes and constraints are at the target. It was looked at before the first
        switch, and stays so."""
        if entry.record.facts.flips or entry.over:
            return True
        feed = self._stores.feeds.read(entry.record.facts.feed)
        return feed is not None and feed.finished


def again(record: MoveRecord) -> str:
    """The command that goes on with what waits for somebody, as people write it."""
    order = record.order
    flags = ""
    if order.command is Command.COMPLETE:
        flags = f" --{order.disposal.value}"
    elif order.command is Command.CANCEL and order.disposal is Disposal.KEEP:
        flags = " --keep"
    if order.lost is not None:
        flags += f" --lost {order.lost.value}"
    return f"lockgate move {order.command.value} {record.move}{flags}"


def _without(entry: MoveEntry) -> tuple[str, ...]:
    """How to end a move that waits for a database which does not come back."""
    record = entry.record
    order, lost = record.order, record.traffic.other
    if order.command not in (Command.COMPLETE, Command.CANCEL) or order.lost is not None:
        return ()
    way = again(record.changed(order=msgspec.structs.replace(order, lost=lost)))
    return (f"if {entry.endpoint(lost)} is gone for ever: {way}",)


def _state(entry: MoveEntry, feed: FeedStatus | None, copied: bool) -> MoveState:
    record = entry.record
    command = record.order.command
    if entry.over:
        return _OVER[command]
    if record.stuck:
        return MoveState.ERROR
    if not record.ended and command is not Command.CREATE:
        return _UNDER_WAY[command]
    if feed is not None and feed.state is FeedState.FAILED:
        return MoveState.ERROR
    if record.traffic is Side.TARGET:
        return MoveState.SWITCHED
    return MoveState.RUNNING if copied and record.ended else MoveState.COPYING


def _is_blocked(entry: MoveEntry) -> bool:
    """Nobody can write at either side, or may not for the next moments: a guard is on, or a hook
    holds the traffic."""
    if entry.record.ended:
        return False
    states = {each.step: each.state for each in entry.record.steps}
    holding = (Step.HOOK_BEFORE, Step.BLOCK) if entry.config.hook else (Step.BLOCK,)
    held = any(states.get(step) in _BLOCKING for step in holding)
    return held and states.get(Step.OPEN) is not StepState.DONE


def _step(each: StepRecord) -> MoveStep:
    return MoveStep(
        each.step.value,
        each.state.value,
        _when(each.started_ms),
        _when(each.ended_ms),
        each.detail,
    )


def _when(at: Millis) -> str:
    if not at:
        return ""
    moment = _EPOCH + timedelta(milliseconds=at)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{at % 1000:03d}Z"


def _feed(feed: FeedStatus) -> MoveFeed:
    return MoveFeed(feed.name, feed.state.value, feed.lag_s, feed.checkpoint)


def _copy(feed: FeedStatus | None, copied: bool) -> CopyProgress:
    if not copied:
        return CopyProgress() if feed is None else feed.copy
    done = 0 if feed is None else feed.copy.rows_done
    return CopyProgress(done, done, 100.0)


def _kept(entry: MoveEntry) -> tuple[str, ...]:
    """What a move that is over has left on purpose."""
    order, config = entry.record.order, entry.config
    if not entry.over or order.command is Command.CREATE or order.lost is not None:
        return ()
    if order.command is Command.CANCEL:
        left = entry.tables if order.disposal is Disposal.KEEP else entry.there
        return tuple(f"{config.target}: {table}" for table in left)
    if order.disposal is Disposal.RENAME:
        names = (set_aside(parse_table(table)).id for table in entry.tables)
        return tuple(f"{config.source}: {name}" for name in names)
    if order.disposal is Disposal.KEEP:
        return tuple(f"{config.source}: {table}, closed for writers" for table in entry.tables)
    return ()


def _next_steps(
    entry: MoveEntry, state: MoveState, feed: FeedStatus | None, hint: str
) -> tuple[str, ...]:
    name, record = entry.move, entry.record
    hints = (hint,) if hint else ()
    can_end = record.traffic is Side.SOURCE and (
        record.ended or record.order.command is Command.CREATE
    )
    cancel = (f"lockgate move cancel {name}",) if can_end else ()
    match state:
        case MoveState.COPYING:
            return (f"lockgate move watch {name}", f"lockgate move cancel {name}")
        case MoveState.RUNNING:
            return (
                *hints,
                f"lockgate move diff {name}",
                f"lockgate move switch {name} --dry-run",
                f"lockgate move switch {name}",
                f"lockgate move cancel {name}",
            )
        case MoveState.SWITCHED:
            return (
                *hints,
                *(_without(entry) if record.trouble is not None else ()),
                f"lockgate move diff {name}",
                f"lockgate move complete {name} --rename",
                f"lockgate move reverse {name}",
            )
        case MoveState.ERROR if record.stuck:
            return (*hints, f"when that is done: {again(record)}", *cancel, *_without(entry))
        case MoveState.ERROR:
            steps = () if feed is None else feed.next_steps
            return (*hints, *steps, *cancel)
        case MoveState.COMPLETED | MoveState.CANCELLED:
            return (TURNED_UP,) if record.facts.left else ("nothing: it is over",)
        case _:
            held_up = record.trouble is not None or (feed is not None and bool(feed.error))
            waits = _without(entry) if held_up else ()
            return (f"wait for it: lockgate move watch {name}", *waits)
