"""People and feeds: who asks for drains, drops and roles; where tables and changes come from."""

from typing import TYPE_CHECKING, Final

from lockgate.model.lake import LakeRole
from lockgate.model.lake_events import DrainTable, DropTable, LakeVerb, StepDown, StepUp

if TYPE_CHECKING:
    from lockgate.sim.lake.world import LakeWorld

__all__ = ["LakePeople"]

NAMES: Final = ("orders", "items", "users")
CHANGE_MS: Final = 200


class LakePeople:
    """Everybody who wants something of the lake."""

    def __init__(self, world: "LakeWorld") -> None:
        self._world = world
        self._requests = 0

    def request(self) -> str:
        """A name for a request."""
        self._requests += 1
        return f"r{self._requests}"

    def begin(self) -> None:
        """Make some tables, have somebody lead, and go on."""
        world, loop = self._world, self._world.loop
        for name in NAMES[: loop.between(1, len(NAMES))]:
            world.lake.make(name, stable=loop.chance(0.5))
        first = next(iter(world.homes))
        loop.after(loop.between(100, 600), world.ask_to_lead, first)
        world.every(CHANGE_MS, self._change_one)
        world.every(world.faults.make_ms, self._make_one)
        world.every(world.faults.drain_ms, self._ask_drain)
        world.every(world.faults.drop_ms, self._ask_drop)
        world.every(world.faults.role_ms, self._ask_role)

    # --- feeds --------------------------------------------------------------------------------

    def _change_one(self) -> None:
        loop, lake = self._world.loop, self._world.lake
        living = [table for table in lake.tables.values() if not table.dead]
        if living:
            lake.change(loop.rng.choice(living))

    def _make_one(self) -> None:
        """A name that has no table gets one; now and then a table is replaced."""
        loop, lake = self._world.loop, self._world.lake
        name = loop.rng.choice(NAMES)
        table = lake.newest(name)
        if table is None or table.dead or loop.chance(0.15):
            lake.make(name, stable=loop.chance(0.5))

    # --- people -------------------------------------------------------------------------------

    def _ask(self, verb: LakeVerb) -> None:
        """Mostly of a home that leads or is about to; now and then of any."""
        world, loop = self._world, self._world.loop
        keepers = [one for one in world.homes.values() if one is not None and one.up]
        leading = [one for one in keepers if one.core.role is not LakeRole.FOLLOWER]
        if leading and loop.chance(0.9):
            keepers = leading
        if keepers:
            loop.rng.choice(keepers).ask(verb)

    def _ask_drain(self) -> None:
        rng = self._world.loop.rng
        self._ask(DrainTable(self.request(), rng.choice((*NAMES, None))))

    def _ask_drop(self) -> None:
        loop = self._world.loop
        wait_ms = loop.rng.choice((0, 0, 300, 2_000))
        self._ask(DropTable(self.request(), loop.rng.choice(NAMES), wait_ms=wait_ms))

    def _ask_role(self) -> None:
        loop = self._world.loop
        if loop.chance(0.35):
            self._ask(StepDown(self.request(), flush=loop.chance(0.6)))
        else:
            keeper = self._world.keeper()
            if keeper is not None:
                keeper.ask(StepUp(self.request()))

    # --- when all faults are over -------------------------------------------------------------

    def settle(self) -> None:
        """Somebody has to lead, or nothing can become of the rest."""
        world = self._world
        quiet = {LakeRole.FOLLOWER}
        keepers = [one for one in world.homes.values() if one is not None]
        if all(keeper.core.role in quiet for keeper in keepers):
            world.ask_to_lead(keepers[0].home)

    def once_more(self) -> None:
        """Standing still could be dead: something new must get through."""
        world, lake = self._world, self._world.lake
        for name in NAMES:
            table = lake.newest(name)
            if table is not None:
                lake.change(table)
        lake.make(NAMES[0], stable=False)
        [leader] = world.leaders()
        leader.ask(DropTable(self.request(), NAMES[1], wait_ms=5_000))
        leader.ask(DrainTable(self.request(), None))
