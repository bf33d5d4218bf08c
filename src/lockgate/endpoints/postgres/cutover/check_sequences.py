"""Looking at the sequences of a move: have they values left, and do those fit at the other side."""

from collections.abc import Iterator, Sequence

import psycopg

from lockgate.endpoints.postgres.check import error, ok, warning
from lockgate.endpoints.postgres.connect import connect
from lockgate.endpoints.postgres.faults import faults
from lockgate.endpoints.postgres.schema.definitions import SequenceDefinition, TableDefinition
from lockgate.endpoints.postgres.schema.discover import describe
from lockgate.endpoints.postgres.schema.sequences import SequenceState, read_sequences
from lockgate.endpoints.postgres.url import PostgresUrl
from lockgate.model.errors import LockgateError
from lockgate.model.findings import Finding, from_error
from lockgate.model.secret import Secret
from lockgate.model.tables import TableName

__all__ = ["carried", "near_their_end"]

Url = PostgresUrl | str | Secret
_Found = dict[tuple[TableName, str], tuple[SequenceDefinition, SequenceState]]


def near_their_end(url: Url, tables: Sequence[TableName]) -> list[Finding]:
    """Sequences that have given out nine tenths of their values, or all."""
    try:
        with connect(url, purpose="move test", autocommit=True) as connection:
            return list(_ends(_sequences(connection, tables)))
    except LockgateError as failed:
        return [from_error(failed)]


def carried(giving: Url, taking: Url, tables: Sequence[TableName]) -> list[Finding]:
    """Whether the taking side can go on where the giving side's sequences are."""
    try:
        with connect(giving, purpose="move test", autocommit=True) as connection:
            here = _sequences(connection, tables)
        with (
            connect(taking, purpose="move test", autocommit=True) as connection,
            faults(object_=PostgresUrl.parse(taking).label, operation="test"),
        ):
            there = _definitions(describe(connection, tables))
            named = {name for name in _names(here) if _is_there(connection, name)}
    except LockgateError as failed:
        return [from_error(failed)]
    found = list(_ends(here))
    for place, (definition, state) in here.items():
        table, column = place
        name = TableName(definition.schema, definition.name)
        other = there.get(place)
        if other is None and name not in named:
            what = f"the column {column} takes values from {name}, which is not at the taking side"
            hint = "make it there, as the default of the column or by its name"
            found.append(error("sequence-missing", what, str(table), hint))
        elif other is not None and not _fits(other, state.last):
            what = (
                f"{name} has come to {state.last}, and {other.name} at the taking side ends at "
                f"{other.maximum if definition.increment > 0 else other.minimum}"
            )
            hint = "ALTER SEQUENCE … AS bigint MAXVALUE … at the taking side"
            found.append(error("sequence-bounds", what, str(table), hint))
    if not any(one.severity.value == "error" for one in found):
        label = PostgresUrl.parse(taking).label
        found.append(ok("sequences", f"{len(here)} sequences can be carried over", label))
    return found


def _sequences(connection: psycopg.Connection, tables: Sequence[TableName]) -> _Found:
    definitions = describe(connection, tables)
    described = _definitions(definitions)
    states = read_sequences(connection, definitions.values())
    return {
        (state.table, state.column): (described[state.table, state.column], state)
        for state in states
    }


def _definitions(
    tables: dict[TableName, TableDefinition],
) -> dict[tuple[TableName, str], SequenceDefinition]:
    return {
        (name, column.name): column.sequence
        for name, definition in tables.items()
        for column in definition.columns
        if column.sequence is not None
    }


def _ends(found: _Found) -> Iterator[Finding]:
    seen: set[int] = set()
    for (table, column), (definition, state) in found.items():
        if not state.called or definition.cycle or definition.oid in seen:
            continue
        seen.add(definition.oid)
        up = definition.increment > 0
        left = definition.maximum - state.last if up else state.last - definition.minimum
        whole = definition.maximum - definition.minimum
        name = TableName(definition.schema, definition.name)
        hint = f"ALTER SEQUENCE {name} AS bigint MAXVALUE …, and the column's type if need be"
        if left < abs(definition.increment):
            what = f"{name}, for {column}, is at its end: it has no next value, at either side"
            yield warning("sequence-end", what, str(table), hint)
        elif left * 10 < whole:
            what = f"{name}, for {column}, has {left * 100 // whole} % of its values left"
            yield warning("sequence-end", what, str(table), hint)


def _fits(there: SequenceDefinition, last: int) -> bool:
    return there.minimum <= last <= there.maximum


def _names(here: _Found) -> set[TableName]:
    return {TableName(definition.schema, definition.name) for definition, _ in here.values()}


def _is_there(connection: psycopg.Connection, name: TableName) -> bool:
    row = connection.execute("SELECT to_regclass(%s) IS NOT NULL", (name.id,)).fetchone()
    return row == (True,)
