"""A source's log that a seed makes, and what each of its tables is at each position.

Both feeds land this log and the reader compares with it, each in a process of its own: all of them
make it anew from the seed. Tables are created, get a column, are dropped and created again under
the same name. A life of a table at the source is from its creation to its drop; whatever
incarnation the lake has of it, its rows are those of the life that its number lies in.
"""

import random
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from lockgate.endpoints.delta.changes import DELETE, OP, POSITION, PUT, SEQ, WIPE, ingest_schema

__all__ = [
    "START",
    "Entry",
    "Rows",
    "Source",
    "changes_table",
    "rows_in",
    "rows_schema",
    "rows_table",
]

START: Final = 100
"""The position at which the feeds are born; there is no table yet."""
_STEP: Final = 10
_IDS: Final = 40

Rows = dict[int, tuple[int | None, int | None]]
Change = tuple[str, int, int | None, int | None]
"""What, id, v, w."""


@dataclass(frozen=True)
class Entry:
    """One commit of the source: rows of one table, or a schema change."""

    position: int
    kind: str
    """`rows`, `create`, `alter` (the table gets the column w) or `drop`."""
    table: str
    changes: tuple[Change, ...] = ()
    seq: int = 0
    """Of the first change."""


@dataclass(frozen=True)
class Life:
    """Of a table at the source, in [born, ended)."""

    born: int
    ended: int | None


class Source:
    """The log of one run."""

    def __init__(self, seed: int) -> None:
        draw = random.Random(f"source {seed}")
        self.tables = [f"public.t{number}" for number in range(draw.choice([2, 2, 3, 3, 4]))]
        self.entries: list[Entry] = []
        self._draw = draw
        self._wide: dict[str, bool] = {}
        """Tables that live, and whether they have the column w."""
        self._seq = 0
        self._write(draw.randint(5, 10))
        self.end = self.entries[-1].position + _STEP
        self._states: dict[tuple[str, int, int], Rows] = {}

    # --- making it ------------------------------------------------------------------------------

    def _write(self, steps: int) -> None:
        for table in self.tables:
            self._add("create", table)
            self._change(table)
        for _ in range(steps):
            table = self._draw.choice(self.tables)
            if table not in self._wide:
                self._add("create", table)
                self._change(table)
                continue
            kind = self._draw.choices(["rows", "drop", "again", "alter"], [8, 1, 2, 1])[0]
            if kind == "rows" or (kind == "alter" and self._wide[table]):
                self._change(table)
            elif kind == "again":
                self._add("drop", table)
                self._add("create", table)
                self._change(table)
            else:
                self._add(kind, table)

    def _add(self, kind: str, table: str) -> None:
        if kind == "drop":
            del self._wide[table]
        else:
            self._wide[table] = kind == "alter"
        self.entries.append(Entry(self._next(), kind, table))

    def _change(self, table: str) -> None:
        draw = self._draw
        changes: list[Change] = []
        for _ in range(draw.randint(1, 8)):
            op = draw.choices([PUT, DELETE, WIPE], [14, 4, 1])[0]
            w = draw.randint(0, 99) if self._wide[table] else None
            changes.append((op, draw.randrange(_IDS), draw.choice([None, draw.randint(0, 99)]), w))
        self.entries.append(Entry(self._next(), "rows", table, tuple(changes), self._seq))
        self._seq += len(changes)

    def _next(self) -> int:
        return (self.entries[-1].position if self.entries else START) + _STEP

    # --- what it says ---------------------------------------------------------------------------

    def of(self, table: str, after: int, upto: int) -> list[Entry]:
        """The entries about a table in (after, upto]."""
        return [one for one in self.entries if one.table == table and after < one.position <= upto]

    def changes(self, table: str, after: int, upto: int) -> list[Entry]:
        """Those that change rows."""
        return [one for one in self.of(table, after, upto) if one.kind == "rows"]

    def next_ddl(self, after: int) -> Entry | None:
        """The first schema change behind a position."""
        later = (one for one in self.entries if one.position > after and one.kind != "rows")
        return next(later, None)

    def life(self, table: str, position: int) -> Life | None:
        """The life of the table that the position lies in."""
        born: int | None = None
        for one in self.of(table, 0, self.end):
            if one.kind == "create" and one.position <= position:
                born = one.position
            elif one.kind == "drop":
                if one.position > position:
                    return None if born is None else Life(born, one.position)
                born = None
        return None if born is None else Life(born, None)

    def wide(self, table: str, position: int) -> bool:
        """Whether the table has the column w there."""
        life = self.life(table, position)
        after = position if life is None else life.born
        return any(one.kind == "alter" for one in self.of(table, after, position))

    def rows(self, table: str, incarnation: int, position: int) -> Rows | None:
        """What an incarnation is at a position; None: the source has no such table."""
        life = self.life(table, incarnation)
        if life is None:
            return None
        key = (table, life.born, position)
        if key not in self._states:
            rows: Rows = {}
            upto = position if life.ended is None else min(position, life.ended)
            for one in self.changes(table, life.born, upto):
                for op, id_, v, w in one.changes:
                    if op == PUT:
                        rows[id_] = (v, w)
                    elif op == WIPE:
                        rows.clear()
                    else:
                        rows.pop(id_, None)
            self._states[key] = rows
        return self._states[key]


def rows_schema(*, wide: bool) -> pa.Schema:
    """The columns of a table."""
    fields = [("id", pa.int64()), ("v", pa.int64())]
    return pa.schema([*fields, ("w", pa.int64())] if wide else fields)


def changes_table(entries: list[Entry], schema: pa.Schema) -> pa.Table:
    """The changes of entries, as an ingest with these columns keeps them."""
    out: list[dict[str, Any]] = []
    for one in entries:
        for number, (op, id_, v, w) in enumerate(one.changes):
            row: dict[str, Any] = {"id": id_}
            if op == PUT:
                row |= {"v": v, "w": w}
            elif op == WIPE:
                row = {}
            out.append({**row, POSITION: one.position, SEQ: one.seq + number, OP: op})
    plain = pa.schema([field for field in schema if not field.name.startswith("_lockgate")])
    return pa.Table.from_pylist(out, schema=ingest_schema(plain))


def rows_table(rows: Rows, schema: pa.Schema) -> pa.Table:
    """Rows as a file of stable has them."""
    out = [{"id": id_, "v": v, "w": w} for id_, (v, w) in sorted(rows.items())]
    return pa.Table.from_pylist(out, schema=schema)


def rows_in(found: pa.Table) -> Rows:
    """The rows of a table that was read. AssertionError when a key is there twice."""
    rows: Rows = {}
    for row in found.to_pylist():
        assert row["id"] not in rows, f"the key {row['id']} is there twice"
        rows[row["id"]] = (row["v"], row.get("w"))
    return rows
