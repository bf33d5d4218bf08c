"""The executor of one process: runs dispatchers as chains of two-step transactions.

    StartDispatcher ─► claim ─► Started ─► read ─► commit ─► Advanced ─► read ─► …
                         ▲                          │  │
                         └────── outcome unknown ◄──┘  └► the fence refused ─► Refused, ended

Between reading and committing anything may happen: the sink looks at token and floors at
the moment of the commit. A transaction may also outlive its process, or its connection; then
nobody waits for it and it reaches the sink on its own.
"""

from collections.abc import Callable

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
from lockgate.model.floors import Floors, Refusal, least, raised
from lockgate.model.ids import FeedId, SpanId
from lockgate.model.instructions import (
    HoldDispatcher,
    PassBarrier,
    ReleaseDispatcher,
    StartDispatcher,
    StopDispatcher,
    WriteBarrier,
)
from lockgate.model.positions import Position
from lockgate.model.spans import TRIGGER, WHOLE
from lockgate.model.statuses import Heat
from lockgate.sim.dispatcher import Dispatcher, Outcome, Transaction, is_new, split_points
from lockgate.sim.faults import Faults
from lockgate.sim.loop import Action, Loop
from lockgate.sim.probes import Probe, Probes
from lockgate.sim.sink import Sink
from lockgate.sim.source import Change, Source

POSITIONS_PER_BATCH = 30
READ_MS = (10, 90)
IDLE_MS = (200, 600)
COMMIT_MS = (5, 60)
CLAIM_MS = (5, 80)
UNKNOWN_MS = (50, 400)
SLOW_MS = (300, 5_000)
LATER_MS = ((30, 600), (100, 6_000))
STOP_MS = (1, 150)

ToDispatcher = StopDispatcher | HoldDispatcher | ReleaseDispatcher | PassBarrier | WriteBarrier


class Executor:
    """All dispatchers of one process. Dies with it, except for what the sink has already."""

    def __init__(
        self,
        loop: Loop,
        faults: Faults,
        probes: Probes,
        sink: Sink,
        source_of: Callable[[FeedId], Source],
        post: Callable[[DispatcherEvent], None],
        defer: Callable[[Action, object], bool],
    ) -> None:
        self._loop = loop
        self._faults = faults
        self._probes = probes
        self._sink = sink
        self._source_of = source_of
        self._post_event = post
        self._defer = defer
        """Takes what a paused process cannot do now; False: it is not paused."""
        self._dead = False
        self.running: dict[tuple[FeedId, SpanId], Dispatcher] = {}

    # --- what the core asks -----------------------------------------------------------------

    def start(self, start: StartDispatcher) -> None:
        """Claim, then run."""
        dispatcher = Dispatcher(start, self._source_of(start.feed))
        self.running[start.feed, start.spec.id] = dispatcher
        self._claim(dispatcher)

    def carry_out(self, order: ToDispatcher) -> None:
        """Everything that is asked of a dispatcher that was started."""
        if isinstance(order, StopDispatcher):
            self.stop(order)
        elif isinstance(order, HoldDispatcher):
            self.hold(order)
        elif isinstance(order, ReleaseDispatcher):
            self.release(order)
        elif isinstance(order, PassBarrier):
            self.go_past(order)
        else:
            self.write(order)

    def stop(self, stop: StopDispatcher) -> None:
        """Let the transaction in flight finish, or abort it; then say stopped."""
        dispatcher = self.running.get((stop.feed, stop.span))
        if dispatcher is None or dispatcher.token != stop.token:
            self._post(DispatcherStopped(stop.feed, stop.span, stop.token))
            return
        if dispatcher.stopping:
            return
        dispatcher.stopping = True
        tx = dispatcher.tx
        if tx is not None and self._loop.chance(0.5):
            tx.cancelled = True
            dispatcher.tx = tx = None
        if tx is None:
            self._loop.after(self._loop.between(*STOP_MS), self._stopped, dispatcher)

    def hold(self, hold: HoldDispatcher) -> None:
        """Start no further transaction."""
        dispatcher = self._find(hold)
        if dispatcher is not None:
            dispatcher.held = hold.operator
            if dispatcher.tx is None and dispatcher.floors is not None:
                self._post(DispatcherHeld(hold.feed, hold.span, hold.token, hold.operator))

    def release(self, release: ReleaseDispatcher) -> None:
        """Go on after a hold."""
        dispatcher = self._find(release)
        if dispatcher is not None and dispatcher.held:
            dispatcher.held = ""
            self._read_later(dispatcher, READ_MS)

    def go_past(self, passed: PassBarrier) -> None:
        """The DDL is written, and the row stands behind it already."""
        dispatcher = self._find(passed)
        if dispatcher is None or dispatcher.blocked is None or dispatcher.floors is None:
            return
        if dispatcher.blocked.position <= passed.position:
            dispatcher.floors = raised(dispatcher.floors, dispatcher.blocked.position)
            dispatcher.blocked = None
            self._read_later(dispatcher, READ_MS)

    def write(self, write: WriteBarrier) -> None:
        """The trigger writes the DDL before which it stands."""
        dispatcher = self._find(write)
        if dispatcher is None or dispatcher.tx is not None or dispatcher.floors is None:
            return
        sink, feed, token = self._sink, write.feed, write.token
        self._begin(
            dispatcher, lambda: sink.write_ddl(feed, token, write.ddl, write.births), COMMIT_MS
        )

    def _find(
        self, asked: HoldDispatcher | ReleaseDispatcher | PassBarrier | WriteBarrier
    ) -> Dispatcher | None:
        dispatcher = self.running.get((asked.feed, asked.span))
        if dispatcher is None or dispatcher.token != asked.token or dispatcher.stopping:
            return None
        return dispatcher

    def stop_everything(self) -> None:
        """No event follows. What is under way at the sink may be too late to stop."""
        for dispatcher in self.running.values():
            dispatcher.ended = dispatcher.silenced = True
            tx = dispatcher.tx
            if tx is not None:
                if self._loop.chance(self._faults.zombie):
                    tx.orphan = True
                    self._faults.count += 1
                else:
                    tx.cancelled = True
        self.running.clear()

    def die(self) -> None:
        """The process is gone."""
        self._dead = True
        self.stop_everything()

    # --- transactions -----------------------------------------------------------------------

    def _begin(
        self, dispatcher: Dispatcher, run: Callable[[], Outcome], delay: tuple[int, int]
    ) -> None:
        tx = dispatcher.tx = Transaction(dispatcher, run)
        if self._loop.chance(self._faults.sink_slow):
            self._faults.count += 1
            delay = SLOW_MS
        self._loop.after(self._loop.between(*delay), self._commit, tx)

    def _commit(self, tx: Transaction) -> None:
        if tx.cancelled:
            return
        if tx.orphan:
            self._commit_orphan(tx)
            return
        dispatcher = tx.dispatcher
        if not self._loop.chance(self._faults.zombie) and self._defer(self._commit, tx):
            return
        dispatcher.tx = None
        if self._sink.down:
            self._time_out(tx)
        elif self._loop.chance(self._faults.sink_unknown):
            self._lose_outcome(tx)
        else:
            self._committed(dispatcher, tx.run())
        self._after_commit(dispatcher)

    def _after_commit(self, dispatcher: Dispatcher) -> None:
        """What waited for the transaction in flight, unless another has begun."""
        if dispatcher.tx is not None:
            return
        if dispatcher.stopping:
            self._loop.after(self._loop.between(*STOP_MS), self._stopped, dispatcher)
        elif dispatcher.held and not dispatcher.ended and dispatcher.floors is not None:
            self._post(
                DispatcherHeld(
                    dispatcher.feed, dispatcher.spec.id, dispatcher.token, dispatcher.held
                )
            )

    def _commit_orphan(self, tx: Transaction) -> None:
        if self._sink.down:
            self._later(tx)
            return
        if not tx.late and self._loop.chance(0.5):
            tx.late = True
            self._later(tx)
            return
        outcome = tx.run()
        refused = isinstance(outcome, Refusal)
        self._probes.hit(Probe.ZOMBIE_FENCED if refused else Probe.ZOMBIE_COMMITTED)

    def _later(self, tx: Transaction) -> None:
        self._loop.after(self._loop.between(*self._loop.rng.choice(LATER_MS)), self._commit, tx)

    def _lose_outcome(self, tx: Transaction) -> None:
        """The connection broke: it landed, or did not, or will land when nobody expects it."""
        self._faults.count += 1
        if not self._arrives_later(tx) and self._loop.chance(0.5):
            tx.run()
        self._ask_where(tx.dispatcher)

    def _time_out(self, tx: Transaction) -> None:
        """The sink cannot be reached: lost, or it arrives when the sink is back."""
        self._faults.count += 1
        self._probes.hit(Probe.SINK_DOWN)
        self._arrives_later(tx)
        self._ask_where(tx.dispatcher)

    def _arrives_later(self, tx: Transaction) -> bool:
        if not self._loop.chance(self._faults.sink_later):
            return False
        late = Transaction(tx.dispatcher, tx.run)
        late.orphan = True
        self._later(late)
        return True

    def _ask_where(self, dispatcher: Dispatcher) -> None:
        """Claim again, to learn what has become of the transaction."""
        if not dispatcher.stopping:
            self._probes.hit(Probe.SINK_OUTCOME_UNKNOWN)
            self._claim(dispatcher, UNKNOWN_MS)

    def _claim(self, dispatcher: Dispatcher, delay: tuple[int, int] = CLAIM_MS) -> None:
        """Take the row, for the first time or to learn where it stands."""
        start, sink = dispatcher.start, self._sink

        def run() -> Outcome:
            return sink.claim(start.feed, start.spec, start.token, start.lineage, start.birth)

        self._begin(dispatcher, run, delay)

    def _committed(self, dispatcher: Dispatcher, outcome: Outcome) -> None:
        """The sink has answered."""
        if outcome is Refusal.BEHIND:
            return
        if outcome is Refusal.MOVED:
            self._probes.hit(Probe.SINK_ROW_MOVED)
            if not dispatcher.stopping:
                self._claim(dispatcher)
            return
        feed, span, token = dispatcher.feed, dispatcher.spec.id, dispatcher.token
        if isinstance(outcome, Refusal):
            self._end(dispatcher)
            self._post(DispatcherRefused(feed, span, token, outcome.value))
            return
        first = dispatcher.floors is None
        floors = ((WHOLE, outcome),) if isinstance(outcome, int) else outcome
        dispatcher.floors = floors
        if first:
            self._post(DispatcherStarted(feed, span, token, least(floors)))
        else:
            self._post(DispatcherAdvanced(feed, span, token, least(floors)))
        if not dispatcher.stopping:
            self._read_later(dispatcher, READ_MS)

    # --- the pipeline -----------------------------------------------------------------------

    def _read_later(self, dispatcher: Dispatcher, delay: tuple[int, int]) -> None:
        if not dispatcher.reading:
            dispatcher.reading = True
            self._loop.after(self._loop.between(*delay), self._read, dispatcher)

    def _read(self, dispatcher: Dispatcher) -> None:
        """Take what the source has for the span, up to the next DDL that concerns it."""
        if dispatcher.ended or self._defer(self._read, dispatcher):
            return
        dispatcher.reading = False
        floors = dispatcher.floors
        if dispatcher.stopping or dispatcher.held or dispatcher.tx is not None or floors is None:
            return
        if dispatcher.blocked is not None or self._fails(dispatcher):
            return
        self._tell_heat(dispatcher)
        source, spec = dispatcher.source, dispatcher.spec
        low = least(floors)
        ddl = source.next_ddl(None if spec.id == TRIGGER else spec.table, low)
        to = min(source.head, low + POSITIONS_PER_BATCH)
        if ddl is not None and ddl.position <= to:
            to = ddl.position - 1
        if to > low:
            self._apply(dispatcher, floors, low, to)
        elif ddl is not None and ddl.position == low + 1:
            dispatcher.blocked = ddl
            self._post(
                DispatcherBlocked(dispatcher.feed, spec.id, dispatcher.token, ddl.position, ddl)
            )
        else:
            self._read_later(dispatcher, IDLE_MS)

    def _apply(self, dispatcher: Dispatcher, floors: Floors, low: Position, to: Position) -> None:
        spec, sink = dispatcher.spec, self._sink
        feed, span, token = dispatcher.feed, spec.id, dispatcher.token
        changes: list[Change] = []
        if span != TRIGGER:
            changes = dispatcher.source.changes(spec.table, spec.range, low, to)
            if len(floors) > 1:
                changes = [change for change in changes if is_new(change, floors)]
        self._begin(
            dispatcher, lambda: sink.apply(feed, span, token, floors, to, changes), COMMIT_MS
        )

    def _fails(self, dispatcher: Dispatcher) -> bool:
        if not self._loop.chance(self._faults.dispatcher_failed):
            return False
        self._faults.count += 1
        self._end(dispatcher)
        trouble = Trouble(
            "the pipeline broke", retryable=self._loop.chance(0.8), span=dispatcher.spec.id
        )
        feed, span, token = dispatcher.feed, dispatcher.spec.id, dispatcher.token
        self._post(DispatcherFailed(feed, span, token, trouble))
        return True

    def _tell_heat(self, dispatcher: Dispatcher) -> None:
        spec = dispatcher.spec
        if spec.id == TRIGGER or not self._loop.chance(self._faults.heat):
            return
        rng = self._loop.rng
        heat = rng.choice((Heat.HOT, Heat.COLD, Heat.COLD, Heat.NORMAL))
        points: tuple[bytes, ...] = ()
        if heat is Heat.HOT:
            points = split_points(self._loop, spec)
        token = dispatcher.token
        self._post(DispatcherHeat(dispatcher.feed, spec.id, token, heat, points))

    # --- ends -------------------------------------------------------------------------------

    def _end(self, dispatcher: Dispatcher) -> None:
        dispatcher.ended = True
        key = (dispatcher.feed, dispatcher.spec.id)
        if self.running.get(key) is dispatcher:
            del self.running[key]

    def _stopped(self, dispatcher: Dispatcher) -> None:
        if dispatcher.silenced or self._defer(self._stopped, dispatcher):
            return
        self._end(dispatcher)
        self._post(DispatcherStopped(dispatcher.feed, dispatcher.spec.id, dispatcher.token))

    def _post(self, event: DispatcherEvent) -> None:
        if not self._dead:
            self._post_event(event)
