"""What there is in a lake: all incarnations of all tables, with their figures.

Handles are kept between surveys: a log that has not moved is not read again.
"""

import time
from collections.abc import Callable, Iterable
from typing import NamedTuple

from lockgate.endpoints.delta.changes import may_follow
from lockgate.endpoints.delta.compact import groups
from lockgate.endpoints.delta.drain_plan import ROWS_MAX
from lockgate.endpoints.delta.fenced import FencedTable, TableDead
from lockgate.endpoints.delta.files import DataFile, live_files
from lockgate.endpoints.delta.graves import is_buried, is_gone, rests_since_s
from lockgate.endpoints.delta.head import LakeHead
from lockgate.endpoints.delta.homes import furthest, ingests_of, opened
from lockgate.endpoints.delta.lake import AWAITS_COPY, STABLE, Lake
from lockgate.endpoints.delta.layered import LayeredTable
from lockgate.endpoints.delta.log_files import LogFiles
from lockgate.endpoints.delta.missing import table_dead
from lockgate.endpoints.delta.place import Place
from lockgate.endpoints.delta.store_time import store_now_s
from lockgate.model.errors import LockgateError, NotFound, ObjectMissing
from lockgate.model.ids import TableId
from lockgate.model.lake import Figures, LakeTrouble, Leadership, TableKey, TableSeen
from lockgate.model.positions import Position

__all__ = ["Surveyor"]

_LONG_MS = 10**12
"""How long something has been dead whose files are going."""


class _Held(NamedTuple):
    """One incarnation, opened."""

    ingests: tuple[str, ...]
    """Those of this home's feeds."""
    tables: list[LayeredTable]
    """With each of them."""
    stable: FencedTable


class Surveyor:
    """Looks at one lake. For one thread at a time."""

    def __init__(
        self, place: Place, home: str, clock_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._lake = Lake(place)
        self._head = LakeHead(place, home)
        self._home = home
        self._clock_s = clock_s
        self._tables: dict[TableKey, _Held] = {}
        self._waiting: dict[TableKey, tuple[Position, float]] = {}
        """Where stable stood, and since when changes wait to be drained from there."""

    def survey(
        self, table: TableId | None
    ) -> tuple[Leadership, tuple[TableSeen, ...], dict[TableId, LakeTrouble]]:
        """Who leads, and after that what there is of one table, or of all; and of all, the names
        whose directories could not be listed."""
        leader = self._head.read().leadership
        if table is not None:
            return leader, tuple(self._incarnations(table)), {}
        seen: list[TableSeen] = []
        unseen: dict[TableId, LakeTrouble] = {}
        for name in self._lake.tables():
            try:
                seen += list(self._incarnations(name))
            except LockgateError as error:
                unseen[name] = _trouble(error)
        known = {one.key for one in seen} | {key for key in self._tables if key[0] in unseen}
        self._tables = {key: held for key, held in self._tables.items() if key in known}
        self._waiting = {key: held for key, held in self._waiting.items() if key in known}
        return leader, tuple(seen), unseen

    def _incarnations(self, table: TableId) -> Iterable[TableSeen]:
        for incarnation in self._lake.incarnations(table):
            key = (table, incarnation)
            place = self._lake.place(table, incarnation)
            try:
                yield self._look(key, place)
            except (TableDead, NotFound, ObjectMissing) as error:
                self._tables.pop(key, None)
                if is_gone(place):
                    continue
                if is_buried(place):
                    yield TableSeen(*key, dead=True, dead_ms=_buried_ms(place), awaits=True)
                elif not isinstance(error, NotFound):
                    yield _troubled(key, error)
                # else it is being made
            except LockgateError as error:
                self._tables.pop(key, None)
                yield _troubled(key, error)

    def _look(self, key: TableKey, place: Place) -> TableSeen:
        held = self._held(key, place)
        stable = held.stable
        marks = stable.look()
        awaits = AWAITS_COPY in stable.notes and not marks.settled
        if marks.dead:
            dead_ms = _since_ms(place, LogFiles.of(place.child(STABLE), 0.0).changed_s())
            return TableSeen(*key, True, dead_ms, marks.token, awaits=awaits, dropped=marks.dropped)
        stable.refuse_foreign(marks)
        if held.tables:
            figures = self._figures(key, held.tables)
        else:
            figures = _of_stable(live_files(stable.handle), "", marks.version, marks.position)
        return TableSeen(*key, awaits=awaits, token=marks.token, figures=figures)

    def _held(self, key: TableKey, place: Place) -> "_Held":
        """With the ingests of this home's feeds: a new one may have come, here or for the first
        time. One that was deleted and is here again was made by somebody who slept: it is nobody's
        table, and what its grave alone calls dead, a handle from before takes for alive. What is
        dead is dead, whatever is wrong with its ingests."""
        if is_buried(place):
            raise table_dead(place)
        ingests = ingests_of(place, self._home)
        held = self._tables.get(key)
        if held is not None and held.ingests == ingests:
            return held
        try:
            tables = opened(place, ingests)
        except LockgateError:
            stable = FencedTable.open(place.child(STABLE))
            if stable.look().dead:
                return _Held((), [], stable)
            raise
        stable = tables[0].stable if tables else FencedTable.open(place.child(STABLE))
        held = _Held(tuple(table.home for table in tables), tables, stable)
        self._tables[key] = held
        return held

    def _figures(self, key: TableKey, tables: list[LayeredTable]) -> Figures:
        table = furthest(tables)
        seen = table.snapshot()
        changes = [f for f in seen.ingest if may_follow(f, seen.drained)]
        landed = [file for one in tables for file in live_files(one.ingest.handle)]
        stable = _of_stable(list(seen.stable), table.key[0], seen.stable_version, seen.drained)
        return Figures(
            ingest_rows=sum(file.rows for file in changes),
            ingest_bytes=sum(file.bytes for file in changes),
            ingest_segments=len(changes),
            ingest_to=seen.position,
            oldest_ms=self._oldest_ms(key, seen.drained) if changes else self._none_waits(key),
            drained_to=stable.drained_to,
            stable_rows=stable.stable_rows,
            stable_bytes=stable.stable_bytes,
            stable_files=stable.stable_files,
            small_files=stable.small_files,
            stable_version=stable.stable_version,
            size_bytes=stable.stable_bytes + sum(file.bytes for file in landed),
        )

    def _oldest_ms(self, key: TableKey, drained: Position) -> int:
        now_s = self._clock_s()
        since = self._waiting.get(key)
        if since is None or since[0] != drained:
            since = self._waiting[key] = (drained, now_s)
        return int((now_s - since[1]) * 1000)

    def _none_waits(self, key: TableKey) -> int:
        self._waiting.pop(key, None)
        return 0


def _of_stable(files: list[DataFile], column: str, version: int, drained: Position) -> Figures:
    small = groups(files, column, ROWS_MAX // 2) if column else []
    size = sum(file.bytes for file in files)
    return Figures(
        drained_to=drained,
        stable_rows=sum(file.rows for file in files),
        stable_bytes=size,
        stable_files=len(files),
        small_files=sum(map(len, small)),
        stable_version=version,
        size_bytes=size,
    )


def _buried_ms(place: Place) -> int:
    since_s = rests_since_s(place)
    return _LONG_MS if since_s is None else _since_ms(place, since_s)


def _since_ms(place: Place, then_s: float) -> int:
    return max(0, int((store_now_s(place) - then_s) * 1000))


def _troubled(key: TableKey, error: LockgateError) -> TableSeen:
    return TableSeen(*key, trouble=_trouble(error))


def _trouble(error: LockgateError) -> LakeTrouble:
    return LakeTrouble(str(error), error.hint)
