"""A net effect as steps at the target, each over rows that can be halved.

    plain       delete, then update, then insert: for rows that do not fight over anything
    rewriting   for rows that swap unique values, or whose kept values lie under another key: the
                final rows are made first, from the log and from what the target holds; then all
                rows concerned are deleted; then the final ones are inserted. No order of rows can
                collide in this, only two final rows can.

Rows to delete and to update are staged, and joined by key: one statement for all of them. New
rows are COPYed straight into the table.

A step runs for a range of its rows. All of them is the normal case; ranges exist to find the row
that the target refuses (see `refused`), and only then are staged rows numbered.

A table without a key is compared by whole rows, and by what they are written as: `ROW(…)::text`
has a form for every type, also for those without `=` (json, xml, point), tells 1.0 from 1.00 and
NULL from empty, and can be hashed. Columns whose `=` says the same are named too, so that the
server can find rows by what is quicker.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import psycopg
import pyarrow as pa
from psycopg import sql

from lockgate.endpoints.keys import has_order
from lockgate.endpoints.postgres.sink.copytext import texts
from lockgate.endpoints.postgres.sink.joins import joined
from lockgate.endpoints.postgres.sink.net import Mask, Net, Rows
from lockgate.endpoints.postgres.sink.staging import Field, Staging, Values, between, copy_in
from lockgate.endpoints.postgres.sink.target import Target, TargetColumn
from lockgate.endpoints.postgres.sink.wipe import chosen, empty, keys_held

__all__ = ["Merge", "Step"]

_COMMA: Final = sql.SQL(", ")
_AND: Final = sql.SQL(" AND ")
_WORDS_MAX: Final = 200
"""How much of a row is said when it has no key."""


@dataclass(frozen=True)
class Step:
    """Something done to `size` rows; `run(start, stop)` does it to some, and counts them."""

    name: str
    size: int
    run: Callable[[int, int], int]
    row: Callable[[int], str]
    """One of the rows in words, by its key."""
    finds: bool = False
    """The rows should be at the target: those that are not counted are missing there."""


class Merge:
    """The steps for one net effect, on one connection, in its open transaction."""

    def __init__(
        self,
        connection: psycopg.Connection,
        target: Target,
        net: Net,
        *,
        numbered: bool = False,
        binary: bool = True,
    ) -> None:
        self._connection = connection
        self._target = target
        self._net = net
        self._numbered = numbered
        self._binary = binary
        self._key = net.log.key

    # --- the two ways -----------------------------------------------------------------------------

    def plain(self) -> Iterator[Step]:
        """Deletes, updates, inserts. A step is made when those before it have been run."""
        assert not len(self._net.moves), "rows with values under other keys must be rewritten"
        yield from self.truncating()
        if self._key:
            yield from self._delete("deletes", self._net.deletes)
        else:
            yield from self._delete_images(self._net.deletes)
        if len(self._net.updates):
            yield from self._update(self._net.updates)
        yield from self._insert(self._net.inserts)

    def rewriting(self) -> Iterator[Step]:
        """Final rows, delete whatever is concerned, insert the final rows. There is a key."""
        net = self._net
        named = (("updates", net.updates), ("moves", net.moves))
        existing = [(name, rows) for name, rows in named if len(rows)]
        yield from self.truncating()
        for name, rows in existing:
            yield from self._finish(name, rows)
        every = [rows for _, rows in existing] + [net.inserts]
        touched = [net.deletes] + [rows.columns(self._key, 0, len(rows)) for rows in every]
        keys = [pa.concat_arrays(list(parts)) for parts in zip(*touched, strict=True)]
        yield from self._delete("touched", keys, finds=False)
        for name, rows in existing:
            yield self._insert_final(name, rows)
        yield from self._insert(net.inserts)

    # --- truncate ---------------------------------------------------------------------------------

    def truncating(self) -> Iterator[Step]:
        """A TRUNCATE, if there is one."""
        truncation = self._net.truncation
        if truncation is None:
            return
        if truncation.whole:
            yield Step("truncate", 1, self._empty, lambda _: "all rows")
        else:
            held = keys_held(self._connection, self._target, self._net.log.shape)
            yield from self._delete("wiped", chosen(held, truncation.wiped(held)), finds=False)

    def _empty(self, start: int, stop: int) -> int:
        empty(self._connection, self._target.name_sql)
        return stop - start

    # --- delete -----------------------------------------------------------------------------------

    def _delete(self, name: str, keys: list[Any], *, finds: bool = True) -> Iterator[Step]:
        size = len(keys[0])
        if not size:
            return
        values = [partial(_piece, column) for column in keys]
        staged = self._staging(name, self._key_fields(values))
        words = partial(self._words, self._key, values)
        yield Step(f"stage {name}", size, staged.copy, words)
        statement = sql.SQL("DELETE FROM {} AS t USING {} AS s WHERE {}").format(
            self._target.name_sql, staged.name, self._same_key()
        )
        yield Step("delete", size, partial(self._run, staged, statement), words, finds)

    def _delete_images(self, images: list[Any]) -> Iterator[Step]:
        """One row for each image; of several that are written alike, any one."""
        size = len(images[0]) if images else 0
        if not size:
            return
        fed = self._target.fed
        values = [partial(_piece, images[i]) for i, _ in fed]
        staged = self._staging(
            "images",
            [
                Field(f"c{i}", column.name_sql, column.kind, value)
                for (i, column), value in zip(fed, values, strict=True)
            ],
        )
        words = partial(self._words, [i for i, _ in fed], values)
        yield Step("stage images", size, staged.copy, words)
        statement = partial(delete_images, self._target, staged)

        def run(start: int, stop: int) -> int:
            return self._connection.execute(statement(start, stop)).rowcount

        yield Step("delete", size, run, words, True)

    # --- update -----------------------------------------------------------------------------------

    def _update(self, rows: Rows) -> Iterator[Step]:
        settable = [
            (i, column)
            for i, column in self._target.fed
            if i not in self._key and not (i in rows.keeps and rows.keeps[i].all())
        ]
        if not settable:
            return
        own = [partial(rows.column, i) for i in self._key]
        staged = self._staging(
            "updates", self._key_fields(own) + self._value_fields(rows, settable)
        )
        words = partial(self._words, self._key, own)
        yield Step("stage updates", len(rows), staged.copy, words)
        statement = sql.SQL("UPDATE {} AS t SET {} FROM {} AS s WHERE {}").format(
            self._target.name_sql,
            _COMMA.join(
                sql.SQL("{} = {}").format(column.name_sql, _value(rows, i, column.name))
                for i, column in settable
            ),
            staged.name,
            self._same_key(),
        )
        yield Step("update", len(rows), partial(self._run, staged, statement), words, True)

    # --- rewrite ----------------------------------------------------------------------------------

    def _finish(self, name: str, rows: Rows) -> Iterator[Step]:
        """Make the final rows of what the target has: the log's values, or its own where kept."""
        fed = self._target.fed
        own = [partial(rows.column, i) for i in self._key]
        origin = own if rows.origin is None else [partial(_piece, c) for c in rows.origin]
        staged = self._staging(name, self._key_fields(origin) + self._value_fields(rows, fed))
        yield Step(f"stage {name}", len(rows), staged.copy, partial(self._words, self._key, own))
        values: list[sql.Composable] = [
            sql.SQL("{} AS {}").format(_value(rows, i, column.name), sql.Identifier(f"c{i}"))
            for i, column in fed
        ]
        values += [
            sql.SQL("{} AS {}").format(sql.Identifier("t", column.name), sql.Identifier(f"x{i}"))
            for i, column in enumerate(self._target.own)
        ]
        if self._numbered:
            values.append(sql.SQL("s.n"))
        make = sql.SQL(
            "CREATE TEMPORARY TABLE {} ON COMMIT DROP AS SELECT {} FROM {} AS s JOIN {} AS t ON {}"
        ).format(
            sql.Identifier(f"lockgate_final_{name}"),
            _COMMA.join(values),
            staged.name,
            self._target.name_sql,
            self._same_key(),
        )
        with self._joined(len(rows)):
            self._connection.execute(make)

    def _insert_final(self, name: str, rows: Rows) -> Step:
        fed, own = self._target.fed, self._target.own
        statement = sql.SQL(
            "INSERT INTO {} ({}) OVERRIDING SYSTEM VALUE SELECT {} FROM {} AS s WHERE true"
        ).format(
            self._target.name_sql,
            _COMMA.join([column.name_sql for _, column in fed] + [c.name_sql for c in own]),
            _COMMA.join(
                [sql.Identifier("s", f"c{i}") for i, _ in fed]
                + [sql.Identifier("s", f"x{i}") for i, _ in enumerate(own)]
            ),
            sql.Identifier("pg_temp", f"lockgate_final_{name}"),
        )

        def run(start: int, stop: int) -> int:
            some = between(start, stop, self._numbered)
            return self._connection.execute(statement + some).rowcount

        words = partial(self._words, self._key, [partial(rows.column, i) for i in self._key])
        return Step("insert", len(rows), run, words, True)

    # --- insert -----------------------------------------------------------------------------------

    def _insert(self, rows: Rows) -> Iterator[Step]:
        if not len(rows):
            return
        fed = self._target.fed
        copy = partial(
            copy_in,
            self._connection,
            self._target.name_sql,
            [(column.name, column.kind) for _, column in fed],
            partial(rows.columns, [i for i, _ in fed]),
            self._binary,
        )
        key = self._key or [i for i, _ in fed]
        values = [partial(rows.column, i) for i in key]
        yield Step("insert", len(rows), copy, partial(self._words, key, values))

    # --- what they share --------------------------------------------------------------------------

    def _staging(self, name: str, fields: list[Field]) -> Staging:
        return Staging(
            self._connection,
            f"lockgate_{name}",
            self._target,
            fields,
            numbered=self._numbered,
            binary=self._binary,
        )

    def _key_fields(self, values: Sequence[Values]) -> list[Field]:
        return [
            Field(f"k{j}", column.name_sql, column.kind, value)
            for j, (column, value) in enumerate(zip(self._target.key, values, strict=True))
        ]

    def _value_fields(self, rows: Rows, columns: list[tuple[int, TargetColumn]]) -> list[Field]:
        # A kept value is staged as NULL, which a domain may refuse. So it is the base type's, and
        # the domain is asked when the value goes into the table.
        values = [
            Field(
                f"c{i}",
                column.unconstrained_sql if i in rows.keeps else column.name_sql,
                column.kind,
                partial(rows.column, i),
            )
            for i, column in columns
        ]
        kept = [
            Field(f"m{i}", sql.SQL("false"), "bool", partial(_flags, rows.keeps[i]))
            for i, _ in columns
            if i in rows.keeps
        ]
        return values + kept

    def _same_key(self) -> sql.Composable:
        return _AND.join(
            sql.SQL("{} = {}").format(
                sql.Identifier("t", column.name), sql.Identifier("s", f"k{j}")
            )
            for j, column in enumerate(self._target.key)
        )

    def _run(self, staged: Staging, statement: sql.Composed, start: int, stop: int) -> int:
        with self._joined(stop - start):
            return self._connection.execute(statement + staged.between(start, stop)).rowcount

    def _joined(self, size: int) -> AbstractContextManager[None]:
        """The best way to find so many rows of the target by their keys."""
        ordered = all(has_order(self._net.log.new[i].type) for i in self._key)
        return joined(self._connection, size, self._target.rows, ordered=ordered)

    def _words(self, numbers: list[int], values: Sequence[Values], i: int) -> str:
        names = [self._net.log.shape.columns[number].name for number in numbers]
        said = texts([value(i, i + 1) for value in values])
        words = ", ".join(
            f"{name}={column[0].as_py() if column[0].is_valid else 'NULL'}"
            for name, column in zip(names, said, strict=True)
        )
        return words if len(words) <= _WORDS_MAX else f"{words[:_WORDS_MAX]}…"


def delete_images(target: Target, staged: Staging, start: int, stop: int) -> sql.Composed:
    """Delete one row for each staged image from `start` to `stop`."""
    fed = target.fed
    telling = [(i, column) for i, column in fed if column.plain and column.required]
    return sql.SQL(
        "WITH gone AS (SELECT {image} AS image, count(*) AS times{telling} "
        "FROM {staged} AS s WHERE true{some} GROUP BY image{telling}), "
        "held AS (SELECT t.tableoid, t.ctid, s.times, "
        "row_number() OVER (PARTITION BY s.image) AS nth "
        "FROM {target} AS t JOIN gone AS s ON {held} = s.image{same}) "
        "DELETE FROM {target} AS t USING held "
        "WHERE t.tableoid = held.tableoid AND t.ctid = held.ctid AND held.nth <= held.times"
    ).format(
        image=_image([sql.Identifier("s", f"c{i}") for i, _ in fed]),
        held=_image([sql.Identifier("t", column.name) for _, column in fed]),
        telling=_listed([sql.SQL(", {}").format(sql.Identifier(f"c{i}")) for i, _ in telling]),
        same=_listed(
            [
                sql.SQL(" AND {} = {}").format(
                    sql.Identifier("t", column.name), sql.Identifier("s", f"c{i}")
                )
                for i, column in telling
            ]
        ),
        some=staged.between(start, stop),
        staged=staged.name,
        target=target.name_sql,
    )


def _image(columns: list[sql.Identifier]) -> sql.Composed:
    return sql.SQL("ROW({})::text").format(_COMMA.join(columns))


def _listed(parts: list[sql.Composed]) -> sql.Composed:
    return sql.SQL("").join(parts)


def _value(rows: Rows, i: int, name: str) -> sql.Composable:
    """What column `i` becomes: the staged value, or the target's own where that is kept."""
    staged = sql.Identifier("s", f"c{i}")
    if i not in rows.keeps:
        return staged
    return sql.SQL("CASE WHEN {} THEN {} ELSE {} END").format(
        sql.Identifier("s", f"m{i}"), sql.Identifier("t", name), staged
    )


def _piece(column: Any, start: int, stop: int) -> Any:
    return column.slice(start, stop - start)


def _flags(mask: Mask, start: int, stop: int) -> Any:
    return pa.array(mask[start:stop])
