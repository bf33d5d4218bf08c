"""The statements of a repair, for some rows of one range of one table.

    held     target    the rows as they are: key, hash, and columns that only the target has
    rows     source    the rows as they should be, with the source's own hash of each
             ────────────────────────────────────────────────────────────────────────────────
    delete             held, and not among the rows
    update             held, with another hash
    insert             among the rows, and not held
    remaining          what differs still, asked of the table itself

Both `held` and `rows` are temporary tables at the target, with names of their own for columns:
`k0`… the key, `c0`… the compared columns (the key's first), `x0`… the target's own, `h` the hash.
What is equal is decided by the hashes that a diff compares: the source's is made there and travels
with the row, so a value that the target's column cannot hold as it is does not pass for repaired.

Rows without a key are told apart by their hash, and `n` says how many there are of it.
"""

from collections.abc import Sequence
from typing import Final

from psycopg import sql

from lockgate.endpoints.postgres.copy.statements import cut_columns, typed
from lockgate.endpoints.postgres.diff.finding import Difference
from lockgate.endpoints.postgres.diff.forms import hash_of
from lockgate.endpoints.postgres.diff.items import DiffPart, SideTable
from lockgate.endpoints.postgres.diff.statements import inside, read_from
from lockgate.endpoints.postgres.masks import read_as
from lockgate.endpoints.postgres.schema.identifiers import identifier
from lockgate.endpoints.postgres.sink.target import Target

__all__ = ["Keyed", "Keyless"]

HELD: Final = sql.Identifier("pg_temp", "lockgate_repair_held")
ROWS: Final = sql.Identifier("pg_temp", "lockgate_repair_rows")
_COMMA: Final = sql.SQL(", ")
_AND: Final = sql.SQL(" AND ")


class _Statements:
    """What tables with and without a key have in common."""

    def __init__(self, part: DiffPart, seed: int, batch: Sequence[Difference]) -> None:
        self._part = part
        self._seed = seed
        self._batch = batch
        self._here = part.table.source
        self._there = part.table.target

    def make_rows(self) -> sql.Composed:
        """An empty table for rows, of the target's own types."""
        columns: list[sql.Composable] = [
            sql.SQL("{} AS {}").format(sql.Identifier(column.name), sql.Identifier(f"c{no}"))
            for no, column in enumerate(self._there.columns)
        ]
        columns += [sql.SQL("0::bigint AS {}").format(name) for name in self._told]
        return sql.SQL(
            "CREATE TEMPORARY TABLE {} ON COMMIT DROP AS SELECT {} FROM {} WITH NO DATA"
        ).format(sql.Identifier("lockgate_repair_rows"), _COMMA.join(columns), self._name)

    def copy_in(self, binary: bool) -> sql.Composed:
        """COPY what `copy_out` of the source gives into it."""
        columns = [sql.Identifier(f"c{no}") for no in range(len(self._there.columns))]
        return sql.SQL("COPY {} ({}) FROM STDIN (FORMAT {})").format(
            ROWS, _COMMA.join([*columns, *self._told]), _form(binary)
        )

    def _read(self, rows: sql.Composable, binary: bool) -> sql.Composed:
        return sql.SQL("COPY ({}) TO STDOUT (FORMAT {})").format(rows, _form(binary))

    @property
    def _told(self) -> list[sql.Identifier]:
        raise NotImplementedError

    @property
    def _name(self) -> sql.Identifier:
        return identifier(self._there.table)

    def _columns(self, table: SideTable) -> list[sql.Composable]:
        return [read_as(column.name, column.mask) for column in table.columns]

    def _hash(self, table: SideTable) -> sql.Composed:
        return hash_of(table.columns, self._seed)

    def _inside(self, table: SideTable) -> sql.Composed:
        return inside(table, self._part.space, self._seed)


class Keyed(_Statements):
    """Rows by their keys."""

    @property
    def _told(self) -> list[sql.Identifier]:
        return [sql.Identifier("h")]

    def hold(self, target: Target, *, lock: bool) -> sql.Composed:
        """Look at the target's rows, and lock them if nobody else keeps them as they are."""
        table = self._there
        columns: list[sql.Composable] = [
            sql.SQL("{} AS {}").format(sql.Identifier(each.column.name), sql.Identifier(f"k{no}"))
            for no, each in enumerate(table.key)
        ]
        columns += [
            sql.SQL("{} AS {}").format(column.name_sql, sql.Identifier(f"x{no}"))
            for no, column in enumerate(target.own)
        ]
        return sql.SQL(
            "CREATE TEMPORARY TABLE {} ON COMMIT DROP AS SELECT {}, {} AS h FROM {} WHERE {}{}"
        ).format(
            sql.Identifier("lockgate_repair_held"),
            _COMMA.join(columns),
            self._hash(table),
            read_from(table),
            self._chosen(table),
            sql.SQL(" FOR UPDATE" if lock else ""),
        )

    def copy_out(self, binary: bool) -> sql.Composed:
        """COPY the source's rows out."""
        table = self._here
        rows = sql.SQL("SELECT {}, {} FROM {} WHERE {}").format(
            _COMMA.join(self._columns(table)),
            self._hash(table),
            read_from(table),
            self._chosen(table),
        )
        return self._read(rows, binary)

    def delete(self, *, different: bool) -> sql.Composed:
        """Delete what should not be there; with `different`, also what is to be written anew."""
        which = sql.SQL("NOT EXISTS (SELECT FROM {} AS s WHERE {}{})").format(
            ROWS,
            self._same("h", "k", "s", "c"),
            sql.SQL(" AND s.h = h.h" if different else ""),
        )
        return sql.SQL("DELETE FROM {} AS t USING {} AS h WHERE {} AND {}").format(
            read_from(self._there), HELD, self._is_row("h", "k"), which
        )

    def update(self, target: Target) -> sql.Composed:
        """Change what is different. The key too: equal keys may be written in two ways."""
        columns = [(no, column) for no, column in target.fed if not column.always_identity]
        return sql.SQL(
            "UPDATE {} AS t SET {} FROM {} AS s JOIN {} AS h ON {} WHERE {} AND s.h <> h.h"
        ).format(
            read_from(self._there),
            _COMMA.join(
                sql.SQL("{} = {}").format(column.name_sql, sql.Identifier("s", f"c{no}"))
                for no, column in columns
            ),
            ROWS,
            HELD,
            self._same("h", "k", "s", "c"),
            self._is_row("s", "c"),
        )

    def insert(self, target: Target, *, different: bool) -> sql.Composed:
        """Insert what is missing; or what was different and is deleted, with the values that it
        had in the target's own columns."""
        own = target.own if different else []
        into = [column.name_sql for _, column in target.fed] + [each.name_sql for each in own]
        values = [sql.Identifier("s", f"c{no}") for no, _ in target.fed]
        values += [sql.Identifier("h", f"x{no}") for no in range(len(own))]
        which = (
            sql.SQL("JOIN {} AS h ON {} WHERE s.h <> h.h")
            if different
            else sql.SQL("WHERE NOT EXISTS (SELECT FROM {} AS h WHERE {})")
        ).format(HELD, self._same("h", "k", "s", "c"))
        return sql.SQL(
            "INSERT INTO {} ({}) OVERRIDING SYSTEM VALUE SELECT {} FROM {} AS s {}"
        ).format(self._name, _COMMA.join(into), _COMMA.join(values), ROWS, which)

    def remaining(self) -> sql.Composed:
        """How many of them are not as they should be."""
        keys = [
            sql.SQL("{} AS {}").format(sql.Identifier(each.column.name), sql.Identifier(f"k{no}"))
            for no, each in enumerate(self._there.key)
        ]
        return sql.SQL(
            "SELECT count(*) FROM (SELECT {}, {} AS h FROM {} WHERE {}) AS t "
            "FULL JOIN {} AS s ON {} WHERE t.h IS DISTINCT FROM s.h"
        ).format(
            _COMMA.join(keys),
            self._hash(self._there),
            read_from(self._there),
            self._chosen(self._there),
            ROWS,
            self._same("t", "k", "s", "c"),
        )

    def _chosen(self, table: SideTable) -> sql.Composed:
        """The batch's keys, and the range, which spares a server that does not use them the rest
        of the table."""
        size = range(len(table.key))
        lists = [
            sql.SQL("{}::text[]").format(sql.Literal([each.key[no] for each in self._batch]))
            for no in size
        ]
        names = [sql.Identifier("w", f"k{no}") for no in size]
        return sql.SQL("{} AND {} IN (SELECT {} FROM unnest({}) AS w ({}))").format(
            self._inside(table),
            cut_columns(table.key),
            _COMMA.join(typed(name, each) for name, each in zip(names, table.key, strict=True)),
            _COMMA.join(lists),
            _COMMA.join(sql.Identifier(f"k{no}") for no in size),
        )

    def _same(self, one: str, of_one: str, other: str, of_other: str) -> sql.Composed:
        return _AND.join(
            sql.SQL("{} = {}").format(
                sql.Identifier(one, f"{of_one}{no}"), sql.Identifier(other, f"{of_other}{no}")
            )
            for no in range(len(self._there.key))
        )

    def _is_row(self, one: str, of_one: str) -> sql.Composed:
        """A row of the target is the one that a temporary table speaks of."""
        columns = [sql.Identifier("t", each.column.name) for each in self._there.key]
        return _AND.join(
            sql.SQL("{} = {}").format(column, sql.Identifier(one, f"{of_one}{no}"))
            for no, column in enumerate(columns)
        )


class Keyless(_Statements):
    """Rows by their hashes: so many of each."""

    @property
    def _told(self) -> list[sql.Identifier]:
        return [sql.Identifier("h"), sql.Identifier("n")]

    def lock(self) -> sql.Composed:
        """Keep others from writing: how many there are of a row is nobody's row to lock."""
        return sql.SQL("LOCK TABLE {} IN SHARE ROW EXCLUSIVE MODE").format(read_from(self._there))

    def hold(self) -> sql.Composed:
        """Count the target's rows."""
        return sql.SQL(
            "CREATE TEMPORARY TABLE {} ON COMMIT DROP AS "
            "SELECT {} AS h, count(*) AS n FROM {} WHERE {} GROUP BY 1"
        ).format(
            sql.Identifier("lockgate_repair_held"),
            self._hash(self._there),
            read_from(self._there),
            self._chosen(self._there),
        )

    def copy_out(self, binary: bool) -> sql.Composed:
        """COPY one of the source's rows out for each hash, and how many there are."""
        table = self._here
        hash_ = self._hash(table)
        rows = sql.SQL(
            "SELECT DISTINCT ON ({hash}) {columns}, {hash}, count(*) OVER (PARTITION BY {hash}) "
            "FROM {table} WHERE {chosen}"
        ).format(
            hash=hash_,
            columns=_COMMA.join(self._columns(table)),
            table=read_from(table),
            chosen=self._chosen(table),
        )
        return self._read(rows, binary)

    def delete(self) -> sql.Composed:
        """Delete as many of each as there are too many."""
        return sql.SQL(
            "WITH surplus AS (SELECT h.h, h.n - coalesce(s.n, 0) AS n FROM {held} AS h "
            "LEFT JOIN {rows} AS s ON s.h = h.h WHERE h.n > coalesce(s.n, 0)), "
            "there AS (SELECT tableoid AS part, ctid AS place, {hash} AS h FROM {read} "
            "WHERE {chosen}), "
            "numbered AS (SELECT part, place, n, row_number() OVER (PARTITION BY h) AS nth "
            "FROM there JOIN surplus USING (h)) "
            "DELETE FROM {read} AS t USING numbered AS g "
            "WHERE t.tableoid = g.part AND t.ctid = g.place AND g.nth <= g.n"
        ).format(
            held=HELD,
            rows=ROWS,
            hash=self._hash(self._there),
            read=read_from(self._there),
            chosen=self._chosen(self._there),
        )

    def insert(self, target: Target) -> sql.Composed:
        """Insert as many of each as are missing."""
        return sql.SQL(
            "INSERT INTO {} ({}) OVERRIDING SYSTEM VALUE SELECT {} FROM {} AS s "
            "LEFT JOIN {} AS h ON h.h = s.h "
            "CROSS JOIN generate_series(1, s.n - coalesce(h.n, 0))"
        ).format(
            self._name,
            _COMMA.join(column.name_sql for _, column in target.fed),
            _COMMA.join(sql.Identifier("s", f"c{no}") for no, _ in target.fed),
            ROWS,
            HELD,
        )

    def remaining(self) -> sql.Composed:
        """How many rows are too many or too few."""
        return sql.SQL(
            "SELECT coalesce(sum(abs(coalesce(t.n, 0) - coalesce(s.n, 0))), 0)::bigint FROM "
            "(SELECT {} AS h, count(*) AS n FROM {} WHERE {} GROUP BY 1) AS t "
            "FULL JOIN {} AS s ON s.h = t.h"
        ).format(self._hash(self._there), read_from(self._there), self._chosen(self._there), ROWS)

    def _chosen(self, table: SideTable) -> sql.Composed:
        return sql.SQL("{} AND {} = ANY ({}::bigint[])").format(
            self._inside(table),
            self._hash(table),
            sql.Literal([each.hash for each in self._batch]),
        )


def _form(binary: bool) -> sql.SQL:
    return sql.SQL("binary" if binary else "text")
