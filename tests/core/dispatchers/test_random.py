"""A dispatcher manager driven at random: owners of several epochs, orders repeated and reordered,
a journal that lands, does not, or nobody knows, an executor whose news comes in any order (F3 to
F6).

What must hold is said from outside, of what the manager asks for and tells, against what is durable
and what the executor really runs.
"""

from dataclasses import dataclass
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from lockgate.core.dispatchers.manager import DispatcherManager
from lockgate.model.batch import Batch, NotLanded, Unknown
from lockgate.model.ddl import Ddl, DdlKind
from lockgate.model.events import (
    DispatcherAdvanced,
    DispatcherBlocked,
    DispatcherEvent,
    DispatcherFailed,
    DispatcherHeld,
    DispatcherRefused,
    DispatcherStarted,
    DispatcherStopped,
    Tick,
)
from lockgate.model.feeds import Trouble
from lockgate.model.ids import NO_TOKEN, UNFENCED, Epoch, NodeRef, SpanId, Token
from lockgate.model.instructions import (
    Commit,
    HoldDispatcher,
    Instruction,
    Load,
    PassBarrier,
    Send,
    StartDispatcher,
    StopDispatcher,
)
from lockgate.model.messages import (
    Bootstrap,
    BootstrapReply,
    Close,
    CloseReply,
    Heartbeat,
    HeartbeatReply,
    Requests,
    Stale,
)
from lockgate.model.records import FenceRecord, JournalRecord, RecordKey, node_scope
from lockgate.model.requests import Create, Hold, Pass, Prepare, Release, Remove, Request, Write
from lockgate.model.statuses import DispatcherStatus, Stage
from lockgate.store.memory import MemoryMetastore
from tests.core.support import CONFIG, FEED, fingerprint, spec

Order = Bootstrap | Requests | HeartbeatReply | Close
SPANS = ("s1", "s1", "s1", "s2")
"""One is busier than the other: what happens to a span twice in a row is what counts."""
EPOCHS = tuple(range(12))
SCOPE = node_scope("n")
RECENT = 8
"""So many orders may still be under way."""
PICK = st.integers(min_value=0, max_value=10_000)
SPAN = st.sampled_from(SPANS)
HOW = st.sampled_from(["landed"] * 5 + ["not landed", "unknown", "answer lost"])
STEP = st.one_of(
    st.tuples(st.just("journal"), HOW),
    st.tuples(st.just("work"), PICK),
    st.tuples(st.just("work"), PICK),
    st.tuples(st.just("news"), PICK),
    st.tuples(st.just("tick"), st.just(1_000)),
)
WELL = (("well", 0),)
THEN = st.one_of(st.just(WELL), st.just(()), st.lists(STEP, max_size=8).map(tuple))
"""What happens after an order, before the next one: mostly what should."""


SELDOM = st.sampled_from([False, False, False, True])
MOSTLY = st.sampled_from([True, True, True, False])


def owner_of(epoch: Epoch) -> NodeRef:
    return NodeRef(f"owner-{epoch}", 1)


Then = tuple[tuple[str, str | int], ...]
IMPOSTOR = NodeRef("impostor", 1)


@dataclass
class Run:
    """What the executor does for one span."""

    token: Token
    claimed: bool = False
    position: int = 0
    hold: str = ""
    stopping: bool = False


class HostileOrders(RuleBasedStateMachine):
    """The rules are orders, answers of the journal, news of the executor, and restarts."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0
        self.store = MemoryMetastore(lambda: self.now, 10_000)
        self.commits: list[Batch] = []
        self.doubtful: Batch | None = None
        self.orders: list[Order] = []
        self.seqs = dict.fromkeys(EPOCHS, 0)
        self.runs: dict[SpanId, Run] = {}
        self.news: list[DispatcherEvent] = []
        self.started: dict[SpanId, Token] = {}
        """The highest token that was started, over all lives of the node."""
        self.gone: dict[SpanId, Token] = {}
        """The highest token up to which a span was told to be gone."""
        self.removed: dict[SpanId, Token] = {}
        """The highest token of a remove that the owner in charge has sent."""
        self.closed: set[tuple[NodeRef, Epoch]] = set()
        self.settled: dict[Epoch, int] = {}
        self.barred: set[Token] = set()
        self.fence: FenceRecord
        """As it was looked at last; a new life begins with what is durable."""
        self.begin_life()

    def begin_life(self) -> None:
        self.ref = self.store.join("n", self.now).ref
        self.manager = DispatcherManager(CONFIG, self.ref)
        self.commits.clear()
        self.doubtful = None
        self.runs.clear()
        self.news.clear()
        self.settled.clear()
        self.fence = self.durable_fence() or FenceRecord(FEED, None, UNFENCED)
        self.hand_in(Tick())

    # --- carrying out -----------------------------------------------------------------------

    def hand_in(self, event: Any) -> list[Instruction]:
        out = self.manager.handle(self.now, event)
        for instruction in out:
            self.carry_out(instruction)
        return out

    def carry_out(self, instruction: Instruction) -> None:
        if isinstance(instruction, Load):
            self.hand_in(self.store.load(instruction.scope))
        elif isinstance(instruction, Commit):
            assert not self.commits, "two batches in flight"
            in_doubt = self.doubtful
            assert in_doubt is None or in_doubt == instruction.batch, "a serial in doubt was reused"
            self.commits.append(instruction.batch)
        elif isinstance(instruction, StartDispatcher):
            self.look_at_start(instruction)
            self.runs[instruction.spec.id] = Run(instruction.token)
        elif isinstance(instruction, StopDispatcher):
            self.stop(instruction)
        elif isinstance(instruction, HoldDispatcher | PassBarrier):
            run = self.runs.get(instruction.span)
            if run is None or run.token != instruction.token:
                return
            if isinstance(instruction, HoldDispatcher):
                run.hold = instruction.operator
            else:
                run.position = max(run.position, instruction.position)
        elif isinstance(instruction, Send):
            self.look_at_word(instruction)

    def stop(self, stop: StopDispatcher) -> None:
        run = self.runs.get(stop.span)
        if run is not None and run.token == stop.token:
            run.stopping = True
        else:
            self.news.append(DispatcherStopped(FEED, stop.span, stop.token))

    # --- what is looked at ------------------------------------------------------------------

    def durable_fence(self) -> FenceRecord | None:
        record = self.store.records(SCOPE).get(RecordKey("fence", FEED))
        assert record is None or isinstance(record, FenceRecord)
        return record

    def journal(self, span: SpanId) -> JournalRecord | None:
        record = self.store.records(SCOPE).get(RecordKey("journal", f"{FEED}/{span}"))
        assert record is None or isinstance(record, JournalRecord)
        return record

    def look_at_start(self, start: StartDispatcher) -> None:
        """Record first, fence always, one at a time, upwards only."""
        span, token = start.spec.id, start.token
        journal, fence = self.journal(span), self.durable_fence()
        assert journal is not None
        assert (journal.token, journal.prepared) == (token, False)
        assert fence is not None
        assert (fence.epoch, fence.closed) == (token.epoch, False)
        assert token.incarnation == self.ref.incarnation
        assert token > self.started.get(span, NO_TOKEN)
        assert token > self.gone.get(span, NO_TOKEN)
        assert token > self.removed.get(span, NO_TOKEN), "a later remove was obeyed"
        assert span not in self.runs, "the former one still runs"
        assert token not in self.barred, "it arrived after its owner was through with it"
        self.started[span] = token

    def look_at_word(self, send: Send) -> None:
        message = send.message
        if isinstance(message, Stale):
            return
        fence = self.durable_fence()
        assert fence is not None, "told before the fence is durable"
        assert fence.owner is not None
        assert isinstance(message, BootstrapReply | Heartbeat | CloseReply)
        assert (send.to, message.epoch) == (fence.owner.node, fence.epoch)
        assert message.node == self.ref
        assert fence.closed is isinstance(message, CloseReply)
        if isinstance(message, CloseReply):
            assert (fence.owner, fence.epoch) in self.closed, "nobody asked for it"
            assert self.manager.dispatchers == 0
            assert self.runs == {}
        else:
            for status in message.statuses:
                self.look_at_status(status)

    def look_at_status(self, status: DispatcherStatus) -> None:
        run, journal = self.runs.get(status.span), self.journal(status.span)
        if status.stage is Stage.GONE:
            assert run is None, "told gone while it runs"
            former = journal is not None and journal.token.incarnation < self.ref.incarnation
            assert journal is None or former
            self.gone[status.span] = max(self.gone.get(status.span, NO_TOKEN), status.token)
        elif status.stage is not Stage.STOPPING:
            assert journal is not None
            assert journal.token == status.token
        if run is not None and run.token == status.token:
            assert status.position <= run.position, "told further than it is"

    @invariant()
    def the_fence_does_not_go_down(self) -> None:
        desk = self.manager.desks.get(FEED)
        if desk is None:
            return
        before, now = self.fence, desk.fence.record()
        assert now.epoch >= before.epoch
        if now.epoch == before.epoch != UNFENCED:
            assert before.owner is None or now.owner == before.owner
            assert now.closed or not before.closed
        assert not desk.fence.entered
        self.fence = now

    # --- orders -----------------------------------------------------------------------------

    def next_token(self, epoch: Epoch, *, former_life: bool = False) -> Token:
        self.seqs[epoch] += 1
        return Token(epoch, self.seqs[epoch], self.ref.incarnation - former_life)

    def standing_is_stale(self, order: Order) -> bool:
        """The rule of the fence, said once more."""
        fence = self.fence
        if order.epoch == UNFENCED:
            return fence.epoch != UNFENCED or fence.closed
        if order.epoch != fence.epoch:
            return order.epoch < fence.epoch
        return fence.closed or order.owner != fence.owner

    def arrive(self, order: Order) -> None:
        """F3: what is stale is answered and changes nothing."""
        self.the_fence_does_not_go_down()
        if getattr(order, "to", self.ref.incarnation) != self.ref.incarnation:
            before = fingerprint(self.manager)
            assert self.hand_in(order) == []
            assert fingerprint(self.manager) == before
            return
        own_tombstone = (
            isinstance(order, Close)
            and self.fence.closed
            and (order.owner, order.epoch) == (self.fence.owner, self.fence.epoch)
        )
        stale = self.standing_is_stale(order) and not own_tombstone
        if not stale and isinstance(order, Close):
            self.closed.add((order.owner, order.epoch))
        if (order.owner, order.epoch, stale) == (self.fence.owner, self.fence.epoch, False):
            self.note_order(order)
        before = fingerprint(self.manager)
        out = self.hand_in(order)
        if stale:
            answer = Stale(FEED, order.epoch, self.ref, self.fence.epoch)
            assert out == [Send(order.owner.node, answer)]
            assert fingerprint(self.manager) == before

    def note_order(self, order: Order) -> None:
        """What the owner in charge says now rules out what it said before."""
        settled = self.settled.get(order.epoch, 0)
        if isinstance(order, HeartbeatReply):
            self.settled[order.epoch] = max(settled, order.settled)
        elif isinstance(order, Requests):
            for request in order.items:
                if request.token.incarnation == self.ref.incarnation:
                    self.note_request(request, settled)

    def note_request(self, request: Request, settled: int) -> None:
        """A remove bars every lower token; so does arriving for nobody after being settled."""
        if isinstance(request, Remove):
            floor = self.removed.get(request.span, NO_TOKEN)
            self.removed[request.span] = max(floor, request.token)
        desk = self.manager.desks[FEED]
        if request.token.seq < settled and request.span not in desk.entries:
            self.barred.add(request.token)

    def send(self, order: Order, *, arrives: bool = True) -> None:
        self.orders.append(order)
        if arrives:
            self.arrive(order)

    @initialize(epoch=st.sampled_from([0, 1, 1, 1]))
    def begin(self, epoch: Epoch) -> None:
        self.send(Bootstrap(FEED, epoch, owner_of(epoch)))
        self.the_journal_answers("landed")

    @rule(ahead=st.sampled_from([0, 0, 0, -1, 1]), impostor=SELDOM, then=THEN)
    def an_owner_bootstraps(self, ahead: int, impostor: bool, then: Then) -> None:
        if self.fence.closed:
            ahead = 1
        epoch = min(max(EPOCHS), max(0, self.fence.epoch + ahead))
        self.send(Bootstrap(FEED, epoch, IMPOSTOR if impostor else owner_of(epoch)))
        self.go_on(then)

    def epoch_in_charge(self, older: bool) -> Epoch:
        epoch = self.fence.epoch
        return max(0, epoch - 1) if older else epoch

    def ask(self, request: Request, epoch: Epoch, arrives: bool) -> None:
        owner = owner_of(epoch)
        self.send(Requests(FEED, epoch, owner, self.ref.incarnation, (request,)), arrives=arrives)

    @rule(span=SPAN, older=SELDOM, former_life=SELDOM, arrives=MOSTLY, then=THEN)
    def an_owner_creates(
        self, span: SpanId, older: bool, former_life: bool, arrives: bool, then: Then
    ) -> None:
        epoch = self.epoch_in_charge(older)
        token = self.next_token(epoch, former_life=former_life)
        self.ask(Create(spec(span), token), epoch, arrives)
        self.go_on(then)

    @rule(span=SPAN, older=SELDOM, arrives=MOSTLY, then=THEN)
    def an_owner_removes(self, span: SpanId, older: bool, arrives: bool, then: Then) -> None:
        epoch = self.epoch_in_charge(older)
        self.ask(Remove(span, self.next_token(epoch)), epoch, arrives)
        self.go_on(then)

    @rule(span=SPAN, older=SELDOM, committed=MOSTLY, between=THEN, then=THEN)
    def an_owner_prepares(
        self, span: SpanId, older: bool, committed: bool, between: Then, then: Then
    ) -> None:
        epoch = self.epoch_in_charge(older)
        token = self.next_token(epoch)
        self.ask(Prepare(spec(span), token, "merge-1"), epoch, arrives=True)
        self.go_on(between)
        self.ask(Create(spec(span), token), epoch, arrives=committed)
        self.go_on(then)

    @rule(
        span=SPAN,
        kinds=st.lists(st.sampled_from(["create", "remove", "prepare"]), min_size=2, max_size=4),
        picks=st.lists(PICK, min_size=3, max_size=8),
        newer=SELDOM,
        settles=SELDOM,
        between=THEN,
        then=THEN,
    )
    def an_owner_changes_its_mind(
        self,
        span: SpanId,
        kinds: list[str],
        picks: list[int],
        newer: bool,
        settles: bool,
        between: Then,
        then: Then,
    ) -> None:
        """Several orders for one span, all on their way together; then, maybe, a newer owner."""
        epoch = self.fence.epoch
        fresh = [self.request(kind, span, epoch) for kind in kinds]
        for request in fresh:
            self.ask(request, epoch, arrives=False)
        for index, pick in enumerate(picks):
            self.arrive(self.orders[-1 - pick % len(fresh)])
            if index == 1:
                self.go_on(between)
        if settles:
            self.an_owner_settles(older=False, back=0)
        if newer:
            self.an_owner_bootstraps(ahead=1, impostor=False, then=())
        self.go_on(then)

    def request(self, kind: str, span: SpanId, epoch: Epoch) -> Request:
        token = self.next_token(epoch)
        if kind == "create":
            return Create(spec(span), token)
        if kind == "remove":
            return Remove(span, token)
        return Prepare(spec(span), token, "merge-1")

    @rule(span=SPAN, pick=PICK, then=THEN)
    def an_owner_wants_something_of_what_runs(self, span: SpanId, pick: int, then: Then) -> None:
        token = self.started.get(span, NO_TOKEN)
        ddl = Ddl(100, DdlKind.ALTER, ("t",))
        requests: list[Request] = [
            Hold(span, token, "merge-1"),
            Hold(span, token, "merge-2"),
            Release(span, token, "merge-1"),
            Release(span, token, "merge-2"),
            Write(span, token, ddl),
            Pass(span, token, 100),
        ]
        self.ask(requests[pick % len(requests)], self.fence.epoch, arrives=True)
        self.go_on(then)

    @rule(older=SELDOM, back=st.integers(min_value=0, max_value=2))
    def an_owner_settles(self, older: bool, back: int) -> None:
        """Nothing below this is under way for the owner; in the network it may well be."""
        epoch = self.epoch_in_charge(older)
        settled = max(0, self.seqs[epoch] + 1 - back)
        self.send(HeartbeatReply(FEED, epoch, owner_of(epoch), self.ref.incarnation, settled))

    @rule(older=SELDOM, arrives=SELDOM, then=THEN)
    def an_owner_closes(self, older: bool, arrives: bool, then: Then) -> None:
        epoch = self.epoch_in_charge(older)
        owner = owner_of(epoch)
        self.send(Close(FEED, epoch, owner, self.ref.incarnation), arrives=arrives)
        self.go_on(then)

    @precondition(lambda self: self.orders)
    @rule(picks=st.lists(PICK, min_size=1, max_size=6), then=THEN)
    def old_orders_arrive_again(self, picks: list[int], then: Then) -> None:
        for pick in picks:
            self.arrive(self.orders[-1 - pick % min(RECENT, len(self.orders))])
        self.go_on(then)

    # --- the journal ------------------------------------------------------------------------

    def go_on(self, steps: Then) -> None:
        for kind, detail in steps:
            if kind == "journal":
                self.the_journal_answers(str(detail))
            elif kind == "work":
                self.the_executor_works(int(detail))
            elif kind == "news":
                self.news_arrives(int(detail), again=False)
            elif kind == "well":
                self.all_goes_well()
            else:
                self.time_passes(int(detail))

    @rule()
    def all_goes_well(self) -> None:
        """What was asked lands, every run takes a step, and all of it is heard of."""
        self.time_passes(1_000)
        self.the_journal_answers("landed")
        for index in range(len(self.runs)):
            self.the_executor_works(2 * index)
        while self.news:
            self.hand_in(self.news.pop(0))
        self.the_journal_answers("landed")

    def the_journal_answers(self, how: str) -> None:
        if not self.commits:
            return
        batch = self.commits.pop()
        if how == "not landed":
            self.hand_in(NotLanded(batch.scope, batch.serial))
        elif how == "landed":
            self.doubtful = None
            self.hand_in(self.store.commit(batch))
        else:
            self.doubtful = batch
            if how == "answer lost":
                self.store.commit(batch)
            self.hand_in(Unknown(batch.scope, batch.serial))

    @precondition(lambda self: self.doubtful is not None)
    @rule()
    def a_batch_in_doubt_lands(self) -> None:
        assert self.doubtful is not None
        self.store.commit(self.doubtful)

    @rule(ms=st.sampled_from([100, 1_000]))
    def time_passes(self, ms: int) -> None:
        self.now += ms
        self.hand_in(Tick())

    # --- the executor -----------------------------------------------------------------------

    def the_executor_works(self, pick: int) -> None:
        """A run takes a step: mostly as it should, now and then it ends."""
        if not self.runs:
            return
        how = {9: "refused", 10: "failed"}.get(pick % 11, "well")
        span = list(self.runs)[pick % len(self.runs)]
        run = self.runs[span]
        if run.stopping:
            del self.runs[span]
            self.news.append(DispatcherStopped(FEED, span, run.token))
        elif how == "refused":
            del self.runs[span]
            self.news.append(DispatcherRefused(FEED, span, run.token))
        elif how == "failed":
            del self.runs[span]
            trouble = Trouble("broken", retryable=True)
            self.news.append(DispatcherFailed(FEED, span, run.token, trouble))
        elif not run.claimed:
            run.claimed = True
            self.news.append(DispatcherStarted(FEED, span, run.token, run.position))
        elif run.hold:
            self.news.append(DispatcherHeld(FEED, span, run.token, run.hold))
            run.hold = ""
        elif pick % 2:
            ddl = Ddl(100, DdlKind.ALTER, ("t",))
            self.news.append(DispatcherBlocked(FEED, span, run.token, 100, ddl))
        else:
            run.position += 10
            self.news.append(DispatcherAdvanced(FEED, span, run.token, run.position))

    @rule(pick=PICK, again=st.booleans())
    def news_arrives(self, pick: int, again: bool) -> None:
        if not self.news:
            return
        index = pick % len(self.news)
        self.hand_in(self.news[index] if again else self.news.pop(index))

    @rule(really=SELDOM, landed=st.booleans(), then=THEN)
    def the_node_starts_anew(self, really: bool, landed: bool, then: Then) -> None:
        """What was on its way to the journal landed before, or never will."""
        if really and landed and self.commits:
            self.store.commit(self.commits[0])
        if really:
            self.begin_life()
        self.go_on(then)

    # --- the end ----------------------------------------------------------------------------

    def teardown(self) -> None:
        """Whatever was asked, a close by a newer owner gets through."""
        epoch = max(EPOCHS) + 1
        self.seqs[epoch] = 0
        close = Close(FEED, epoch, owner_of(epoch), self.ref.incarnation)
        closed = FenceRecord(FEED, owner_of(epoch), epoch, closed=True)
        for _ in range(20):
            if self.durable_fence() == closed:
                break
            self.arrive(close)
            while self.commits:
                self.the_journal_answers("landed")
            for span, run in list(self.runs.items()):
                if run.stopping:
                    del self.runs[span]
                    self.news.append(DispatcherStopped(FEED, span, run.token))
            while self.news:
                self.hand_in(self.news.pop(0))
            self.time_passes(1_000)
        assert self.durable_fence() == closed
        assert self.runs == {}
        assert [key for key in self.store.records(SCOPE) if key.kind == "journal"] == []


HostileOrders.TestCase.settings = settings(
    max_examples=120,
    stateful_step_count=60,
    deadline=None,
    derandomize=True,
    print_blob=True,
    suppress_health_check=list(HealthCheck),
)
TestHostileOrders = HostileOrders.TestCase
