"""One lake, shared by some homes, and one seed.

    safety phase     keepers die and are followed by others, leaders change, tables come, are
                     drained, dropped and made anew; every law, all the time
    liveness phase   no faults any more, one home is asked to lead; within a bounded time every
                     table is drained, what is dead is gone, and everybody has an answer

One loop and one source of chance: `any_world`.
"""

from lockgate.model.lake import HomeId, LakeRole, TableKey
from lockgate.model.lake_events import StepUp
from lockgate.sim.keeping import KeeperWorld
from lockgate.sim.lake.faults import LakeFaults, draw_settings
from lockgate.sim.lake.lake import SimLake
from lockgate.sim.lake.ledger import LakeLedger, about_table
from lockgate.sim.lake.people import LakePeople
from lockgate.sim.lake.probes import LakeProbe, LakeProbes
from lockgate.sim.lake.process import SimKeeper
from lockgate.sim.lake.requests import Requests
from lockgate.sim.lake.store import WishStore
from lockgate.sim.lake.story import LakeStory
from lockgate.sim.violation import about_node

__all__ = ["LakeWorld"]


class LakeWorld(KeeperWorld):
    """Builds a world from a seed and runs it."""

    faults_ms = 12_000
    heal_ms_max = 40_000
    heal_step_ms = 250
    faults: LakeFaults
    probes: LakeProbes

    def __init__(self, seed: int, story: LakeStory | None = None) -> None:
        super().__init__(seed, story)
        rng = self.loop.rng
        self.settings = draw_settings(rng)
        self.tick_ms = rng.choice((150, 200, 300))
        self.faults = LakeFaults(rng)
        self.probes = LakeProbes()
        self.ledger = LakeLedger(lambda: self.loop.now, self.probes)
        self.lake = SimLake(self.loop, self.ledger, self.probes)
        self.store = WishStore()
        self.requests = Requests(self.lake, self.ledger, self.store, self.probes)
        self.half_deleted: set[TableKey] = set()
        self.homes: dict[HomeId, SimKeeper | None] = {
            f"h{index}": None for index in range(rng.choice((1, 2, 2, 3)))
        }
        self.twins: list[SimKeeper] = []
        """Former keepers that live on."""
        self.people = LakePeople(self)

    # --- running ------------------------------------------------------------------------------

    def run(self) -> None:
        """Both phases. Raises `LawBroken`."""
        for home in self.homes:
            self.boot(home)
        self.people.begin()
        self.every(self.faults.crash_ms, self._crash_one)
        self.every(self.faults.twin_ms, self._replace_one)
        self.every(self.faults.pause_ms, self._pause_one)
        self.every(self.faults.broken_ms, self._break_one)
        self.loop.run(self.faults_ms)
        self._heal()
        self._run_until_live()
        self.people.once_more()
        self._run_until_live()

    def _heal(self) -> None:
        self.healed = True
        self.faults.heal()
        for twin in self.twins:
            twin.crash()
        for table in self.lake.tables.values():
            table.broken_until = 0
        for home, keeper in self.homes.items():
            if keeper is None or not keeper.up:
                self.boot(home)
            else:
                keeper.paused_until = 0

    def _settle(self) -> None:
        self.people.settle()

    def _everybody(self) -> tuple[str, ...]:
        keepers = [keeper.name for keeper in self.homes.values() if keeper is not None]
        return (*map(about_node, keepers), *map(about_table, self.lake.tables))

    def leaders(self) -> list[SimKeeper]:
        """Who believes that it leads."""
        return [one for one in self.homes.values() if one and one.core.role is LakeRole.LEADER]

    def _missing(self) -> str:
        for keeper in self.homes.values():
            if keeper is not None and keeper.core.role not in {LakeRole.LEADER, LakeRole.FOLLOWER}:
                return f"{keeper.name} is {keeper.core.stage.value}"
        leaders = self.leaders()
        if len(leaders) != 1:
            return f"{len(leaders)} homes lead"
        for table in self.lake.tables.values():
            name = f"{table.table}/{table.incarnation}"
            if table.dead:
                return f"{name} is dead and still there"
            if table.incarnation < self.ledger.begun.get(table.table, 0):
                return f"{name} lives, and a drop of its name has begun"
            if self.lake.newest(table.table) is not table:
                return f"{name} was replaced and lives"
            if table.token.epoch != self.lake.leader.epoch:
                return f"{name} is not claimed"
            if table.drained != table.ingest:
                return f"{name} is drained to {table.drained}, not {table.ingest}"
        return self.requests.unanswered()

    # --- mischief -----------------------------------------------------------------------------

    def boot(self, home: HomeId) -> None:
        """A new keeper goes on from what is recorded."""
        participant = 1 + list(self.homes).index(home)
        keeper = self.homes[home] = SimKeeper(self, home, participant)
        self.loop.after(self.loop.between(0, self.tick_ms), keeper.tick)

    def keeper(self) -> SimKeeper | None:
        """Any home's, if it lives."""
        keeper = self.loop.rng.choice(list(self.homes.values()))
        return keeper if keeper is not None and keeper.up else None

    def crash(self, keeper: SimKeeper) -> None:
        """It dies, and is followed by another after a while."""
        self.note(keeper.name, "dies", "")
        keeper.crash()
        if self.homes[keeper.home] is keeper:
            self.loop.after(self.loop.between(50, 2_500), self._boot_if_down, keeper.home)

    def _boot_if_down(self, home: HomeId) -> None:
        keeper = self.homes[home]
        if keeper is not None and not keeper.up:
            self.boot(home)

    def _crash_one(self) -> None:
        keeper = self.keeper()
        if keeper is not None:
            self.faults.count += 1
            self.crash(keeper)

    def _replace_one(self) -> None:
        keeper = self.keeper()
        if keeper is not None:
            self.faults.count += 1
            self.probes.hit(LakeProbe.LAKE_TWO_KEEPERS)
            self.twins.append(keeper)
            if self.loop.chance(0.5):
                keeper.paused_until = self.loop.now + self.loop.between(500, 4_000)
            self.boot(keeper.home)

    def _pause_one(self) -> None:
        keeper = self.keeper()
        if keeper is not None:
            self.faults.count += 1
            keeper.paused_until = self.loop.now + self.loop.between(300, 3_000)

    def _break_one(self) -> None:
        if self.lake.tables:
            self.faults.count += 1
            table = self.loop.rng.choice(list(self.lake.tables.values()))
            table.broken_until = self.loop.now + self.loop.between(500, 5_000)

    # --- what happens -------------------------------------------------------------------------

    def ask_to_lead(self, home: HomeId) -> None:
        """A person asks a home to step up."""
        keeper = self.homes[home]
        if keeper is not None and keeper.up:
            keeper.ask(StepUp(self.people.request()))
