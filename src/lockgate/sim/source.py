"""The source of a feed: one log of keyed changes and schema changes, and its exact past.

    position   1        2        3            4              5         6
    entry      t0[k3]=1 t1[k0]=2 ALTER t0,t1  t0[k3]=None    DROP t1   CREATE t1 …

Every change carries the version of its table's schema, which rises with each CREATE and
ALTER of that name, so that a row on the wrong side of a DDL shows. A value is the position
that wrote it, so that no two writes look alike.
"""

from bisect import bisect_right
from random import Random
from typing import NamedTuple

from lockgate.model.ddl import Ddl, DdlKind
from lockgate.model.feeds import FeedSpec
from lockgate.model.ids import TableId
from lockgate.model.positions import Position
from lockgate.model.spans import WHOLE, KeyRange

KEYS: tuple[bytes, ...] = tuple(bytes([16 + 32 * index]) for index in range(8))
"""Every key that any table has. Split points may lie on them, between them, and beyond them."""

TABLES_MAX = 10

Value = Position | None
"""What a row holds; None: there is no such row."""

_keys_in: dict[KeyRange, tuple[int, ...]] = {}


def keys_in(keys: KeyRange) -> tuple[int, ...]:
    """The indexes into `KEYS` that a range covers."""
    found = _keys_in.get(keys)
    if found is None:
        found = tuple(index for index, key in enumerate(KEYS) if key in keys)
        _keys_in[keys] = found
    return found


class Change(NamedTuple):
    """One row written or deleted, under one version of its table's schema."""

    position: Position
    key: int
    value: Value
    version: int


class TableLog:
    """All that ever happened to one table name."""

    __slots__ = ("changes", "ddls", "past", "positions", "versions")

    def __init__(self) -> None:
        self.positions: list[Position] = []
        self.changes: list[Change] = []
        self.ddls: list[Ddl] = []
        self.versions: list[tuple[Position, int]] = []
        """From which position on which schema holds; 0: the table does not exist."""
        self.past: tuple[list[tuple[Position, Value]], ...] = tuple([] for _ in KEYS)

    def write(self, change: Change) -> None:
        self.positions.append(change.position)
        self.changes.append(change)
        self.past[change.key].append((change.position, change.value))

    def version_at(self, position: Position) -> int:
        """The schema's version right after `position`."""
        index = bisect_right(self.versions, (position, 1 << 60)) - 1
        return self.versions[index][1] if index >= 0 else 0

    def value_at(self, key: int, position: Position) -> Value:
        """The row right after `position`."""
        past = self.past[key]
        if not past or past[-1][0] <= position:
            return past[-1][1] if past else None
        index = bisect_right(past, position, key=_position) - 1
        return past[index][1] if index >= 0 else None


def _position(entry: tuple[Position, Value]) -> Position:
    return entry[0]


def _ddl_position(ddl: Ddl) -> Position:
    return ddl.position


class Source:
    """A growing log. It never forgets, and everything in it can be asked as of any position."""

    def __init__(self, rng: Random, tables: int, ddl_share: float, names: int = 14) -> None:
        self._rng = rng
        self._ddl_share = ddl_share
        self._names = [f"t{index:02}" for index in range(names)]
        self.head: Position = 0
        self.ddls: list[Ddl] = []
        self.logs: dict[TableId, TableLog] = {}
        self.alive: dict[TableId, int] = {}
        """Tables that exist at the head, with the version of their schema."""
        for name in self._names[:tables]:
            self._born(name)

    def log(self, table: TableId) -> TableLog:
        found = self.logs.get(table)
        if found is None:
            found = self.logs[table] = TableLog()
        return found

    def spec(self) -> FeedSpec:
        """What a person who creates a feed from here and now writes."""
        return FeedSpec(start=self.head, tables=tuple(sorted(self.alive)))

    # --- reading ----------------------------------------------------------------------------

    def next_ddl(self, table: TableId | None, position: Position) -> Ddl | None:
        """The first DDL after `position` that concerns the table; of any table for None."""
        ddls = self.ddls if table is None else self.logs[table].ddls
        if not ddls or ddls[-1].position <= position:
            return None
        return ddls[bisect_right(ddls, position, key=_ddl_position)]

    def changes(
        self, table: TableId, keys: KeyRange, low: Position, high: Position
    ) -> list[Change]:
        """The changes of a key range after `low`, up to and including `high`."""
        log = self.logs[table]
        positions = log.positions
        found = log.changes[bisect_right(positions, low) : bisect_right(positions, high)]
        if keys == WHOLE or not found:
            return found
        inside = keys_in(keys)
        return [change for change in found if change.key in inside]

    # --- growing ----------------------------------------------------------------------------

    def grow(self, entries: int) -> None:
        """Append some entries, now and then a schema change among them."""
        rng = self._rng
        for _ in range(entries):
            if rng.random() < self._ddl_share:
                self.append_ddl()
            elif self.alive:
                self._append_change()

    def _append_change(self) -> None:
        rng = self._rng
        tables = list(self.alive)
        table = tables[int(rng.random() * len(tables))]
        self.head += 1
        key = int(rng.random() * len(KEYS))
        value = None if rng.random() < 0.15 else self.head
        self.logs[table].write(Change(self.head, key, value, self.alive[table]))

    def append_ddl(self) -> None:
        """Append a schema change that is possible here."""
        rng = self._rng
        dice = rng.random()
        alive = list(self.alive)
        free = [name for name in self._names if name not in self.alive]
        many = 1 + (rng.random() < 0.25)
        if dice < 0.30 and free and len(alive) < TABLES_MAX:
            # Lately dropped names first: the same name with another past is the hard case.
            free.sort(key=lambda name: -len(self.log(name).versions))
            self.append(DdlKind.CREATE, tuple(free[:many]))
        elif dice < 0.50 and len(alive) > 2:
            self.append(DdlKind.DROP, tuple(rng.sample(alive, many)))
        elif dice < 0.80 and alive:
            self.append(DdlKind.ALTER, tuple(rng.sample(alive, min(many, len(alive)))))
        elif dice < 0.85 and alive:
            self.append(DdlKind.ALTER, (), every_table=True)
        else:
            self.append(DdlKind.SYNC, (), every_table=True)

    def append(self, kind: DdlKind, tables: tuple[TableId, ...], every_table: bool = False) -> Ddl:
        """Append this schema change."""
        self.head += 1
        ddl = Ddl(self.head, kind, tables, every_table)
        self.ddls.append(ddl)
        concerned = tuple(self.alive) if every_table else tables
        for table in concerned:
            self.log(table).ddls.append(ddl)
            if kind is DdlKind.CREATE:
                self._born(table)
            elif kind is DdlKind.DROP:
                self._gone(table)
            elif kind is DdlKind.ALTER:
                self.alive[table] += 1
                self.logs[table].versions.append((self.head, self.alive[table]))
        return ddl

    def _born(self, table: TableId) -> None:
        log = self.log(table)
        last = max((version for _, version in log.versions), default=0)
        self.alive[table] = last + 1
        log.versions.append((self.head, last + 1))

    def _gone(self, table: TableId) -> None:
        del self.alive[table]
        log = self.logs[table]
        log.versions.append((self.head, 0))
        for past in log.past:
            past.append((self.head, None))
