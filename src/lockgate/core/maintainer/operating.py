"""Operators in flight: who holds which span, what waits, what begins next.

Two operators never hold one span. A wish waits while any of its spans is held. A wish is in memory
only, and dies with its owner: so whoever asked hears of it while still listening, either that its
operator is recorded, or that it was not begun and is not wished for any more.
"""

from collections.abc import Callable
from itertools import pairwise

from lockgate.core.maintainer.nodes import NodeTable
from lockgate.core.maintainer.spans import Span, SpanTable
from lockgate.core.maintainer.wishes import MergeWish, MoveWish, SplitWish, Wish
from lockgate.core.operators.add import Add
from lockgate.core.operators.base import Dropped, Hands, Lost, Operator
from lockgate.core.operators.merge import Merge, Source
from lockgate.core.operators.move import Move
from lockgate.core.operators.remove import Remove
from lockgate.core.operators.split import Split
from lockgate.model.config import CoreConfig
from lockgate.model.events import Tick
from lockgate.model.ids import Epoch, Millis, NodeRef, OperatorId, Seq, SpanId
from lockgate.model.spans import TRIGGER, KeyRange, SpanSpec

Fate = str
"""Why a wish lapsed: a code for the person who made it; empty when it was fulfilled."""


class Operating:
    """Begins operators, tells them what happens, ends them."""

    def __init__(
        self,
        config: CoreConfig,
        epoch: Epoch,
        spans: SpanTable,
        nodes: NodeTable,
        answer: Callable[[str, Fate], None],
    ) -> None:
        self.config = config
        self.epoch = epoch
        self.spans = spans
        self.nodes = nodes
        self.operators: dict[OperatorId, Operator] = {}
        self.wishes: list[Wish] = []
        self._holders: dict[SpanId, OperatorId] = {}
        self._held_by: dict[OperatorId, tuple[SpanId, ...]] = {}
        self._number = 0
        self._answer = answer
        self._open: dict[str, None] = {}
        """Requests of people that have no answer yet."""
        self._since: dict[Wish, Millis] = {}

    # --- wishes of people ---------------------------------------------------------------------

    def wish(self, wish: Wish) -> None:
        """Take a wish; whoever made it hears what becomes of it."""
        self.wishes.append(wish)
        if wish.request:
            self._open[wish.request] = None

    def _settle_request(self, request: str, fate: Fate) -> None:
        if request in self._open:
            del self._open[request]
            self._answer(request, fate)

    # --- names ------------------------------------------------------------------------------

    def new_name(self) -> str:
        """An identity that no other epoch and no other call gives out."""
        self._number += 1
        return f"{self.epoch}-{self._number}"

    def least_seq(self, default: Seq) -> Seq:
        """No operator in flight uses a lower sequence than this."""
        return min((op.first_seq for op in self.operators.values()), default=default)

    # --- holding ----------------------------------------------------------------------------

    def holder(self, span: SpanId) -> Operator | None:
        """The operator that holds this span."""
        operator = self._holders.get(span)
        return None if operator is None else self.operators[operator]

    def is_active(self, operator: OperatorId) -> bool:
        """True while this operator is in flight."""
        return operator in self.operators

    def regrip(self, operator: Operator) -> None:
        """Take note of the spans an operator holds now."""
        self._release(operator)
        spans = operator.spans
        for span in spans:
            if span in self._holders:
                raise operator.illegal(f"span {span} is held by {self._holders[span]} already")
            self._holders[span] = operator.id
        self._held_by[operator.id] = spans

    def _release(self, operator: Operator) -> None:
        for span in self._held_by.pop(operator.id, ()):
            del self._holders[span]

    def ended(self, operator: Operator) -> None:
        """An operator is through."""
        self._release(operator)
        del self.operators[operator.id]

    def abandon(self, fate: Fate) -> None:
        """The feed is closing: no operator goes on, no wish is fulfilled, nobody waits in vain."""
        for operator in self.operators.values():
            operator.abandon()
        self.operators.clear()
        self._holders.clear()
        self._held_by.clear()
        self.wishes.clear()
        self._since.clear()
        for request in list(self._open):
            self._settle_request(request, fate)

    @property
    def room(self) -> int:
        """So many more operators may begin."""
        return max(0, self.config.policy.operators_max - len(self.operators))

    def _begin(self, operator: Operator, now: Millis) -> None:
        self.operators[operator.id] = operator
        self.regrip(operator)
        operator.begin(now)

    # --- what happens -----------------------------------------------------------------------

    def lost(self, now: Millis, node: NodeRef) -> None:
        """A node is lost to everybody."""
        event = Lost(node)
        for operator in list(self.operators.values()):
            operator.handle(now, event)

    def dropped(self, now: Millis, span: Span, hands: Hands) -> None:
        """A span that was just taken out of the table because its table is dropped."""
        holder = self.holder(span.id)
        if holder is not None:
            holder.handle(now, Dropped(span.id))
        elif span.node is not None:
            hands.remove(span.id, span.node)

    def tick(self, now: Millis) -> None:
        """Repeat what shows no effect."""
        event = Tick()
        due = now - self.config.timing.resend_ms
        for operator in list(self.operators.values()):
            if operator.asked_at <= due:
                operator.handle(now, event)

    # --- beginnings -------------------------------------------------------------------------

    def begin_add(self, now: Millis, span: SpanId, node: NodeRef, hands: Hands) -> None:
        """Run an absent span."""
        self._begin(Add(self.new_name(), hands, self._next_seq(hands), span, node), now)

    def begin_remove(self, now: Millis, span: SpanId, node: NodeRef, hands: Hands) -> None:
        """Clear a node of a span that is no more."""
        self._begin(Remove(self.new_name(), hands, self._next_seq(hands), span, node), now)

    def begin_wishes(self, now: Millis, hands: Hands) -> None:
        """Turn into operators what can begin; keep what must wait; let lapse the impossible."""
        wishes, self.wishes = self.wishes, []
        for wish in wishes:
            fate = self._lapse(wish, now)
            if fate is None and (not self.room or not self._can_begin(wish)):
                self.wishes.append(wish)
                continue
            self._since.pop(wish, None)
            if fate is not None:
                self._settle_request(wish.request, fate)
            else:
                self._begin(self._operator(wish, now, hands), now)
                hands.record(then=self._fulfilled(wish))

    def _fulfilled(self, wish: Wish) -> Callable[[], None]:
        """Tell the person once the operator is recorded."""
        return lambda: self._settle_request(wish.request, "")

    def _can_begin(self, wish: Wish) -> bool:
        return all(
            self.spans[span].working
            and span not in self._holders
            and self.nodes.ready(self.spans[span].node)
            for span in wish.spans
        )

    def _lapse(self, wish: Wish, now: Millis) -> Fate | None:
        """Why a wish is not going to be fulfilled as it was made, or None."""
        timing = self.config.timing
        patience_ms = timing.request_wait_ms if wish.request else timing.wish_wait_ms
        if now - self._since.setdefault(wish, now) >= patience_ms:
            return "span-busy"
        if any(span not in self.spans for span in wish.spans):
            return "unknown-span"
        if isinstance(wish, MoveWish):
            return self._lapse_move(wish)
        if TRIGGER in wish.spans:
            return "trigger-span"
        if isinstance(wish, SplitWish):
            return self._lapse_split(wish)
        return self._lapse_merge(wish)

    def _lapse_move(self, wish: MoveWish) -> Fate | None:
        if self.nodes.named(wish.node) is None:
            return "unknown-node"
        node = self.spans[wish.span].node
        return "" if node is not None and node.node == wish.node else None

    def _lapse_split(self, wish: SplitWish) -> Fate | None:
        try:
            self.spans[wish.span].record.span.range.divided(wish.points)
        except ValueError:
            return "bad-split-points"
        return None if wish.points else "bad-split-points"

    def _lapse_merge(self, wish: MergeWish) -> Fate | None:
        specs = [self.spans[span].record.span for span in wish.spans]
        neighbours = all(
            left.table == right.table and left.range.touches(right.range)
            for left, right in pairwise(specs)
        )
        return None if len(specs) > 1 and neighbours else "not-neighbours"

    def _operator(self, wish: Wish, now: Millis, hands: Hands) -> Operator:
        name, seq = self.new_name(), self._next_seq(hands)
        if isinstance(wish, MoveWish):
            origin = self.spans[wish.span].node
            destination = self.nodes.named(wish.node)
            assert origin is not None
            assert destination is not None
            return Move(name, hands, seq, wish.span, origin, destination)
        if isinstance(wish, SplitWish):
            parent = self.spans[wish.span]
            assert parent.node is not None
            spec = parent.record.span
            children = tuple(
                SpanSpec(self.new_name(), spec.table, part)
                for part in spec.range.divided(wish.points)
            )
            return Split(name, hands, seq, wish.span, parent.node, children)
        sources = [self.spans[span] for span in wish.spans]
        first, last = sources[0].record.span, sources[-1].record.span
        target = SpanSpec(self.new_name(), first.table, KeyRange(first.range.low, last.range.high))
        deadline = now + self.config.timing.merge_wait_ms
        return Merge(name, hands, seq, [self._source(span) for span in sources], target, deadline)

    def _source(self, span: Span) -> Source:
        assert span.node is not None
        return Source(span.id, span.node, span.token)

    def _next_seq(self, hands: Hands) -> Seq:
        return hands.seq + 1
