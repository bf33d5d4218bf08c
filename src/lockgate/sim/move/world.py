"""One move between two databases, and one seed.

    safety phase     keepers die, pause and are followed by others, flips are asked for and put
                     back, writers write wherever they are let; every law, all the time
    liveness phase   no faults any more; within a bounded time the move is at rest, one side takes
                     writes, nothing of a flip is left, and everybody has an answer. Then it flips
                     once more and is brought to an end

One loop and one source of chance: `any_world`.
"""

from typing import Final

from lockgate.core.move.stages import Stage
from lockgate.model.ids import Millis
from lockgate.model.moves import Command, Side, Step, StepState
from lockgate.sim.keeping import KeeperWorld
from lockgate.sim.move.faults import MoveFaults, draw_settings
from lockgate.sim.move.feeds import SimFeeds
from lockgate.sim.move.healed import missing
from lockgate.sim.move.hook import SimHook
from lockgate.sim.move.ledger import ABOUT, MoveLedger
from lockgate.sim.move.people import TIMEOUTS_MS, MovePeople
from lockgate.sim.move.probes import MoveProbe, MoveProbes
from lockgate.sim.move.process import SimMoveKeeper
from lockgate.sim.move.requests import MoveRequests
from lockgate.sim.move.running import Running
from lockgate.sim.move.side import SOMEBODY, Hold, SimSide
from lockgate.sim.move.store import MoveStore
from lockgate.sim.move.story import MoveStory
from lockgate.sim.move.writers import Writers
from lockgate.sim.violation import Law, LawBroken

__all__ = ["MoveWorld"]

CLOSED_MS_MAX: Final = 3_000
"""Of a healed world. A flip takes some 200 ms there; one that was found behind its seal is gone on
with at once."""
COMPARE_MS: Final = (50, 800)
RATES: Final = (0.9, 1.0, 1.0, 1.1)
DEAD_MS: Final = int(max(TIMEOUTS_MS) / min(RATES)) + 100


class MoveWorld(KeeperWorld):
    """Builds a world from a seed and runs it."""

    faults_ms = 7_000
    heal_ms_max = 20_000
    heal_step_ms = 100
    faults: MoveFaults
    probes: MoveProbes

    def __init__(self, seed: int, story: MoveStory | None = None) -> None:
        super().__init__(seed, story)
        rng = self.loop.rng
        self.settings = draw_settings(rng)
        self.tick_ms = rng.choice((20, 40, 80))
        self.faults = MoveFaults(rng)
        self.probes = MoveProbes()
        self.ledger = MoveLedger()
        self.sides = {
            side: SimSide(self.loop, side, self.ledger, rate=rng.choice(RATES)) for side in Side
        }
        self.ledger.sides = self.sides
        self.store = MoveStore(self.loop, self.ledger)
        self.feeds = SimFeeds(self)
        self.requests = MoveRequests(self.store, self.ledger, self.probes)
        self.hook = SimHook(self)
        self.keeper: SimMoveKeeper | None = None
        self.twins: list[SimMoveKeeper] = []
        """Former keepers that live on."""
        self.orphans: list[Running] = []
        self.writers = Writers(self)
        self.people = MovePeople(self)
        self.lost: Side | None = None
        """Gone for ever."""
        self._dead_until: Millis = 0
        self._closed_ms: Millis = 0

    # --- running ------------------------------------------------------------------------------

    def run(self) -> None:
        """Both phases. Raises `LawBroken`."""
        faults = self.faults
        self._boot()
        self.writers.begin()
        self.people.begin()
        self.every(faults.crash_ms, self._crash_one)
        self.every(faults.twin_ms, self._replace)
        self.every(faults.pause_ms, self._pause)
        self.every(faults.away_ms, self._away)
        self.every(faults.failover_ms, self._fail_over)
        self.every(faults.compare_ms, self._compare)
        self.every(faults.dead_ms, self._all_die)
        self.every(faults.lose_ms, self._lose)
        self.loop.run(self.faults_ms)
        self._heal()
        self._run_until_live()
        self.people.once_more(ends=False)
        self._run_until_live()
        self.people.once_more(ends=True)
        self._run_until_live()
        if self.store.record.facts.flips >= 4:
            self.probes.hit(MoveProbe.MOVE_FLIPPED_OFTEN)

    def _heal(self) -> None:
        self.healed = True
        self.faults.heal()
        self._dead_until = 0
        for twin in self.twins:
            twin.crash(zombies=False)
        for orphan in self.orphans:
            orphan.cancel()
        for side in self.sides.values():
            side.away_until = min(side.away_until, self.loop.now)
        if self.keeper is None or not self.keeper.up:
            self._boot()
        else:
            self.keeper.paused_until = 0

    def _settle(self) -> None:
        self._keep_kept()
        self.people.settle()
        open_ = any(side.writable for side in self.sides.values())
        self._closed_ms = 0 if open_ else self._closed_ms + self.heal_step_ms
        if self._closed_ms > CLOSED_MS_MAX:
            what = f"no side lets writers through for {self._closed_ms} ms, and nothing goes wrong"
            raise LawBroken(Law.LIVENESS, what, ABOUT)

    def _missing(self) -> str:
        return missing(self)

    def _everybody(self) -> tuple[str, ...]:
        return ABOUT

    def _keep_kept(self) -> None:
        """A keeper that is over is followed by another: so the node does."""
        keeper = self.keeper
        if keeper is None or keeper.core.stage is Stage.ENDED:
            if keeper is not None:
                keeper.crash(zombies=False)
            self._boot()

    # --- mischief -----------------------------------------------------------------------------

    def _boot(self) -> None:
        """A new keeper goes on from what is recorded."""
        self.keeper = SimMoveKeeper(self)
        self.loop.after(self.loop.between(0, self.tick_ms), self.keeper.tick)

    def _boot_if_down(self) -> None:
        if self.loop.now < self._dead_until:
            self.loop.after(self._dead_until - self.loop.now + 1, self._boot_if_down)
        elif self.keeper is None or not self.keeper.up or self.keeper.core.stage is Stage.ENDED:
            self._boot()

    def crash(self, keeper: SimMoveKeeper) -> None:
        """It dies, and is followed by another after a while."""
        self.note(keeper.name, "dies", "")
        keeper.crash()
        if self.keeper is keeper:
            self.loop.after(self.loop.between(10, 600), self._boot_if_down)

    def _crash_one(self) -> None:
        if self.keeper is not None and self.keeper.up:
            self.faults.count += 1
            self.crash(self.keeper)

    def _replace(self) -> None:
        if self.keeper is not None and self.loop.now >= self._dead_until:
            self.faults.count += 1
            if self.keeper.up:
                self.probes.hit(MoveProbe.MOVE_TWO_KEEPERS)
                self.twins.append(self.keeper)
                if self.loop.chance(0.2):
                    self.keeper.tell_over()
                elif self.loop.chance(0.75):
                    self.keeper.paused_until = self.loop.now + self.loop.between(100, 2_500)
            self._boot()

    def _pause(self) -> None:
        if self.keeper is not None:
            self.faults.count += 1
            self.keeper.paused_until = self.loop.now + self.loop.between(50, 1_500)

    def _away(self) -> None:
        self.faults.count += 1
        side = self.loop.rng.choice(list(self.sides.values()))
        side.away_until = self.loop.now + self.loop.between(50, 1_200)

    def is_away(self, side: SimSide) -> bool:
        """The server does not answer."""
        return side.lost or self.loop.now < side.away_until

    def _lose(self) -> None:
        """A side is gone for ever: the one without the traffic, and not in the middle of a flip.
        Of the other cases nobody promises anything."""
        record = self.store.record
        flips = record.order.command in (Command.SWITCH, Command.REVERSE)
        if self.lost is None and (record.ended or not flips):
            self.faults.count += 1
            self.lost = record.traffic.other
            self.sides[self.lost].lost = True
            self.note("the world", "loses", self.lost)

    def _fail_over(self) -> None:
        feeds = list(self.feeds.book.values())
        if feeds:
            self.faults.count += 1
            feed = self.loop.rng.choice(feeds)
            if self.feeds.source(feed).blocked:
                self.probes.hit(MoveProbe.MOVE_OWNER_LOST)
            self.feeds.fail_over(feed)

    def _compare(self) -> None:
        """Somebody compares both sides, and holds the feed between them for it."""
        feeds = list(self.feeds.book.values())
        if feeds:
            feed = self.loop.rng.choice(feeds)
            sink, stands = self.feeds.sink(feed), self.feeds.stands(feed)
            if stands is not None and sink.held(feed.key) is None and not self.is_away(sink):
                self.faults.count += 1
                until = sink.clock + self.loop.between(*COMPARE_MS)
                sink.hold(feed.key, Hold(SOMEBODY, stands, until))

    def _all_die(self) -> None:
        """Every node is dead, for longer than any block lasts."""
        self.faults.count += 1
        for keeper in (*self.twins, self.keeper):
            if keeper is not None and keeper.up:
                keeper.crash(zombies=False)
        for orphan in self.orphans:
            orphan.cancel()
        self._dead_until = self.loop.now + DEAD_MS
        self.loop.after(DEAD_MS, self._check_dead, self._dead_until)
        self.loop.after(DEAD_MS + 1, self._boot_if_down)

    def _check_dead(self, until: Millis) -> None:
        """Nobody helped: whoever had the traffic takes writes, unless it has given it away."""
        if self.healed or until != self._dead_until:
            return
        record, side = self.store.record, self.sides[self.store.record.traffic]
        flipped = any(one.step is Step.FLIP and one.state is StepState.DONE for one in record.steps)
        if side.sealed or (flipped and not record.ended):
            return
        if side.blocked:
            self.probes.hit(MoveProbe.MOVE_ALL_DEAD)
        if not side.writable:
            what = f"{DEAD_MS} ms after all keepers died the {side.side.value} takes no writes"
            raise LawBroken(Law.LIVENESS, what, ABOUT)
