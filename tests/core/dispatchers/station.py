"""A dispatcher manager driven by hand: a real metastore for its journal, no executor."""

from typing import Any

from lockgate.core.dispatchers.desk import Desk
from lockgate.core.dispatchers.entry import Entry, EntryState
from lockgate.core.dispatchers.manager import DispatcherManager, ManagerState
from lockgate.model.batch import Batch, NotLanded, Unknown
from lockgate.model.events import (
    DispatcherFailed,
    DispatcherHeld,
    DispatcherRefused,
    DispatcherStarted,
    DispatcherStopped,
    Tick,
)
from lockgate.model.feeds import Trouble
from lockgate.model.ids import Epoch, FeedId, Millis, NodeRef, Seq, SpanId, Token
from lockgate.model.instructions import Commit, Instruction, Load
from lockgate.model.messages import Bootstrap, Close, Heartbeat, HeartbeatReply, Requests
from lockgate.model.positions import Position
from lockgate.model.records import FenceRecord, JournalRecord, RecordKey, node_scope
from lockgate.model.requests import Hold, Prepare, Remove, Request
from lockgate.model.statuses import DispatcherStatus
from lockgate.store.memory import MemoryMetastore
from tests.core.support import CONFIG, FEED, create, sent, spec

OWNER = NodeRef("owner", 1)
RIVAL = NodeRef("rival", 1)
EPOCH = 5
TROUBLE = Trouble("disk full", retryable=True)


class Station:
    """One node's manager. Commits land at once unless `hold` is set."""

    def __init__(self, store: MemoryMetastore | None = None) -> None:
        self.now: Millis = 1_000
        self.store = store or MemoryMetastore(lambda: 0, 10_000)
        self.me = self.store.join("n", 0).ref
        self.manager = DispatcherManager(CONFIG, self.me)
        self.hold = False
        self.held: list[Batch] = []
        self.take(Tick())
        assert self.manager.state is ManagerState.ACTIVE

    # --- events -----------------------------------------------------------------------------

    def take(self, event: Any) -> list[Instruction]:
        """Hand an event in; all that comes of it, but for the metastore's part."""
        out: list[Instruction] = []
        for instruction in self.manager.handle(self.now, event):
            if isinstance(instruction, Load):
                out += self.take(self.store.load(instruction.scope))
            elif isinstance(instruction, Commit):
                self.held.append(instruction.batch)
                if not self.hold:
                    out += self.land()
            else:
                out.append(instruction)
        return out

    def land(self) -> list[Instruction]:
        """The batch in flight becomes durable."""
        return self.take(self.store.commit(self.held.pop()))

    def land_all(self) -> list[Instruction]:
        """Stop holding commits back."""
        self.hold = False
        return self.land() if self.held else []

    def not_landed(self) -> list[Instruction]:
        batch = self.held.pop()
        return self.take(NotLanded(batch.scope, batch.serial))

    def unknown(self) -> list[Instruction]:
        batch = self.held.pop()
        return self.take(Unknown(batch.scope, batch.serial))

    def tick(self, ms: Millis = 1_000) -> list[Instruction]:
        self.now += ms
        return self.take(Tick())

    # --- what owners send -------------------------------------------------------------------

    def bootstrap(self, epoch: Epoch = EPOCH, owner: NodeRef = OWNER) -> list[Instruction]:
        return self.take(Bootstrap(FEED, epoch, owner))

    def ask(
        self,
        *requests: Request,
        epoch: Epoch = EPOCH,
        owner: NodeRef = OWNER,
        to: int | None = None,
    ) -> list[Instruction]:
        incarnation = self.me.incarnation if to is None else to
        return self.take(Requests(FEED, epoch, owner, incarnation, requests))

    def settled(self, seq: Seq, epoch: Epoch = EPOCH, owner: NodeRef = OWNER) -> list[Instruction]:
        return self.take(HeartbeatReply(FEED, epoch, owner, self.me.incarnation, seq))

    def close(self, epoch: Epoch = EPOCH, owner: NodeRef = OWNER) -> list[Instruction]:
        return self.take(Close(FEED, epoch, owner, self.me.incarnation))

    # --- what the executor says -------------------------------------------------------------

    def started(self, span: SpanId, token: Token, position: Position = 0) -> list[Instruction]:
        return self.take(DispatcherStarted(FEED, span, token, position))

    def stopped(self, span: SpanId, token: Token) -> list[Instruction]:
        return self.take(DispatcherStopped(FEED, span, token))

    # --- looking ----------------------------------------------------------------------------

    @property
    def desk(self) -> Desk:
        return self.manager.desks[FEED]

    def entry(self, span: SpanId = "s") -> Entry:
        return self.desk.entries[span]

    def fence(self, feed: FeedId = FEED) -> FenceRecord | None:
        """What is durable of the fence."""
        record = self.store.records(node_scope("n")).get(RecordKey("fence", feed))
        assert record is None or isinstance(record, FenceRecord)
        return record

    def journal(self, span: SpanId = "s") -> JournalRecord | None:
        """What is durable of a span."""
        record = self.store.records(node_scope("n")).get(RecordKey("journal", f"{FEED}/{span}"))
        assert record is None or isinstance(record, JournalRecord)
        return record


def told(out: list[Instruction], span: SpanId = "s") -> list[DispatcherStatus]:
    """What heartbeats say of a span."""
    return [
        status for beat in sent(Heartbeat, out) for status in beat.statuses if status.span == span
    ]


def owned() -> Station:
    """A station that has admitted OWNER at EPOCH."""
    station = Station()
    station.bootstrap()
    return station


def at(state: EntryState, seq: Seq = 10) -> Station:
    """An owned station whose entry for span s is in this state, under a token of `seq`."""
    station = owned()
    asked = create("s", EPOCH, seq)
    if state is EntryState.NOTED:
        station.hold = True
    if state is EntryState.PREPARED:
        station.ask(Prepare(spec("s"), asked.token, "merge-1"))
    else:
        station.ask(asked)
    if state in (EntryState.WORKING, EntryState.HOLDING, EntryState.HELD):
        station.started("s", asked.token)
    if state in (EntryState.HOLDING, EntryState.HELD):
        station.ask(Hold("s", asked.token, "merge-1"))
    if state is EntryState.HELD:
        station.take(DispatcherHeld(FEED, "s", asked.token, "merge-1"))
    if state in (EntryState.STOPPING, EntryState.ERASING):
        station.ask(Remove("s", Token(EPOCH, seq + 1, 1)))
    if state is EntryState.ERASING:
        station.hold = True
        station.stopped("s", asked.token)
    if state is EntryState.FENCED:
        station.take(DispatcherRefused(FEED, "s", asked.token))
    if state is EntryState.FAILED:
        station.take(DispatcherFailed(FEED, "s", asked.token, TROUBLE))
    assert station.entry().state is state
    return station
