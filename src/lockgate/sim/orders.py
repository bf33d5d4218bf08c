"""What nodes say and start, held against what was durable and who may say it.

Looked at from outside: instructions as they leave the core, one by one.
"""

from collections.abc import Sequence
from typing import NoReturn, Protocol

from lockgate.core.maintainer.maintainer import Maintainer
from lockgate.model.ddl import Ddl
from lockgate.model.ids import Epoch, FeedId, Millis, NodeId, NodeRef, SpanId, Token
from lockgate.model.instructions import (
    Commit,
    HoldDispatcher,
    Instruction,
    PassBarrier,
    ReleaseDispatcher,
    Send,
    StartDispatcher,
    StopDispatcher,
    WriteBarrier,
)
from lockgate.model.messages import (
    Bootstrap,
    BootstrapReply,
    Close,
    CloseReply,
    Heartbeat,
    HeartbeatReply,
    Message,
    NodeReport,
    Requests,
    Stale,
    StartMaintainer,
)
from lockgate.model.records import FenceRecord
from lockgate.model.requests import Create, Hold, Pass, Prepare, Remove, Write
from lockgate.model.statuses import DispatcherStatus, Stage
from lockgate.sim.durable import Durable, FeedFacts
from lockgate.sim.executor import Executor
from lockgate.sim.sink import Sink
from lockgate.sim.violation import Law, LawBroken, about_feed, about_node, about_span

Life = tuple[NodeId, int]
Order = Bootstrap | Requests | HeartbeatReply | Close

OPERATIONS = (Create, Prepare, Remove)
"""What only a maintainer's own operation asks for; the rest is about any dispatcher it found."""
EFFECTS = (
    StartDispatcher,
    StopDispatcher,
    HoldDispatcher,
    ReleaseDispatcher,
    PassBarrier,
    WriteBarrier,
)


class Speaker(Protocol):
    """What is looked at in a node."""

    id: NodeId
    executor: Executor
    deadlines: dict[int, Millis]
    """When the lease of each of its lives ends, by its own clock."""
    acting: int
    """The newest life in whose name it acted."""
    replaced: bool
    """A second process goes by its name."""

    def clock(self) -> Millis:
        """The node's own time."""
        ...

    @property
    def serving(self) -> int:
        """The life in which it has read its journal and takes orders; 0: it does not."""
        ...

    @property
    def maintainers(self) -> Sequence[Maintainer]:
        """Those of its present process, the ended ones too."""
        ...


class Orders:
    """Every message sent and every dispatcher started."""

    def __init__(self, durable: Durable, sink: Sink) -> None:
        self._durable = durable
        self._sink = sink
        self._issued: dict[tuple[FeedId, SpanId, Token], NodeRef] = {}
        """Who asked for a dispatcher under this token."""
        self._obeyed: dict[tuple[Life, FeedId, SpanId], Token] = {}
        """The highest token that a life of a node has started, or declared gone."""

    # --- messages ---------------------------------------------------------------------------

    def sent(self, node: Speaker, message: Message) -> None:
        """A message left the core."""
        kind = type(message)
        if kind is Heartbeat:
            self._statuses(node, message.feed, message.node, message.statuses)  # type: ignore[union-attr]
        elif kind is NodeReport:
            if not node.executor.running and not any(map(_works, node.maintainers)):
                self._durable.reported_empty(message.node)  # type: ignore[union-attr]
        elif isinstance(message, Requests | Bootstrap | Close | HeartbeatReply):
            self._as_owner(node, message.feed, message.epoch, message.owner)
            if isinstance(message, Requests):
                self._requests(node, message)
        elif isinstance(message, BootstrapReply):
            self._bootstrap_reply(node, message)
        elif isinstance(message, CloseReply):
            self._close_reply(node, message)
        elif isinstance(message, StartMaintainer):
            self._start_maintainer(node, message)

    def _as_owner(self, node: Speaker, feed: FeedId, epoch: Epoch, owner: NodeRef) -> None:
        recorded = self._durable.feed(feed).owners.get(epoch)
        if recorded != owner or owner.node != node.id:
            what = f"{node.id} speaks as {owner}, epoch {epoch} is {recorded}'s"
            _broken(Law.FENCE, feed, what, about_node(node.id))
        self._in_the_name_of(node, owner.incarnation, feed)

    def _in_the_name_of(self, node: Speaker, incarnation: int, feed: FeedId) -> None:
        """Acting needs a lease that runs by the node's own clock, and no newer life."""
        deadline = node.deadlines.get(incarnation)
        if deadline is None or node.clock() >= deadline:
            what = f"{node.id}/{incarnation} acts at {node.clock()}, its lease ended at {deadline}"
            _broken(Law.FENCE, feed, what, about_node(node.id))
        if incarnation < node.acting:
            what = f"{node.id}/{incarnation} acts after {node.acting} did"
            _broken(Law.FENCE, feed, what, about_node(node.id))
        node.acting = incarnation

    def _requests(self, node: Speaker, message: Requests) -> None:
        feed = message.feed
        facts = self._durable.feed(feed)
        for item in message.items:
            kind = type(item)
            if kind in OPERATIONS and item.token.epoch != message.epoch:
                what = f"epoch {message.epoch} asks for {item}, under somebody else's token"
                _broken(Law.FENCE, feed, what, about_span(feed, item.span))
            if kind is Create or kind is Prepare:
                assert isinstance(item, Create | Prepare)
                self._issued[feed, item.spec.id, item.token] = message.owner
                if kind is Create and (item.spec.id, item.token) not in facts.placed:
                    what = f"{item.token} was sent before its record was durable"
                    _broken(Law.RECORD, feed, what, about_span(feed, item.spec.id))
            if kind is Prepare or kind is Hold:
                assert isinstance(item, Prepare | Hold)
                if item.operator not in facts.operators:
                    what = f"operator {item.operator} acts before its record is durable"
                    _broken(Law.RECORD, feed, what, about_span(feed, item.span))
            elif isinstance(item, Write):
                self._write(node, feed, facts, item.ddl)
            elif isinstance(item, Pass):
                self._pass(feed, facts, item)

    def _write(self, node: Speaker, feed: FeedId, facts: FeedFacts, ddl: Ddl) -> None:
        if ddl.position not in facts.barriers:
            what = f"{ddl} is to be written before its record is durable"
            _broken(Law.RECORD, feed, what, about_node(node.id))
        for span, row in self._sink.feed(feed).spans.items():
            if ddl.concerns(row.spec.table) and row.position < ddl.position - 1:
                what = f"{ddl} is to be written while {span} is at {row.position}"
                _broken(Law.DRAIN, feed, what, about_span(feed, span))

    def _pass(self, feed: FeedId, facts: FeedFacts, item: Pass) -> None:
        pending = facts.barrier
        if item.position not in facts.barriers or (
            pending is not None and item.position >= pending
        ):
            what = f"{item.span} is let past {item.position} before that is recorded"
            _broken(Law.RECORD, feed, what, about_span(feed, item.span))

    def _is_superseded(self, node: Speaker) -> bool:
        """Another process has a newer life under its name, and the durable fence is that one's."""
        return node.replaced or 0 < node.serving < self._durable.incarnations.get(node.id, 0)

    # --- orders -----------------------------------------------------------------------------

    def obeyed(self, node: Speaker, order: Order, out: list[Instruction]) -> None:
        """A node took an order and does this about it. A stale one must change nothing."""
        fence = self._durable.fences.get((node.id, order.feed))
        if fence is None or self._is_superseded(node):
            return
        stale = order.epoch < fence.epoch or (
            order.epoch == fence.epoch and (fence.closed or order.owner != fence.owner)
        )
        if not stale:
            return
        for instruction in out:
            if (isinstance(instruction, EFFECTS) and instruction.feed == order.feed) or (
                isinstance(instruction, Commit) and _admits(instruction, order)
            ):
                what = f"{node.id} obeys {order} behind {fence}: {instruction}"
                _broken(Law.FENCE, order.feed, what, about_node(node.id))
        if self._takes(node, order) and not (_told(order, out) or _is_late(order, fence)):
            what = f"{node.id} does not tell {order} that {fence} is newer"
            _broken(Law.FENCE, order.feed, what, about_node(node.id))

    def _takes(self, node: Speaker, order: Order) -> bool:
        """The order is for this life of the node, and nobody else has got a newer one."""
        serving = node.serving
        to = serving if isinstance(order, Bootstrap) else order.to
        return 0 < serving == to == self._durable.incarnations.get(node.id)

    def _start_maintainer(self, node: Speaker, message: StartMaintainer) -> None:
        recorded = self._durable.feed(message.feed).owners.get(message.epoch)
        if recorded != message.owner:
            what = f"{message.owner} was told of epoch {message.epoch}, which is {recorded}'s"
            _broken(Law.RECORD, message.feed, what, about_node(node.id))

    def _bootstrap_reply(self, node: Speaker, message: BootstrapReply) -> None:
        fence = self._durable.fences.get((node.id, message.feed))
        if fence is None or fence.epoch < message.epoch:
            what = f"{node.id} answers the bootstrap of {message.epoch}, durable is {fence}"
            _broken(Law.RECORD, message.feed, what, about_node(node.id))
        self._statuses(node, message.feed, message.node, message.statuses)

    def _close_reply(self, node: Speaker, message: CloseReply) -> None:
        feed = message.feed
        fence = self._durable.fences.get((node.id, feed))
        if fence is None or (fence.epoch, fence.closed) < (message.epoch, True):
            what = f"{node.id} answers the close of {message.epoch}, durable is {fence}"
            _broken(Law.RECORD, feed, what, about_node(node.id))
        for running_feed, span in node.executor.running:
            if running_feed == feed:
                what = f"{node.id} says that nothing is left, and {span} runs"
                _broken(Law.DRAIN, feed, what, about_span(feed, span))

    def _statuses(
        self, node: Speaker, feed: FeedId, ref: NodeRef, statuses: tuple[DispatcherStatus, ...]
    ) -> None:
        for status in statuses:
            if status.stage is Stage.GONE:
                running = node.executor.running.get((feed, status.span))
                if running is not None and running.token <= status.token:
                    what = f"{ref} says that {status.span} is gone up to {status.token}"
                    what += f", and it runs under {running.token}"
                    _broken(Law.DRAIN, feed, what, about_span(feed, status.span))
                life = (ref.node, ref.incarnation)
                before = self._obeyed.get((life, feed, status.span))
                if before is None or before < status.token:
                    self._obeyed[life, feed, status.span] = status.token

    # --- starts -----------------------------------------------------------------------------

    def started(self, node: Speaker, start: StartDispatcher) -> None:
        """A dispatcher is about to be started."""
        feed, span, token = start.feed, start.spec.id, start.token
        about = about_span(feed, span)
        if (node.id, feed, span, token, False) not in self._durable.journals:
            what = f"{span} is started under {token} before the journal has it"
            _broken(Law.RECORD, feed, what, about)
        life = (node.id, token.incarnation)
        before = self._obeyed.get((life, feed, span))
        if before is not None and token <= before:
            what = f"{span} is started under {token} after {before} was obeyed"
            _broken(Law.FENCE, feed, what, about)
        self._obeyed[life, feed, span] = token
        self._in_the_name_of(node, token.incarnation, feed)
        running = node.executor.running.get((feed, span))
        if running is not None:
            what = f"{span} is started under {token} beside {running.token}"
            _broken(Law.DRAIN, feed, what, about)
        fence = self._durable.fences.get((node.id, feed))
        if fence is None:
            _broken(Law.RECORD, feed, f"{span} is started before any fence is durable", about)
        issuer = self._issued.get((feed, span, token))
        if token.epoch and issuer != self._durable.feed(feed).owners.get(token.epoch):
            _broken(Law.FENCE, feed, f"{span} is started under {token}, issued by {issuer}", about)
        if self._is_superseded(node):
            return  # The durable fence is its successor's, who shuts it out at the sink.
        if token.epoch == 0:
            if fence.epoch != 0:
                what = f"{span} is started for an unfenced owner after {fence.epoch}"
                _broken(Law.FENCE, feed, what, about)
            return
        if token.epoch < fence.epoch:
            what = f"{span} is started under {token}, the fence is at {fence.epoch}"
            _broken(Law.FENCE, feed, what, about)
        if fence.closed and token.epoch <= fence.epoch:
            what = f"{span} is started under {token} after its feed was closed by {fence}"
            _broken(Law.DRAIN, feed, what, about)


def _admits(commit: Commit, order: Order) -> bool:
    """The sender of the order becomes the owner here."""
    return any(
        isinstance(record, FenceRecord)
        and (record.feed, record.epoch, record.owner) == (order.feed, order.epoch, order.owner)
        and not record.closed
        for record in commit.batch.puts
    )


def _is_late(order: Order, fence: FenceRecord) -> bool:
    """A close by who has closed already is repeated, and two owners of epoch 0 have no order."""
    return order.epoch == fence.epoch and (
        (isinstance(order, Close) and order.owner == fence.owner)
        or (order.epoch == 0 and not fence.closed)
    )


def _told(order: Order, out: list[Instruction]) -> bool:
    """The sender of the order hears that somebody newer was seen."""
    return any(
        isinstance(said, Send)
        and said.to == order.owner.node
        and isinstance(said.message, Stale)
        and (said.message.feed, said.message.epoch) == (order.feed, order.epoch)
        for said in out
    )


def _works(maintainer: Maintainer) -> bool:
    return maintainer.outcome is None


def _broken(law: Law, feed: FeedId, what: str, about: str) -> NoReturn:
    raise LawBroken(law, f"{feed}: {what}", (about_feed(feed), about))
