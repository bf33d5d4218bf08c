"""Decides which moments of a node's life are worth a line, of all that pass through its process.

    life        joined, lease lost (and everything stopped), metastore away and back
    cluster     elected, deposed, a feed's state changed (told by the coordinator), drain, drained
    ownership   this node owns a feed, runs it, owns it no more
    dispatchers started, stopped, refused, failed: many at once are one line
    barriers    a schema change was written

Rounds, heartbeats and ticks are no moments. A line says what happened, why, and what comes next.

What nodes and machines are is compared with what they were at the last look, since the core tells
nobody about its inner transitions.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from lockgate.core.maintainer.maintainer import Maintainer
from lockgate.core.node import NodeCore
from lockgate.model.batch import LeaseLost, Refused, RenewFailed
from lockgate.model.events import (
    DispatcherAdvanced,
    DispatcherFailed,
    DispatcherRefused,
    DispatcherStarted,
    DispatcherStopped,
    Event,
    Tick,
)
from lockgate.model.feeds import FeedState, Outcome
from lockgate.model.ids import FeedId, NodeRef, SpanId, Term
from lockgate.model.instructions import Instruction, WriteBarrier
from lockgate.model.records import FeedRecord
from lockgate.model.spans import TRIGGER
from lockgate.model.statuses import Phase
from lockgate.node.feed.running import HINT
from lockgate.node.telemetry.lines import Lines

__all__ = ["Journal"]

GATHER_S: Final = 1.0
"""Dispatchers that start or end within this time are told of in one line."""
NAMED_MAX: Final = 5

_BURSTS: Final[dict[type, str]] = {
    DispatcherStarted: "dispatchers started",
    DispatcherStopped: "dispatchers stopped",
    DispatcherRefused: "dispatchers refused",
}
_ENDS: Final = {
    Outcome.STOPPED: "the feed was stopped",
    Outcome.REMOVED: "the feed was removed",
    Outcome.STALE: "a newer owner was seen",
}


class _Owner(NamedTuple):
    """A maintainer, and where it was in its life at the last look."""

    maintainer: Maintainer
    phase: Phase


class Journal:
    """Told of everything; remembers what it has told last."""

    def __init__(self, node: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._lines = Lines("lockgate.node", node=node)
        self._clock = clock
        self._ref: NodeRef | None = None
        self._term: Term | None = None
        self._renewal = ""
        """Why the lease was not renewed last."""
        self._owned: dict[FeedId, _Owner] = {}
        self._records: dict[FeedId, FeedRecord] = {}
        self._drain = ""
        self._bursts: dict[tuple[type, FeedId, str], list[SpanId]] = {}
        self._burst_began_s = 0.0
        self._barriers: dict[FeedId, tuple[WriteBarrier, float]] = {}
        self._away_s: float | None = None
        """Since when the metastore does not do what it is asked."""

    def handled(self, core: NodeCore, event: Event, instructions: Sequence[Instruction]) -> None:
        """One step of the core."""
        kind = type(event)
        if isinstance(event, RenewFailed):
            self._renewal = event.why
        if core.ref != self._ref:
            self._life(core, event)
        term = None if core.coordinator is None else core.coordinator.term
        if term != self._term:
            self._coordination(core, term)
        for one in instructions:
            if isinstance(one, WriteBarrier):
                self._barrier(one)
        if kind in _BURSTS:
            self._gather(event)
        elif isinstance(event, DispatcherFailed):
            self._failed(event)
        elif isinstance(event, DispatcherAdvanced) and event.span == TRIGGER:
            self._past(event)
        elif kind is Tick:
            self._look_around(core)

    def store_answered(self, verb: str, why_not: str | None) -> None:
        """The metastore was asked; from its own thread."""
        if why_not is not None and self._away_s is None:
            self._away_s = self._clock()
            self._lines.warning(
                "the metastore does not do what it is asked",
                verb=verb,
                why=why_not,
                next="it is asked again; if the lease runs out meanwhile, all work here stops",
            )
        elif why_not is None and self._away_s is not None:
            seconds = round(self._clock() - self._away_s, 1)
            self._away_s = None
            self._lines.info("the metastore answers again", seconds_without=seconds)

    # --- life and cluster -------------------------------------------------------------------------

    def _life(self, core: NodeCore, event: Event) -> None:
        if self._ref is not None:
            self._lines.warning(
                "the lease is lost, and all work here was stopped",
                incarnation=self._ref.incarnation,
                why=self._why_over(event),
                next="the node joins anew; what it had runs on other nodes, or here again",
            )
            self._owned.clear()
            self._barriers.clear()
        self._ref = core.ref
        if core.ref is not None:
            self._renewal = ""
            self._lines.info(
                "joined the cluster",
                incarnation=core.ref.incarnation,
                next="it takes work from the coordinator, or is elected",
            )

    def _why_over(self, event: Event) -> str:
        if isinstance(event, LeaseLost):
            return "the metastore does not know this life of the node any more"
        if isinstance(event, Refused):
            return "another life of this node has begun"
        return "it was not renewed in time" + (f": {self._renewal}" if self._renewal else "")

    def _coordination(self, core: NodeCore, term: Term | None) -> None:
        if self._term is not None:
            leader = core.member.view.leader
            self._lines.info(
                "deposed as coordinator",
                term=self._term,
                why="the lease is lost" if core.ref is None else "the metastore names another",
                coordinator="" if leader is None else leader.ref.node,
            )
        if term is not None:
            self._lines.info(
                "elected coordinator",
                term=term,
                members=len(core.member.view.members),
                next="it reads the feeds and gives each an owner",
            )
        self._term = term
        self._records.clear()

    def _look_around(self, core: NodeCore) -> None:
        self._ownership(core)
        self._states(core)
        self._draining(core)
        if self._bursts and self._clock() - self._burst_began_s >= GATHER_S:
            self._tell_bursts()

    def _states(self, core: NodeCore) -> None:
        """The coordinator tells how feeds fare; whoever has just been elected tells no old news."""
        if core.coordinator is None:
            return
        durable = core.coordinator.book.durable
        for feed, record in durable.items():
            before = self._records.get(feed)
            if record is before:
                continue
            self._records[feed] = record
            if before is not None and record.state is not before.state:
                self._state(record, before)
        for feed in self._records.keys() - durable.keys():
            del self._records[feed]

    def _state(self, record: FeedRecord, before: FeedRecord) -> None:
        fields: dict[str, object] = {
            "feed": record.feed,
            "state": record.state.value,
            "before": before.state.value,
            "epoch": record.epoch,
            "why": record.error.partition(HINT)[0],
        }
        if record.state is FeedState.FAILED:
            self._lines.error(
                "a feed failed", **fields, next=f"see `lockgate feed status {record.feed}`"
            )
        elif record.state is FeedState.WARNING:
            self._lines.warning("a feed is in trouble", **fields, next="it is tried again")
        else:
            self._lines.info("a feed changed its state", **fields)

    def _draining(self, core: NodeCore) -> None:
        members = core.member.view.members
        if not any(each.draining and each.ref == core.ref for each in members):
            self._drain = ""
            return
        if not self._drain:
            self._drain = "draining"
            self._lines.info("the node is drained: its work goes to others", next="wait for it")
        left = 0 if core.manager is None else core.manager.dispatchers
        if self._drain == "draining" and core.manager and not left and not self._owned:
            self._drain = "drained"
            self._lines.info("the node is empty", next="stop its process when you like")

    # --- ownership --------------------------------------------------------------------------------

    def _ownership(self, core: NodeCore) -> None:
        seen: dict[FeedId, _Owner] = {}
        for feed, one in core.maintainers.items():
            if isinstance(one, Maintainer) and one.outcome is None:
                assert isinstance(one.state, Phase)
                seen[feed] = _Owner(one, one.state)
                self._owner(feed, seen[feed])
        for feed, before in self._owned.items():
            if feed not in seen or seen[feed].maintainer is not before.maintainer:
                # The node may have let go of it since; what became of it, it knows itself.
                outcome = before.maintainer.outcome
                why = "this node is not asked to own it" if outcome is None else _ENDS[outcome]
                epoch = before.maintainer.epoch
                self._lines.info("owns the feed no more", feed=feed, epoch=epoch, why=why)
        self._owned = seen

    def _owner(self, feed: FeedId, now: "_Owner") -> None:
        before = self._owned.get(feed)
        if before == now:
            return
        one = now.maintainer
        if before is None or before.maintainer is not one:
            self._lines.info(
                "owns the feed",
                feed=feed,
                epoch=one.epoch,
                next="it reads what is recorded, and asks all nodes what they run of it",
            )
        if now.phase is Phase.RUNNING:
            self._lines.info("the feed runs", feed=feed, epoch=one.epoch, spans=len(one.spans))
        elif now.phase is Phase.CLOSING:
            self._lines.info(
                "the feed is being closed",
                feed=feed,
                epoch=one.epoch,
                goal=one.goal.value,
                next="its dispatchers drain and stop on every node",
            )

    # --- dispatchers and barriers -----------------------------------------------------------------

    def _gather(self, event: Any) -> None:
        if not self._bursts:
            self._burst_began_s = self._clock()
        why = event.why if isinstance(event, DispatcherRefused) else ""
        self._bursts.setdefault((type(event), event.feed, why), []).append(event.span)

    def _tell_bursts(self) -> None:
        for (kind, feed, why), spans in self._bursts.items():
            named = [*spans[:NAMED_MAX], "…"] if len(spans) > NAMED_MAX else spans
            fields: dict[str, object] = {"feed": feed, "count": len(spans), "spans": named}
            if kind is DispatcherRefused:
                self._lines.warning(
                    _BURSTS[kind],
                    **fields,
                    why=f"the target's fence: {why or 'newer'}",
                    next="the span goes on under its newer owner",
                )
            else:
                self._lines.info(_BURSTS[kind], **fields)
        self._bursts.clear()

    def _failed(self, event: DispatcherFailed) -> None:
        what, _, hint = event.trouble.what.partition(HINT)
        self._lines.error(
            "a dispatcher failed",
            feed=event.feed,
            span=event.span,
            epoch=event.token.epoch,
            why=what,
            next=hint or ("it is tried again" if event.trouble.retryable else "the feed fails"),
        )

    def _barrier(self, write: WriteBarrier) -> None:
        """It is ordered until it is done; the first time counts."""
        known = self._barriers.get(write.feed)
        if known is None or known[0].ddl.position != write.ddl.position:
            self._barriers[write.feed] = (write, self._clock())

    def _past(self, event: DispatcherAdvanced) -> None:
        known = self._barriers.get(event.feed)
        if known is None or event.position < known[0].ddl.position:
            return
        del self._barriers[event.feed]
        write, began_s = known
        self._lines.info(
            "barrier written: a schema change is at the target",
            feed=event.feed,
            epoch=event.token.epoch,
            kind=write.ddl.kind.value,
            tables=list(write.ddl.tables[:NAMED_MAX]),
            position=write.ddl.position,
            seconds=round(self._clock() - began_s, 2),
            next="rows behind it are applied",
        )
