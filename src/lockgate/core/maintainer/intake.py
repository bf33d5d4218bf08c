"""What a maintainer makes of the statuses that nodes send.

One status, one question: is this the dispatcher I want? The intended one is observed. One that
an operator waits for goes to the operator. Everything else should not be there: a dispatcher of
a span that is no more, of an older placement, of a merge that is off. It is told to go, or to go
on, each time it is seen, until it is not seen any more; so no loss of a message leaves a ghost.
"""

from lockgate.core.maintainer.barrier import Barrier, TriggerSeen
from lockgate.core.maintainer.operating import Operating
from lockgate.core.maintainer.spans import Span, SpanTable
from lockgate.core.operators.base import Hands, Seen
from lockgate.model.config import CoreConfig
from lockgate.model.feeds import Trouble
from lockgate.model.ids import Millis, NodeRef
from lockgate.model.messages import Heartbeat
from lockgate.model.requests import Pass, Release, Remove
from lockgate.model.spans import TRIGGER
from lockgate.model.statuses import DispatcherStatus, Stage

NOT_RUNNING = (Stage.FENCED, Stage.GONE, Stage.PREPARING)
"""Of an intended span that no operator holds: it has to be placed anew. A target that is still
PREPARING then belongs to a merge that is committed and whose owner died before it said so."""


class Intake:
    """Takes statuses in, one by one."""

    def __init__(
        self,
        config: CoreConfig,
        spans: SpanTable,
        operating: Operating,
        barrier: Barrier,
        hands: Hands,
    ) -> None:
        self.config = config
        self.spans = spans
        self.operating = operating
        self.barrier = barrier
        self.hands = hands
        self.trouble: Trouble | None = None

    def take(self, now: Millis, node: NodeRef, status: DispatcherStatus) -> None:
        """Observe, hand on, or heal."""
        span = self.spans.get(status.span)
        intended = span is not None and span.node == node and span.token == status.token
        if intended:
            assert span is not None
            span.observe(status)
            self._watch(now, span, status)
        holder = self.operating.holder(status.span)
        if holder is not None:
            holder.handle(now, Seen(node, status))
        if intended:
            assert span is not None
            self._follow(now, node, span, status)
        elif holder is None and status.stage is Stage.GONE:
            self._heal_loss(node, span, status)
        elif holder is None and status.stage is not Stage.STOPPING:
            self._heal_orphan(node, span, status)

    def _watch(self, now: Millis, span: Span, status: DispatcherStatus) -> None:
        """A failure is trouble for the feed; so is a sink that refuses a span again and again."""
        if status.stage is Stage.FENCED:
            span.refused(now, self.config.timing.resend_ms)
            if span.refusals >= self.config.policy.refusals_max:
                self.trouble = status.trouble
        elif status.stage is Stage.FAILED and not self._is_of_former_owner(status):
            self.trouble = status.trouble

    def miss(self, beat: Heartbeat) -> None:
        """A dispatcher that was seen and is not in a later full heartbeat is gone.

        Only what was seen can be missed: a heartbeat may be older than the latest request.
        """
        reported = {status.span for status in beat.statuses}
        for span in self.spans.on_node(beat.node):
            if (
                span.stage is not None
                and span.id not in reported
                and self.operating.holder(span.id) is None
            ):
                self.spans.lose(span.id)

    def _follow(self, now: Millis, node: NodeRef, span: Span, status: DispatcherStatus) -> None:
        """The dispatcher is the one that is wanted; see whether it waits for something."""
        if status.span == TRIGGER and status.stage is Stage.WORKING:
            self.barrier.handle(now, TriggerSeen(status.ddl))
        if status.barrier and status.barrier <= self.barrier.done:
            self.hands.ask(node, Pass(status.span, status.token, status.barrier))
        if status.operator and not self.operating.is_active(status.operator):
            self._release(node, status)
        if self.operating.holder(span.id) is None and self._must_be_placed_anew(status):
            self.spans.lose(span.id)

    def _must_be_placed_anew(self, status: DispatcherStatus) -> bool:
        """What failed under a former owner was that owner's trouble; it gets a new try."""
        if status.stage is Stage.FAILED:
            return self._is_of_former_owner(status)
        return status.stage in NOT_RUNNING

    def _is_of_former_owner(self, status: DispatcherStatus) -> bool:
        return status.token.epoch < self.operating.epoch

    def _release(self, node: NodeRef, status: DispatcherStatus) -> None:
        """The merge that holds it is not under way: it aborted, or its owner died."""
        self.hands.ask(node, Release(status.span, status.token, status.operator))

    def _heal_orphan(self, node: NodeRef, span: Span | None, status: DispatcherStatus) -> None:
        """Somebody runs what should not run there. A newer token is not ours to remove."""
        if span is None or span.node != node:
            self.hands.ask(node, Remove(status.span, self.hands.next_token(node)))

    def _heal_loss(self, node: NodeRef, span: Span | None, status: DispatcherStatus) -> None:
        """The node does not have what it should have."""
        if span is not None and span.node == node and status.token >= span.token:
            self.spans.lose(span.id)
