"""A table in two layers: an ingest of changes over a stable table, each behind the fence.

    <incarnation>/stable            the rows up to `drained`, for every reader of Delta
    <incarnation>/ingest-<home>-…   the changes since then, as one feed of a home has them

Whoever reads looks at ingest first and at stable after it. Between the two looks a drain may move
`drained` up, and what it drained is then in both; a drain never takes anything out of ingest before
it is in stable. The other way round, changes that were drained and pruned between the two looks
would be in neither.

How stable takes in what ingest has: `draining`; how ingest gets rid of it: `pruning`; what is noted
with the layers: `layer_notes`.
"""

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any, Self

import pyarrow as pa

from lockgate.endpoints.delta import draining, layer_notes, pruning
from lockgate.endpoints.delta.changes import (
    OURS,
    POSITION,
    ingest_schema,
    last_states,
    may_follow,
    merge,
    window,
)
from lockgate.endpoints.delta.commit_files import taking_back
from lockgate.endpoints.delta.commits import Commits
from lockgate.endpoints.delta.draining import (
    DRAIN_BYTES_MAX,
    DRAIN_ROWS_MAX,
    Drained,
    DrainOvertaken,
    DrainPlan,
    Snapshot,
)
from lockgate.endpoints.delta.fenced import FencedTable
from lockgate.endpoints.delta.files import (
    DataFile,
    added,
    check_there,
    delete_file,
    live_files,
    write_file,
)
from lockgate.endpoints.delta.graves import is_buried
from lockgate.endpoints.delta.lake import INGEST, STABLE, WORK, end, homes_of, is_dead
from lockgate.endpoints.delta.marks import Marks
from lockgate.endpoints.delta.missing import read_data, table_dead
from lockgate.endpoints.delta.origins import UNKNOWN, Origin
from lockgate.endpoints.delta.overtaken import BatchOvertaken, refuse_overtaken
from lockgate.endpoints.delta.place import Place
from lockgate.endpoints.delta.rewrite import rewrite
from lockgate.endpoints.delta.schemas import united
from lockgate.model.errors import Conflict, LockgateError, NotFound
from lockgate.model.ids import NO_TOKEN, Token
from lockgate.model.positions import Position

__all__ = [
    "BatchOvertaken",
    "DrainOvertaken",
    "DrainPlan",
    "Drained",
    "LayeredTable",
    "Snapshot",
]


class LayeredTable:
    """One incarnation of one table, as one home has it, or one feed of it: `home` is whose ingest
    that is (`lake.ingest_of`)."""

    def __init__(self, place: Place, home: str, stable: FencedTable, ingest: FencedTable) -> None:
        self.place = place
        self._stable_place = place.child(STABLE)
        self._ingest_place = place.child(f"{INGEST}{home}")
        self.label = place.label
        self.home = home
        self.stable = stable
        self.ingest = ingest
        self.key = layer_notes.key_of(stable)

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
        *,
        settled: Position = 0,
        awaits_copy: bool = False,
        origin: Origin = UNKNOWN,
    ) -> Self:
        """Make what of it is not there yet. The leader owns stable, the dispatcher ingest.

        `settled` is for a table that needs no first copy: it is level as it is. One that
        `awaits_copy` is nobody's table before that. TableDead when there was one that was dropped,
        Conflict when there is one that is not of this `origin`.
        """
        if is_buried(place):
            raise table_dead(place)
        notes = {**layer_notes.new_stable(key, awaits_copy=awaits_copy), **origin.notes()}
        stable = FencedTable.create(place.child(STABLE), rows, leader, position, notes, settled)
        if stable.look().dead:
            raise table_dead(place)
        origin.check(stable.notes, place.label)
        notes = layer_notes.new_ingest(position)
        ingest = FencedTable.create(
            place.child(f"{INGEST}{home}"), ingest_schema(rows), dispatcher, position, notes
        )
        return cls(place, home, stable, ingest)

    @classmethod
    def open(cls, place: Place, home: str) -> Self:
        """TableDead when it is dead and its files are going or gone, or its ingest is damaged."""
        try:
            stable = FencedTable.open(place.child(STABLE))
            return cls(place, home, stable, FencedTable.open(place.child(f"{INGEST}{home}")))
        except LockgateError:  # of a log that is half deleted, anything may be said
            # Into one that was damaged before, its death cannot be written: stable knows of it.
            if is_dead(place):
                raise table_dead(place) from None
            raise

    @classmethod
    def join(
        cls,
        place: Place,
        home: str,
        dispatcher: Token,
        position: Position,
        origin: Origin = UNKNOWN,
    ) -> Self:
        """Take part in a table of others: with an ingest of one's own, from this position on.

        It has all columns that the table has for anybody. TableDead when it was dropped, Conflict
        when it is of another source.
        """
        stable = FencedTable.open(place.child(STABLE))
        rows = stable.schema
        dropped: dict[str, Position] = {}
        for other in homes_of(place):
            with contextlib.suppress(NotFound):  # not made yet
                ingest = FencedTable.open(place.child(f"{INGEST}{other}"))
                rows = united(rows, ingest.schema, OURS)
                more = layer_notes.columns_dropped(ingest)
                dropped = layer_notes.first_dropped(dropped, more)
        key = layer_notes.key_of(stable)
        joined = cls.create(place, home, rows, key, NO_TOKEN, dispatcher, position, origin=origin)
        joined.note_dropped(dropped)
        return joined

    @property
    def rows(self) -> pa.Schema:
        """The columns of a row, as of the last look: stable gets those that are new to ingest with
        the next drain."""
        return united(self.stable.schema, self.ingest.schema, OURS)

    # --- ingest ---------------------------------------------------------------------------------

    @property
    def begins(self) -> Position:
        """From where on this home has changes, as far as that is known. Where stable has not come
        so far, what lies between is another home's to bring."""
        noted = layer_notes.begins_at(self.ingest)
        if noted is not None:
            return noted
        return Commits(self._ingest_place).position(0) or 0

    def land(
        self,
        token: Token,
        changes: pa.Table,
        position: Position,
        *,
        after: Position | None = None,
    ) -> Marks:
        """Take in changes, and that everything up to `position` is there. Landed before: nothing.

        `changes` are all of (after, position]; see `changes` for their form. `after` is from where
        on they were read; None: from where the table stands. BatchOvertaken: see `has_landed`.
        """
        if self.has_landed(token, position, after=after):
            return self.ingest.look()
        files = [write_file(self._ingest_place, changes, [POSITION])] if changes.num_rows else []

        def actions(marks: Marks) -> list[Any]:
            if marks.position >= position:
                return []
            refuse_overtaken(self.label, marks, after)
            check_there(self._ingest_place, files)
            return [added(file) for file in files]

        with taking_back(self._ingest_place, files):
            return self.ingest.commit(token, actions, position=position)

    def has_landed(
        self, token: Token, position: Position, *, after: Position | None = None
    ) -> bool:
        """Whether everything up to a position is there, brought by the token.

        BatchOvertaken when only some of what lies after `after` is: a task that outlived its job
        has the token of who came after it, and brought these changes once. The table may well stand
        before `after`: what has nothing in it is noted in the feed's rows alone. What its commit
        would meet is raised here, before anything is written for it.
        """
        marks = self.ingest.look()
        if marks.position >= position and marks.token == token:
            return True
        if marks.position < position:
            refuse_overtaken(self.label, marks, after)
        self.ingest.admit(token, marks)
        return False

    def note_position(self, token: Token, position: Position) -> Marks:
        """Ingest has everything up to there, because there was nothing."""

        def actions(marks: Marks) -> list[Any] | None:
            return None if marks.position >= position else []

        return self.ingest.commit(token, actions, position=position)

    def evolve(self, rows: pa.Schema, position: Position, token: Token | None = None) -> Marks:
        """From this position on, changes have these columns; see `FencedTable.evolve`.

        Stable gets them when it is drained next: its owner is another (`follow_ingest`).
        """
        return self.ingest.evolve(token, ingest_schema(rows), position)

    @property
    def dropped(self) -> dict[str, Position]:
        """The columns that the source has dropped, and where first: rows from before still have
        their values, so no column of the same name is theirs."""
        return layer_notes.columns_dropped(self.ingest)

    def note_dropped(self, columns: Mapping[str, Position], token: Token | None = None) -> None:
        """The source has dropped these, there. Told again: nothing."""
        layer_notes.note_dropped(self.ingest, columns, token)

    def prune(self, token: Token | None) -> int:
        """Take what stable has by now out of ingest; how many files that were.

        Without a token it is done in the owner's name, whoever that is: for who has drained. Stable
        gives nothing back, so however late that comes, it is as right as when it was begun. The
        table stays its owner's, and a batch of his that clashes with it lands after it.
        """
        return pruning.prune(self, token)

    def prune_if_worth(self, token: Token) -> int:
        """The same, once there is something to gain: every commit costs readers a little. From time
        to time the log is made shorter as well."""
        return pruning.prune_if_worth(self, token)

    # --- reading --------------------------------------------------------------------------------

    def snapshot(self) -> Snapshot:
        """What is there now."""
        ingest = self.ingest.look()
        changes = live_files(self.ingest.sound(ingest))
        stable = self.stable.look()
        pruning.refuse_cut(self, ingest, stable)
        return Snapshot(
            tuple(live_files(self.stable.sound(stable))),
            tuple(file for file in changes if may_follow(file, stable.position)),
            stable.foreign - 1 if stable.foreign else stable.version,
            stable.position,
            max(stable.position, ingest.position),
            stable.settled,
        )

    def read(self, seen: Snapshot | None = None) -> pa.Table:
        """All rows, as one table in memory: for tests and small tables."""
        seen = seen or self.snapshot()
        states, wiped = last_states(self.changes(seen), self.key)
        schema = self.rows
        base = [] if wiped else [self.rows_in(file, schema) for file in seen.stable]
        return merge(pa.concat_tables([schema.empty_table(), *base]), states, self.key)

    def rows_in(self, file: DataFile, schema: pa.Schema | None = None) -> pa.Table:
        """The rows of one file of stable, in these columns: all, unless told."""
        return read_data(self.place, STABLE, file.path, schema=schema or self.rows)

    def changes(self, seen: Snapshot) -> pa.Table:
        """The changes of ingest that the snapshot shows, as they landed."""
        schema = ingest_schema(self.rows)
        layer = f"{INGEST}{self.home}"
        found = (read_data(self.place, layer, one.path, schema=schema) for one in seen.ingest)
        parts = [window(part, seen.drained, seen.position) for part in found]
        return pa.concat_tables([schema.empty_table(), *parts])

    # --- the first copy, and columns ------------------------------------------------------------

    @property
    def snapshots(self) -> tuple[str, ...]:
        """Of the source, under which the first copy was read; none: nobody has noted any.
        Changes up to `settled` that they have seen are in the rows."""
        return layer_notes.snapshots_of(self.stable)

    def land_copy(
        self,
        token: Token,
        files: list[DataFile],
        position: Position,
        settled: Position,
        snapshots: Sequence[str] = (),
    ) -> Marks:
        """Let stable be these files, which lie in its directory, as of a position. Landed: nothing.

        A copy lands once in an incarnation, and then stable is settled. Whoever comes to land one
        later, because the one before him died before he could say so, is content with the rows that
        are there if they are as far as his: from where they are level, stable says.
        """

        def actions(marks: Marks) -> list[Any] | None:
            if marks.settled and marks.position >= position:
                return None
            # What a drain, or another home, has brought would be there twice.
            if marks.settled or marks.position > position or live_files(self.stable.handle):
                raise Conflict(
                    f"stable is not empty any more, at position {marks.position}",
                    object_=self.label,
                    hint="copy the table anew: `lockgate feed resync FEED TABLE`",
                    operation="land a copy",
                )
            check_there(self._stable_place, files)
            return [added(file) for file in files]

        # Under the token that lands the rows: nobody else's rows come between the two commits.
        if not self.stable.look().settled and self.snapshots != tuple(snapshots):
            layer_notes.note_snapshots(self.stable, token, snapshots)
        return self.stable.commit(token, actions, position=position, settled=settled)

    def follow_ingest(self, token: Token) -> Marks:
        """Give stable the columns that ingest has by now. A drain begins with it."""
        pruning.refuse_cut(self, self.ingest.look(), self.stable.look())
        self.stable.note(token, layer_notes.STATISTICS)
        return self.stable.evolve(token, self.rows)

    # --- draining -------------------------------------------------------------------------------

    def plan_drain(
        self, rows_max: int = DRAIN_ROWS_MAX, bytes_max: int = DRAIN_BYTES_MAX
    ) -> DrainPlan | None:
        """What bringing ingest into stable takes, of about so many changes. None: nothing."""
        return draining.plan(self, rows_max, bytes_max)

    def land_drain(self, token: Token, plan: DrainPlan, new: list[DataFile]) -> Drained:
        """Put the rewritten files in the place of the old ones, if nobody was there before."""
        return draining.land(self, token, plan, new)

    def forget_plan(self, plan: DrainPlan) -> None:
        """Remove what was written for it, whatever became of it."""
        if plan.states:
            delete_file(self.place.child(WORK), plan.states)

    def drain(self, token: Token) -> Drained | None:
        """All of it here and now: for tests and small tables. None: there was nothing."""
        self.follow_ingest(token)
        plan = self.plan_drain()
        if plan is None:
            return None
        new: list[DataFile] = []
        try:
            with taking_back(self._stable_place, new):
                for order in plan.orders:
                    new += rewrite(self.place, order)
                return self.land_drain(token, plan, new)
        finally:
            self.forget_plan(plan)

    # --- its end --------------------------------------------------------------------------------

    def kill(self, token: Token) -> None:
        """From here on nobody drains it, and nobody finds it (`Lake.live`).

        Then its ingests die, of whatever home. Killed in between, told again, it goes on with them.
        """
        self.stable.kill(token)
        end(self.place)
