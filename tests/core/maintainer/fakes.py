"""The far side of a maintainer, written down once more as plainly as possible: a sink with its
rows, and nodes that obey by the protocol. Not the core's own nodes, so that the maintainer is held
to the protocol and not to its other half.
"""

from dataclasses import dataclass
from typing import Protocol

from lockgate.model.ddl import Ddl, DdlKind
from lockgate.model.ids import NO_TOKEN, Epoch, NodeId, NodeRef, Seq, SpanId, Token
from lockgate.model.messages import (
    Bootstrap,
    BootstrapReply,
    Close,
    CloseReply,
    Heartbeat,
    HeartbeatReply,
    Message,
    Requests,
    Stale,
)
from lockgate.model.positions import Position
from lockgate.model.requests import Create, Hold, Pass, Prepare, Release, Remove, Request, Write
from lockgate.model.spans import TRIGGER, Birth, Lineage, SpanSpec
from lockgate.model.statuses import DispatcherStatus, Stage
from tests.core.support import FEED

OWNERS_NODE = "home"


@dataclass
class Row:
    """What the sink knows of one span: who may write, and how far it is."""

    spec: SpanSpec
    token: Token
    position: Position


class Sink:
    """Rows and the DDLs that were written. Every method is one transaction."""

    def __init__(self) -> None:
        self.rows: dict[SpanId, Row] = {}
        self.ddls: list[Ddl] = []

    def claim(
        self, spec: SpanSpec, token: Token, lineage: Lineage | None, birth: Birth | None
    ) -> Position | None:
        """The position to go on from, or None: refused."""
        row = self.rows.get(spec.id)
        if row is None and birth is not None:
            row = self.rows[spec.id] = Row(spec, NO_TOKEN, birth.position)
            for born in birth.spans:
                self.rows[born.id] = Row(born, NO_TOKEN, birth.position)
        if row is None and lineage is not None:
            self._descend(lineage, token)
            row = self.rows.get(spec.id)
        if row is None or row.token > token:
            return None
        row.token = token
        return row.position

    def _descend(self, lineage: Lineage, token: Token) -> None:
        sources = [self.rows[span] for span in lineage.sources if span in self.rows]
        if len(sources) != len(lineage.sources) or any(row.token >= token for row in sources):
            return
        for source in lineage.sources:
            del self.rows[source]
        for target in lineage.targets:
            touched = [row for row in sources if target.range.intersection(row.spec.range)]
            floor = min(row.position for row in touched)
            self.rows[target.id] = Row(target, max(row.token for row in sources), floor)

    def apply(self, span: SpanId, token: Token, to: Position) -> bool:
        row = self.rows.get(span)
        if row is None or row.token != token:
            return False
        row.position = max(row.position, to)
        return True

    def write(self, token: Token, ddl: Ddl, births: tuple[SpanSpec, ...]) -> bool | None:
        """True when the DDL is written, None when somebody is behind, False: refused."""
        feed = self.rows[TRIGGER]
        if feed.token != token:
            return False
        if ddl.position <= feed.position:
            return True
        concerned = [
            row for row in self.rows.values() if row is not feed and ddl.concerns(row.spec.table)
        ]
        if any(row.position < ddl.position - 1 for row in concerned):
            return None
        if ddl.kind is DdlKind.DROP:
            for row in concerned:
                del self.rows[row.spec.id]
        else:
            for row in concerned:
                row.position = max(row.position, ddl.position)
        for born in births:
            self.rows[born.id] = Row(born, NO_TOKEN, ddl.position)
        feed.position = ddl.position
        self.ddls.append(ddl)
        return True


# --- a node ---------------------------------------------------------------------------------------


@dataclass
class Dispatcher:
    """One span at one node."""

    spec: SpanSpec
    token: Token
    stage: Stage
    lineage: Lineage | None = None
    birth: Birth | None = None
    position: Position = 0
    barrier: Position = 0
    ddl: Ddl | None = None
    operator: str = ""
    holding: bool = False
    writing: tuple[Ddl, tuple[SpanSpec, ...]] | None = None
    stop: Token = NO_TOKEN

    def status(self) -> DispatcherStatus:
        told = self.ddl if self.spec.id == TRIGGER else None
        return DispatcherStatus(
            self.spec.id,
            self.token,
            self.stage,
            self.position,
            self.barrier,
            told,
            self.operator,
        )


class Surroundings(Protocol):
    """What a node needs of the world."""

    sink: Sink
    head: Position

    def send(self, to: NodeId, message: Message) -> None: ...

    def next_ddl(self, spec: SpanSpec, after: Position) -> Ddl | None: ...

    def note_pass(self, request: Pass) -> None: ...


class Node:
    """One life of one node, obeying whoever its fence admits."""

    def __init__(self, ref: NodeRef, world: Surroundings) -> None:
        self.ref = ref
        self.world = world
        self.owner: NodeRef | None = None
        self.epoch: Epoch = 0
        self.closed = False
        self.here: dict[SpanId, Dispatcher] = {}
        self.marks: dict[SpanId, Token] = {}
        self.settled: Seq = 0
        self.beats = 0

    # --- messages ---------------------------------------------------------------------------

    def receive(self, message: Message) -> None:
        assert isinstance(message, Bootstrap | Requests | HeartbeatReply | Close)
        if message.epoch < self.epoch or (message.epoch == self.epoch and self.closed):
            if isinstance(message, Close) and message.epoch == self.epoch:
                self._say(CloseReply(FEED, message.epoch, self.ref))
            else:
                self._say(Stale(FEED, message.epoch, self.ref, self.epoch))
            return
        if isinstance(message, Bootstrap):
            self._admit(message.owner, message.epoch)
            statuses = tuple(one.status() for one in self.here.values())
            self._say(BootstrapReply(FEED, self.epoch, self.ref, statuses))
            return
        if message.to != self.ref.incarnation:
            return
        if isinstance(message, Close):
            self._admit(message.owner, message.epoch)
            self.here.clear()
            self.closed = True
            self._say(CloseReply(FEED, self.epoch, self.ref))
        elif message.epoch == self.epoch:
            if isinstance(message, HeartbeatReply):
                self.settled = max(self.settled, message.settled)
            else:
                for request in message.items:
                    self._obey(request)
                self.beat(*dict.fromkeys(request.span for request in message.items))

    def _admit(self, owner: NodeRef, epoch: Epoch) -> None:
        if epoch > self.epoch:
            self.owner, self.epoch, self.closed = owner, epoch, False
            self.marks.clear()
            self.settled = 0

    def _say(self, message: Message) -> None:
        self.world.send(OWNERS_NODE, message)

    def beat(self, *spans: SpanId) -> None:
        """A heartbeat on these spans, or on all."""
        if self.owner is None or self.closed:
            return
        self.beats += 1
        statuses = tuple(self._status(span) for span in spans or tuple(self.here))
        self._say(Heartbeat(FEED, self.epoch, self.ref, self.beats, not spans, statuses))

    def _status(self, span: SpanId) -> DispatcherStatus:
        one = self.here.get(span)
        if one is None:
            return DispatcherStatus(span, self.marks.get(span, NO_TOKEN), Stage.GONE)
        return one.status()

    # --- requests ---------------------------------------------------------------------------

    def _obey(self, request: Request) -> None:
        if request.token.incarnation != self.ref.incarnation:
            return
        one = self.here.get(request.span)
        if isinstance(request, Create | Prepare):
            self._create(request, one)
        elif isinstance(request, Remove):
            self._remove(request, one)
        elif one is None or one.token != request.token:
            return
        elif isinstance(request, Hold):
            if one.stage is Stage.WORKING and not one.operator:
                one.operator, one.holding = request.operator, True
        elif isinstance(request, Release):
            if one.operator == request.operator and one.stage in (Stage.WORKING, Stage.HELD):
                one.operator, one.holding, one.stage = "", False, Stage.WORKING
        elif isinstance(request, Write):
            if one.stage is Stage.WORKING and one.barrier == request.ddl.position:
                one.writing = (request.ddl, request.births)
        elif one.barrier == request.position and one.stage in (Stage.WORKING, Stage.HELD):
            self.world.note_pass(request)
            one.position = max(one.position, request.position)
            one.barrier, one.ddl, one.writing = 0, None, None

    def _create(self, request: Create | Prepare, one: Dispatcher | None) -> None:
        if one is None:
            floor = Token(self.epoch, self.settled, 0)
            mark = self.marks.get(request.span, NO_TOKEN)
            if request.token < floor or request.token <= mark:
                return
        elif one.stage is Stage.PREPARING and isinstance(request, Create):
            if request.token < one.token:
                return
        elif request.token <= max(one.token, one.stop):
            return
        prepare = isinstance(request, Prepare)
        self.here[request.span] = Dispatcher(
            request.spec,
            request.token,
            Stage.PREPARING if prepare else Stage.STARTING,
            None if prepare else request.lineage,
            None if prepare else request.birth,
            operator=request.operator if prepare else "",
        )

    def _remove(self, request: Remove, one: Dispatcher | None) -> None:
        if one is None:
            self.marks[request.span] = max(self.marks.get(request.span, NO_TOKEN), request.token)
        elif request.token > one.token:
            one.stage = Stage.STOPPING
            one.stop = max(one.stop, request.token)

    # --- work -------------------------------------------------------------------------------

    def work(self, span: SpanId) -> None:
        """The dispatcher of the span takes one step."""
        one = self.here.get(span)
        if one is None:
            return
        if one.stage is Stage.STARTING:
            self._claim(one)
        elif one.stage is Stage.STOPPING:
            del self.here[span]
            self.marks[span] = one.stop
        elif one.stage is Stage.WORKING and one.holding:
            one.stage, one.holding = Stage.HELD, False
        elif one.stage is Stage.WORKING and one.writing is not None:
            self._write(one)
        elif one.stage is Stage.WORKING and not one.barrier:
            self._advance(one)

    def _claim(self, one: Dispatcher) -> None:
        found = self.world.sink.claim(one.spec, one.token, one.lineage, one.birth)
        if found is None:
            one.stage = Stage.FENCED
        else:
            one.stage, one.position = Stage.WORKING, found

    def _write(self, one: Dispatcher) -> None:
        assert one.writing is not None
        written = self.world.sink.write(one.token, *one.writing)
        if written is False:
            one.stage = Stage.FENCED
        elif written:
            one.position = max(one.position, one.writing[0].position)
        one.writing = None

    def _advance(self, one: Dispatcher) -> None:
        ddl = self.world.next_ddl(one.spec, one.position)
        to = self.world.head if ddl is None else ddl.position - 1
        if not self.world.sink.apply(one.spec.id, one.token, to):
            one.stage = Stage.FENCED
            return
        one.position = max(one.position, to)
        if ddl is not None:
            one.barrier, one.ddl = ddl.position, ddl
