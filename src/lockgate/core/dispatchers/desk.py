"""The desk of one feed at one node: its fence, its entries, and the order of effects.

Every change goes the same way: the request is weighed by the fence, noted in the journal,
and only when the journal is durable is the executor asked or the sender told. What the
requests of a former owner left running goes on running: the new owner is told of it and
decides.
"""

from collections.abc import Callable

from lockgate.core.dispatchers.entry import TABLE, Entry, EntryState
from lockgate.core.dispatchers.fence import Fence
from lockgate.core.machine import Verdict
from lockgate.core.writer import Continuation, Writer
from lockgate.model.events import (
    DispatcherAdvanced,
    DispatcherBlocked,
    DispatcherEvent,
    DispatcherFailed,
    DispatcherHeat,
    DispatcherHeld,
    DispatcherRefused,
    DispatcherStarted,
    DispatcherStopped,
)
from lockgate.model.feeds import Trouble
from lockgate.model.ids import NO_TOKEN, SEQ_MAX, FeedId, NodeRef, Seq, SpanId, Token
from lockgate.model.instructions import (
    HoldDispatcher,
    Instruction,
    PassBarrier,
    ReleaseDispatcher,
    StartDispatcher,
    StopDispatcher,
    WriteBarrier,
)
from lockgate.model.records import FenceRecord, RecordKey, key_of
from lockgate.model.requests import (
    Create,
    Hold,
    Pass,
    Prepare,
    Release,
    Remove,
    Request,
    Write,
)
from lockgate.model.statuses import DispatcherStatus, Stage

ENDING = (EntryState.STOPPING, EntryState.ERASING)
"""Nothing new can be told of these until they are gone; to answer each repeat would be a storm."""


class Desk:
    """All that one node does for one feed."""

    def __init__(
        self, feed: FeedId, me: NodeRef, writer: Writer, emit: Callable[[Instruction], None]
    ) -> None:
        self.feed = feed
        self.me = me
        self.fence = Fence(feed)
        self.recorded_fence = False
        """The fence as it stands is durable, so its owner may be answered."""
        self.noted_fence: FenceRecord | None = None
        """The fence as it stands, once it was handed to the journal."""
        self.closing = False
        self.entries: dict[SpanId, Entry] = {}
        self.marks: dict[SpanId, Token] = {}
        """For spans that are not here: the highest token that was obeyed or refused."""
        self.settled: Seq = 0
        self.news: dict[SpanId, None] = {}
        """Spans whose status the owner should hear of without waiting for the next heartbeat."""
        self._writer = writer
        self._emit = emit

    # --- the owner --------------------------------------------------------------------------

    def admit(self, owner: NodeRef, epoch: int) -> None:
        """A newer owner: drop what the former one asked and was not yet durable."""
        self.fence.admit(owner, epoch)
        self.recorded_fence = False
        self.noted_fence = None
        self.closing = False
        self.settled = 0
        self.marks.clear()
        self.news.clear()
        for entry in list(self.entries.values()):
            entry.next = None
            if entry.state is EntryState.NOTED:
                self._erase(entry)

    def record_fence(self, then: Continuation) -> None:
        """Have the fence durable; then tell, unless an even newer owner came meanwhile."""
        record = self.noted_fence = self.fence.record()

        def landed() -> None:
            # By identity: among unfenced owners an equal fence can come back, and not be durable.
            if self.noted_fence is record:
                self.recorded_fence = True
                then()

        self._writer.write(puts=(record,), then=landed)

    def close(self) -> None:
        """Stop everything. The tombstone follows when nothing is left."""
        self.closing = True
        token = Token(self.fence.epoch, SEQ_MAX, self.me.incarnation)
        for entry in list(self.entries.values()):
            self._step(entry, Remove(entry.spec.id, token))

    def settle_up_to(self, seq: Seq) -> None:
        """No request below `seq` is under way: marks below it have done their service."""
        self.settled = max(self.settled, seq)
        floor = Token(self.fence.epoch, self.settled, 0)
        for span in [span for span, mark in self.marks.items() if mark < floor]:
            del self.marks[span]

    # --- requests ---------------------------------------------------------------------------

    def obey(self, request: Request) -> None:
        """Do what the admitted owner asks, if the token is meant for this life of the node."""
        if not self.is_for_this_life(request.token) or self.closing:
            return
        entry = self.entries.get(request.span)
        if isinstance(request, Create | Prepare | Remove):
            if entry is None or entry.state not in ENDING:
                self.news[request.span] = None
            if self.is_outdated(request):
                return
            if entry is None:
                self._begin(request)
                return
        elif entry is None or entry.token != request.token:
            return
        self._step(entry, request)

    def is_for_this_life(self, token: Token) -> bool:
        """False for a request that outlived the life of the node it was meant for."""
        return token.incarnation == self.me.incarnation

    def is_outdated(self, request: Create | Prepare | Remove) -> bool:
        """True when a later operation on this span was obeyed already.

        The Create that commits a prepared merge comes under the token of the Prepare.
        """
        span, token = request.span, request.token
        entry = self.entries.get(span)
        if entry is None:
            settled = Token(self.fence.epoch, self.settled, 0)
            return token < settled or token < self.mark(span) or self._repeats(request)
        if entry.state is EntryState.PREPARED and isinstance(request, Create):
            return token < entry.token
        return token <= entry.token or token < entry.stop_token

    def _repeats(self, request: Create | Prepare | Remove) -> bool:
        return not isinstance(request, Remove) and request.token == self.mark(request.span)

    def mark(self, span: SpanId) -> Token:
        """The highest token that this span has met here."""
        return self.marks.get(span, NO_TOKEN)

    def _begin(self, request: Create | Prepare | Remove) -> None:
        """Nothing is here under this name."""
        if isinstance(request, Remove):
            self.marks[request.span] = max(self.mark(request.span), request.token)
            return
        entry = Entry(request)
        self.entries[request.span] = entry
        self._journal(entry, lambda: self._noted(entry))

    def _noted(self, entry: Entry) -> None:
        """The journal has it: now it may take effect."""
        if self.entries.get(entry.spec.id) is not entry or entry.state is not EntryState.NOTED:
            return
        self.news[entry.spec.id] = None
        if entry.prepared:
            entry.state = EntryState.PREPARED
        else:
            self._start(entry)

    def _start(self, entry: Entry) -> None:
        create = entry.request
        assert isinstance(create, Create)
        entry.state = EntryState.STARTING
        self._emit(
            StartDispatcher(self.feed, create.spec, create.token, create.lineage, create.birth)
        )

    # --- transitions of an entry (names as in the table) ------------------------------------

    def _step(self, entry: Entry, event: Request | DispatcherEvent) -> None:
        verdict, detail = TABLE[entry.state][type(event)]
        if verdict is Verdict.DO:
            getattr(self, f"_on_{detail}")(entry, event)

    def _on_replace(self, entry: Entry, request: Create | Prepare) -> None:
        """A newer operation on the same span: the old one goes first."""
        self._step(entry, Remove(entry.spec.id, request.token))
        entry.next = request

    def _on_replace_or_begin(self, entry: Entry, create: Create) -> None:
        """A merge is committed: its prepared target begins. Or something newer replaces it."""
        if create.token != entry.token:
            self._on_replace(entry, create)
            return
        entry.request = create
        entry.prepared = False
        entry.operator = ""
        entry.state = EntryState.NOTED
        self._journal(entry, lambda: self._noted(entry))

    def _on_stop(self, entry: Entry, remove: Remove) -> None:
        entry.state = EntryState.STOPPING
        self._on_want_gone(entry, remove)
        self._emit(StopDispatcher(self.feed, entry.spec.id, entry.token))

    def _on_erase(self, entry: Entry, remove: Remove) -> None:
        """Nothing of it runs: clear what stands in its name."""
        self._on_want_gone(entry, remove)
        self._erase(entry)

    def _on_want_gone(self, entry: Entry, remove: Remove) -> None:
        entry.stop_token = max(entry.stop_token, remove.token)
        if entry.next is not None and entry.next.token < remove.token:
            entry.next = None

    def _erase(self, entry: Entry) -> None:
        entry.state = EntryState.ERASING
        key = self._journal_key(entry)
        self._writer.write(deletes=(key,), then=lambda: self._gone(entry))

    def _gone(self, entry: Entry) -> None:
        span = entry.spec.id
        if self.entries.get(span) is not entry:
            return
        del self.entries[span]
        self.marks[span] = max(self.mark(span), entry.stop_token)
        self.news[span] = None
        if entry.next is not None and not self.closing:
            self.marks.pop(span)
            self._begin(entry.next)

    def _on_hold(self, entry: Entry, hold: Hold) -> None:
        entry.state = EntryState.HOLDING
        entry.operator = hold.operator
        instruction = HoldDispatcher(self.feed, entry.spec.id, entry.token, hold.operator)

        def landed() -> None:
            if entry.state is EntryState.HOLDING and entry.operator == hold.operator:
                self._emit(instruction)

        self._journal(entry, landed)

    def _on_held(self, entry: Entry, event: DispatcherHeld) -> None:
        """The answer to an earlier hold, released meanwhile, says nothing of this one."""
        if event.operator == entry.operator:
            entry.state = EntryState.HELD
            self.news[entry.spec.id] = None

    def _on_release(self, entry: Entry, release: Release) -> None:
        if entry.operator != release.operator:
            return
        entry.state = EntryState.WORKING
        entry.operator = ""
        self.news[entry.spec.id] = None
        instruction = ReleaseDispatcher(self.feed, entry.spec.id, entry.token)

        def landed() -> None:
            if entry.state is EntryState.WORKING:
                self._emit(instruction)

        self._journal(entry, landed)

    def _on_write(self, entry: Entry, write: Write) -> None:
        if entry.barrier == write.ddl.position:
            self._emit(WriteBarrier(self.feed, entry.spec.id, entry.token, write.ddl, write.births))

    def _on_go_past(self, entry: Entry, request: Pass) -> None:
        if entry.barrier != request.position:
            return
        entry.position = max(entry.position, request.position)
        entry.barrier, entry.ddl = 0, None
        self.news[entry.spec.id] = None
        self._emit(PassBarrier(self.feed, entry.spec.id, entry.token, request.position))

    # --- news from the executor -------------------------------------------------------------

    def happened(self, event: DispatcherEvent) -> None:
        """Take the executor's word on the dispatcher that the entry stands for, and no other."""
        entry = self.entries.get(event.span)
        if entry is not None and entry.token == event.token:
            self._step(entry, event)

    def _on_started(self, entry: Entry, event: DispatcherStarted) -> None:
        entry.state = EntryState.WORKING
        entry.position = event.position
        self.news[entry.spec.id] = None

    def _on_fenced(self, entry: Entry, event: DispatcherRefused) -> None:
        entry.state = EntryState.FENCED
        entry.trouble = Trouble(event.why or "its token is void", True, entry.spec.id)
        self.news[entry.spec.id] = None

    def _on_failed(self, entry: Entry, event: DispatcherFailed) -> None:
        entry.state = EntryState.FAILED
        entry.trouble = event.trouble
        self.news[entry.spec.id] = None

    def _on_stopped(self, entry: Entry, _: DispatcherStopped) -> None:
        self._erase(entry)

    def _on_advanced(self, entry: Entry, event: DispatcherAdvanced) -> None:
        entry.position = max(entry.position, event.position)
        if entry.barrier and entry.barrier <= entry.position:
            self.news[entry.spec.id] = None

    def _on_blocked(self, entry: Entry, event: DispatcherBlocked) -> None:
        if event.position > entry.barrier:
            entry.barrier = event.position
            entry.ddl = event.ddl
            self.news[entry.spec.id] = None

    def _on_heated(self, entry: Entry, event: DispatcherHeat) -> None:
        entry.heat, entry.points = event.heat, event.points

    # --- statuses ---------------------------------------------------------------------------

    def statuses(self) -> tuple[DispatcherStatus, ...]:
        """Everything that is durably here."""
        return tuple(
            entry.status() for entry in self.entries.values() if entry.state is not EntryState.NOTED
        )

    def take_news(self) -> tuple[DispatcherStatus, ...]:
        """The statuses that should not wait for a heartbeat."""
        spans, self.news = self.news, {}
        found = []
        for span in spans:
            entry = self.entries.get(span)
            if entry is None:
                found.append(DispatcherStatus(span, self.mark(span), Stage.GONE))
            elif entry.state is not EntryState.NOTED:
                found.append(entry.status())
        return tuple(found)

    # --- the journal ------------------------------------------------------------------------

    def _journal(self, entry: Entry, then: Continuation) -> None:
        self._writer.write(puts=(entry.record(self.feed),), then=then)

    def _journal_key(self, entry: Entry) -> RecordKey:
        return key_of(entry.record(self.feed))
