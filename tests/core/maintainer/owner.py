"""A maintainer driven by hand: a real metastore, nodes that say what the test has them say."""

from typing import Any, TypeVar

from lockgate.core.maintainer.maintainer import Maintainer
from lockgate.model.batch import Batch, Member, NotLanded, Unknown
from lockgate.model.config import CoreConfig
from lockgate.model.ddl import Ddl
from lockgate.model.events import MembersSeen, Tick
from lockgate.model.feeds import FeedSpec, Goal
from lockgate.model.ids import Epoch, Millis, NodeId, NodeRef, SpanId, Token
from lockgate.model.instructions import Commit, Instruction, Load, Send
from lockgate.model.messages import BootstrapReply, CloseReply, Heartbeat, Requests
from lockgate.model.positions import Position
from lockgate.model.records import (
    BarrierRecord,
    OperatorRecord,
    ProgressRecord,
    Record,
    RecordKey,
    SpanRecord,
    feed_scope,
)
from lockgate.model.requests import Create, Hold, Prepare, Remove, Request
from lockgate.model.spans import TRIGGER
from lockgate.model.statuses import DispatcherStatus, Phase, Stage
from lockgate.store.memory import MemoryMetastore
from tests.core.support import CONFIG, FEED, of

A, B, C = NodeRef("a", 1), NodeRef("b", 1), NodeRef("c", 1)
HOME = NodeRef("home", 1)
"""Where the maintainer itself lives; it hosts no dispatchers here."""

R = TypeVar("R", bound=Request)
K = TypeVar("K", bound=Record)


def working(
    record: SpanRecord, position: Position = 0, *, barrier: Position = 0, ddl: Ddl | None = None
) -> DispatcherStatus:
    """What the node says of a span that runs as it was placed."""
    return DispatcherStatus(
        record.id, record.token, Stage.WORKING, position=position, barrier=barrier, ddl=ddl
    )


class Owner:
    """Drives one maintainer. Commits land at once unless `hold` is set."""

    def __init__(
        self,
        *tables: str,
        epoch: Epoch = 1,
        goal: Goal = Goal.RUN,
        spec: FeedSpec | None = None,
        config: CoreConfig = CONFIG,
        former: "Owner | None" = None,
    ) -> None:
        self.config = config
        self.now: Millis = 1_000 if former is None else former.now
        self.store = MemoryMetastore(lambda: 0, 10_000) if former is None else former.store
        self.store.scope(feed_scope(FEED)).fence = epoch
        self.spec = spec or (FeedSpec(tables=tables) if former is None else former.spec)
        self.machine = Maintainer(config, FEED, epoch, HOME, goal, self.spec)
        self.hold = False
        self.held: list[Batch] = []
        self.out: list[Instruction] = []
        """Everything it wanted done, but for the metastore's part."""
        self._beats: dict[NodeRef, int] = {}
        self._asked = 0

    # --- beginnings -------------------------------------------------------------------------

    def load(self) -> None:
        self.handle(Tick())

    def see(self, *refs: NodeRef, draining: tuple[NodeRef, ...] = ()) -> None:
        """Who is there, by the metastore's word."""
        self.handle(MembersSeen(tuple(Member(ref, ref in draining) for ref in refs)))

    def reply(self, node: NodeRef, *statuses: DispatcherStatus) -> None:
        """The node answers the bootstrap."""
        self.handle(BootstrapReply(FEED, self.machine.epoch, node, statuses))

    def boot(self, reports: dict[NodeRef, tuple[DispatcherStatus, ...]]) -> None:
        """Load, and let every node answer: it runs."""
        self.load()
        self.see(*reports)
        for node, statuses in reports.items():
            self.reply(node, *statuses)
        self.tick()
        assert self.phase is Phase.RUNNING

    def settle(self) -> None:
        """Let every node do at once what it is asked, until nothing more is asked."""
        for _ in range(50):
            asked = self.take_asked()
            for node, request in asked:
                self._obey(node, request)
            self.tick(0)
            if not asked and not self.machine.operators and not self.machine.operating.wishes:
                return
        raise AssertionError("the maintainer does not come to rest")

    def _obey(self, node: NodeRef, request: Request) -> None:
        if isinstance(request, Create):
            self.says(node, DispatcherStatus(request.span, request.token, Stage.WORKING))
        elif isinstance(request, Remove):
            self.says(node, DispatcherStatus(request.span, request.token, Stage.GONE))
        elif isinstance(request, Hold):
            held = DispatcherStatus(
                request.span, request.token, Stage.HELD, operator=request.operator
            )
            self.says(node, held)
        elif isinstance(request, Prepare):
            self.says(node, prepared(request))

    # --- time and news ----------------------------------------------------------------------

    def tick(self, ms: Millis = 1_000) -> None:
        self.now += ms
        self.handle(Tick())

    def says(self, node: NodeRef, *statuses: DispatcherStatus, full: bool = False) -> None:
        """The node's next heartbeat."""
        self._beats[node] = self._beats.get(node, 0) + 1
        self.handle(
            Heartbeat(FEED, self.machine.epoch, node, self._beats[node], full, tuple(statuses))
        )

    def closes(self, node: NodeRef) -> None:
        self.handle(CloseReply(FEED, self.machine.epoch, node))

    # --- events -----------------------------------------------------------------------------

    def handle(self, event: Any) -> list[Instruction]:
        """Hand an event in; the metastore's part is carried out at once."""
        out = self.machine.handle(self.now, event)
        for instruction in out:
            if isinstance(instruction, Load):
                self.handle(self.store.load(instruction.scope))
            elif isinstance(instruction, Commit):
                self.held.append(instruction.batch)
                if not self.hold:
                    self.land()
            else:
                self.out.append(instruction)
        return out

    def land(self) -> None:
        """The batch in flight lands, and so do those that follow it at once."""
        while self.held:
            self.handle(self.store.commit(self.held.pop()))
            if self.hold:
                return

    def land_all(self) -> None:
        """Stop holding commits back."""
        self.hold = False
        self.land()

    def not_landed(self) -> None:
        batch = self.held.pop()
        self.handle(NotLanded(batch.scope, batch.serial))

    def unknown(self, *, landed: bool) -> None:
        batch = self.held.pop()
        if landed:
            self.store.commit(batch)
        self.handle(Unknown(batch.scope, batch.serial))

    # --- looking ----------------------------------------------------------------------------

    @property
    def phase(self) -> Phase:
        return self.machine.status().phase

    def take_asked(self) -> list[tuple[NodeRef, Request]]:
        """What nodes were asked since the last look, in order."""
        fresh, self._asked = self.out[self._asked :], len(self.out)
        return [
            (NodeRef(send.to, send.message.to), item)
            for send in of(Send, fresh)
            if isinstance(send.message, Requests)
            for item in send.message.items
        ]

    def asked(self, kind: type[R]) -> list[tuple[NodeRef, R]]:
        """Requests of one kind since the last look."""
        return [(node, item) for node, item in self.take_asked() if isinstance(item, kind)]

    def _records(self, kind: type[K]) -> dict[str, K]:
        records = self.store.records(feed_scope(FEED)).values()
        return {record.id: record for record in of(kind, records)}

    def spans(self) -> dict[SpanId, SpanRecord]:
        """The spans that are recorded, without the trigger's."""
        return {span: one for span, one in self._records(SpanRecord).items() if span != TRIGGER}

    def span(self, span: SpanId) -> SpanRecord:
        return self._records(SpanRecord)[span]

    @property
    def trigger(self) -> SpanRecord:
        return self.span(TRIGGER)

    def only(self) -> SpanRecord:
        """The only span that is recorded."""
        (record,) = self.spans().values()
        return record

    def operators(self) -> dict[str, OperatorRecord]:
        return self._records(OperatorRecord)

    def barrier(self) -> BarrierRecord | None:
        return self._records(BarrierRecord).get("barrier")

    def progress(self) -> ProgressRecord | None:
        return self._records(ProgressRecord).get("progress")

    def put(self, *records: Record) -> None:
        """Have records there that a former owner left."""
        from lockgate.model.records import key_of

        for record in records:
            self.store.records(feed_scope(FEED))[key_of(record)] = record

    def drop(self, kind: str, name: str) -> None:
        del self.store.records(feed_scope(FEED))[RecordKey(kind, name)]


def prepared(request: Prepare) -> DispatcherStatus:
    """What a node says once it has made room for a merge's target."""
    return DispatcherStatus(request.span, request.token, Stage.PREPARING, operator=request.operator)


def gone(span: SpanId, token: Token) -> DispatcherStatus:
    return DispatcherStatus(span, token, Stage.GONE)


def running(*tables: str, nodes: tuple[NodeRef, ...] = (A, B), **more: Any) -> Owner:
    """A maintainer of a born feed whose spans all work, spread over the nodes."""
    owner = Owner(*tables, **more)
    owner.boot(dict.fromkeys(nodes, ()))
    owner.settle()
    owner.take_asked()
    owner.out.clear()
    owner._asked = 0
    return owner


def node_of(owner: Owner, span: SpanId) -> NodeRef:
    node = owner.span(span).node
    assert node is not None
    return node


def other(node: NodeRef, among: tuple[NodeRef, ...] = (A, B)) -> NodeRef:
    return next(ref for ref in among if ref != node)


def named(node: NodeRef) -> NodeId:
    return node.node
