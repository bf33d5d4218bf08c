"""A table in two layers: an ingest of changes over a stable table, each behind the fence.

    <incarnation>/stable            the rows up to `drained`, for every reader of Delta
    <incarnation>/ingest-<home>     the changes since then, as one home has them

Whoever reads looks at ingest first and at stable after it. Between the two looks a drain may move
`drained` up, and what it drained is then in both; a drain never takes anything out of ingest before
it is in stable. The other way round, changes that were drained and pruned between the two looks
would be in neither.

A drain is one commit: the files that hold keys of the window go, rewritten ones come, `drained`
moves from where the drain began to the end of its window. Found moved at the commit, it lands
nothing. So a drain that is run twice, or by two, is done once.
"""

from collections.abc import Iterable
from typing import Any, Final, Self

import msgspec
import pyarrow as pa

from lockgate.endpoints.delta.changes import POSITION, ingest_schema, last_states, merge, window
from lockgate.endpoints.delta.drain_plan import plan_rewrites
from lockgate.endpoints.delta.fenced import FencedTable
from lockgate.endpoints.delta.files import (
    DataFile,
    added,
    delete_file,
    live_files,
    read_file,
    removed,
    write_file,
    write_parts,
)
from lockgate.endpoints.delta.marks import Marks
from lockgate.endpoints.delta.place import Place
from lockgate.endpoints.delta.rewrite import RewriteOrder, rewrite
from lockgate.model.errors import Transient
from lockgate.model.ids import Token
from lockgate.model.positions import Position
from lockgate.model.value import Value

__all__ = ["DrainOvertaken", "DrainPlan", "Drained", "LayeredTable", "Snapshot"]

_KEY: Final = "lockgate.key"
DRAIN_ROWS_MAX: Final = 2_000_000
"""Changes of one drain: the driver has them in memory. What is left is the next one's."""


class DrainOvertaken(Transient):
    """Somebody else has drained meanwhile. Nothing was landed."""

    code = "drain-overtaken"


class Snapshot(Value, frozen=True):
    """What one reader sees: the stable files, and the changes of ingest in (drained, position]."""

    stable: tuple[DataFile, ...]
    ingest: tuple[DataFile, ...]
    stable_version: int
    drained: Position
    position: Position


class DrainPlan(Value, frozen=True):
    """What a drain from one position to another takes."""

    after: Position
    upto: Position
    changes: int
    orders: tuple[RewriteOrder, ...]
    old: tuple[DataFile, ...]
    """The files that go."""
    states: str
    """The file that the orders read; empty when there is none."""


class Drained(Value, frozen=True):
    """What a drain did."""

    version: int
    to: Position
    changes: int
    """Rows of ingest that it took in."""
    written_bytes: int
    removed_bytes: int


class LayeredTable:
    """One incarnation of one table, as one home has it."""

    def __init__(self, place: Place, home: str, stable: FencedTable, ingest: FencedTable) -> None:
        self.place = place
        self._stable_place = place.child("stable")
        self._ingest_place = place.child(f"ingest-{home}")
        self.label = place.label
        self.home = home
        self.stable = stable
        self.ingest = ingest
        noted = stable.notes.get(_KEY)
        self.key: list[str] = msgspec.json.decode(noted or "[]", type=list[str])

    @classmethod
    def create(
        cls,
        place: Place,
        home: str,
        rows: pa.Schema,
        key: list[str],
        leader: Token,
        dispatcher: Token,
        position: Position = 0,
    ) -> Self:
        """Make what of it is not there yet. The leader owns stable, the dispatcher ingest."""
        notes = {_KEY: msgspec.json.encode(key).decode()}
        stable = FencedTable.create(place.child("stable"), rows, leader, position, notes)
        ingest = FencedTable.create(
            place.child(f"ingest-{home}"), ingest_schema(rows), dispatcher, position
        )
        return cls(place, home, stable, ingest)

    @classmethod
    def open(cls, place: Place, home: str) -> Self:
        stable = FencedTable.open(place.child("stable"))
        return cls(place, home, stable, FencedTable.open(place.child(f"ingest-{home}")))

    # --- ingest ---------------------------------------------------------------------------------

    def land(self, token: Token, changes: pa.Table, position: Position) -> Marks:
        """Take in changes, and that everything up to `position` is there. Landed before: nothing.

        `changes` lie after what has landed and not after `position`; see `changes` for their form.
        """
        marks = self.ingest.look()
        if marks.position >= position and marks.token == token:
            return marks
        files = [write_file(self._ingest_place, changes, [POSITION])] if changes.num_rows else []

        def actions(marks: Marks) -> list[Any]:
            return [] if marks.position >= position else [added(file) for file in files]

        return self.ingest.commit(token, actions, position=position)

    def prune(self, token: Token) -> int:
        """Take what stable has by now out of ingest; how many files that were."""
        drained = self.stable.look().position
        gone: list[DataFile] = []

        def actions(_: Marks) -> list[Any]:
            gone[:] = [
                file
                for file in live_files(self.ingest.handle)
                if file.high.get(POSITION, drained + 1) <= drained
            ]
            return [removed(file) for file in gone]

        self.ingest.commit(token, actions)
        return len(gone)

    # --- reading --------------------------------------------------------------------------------

    def snapshot(self) -> Snapshot:
        """What is there now."""
        ingest = self.ingest.look()
        changes = live_files(self.ingest.handle)
        stable = self.stable.look()
        return Snapshot(
            tuple(live_files(self.stable.handle)),
            tuple(file for file in changes if file.high.get(POSITION, 0) > stable.position),
            stable.version,
            stable.position,
            max(stable.position, ingest.position),
        )

    def read(self, seen: Snapshot | None = None) -> pa.Table:
        """All rows, as one table in memory: for tests and small tables."""
        seen = seen or self.snapshot()
        states, wiped = self._states(seen.ingest, seen.drained, seen.position)
        base = [] if wiped else [read_file(self._stable_place, f.path) for f in seen.stable]
        schema = self.stable.schema
        return merge(pa.concat_tables([schema.empty_table(), *base]), states, self.key)

    def _states(
        self, files: Iterable[DataFile], after: Position, upto: Position
    ) -> tuple[pa.Table, bool]:
        parts = [window(read_file(self._ingest_place, f.path), after, upto) for f in files]
        empty = ingest_schema(self.stable.schema).empty_table()
        return last_states(pa.concat_tables([empty, *parts]), self.key)

    # --- draining -------------------------------------------------------------------------------

    def plan_drain(self, rows_max: int = DRAIN_ROWS_MAX) -> DrainPlan | None:
        """What bringing ingest into stable takes, of about so many changes. None: nothing.

        The states are written beside the layers, so that whoever rewrites a file finds its part.
        """
        seen = self.snapshot()
        if seen.position == seen.drained:
            return None
        seen = _cut(seen, rows_max)
        states, wiped = self._states(seen.ingest, seen.drained, seen.position)
        rewrites = plan_rewrites(list(seen.stable), states, self.key, wiped=wiped)
        place = self.place.child("work")
        parts = [states.take(pa.array(rewrite.rows)) for rewrite in rewrites]
        path = write_parts(place, parts) if parts else ""
        orders = tuple(
            RewriteOrder(tuple(file.path for file in rewrite.kept), path, part, tuple(self.key))
            for part, rewrite in enumerate(rewrites)
        )
        old = tuple(file for rewrite in rewrites for file in rewrite.files)
        return DrainPlan(seen.drained, seen.position, states.num_rows, orders, old, path)

    def land_drain(self, token: Token, plan: DrainPlan, new: list[DataFile]) -> Drained:
        """Put the rewritten files in the place of the old ones, if nobody was there before."""
        gone = {file.path for file in plan.old}

        def actions(marks: Marks) -> list[Any]:
            there = {file.path for file in live_files(self.stable.handle)}
            if marks.position != plan.after or not gone <= there:
                # Delta would take the removal of a file that is not there for done.
                raise DrainOvertaken(
                    f"stable was drained to {marks.position} meanwhile, not {plan.after}",
                    object_=self.label,
                    hint="nothing: what is left is drained next time",
                    operation="drain",
                )
            return [*map(removed, plan.old), *map(added, new)]

        marks = self.stable.commit(token, actions, position=plan.upto)
        return Drained(
            marks.version,
            plan.upto,
            plan.changes,
            sum(file.bytes for file in new),
            sum(file.bytes for file in plan.old),
        )

    def forget_plan(self, plan: DrainPlan) -> None:
        """Remove what was written for it, whatever became of it."""
        if plan.states:
            delete_file(self.place.child("work"), plan.states)

    def drain(self, token: Token) -> Drained | None:
        """All of it here and now: for tests and small tables. None: there was nothing."""
        plan = self.plan_drain()
        if plan is None:
            return None
        try:
            new = [file for order in plan.orders if (file := rewrite(self.place, order))]
            return self.land_drain(token, plan, new)
        finally:
            self.forget_plan(plan)

    # --- its end --------------------------------------------------------------------------------

    def kill(self, token: Token) -> None:
        """From here on nobody drains it, and nobody finds it (`Lake.live`). Its ingest belongs to
        its dispatcher, who stops by the core's word; what it still lands is never read."""
        self.stable.kill(token)

    def size_bytes(self) -> int:
        """The sum of the live files of both layers."""
        self.stable.look()
        self.ingest.look()
        files = [*live_files(self.stable.handle), *live_files(self.ingest.handle)]
        return sum(file.bytes for file in files)


def _cut(seen: Snapshot, rows_max: int) -> Snapshot:
    """The same up to an earlier position, where it has more changes than one drain takes."""
    rows = 0
    taken: list[DataFile] = []
    for file in sorted(seen.ingest, key=lambda file: file.low[POSITION]):
        if taken and rows + file.rows > rows_max:
            # Batches follow each other in the log: the next one begins behind these.
            position = max(one.high[POSITION] for one in taken)
            return msgspec.structs.replace(seen, ingest=tuple(taken), position=position)
        rows += file.rows
        taken.append(file)
    return seen
