"""A few rows as statements with parameters: for them, staging tables would cost more than the rows.

Each row is one DELETE, UPDATE or INSERT. Its values go as the texts that COPY would be given, and
the server takes each for the type of the column that it is written to or compared with, so every
type goes through its own input function as it does in COPY. The statements are sent one behind the
other without waiting for answers.

Not for every table. A key's column of somebody's own type is staged, because `=` may be declared
for other types than it. A rule (CREATE RULE) acts on INSERT and not on COPY. And where triggers
act, what fires for each statement would fire more often.
"""

import functools
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import psycopg
from psycopg import sql
from psycopg.rows import TupleRow

from lockgate.endpoints.postgres.sink.copytext import texts
from lockgate.endpoints.postgres.sink.merge import Step
from lockgate.endpoints.postgres.sink.net import Net, Rows
from lockgate.endpoints.postgres.sink.target import Target

__all__ = ["ROWS_MAX", "Statement", "allowed", "fits", "send", "statements", "steps"]

ROWS_MAX: Final = 32
"""Measured: about as many rows take as long as making and filling a staging table."""


class Statement(NamedTuple):
    """One row's change. The text has `$1`…; the values are texts, or None."""

    text: bytes
    values: Sequence[str | None]
    key: Sequence[str | None]
    """The row's."""
    finds: bool
    """The row should be at the target."""


def fits(net: Net) -> bool:
    """True when the net effect may be written in this way, if the target's table allows it."""
    return (
        net.rows <= ROWS_MAX
        and net.truncation is None
        and net.events is not None
        and not len(net.moves)
        and not net.inserts.keeps
    )


def allowed(target: Target) -> bool:
    """True when the target's table may be written in this way."""
    return not target.ruled and not target.rewrites and all(c.kind for c in target.key)


def statements(target: Target, net: Net) -> Iterator[Statement]:
    """Deletes, updates, inserts: the order in which `merge` goes its plain way."""
    key = net.log.key
    names = tuple(column.name for column in target.key)
    table = (target.table.schema, target.table.name)
    if net.deletes and len(net.deletes[0]):
        for values in _transposed(net.deletes):
            yield Statement(_delete(table, names), values, values, True)
    if len(net.updates):
        yield from _updates(target, net.updates, key, names)
    if len(net.inserts):
        fed = target.fed
        columns = net.inserts.columns([i for i, _ in fed], 0, len(net.inserts))
        text = _insert(table, tuple(column.name for _, column in fed))
        at = [[i for i, _ in fed].index(i) for i in key]
        for values in _transposed(columns):
            yield Statement(text, values, [values[i] for i in at], False)


def send(connection: psycopg.Connection, one: Statement) -> "psycopg.RawCursor[TupleRow]":
    """Send a statement; in a pipeline, without waiting. The cursor tells how many rows it met."""
    # Hundreds of tables have more statements than a session should keep plans for.
    return psycopg.RawCursor(connection).execute(one.text, one.values, prepare=False)


def steps(connection: psycopg.Connection, target: Target, net: Net) -> Iterator[Step]:
    """The statements as steps, for one item alone."""
    every = list(statements(target, net))
    for name, finds in (("change", True), ("insert", False)):
        some = [one for one in every if one.finds is finds]
        if some:
            words = functools.partial(_words, [column.name for column in target.key], some)
            yield Step(name, len(some), functools.partial(_run, connection, some), words, finds)


def _run(connection: psycopg.Connection, some: list[Statement], start: int, stop: int) -> int:
    with connection.pipeline():
        cursors = [send(connection, one) for one in some[start:stop]]
    return sum(cursor.rowcount for cursor in cursors)


def _words(names: list[str], some: list[Statement], i: int) -> str:
    return ", ".join(
        f"{name}={'NULL' if value is None else value}"
        for name, value in zip(names, some[i].key, strict=True)
    )


def _updates(
    target: Target, rows: Rows, key: list[int], names: tuple[str, ...]
) -> Iterator[Statement]:
    """Each row sets what the log has of it; what it keeps is not touched."""
    table = (target.table.schema, target.table.name)
    own = list(_transposed(rows.columns(key, 0, len(rows))))
    set_ = [(i, column.name) for i, column in target.fed if i not in key]
    values = list(_transposed(rows.columns([i for i, _ in set_], 0, len(rows)))) if set_ else []
    for n in range(len(rows) if set_ else 0):
        kept = [i in rows.keeps and bool(rows.keeps[i][n]) for i, _ in set_]
        changed = tuple(name for (_, name), keeps in zip(set_, kept, strict=True) if not keeps)
        given = [value for value, keeps in zip(values[n], kept, strict=True) if not keeps]
        if changed:
            yield Statement(_update(table, changed, names), [*given, *own[n]], own[n], True)


def _transposed(columns: list[object]) -> Iterator[tuple[str | None, ...]]:
    return zip(*(column.to_pylist() for column in texts(columns)), strict=True)


# --- their texts ----------------------------------------------------------------------------------


@functools.lru_cache(maxsize=8192)
def _delete(table: tuple[str, str], key: tuple[str, ...]) -> bytes:
    return b"DELETE FROM %s WHERE %s" % (_name(*table), _matching(key, 1))


@functools.lru_cache(maxsize=8192)
def _update(table: tuple[str, str], columns: tuple[str, ...], key: tuple[str, ...]) -> bytes:
    pairs = [b"%s = $%d" % (_name(name), n) for n, name in enumerate(columns, 1)]
    where = _matching(key, len(columns) + 1)
    return b"UPDATE %s SET %s WHERE %s" % (_name(*table), b", ".join(pairs), where)


@functools.lru_cache(maxsize=8192)
def _insert(table: tuple[str, str], columns: tuple[str, ...]) -> bytes:
    return b"INSERT INTO %s (%s) OVERRIDING SYSTEM VALUE VALUES (%s)" % (
        _name(*table),
        b", ".join(map(_name, columns)),
        b", ".join(b"$%d" % n for n in range(1, len(columns) + 1)),
    )


def _matching(key: tuple[str, ...], first: int) -> bytes:
    return b" AND ".join(b"%s = $%d" % (_name(name), n) for n, name in enumerate(key, first))


def _name(*parts: str) -> bytes:
    return sql.Identifier(*parts).as_bytes()
