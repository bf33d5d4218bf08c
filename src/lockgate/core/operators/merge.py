"""merge: turn neighbouring spans of one table into one.

    RECORDING ──recorded──► HOLDING ──all held, prepared──► COMMITTING ──recorded──► FINISHING
        │                      │                                │                       │
        └── dropped, node lost,┴─► DONE, sources go on          │ target's node lost:   ▼
            too late                                            └ target absent       DONE

Sources are held, not stopped: they keep their place and apply nothing. The commit point is
one batch: the sources' records go, the target's comes. Before it an abort gives the sources
back (a status that names a merge which is not under way is answered with a release); after
it the target stays and the sources go. At the sink the target's claim turns the sources'
rows into its own, each keeping the position it had, so the merged one is at the least of them.
"""

import enum

from lockgate.core.machine import do, ignore, table
from lockgate.core.operators.add import OVER, Placement
from lockgate.core.operators.base import EVENTS, Dropped, Hands, Lost, Operator, Recorded, Seen
from lockgate.core.operators.remove import Removal
from lockgate.model.events import Tick
from lockgate.model.ids import Millis, NodeRef, OperatorId, Seq, SpanId, Token
from lockgate.model.records import OperatorKind, OperatorRecord, RecordKey, SpanRecord, key_of
from lockgate.model.requests import Hold, Prepare
from lockgate.model.spans import Lineage, SpanSpec
from lockgate.model.statuses import Stage


class MergeState(enum.Enum):
    """See the module's diagram."""

    RECORDING = "recording"
    HOLDING = "holding"
    COMMITTING = "committing"
    FINISHING = "finishing"
    DONE = "done"


class Source:
    """A span that goes into the target: where it runs, under which token."""

    __slots__ = ("held", "node", "span", "token")

    def __init__(self, span: SpanId, node: NodeRef, token: Token) -> None:
        self.span = span
        self.node = node
        self.token = token
        self.held = False


class Merge(Operator):
    """Join neighbours."""

    kind = OperatorKind.MERGE
    TABLE = table(
        MergeState,
        EVENTS,
        {
            MergeState.RECORDING: {
                Recorded: do("_hold"),
                Seen: ignore("nothing was asked yet"),
                Lost: do("_lost_before"),
                Dropped: do("_dropped_before"),
                Tick: ignore("the writer repeats"),
            },
            MergeState.HOLDING: {
                Recorded: ignore("known"),
                Seen: do("_seen_holding"),
                Lost: do("_lost_before"),
                Dropped: do("_dropped_before"),
                Tick: do("_tick_holding"),
            },
            MergeState.COMMITTING: {
                Recorded: do("_finish"),
                Seen: ignore("nothing was asked of the target yet"),
                Lost: do("_lost_after"),
                Dropped: do("_dropped_unasked"),
                Tick: ignore("the writer repeats"),
            },
            MergeState.FINISHING: {
                Recorded: ignore("known"),
                Seen: do("_seen_finishing"),
                Lost: do("_lost_after"),
                Dropped: do("_dropped_after"),
                Tick: do("_tick"),
            },
            MergeState.DONE: OVER,
        },
    )

    def __init__(
        self,
        operator: OperatorId,
        hands: Hands,
        first_seq: Seq,
        sources: list[Source],
        target: SpanSpec,
        deadline: Millis,
    ) -> None:
        super().__init__(operator, hands, first_seq, MergeState.RECORDING)
        self.sources = {source.span: source for source in sources}
        node = sources[0].node
        self.target = target
        self.deadline = deadline
        self.prepared = False
        self.placement: Placement | None = Placement(hands, target.id, node, hands.next_token(node))
        """The target on its way; None once it runs, or will not run there."""
        self.removals: dict[SpanId, Removal] = {}
        self.record = OperatorRecord(
            operator,
            self.kind,
            tuple(self.sources),
            self.placement.token,
            destination=node,
            results=(target,),
        )

    @property
    def spans(self) -> tuple[SpanId, ...]:
        if self.state in (MergeState.COMMITTING, MergeState.FINISHING):
            target = () if self.placement is None else (self.target.id,)
            return (*target, *self.removals)
        return (*self.sources, self.target.id)

    def begin(self, now: Millis) -> None:
        self.now = now
        self.hands.record(puts=(self.record,), then=self._recorded)

    # --- before the commit point ------------------------------------------------------------

    def _hold(self, _: Recorded) -> None:
        self.state = MergeState.HOLDING
        self.repeat()

    def _seen_holding(self, seen: Seen) -> None:
        status = seen.status
        source = self.sources.get(status.span)
        if source is not None and seen.node == source.node and status.token == source.token:
            if status.stage in (Stage.FENCED, Stage.FAILED, Stage.GONE):
                self._abort()
                return
            if status.stage is Stage.HELD and status.operator == self.id:
                source.held = True
        elif status.span == self.target.id and self._is_target(seen):
            self.prepared = status.stage is Stage.PREPARING
        if self.prepared and self._all_held():
            self._commit()

    def _all_held(self) -> bool:
        return all(source.held for source in self.sources.values())

    def _is_target(self, seen: Seen) -> bool:
        place = self.placement
        return place is not None and seen.node == place.node and seen.status.token == place.token

    def _tick_holding(self, _: Tick) -> None:
        if self.now >= self.deadline:
            self._abort()
        else:
            self.repeat()

    def _lost_before(self, lost: Lost) -> None:
        lost_sources = [s for s in self.sources.values() if s.node == lost.node]
        for source in lost_sources:
            self.hands.spans.lose(source.span)
        if lost_sources:
            self._abort()

    def _dropped_before(self, dropped: Dropped) -> None:
        self._abort()
        self.hands.remove(dropped.span, self.sources[dropped.span].node)

    def _abort(self) -> None:
        """Nothing stands: the sources are released as soon as their statuses show them held."""
        self.hands.record(deletes=(key_of(self.record),))
        self._end()

    # --- the commit point -------------------------------------------------------------------

    def _commit(self) -> None:
        assert self.placement is not None
        spans = self.hands.spans
        gone = [spans.drop(source) for source in self.sources]
        target = SpanRecord(
            self.target,
            self.placement.node,
            self.placement.token,
            lineage=Lineage(tuple(self.sources), (self.target,)),
            start=min(span.position for span in gone),
        )
        spans.add(target)
        self.removals = {
            source.span: Removal(
                self.hands, source.span, source.node, self.hands.next_token(source.node)
            )
            for source in self.sources.values()
        }
        self.state = MergeState.COMMITTING
        self.hands.regrip(self)
        self.hands.record(
            puts=(target,),
            deletes=(*(RecordKey("span", span) for span in self.sources), key_of(self.record)),
            then=self._recorded,
        )

    # --- after it ---------------------------------------------------------------------------

    def _finish(self, _: Recorded) -> None:
        self.state = MergeState.FINISHING
        self.repeat()
        self._end_if_through()

    def _seen_finishing(self, seen: Seen) -> None:
        removal = self.removals.get(seen.status.span)
        if removal is not None:
            if removal.is_done(seen):
                del self.removals[removal.span]
        elif self.placement is not None:
            verdict = self.placement.verdict(seen)
            if verdict is Stage.GONE:
                self.placement.lose()
            if verdict is not None:
                self.placement = None
        self._end_if_through()

    def _lost_after(self, lost: Lost) -> None:
        for span in [r.span for r in self.removals.values() if r.node == lost.node]:
            del self.removals[span]
        if self.placement is not None and self.placement.node == lost.node:
            self.placement.lose()
            self.placement = None
        if self.state is MergeState.FINISHING:
            self._end_if_through()
        else:
            self.hands.regrip(self)

    def _dropped_unasked(self, _: Dropped) -> None:
        self.placement = None
        self.hands.regrip(self)

    def _dropped_after(self, dropped: Dropped) -> None:
        """Only the target can be dropped now: the sources are no more."""
        place, self.placement = self.placement, None
        self._end_if_through()
        if place is not None:
            self.hands.remove(dropped.span, place.node)

    def _end_if_through(self) -> None:
        if self.placement is None and not self.removals:
            self._end()
        else:
            self.hands.regrip(self)

    # --- both -------------------------------------------------------------------------------

    def repeat(self) -> None:
        self.asked_at = self.now
        if self.state is MergeState.HOLDING:
            assert self.placement is not None
            for source in self.sources.values():
                if not source.held:
                    self.hands.ask(source.node, Hold(source.span, source.token, self.id))
            if not self.prepared:
                place = self.placement
                self.hands.ask(place.node, Prepare(self.target, place.token, self.id))
            return
        if self.placement is not None:
            self.placement.ask()
        for removal in self.removals.values():
            removal.ask()
