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
from lockgate.endpoints.delta.fenced import FencedTable
from lockgate.endpoints.delta.files import (
    DataFile,
    added,
    live_files,
    read_file,
    removed,
    write_file,
)
from lockgate.endpoints.delta.marks import Marks
from lockgate.endpoints.delta.place import Place
from lockgate.endpoints.delta.rewriting import Rewrite, plan_rewrites
from lockgate.model.errors import Transient
from lockgate.model.ids import Token
from lockgate.model.positions import Position
from lockgate.model.value import Value

__all__ = ["DrainOvertaken", "Drained", "LayeredTable", "Snapshot"]

_KEY: Final = "lockgate.key"


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
        file = None
        if changes.num_rows:
            file = write_file(self._ingest_place, changes, [POSITION])

        def actions(marks: Marks) -> list[Any]:
            return [] if file is None or marks.position >= position else [added(file)]

        marks = self.ingest.look()
        if marks.position >= position and marks.token == token:
            return marks
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

    def drain(self, token: Token) -> Drained | None:
        """Bring all that ingest has into stable, as the leader. None: there was nothing."""
        seen = self.snapshot()
        if seen.position == seen.drained:
            return None
        states, wiped = self._states(seen.ingest, seen.drained, seen.position)
        rewrites = plan_rewrites(list(seen.stable), states, self.key, wiped=wiped)
        new = [file for rewrite in rewrites for file in self._rewritten(rewrite, states)]
        old = [file for rewrite in rewrites for file in rewrite.files]
        marks = self._land_drain(token, seen, new, old)
        return Drained(
            marks.version,
            seen.position,
            states.num_rows,
            sum(file.bytes for file in new),
            sum(file.bytes for file in old),
        )

    def _rewritten(self, rewrite: Rewrite, states: pa.Table) -> list[DataFile]:
        base = [read_file(self._stable_place, file.path) for file in rewrite.kept]
        rows = merge(
            pa.concat_tables([self.stable.schema.empty_table(), *base]),
            states.take(pa.array(rewrite.rows)),
            self.key,
        )
        if not rows.num_rows:
            return []
        return [write_file(self._stable_place, rows, self.key[:1])]

    def _land_drain(
        self, token: Token, seen: Snapshot, new: list[DataFile], old: list[DataFile]
    ) -> Marks:
        gone = {file.path for file in old}

        def actions(marks: Marks) -> list[Any]:
            there = {file.path for file in live_files(self.stable.handle)}
            if marks.position != seen.drained or not gone <= there:
                # Delta would take the removal of a file that is not there for done.
                raise DrainOvertaken(
                    f"stable was drained to {marks.position} meanwhile, not {seen.drained}",
                    object_=self.label,
                    hint="nothing: what is left is drained next time",
                    operation="drain",
                )
            return [*map(removed, old), *map(added, new)]

        return self.stable.commit(token, actions, position=seen.position)

    # --- its end --------------------------------------------------------------------------------

    def kill(self, token: Token) -> None:
        """From here on nobody lands or drains anything; the files are somebody's to delete."""
        self.stable.kill(token)

    def size_bytes(self) -> int:
        """The sum of the live files of both layers."""
        self.stable.look()
        self.ingest.look()
        files = [*live_files(self.stable.handle), *live_files(self.ingest.handle)]
        return sum(file.bytes for file in files)
