"""Sequences: read at the source, and set at the target beyond every value that was given out.

A sequence's last value is never below a value that it gave out: sessions that keep some in
advance take them off it first. One that was set to begin elsewhere (`RESTART WITH`) has given out
nothing, and begins there at the target too. A row may still hold a greater one that somebody wrote
by hand; where an index tells the column's greatest value cheaply, the sequence is set beyond that
too. One that begins anew at its end is what it is: no value of it is beyond all others.

Reading is outside of all transactions, as sequences are. The values are final once nobody
writes at the source any more.
"""

from collections.abc import Iterable, Sequence
from typing import Final

import psycopg
from psycopg import sql

from lockgate.endpoints.postgres.faults import faults
from lockgate.endpoints.postgres.schema.compose import TablePlan, sequence_name
from lockgate.endpoints.postgres.schema.definitions import TableDefinition
from lockgate.endpoints.postgres.schema.identifiers import identifier
from lockgate.model.errors import MissingPrivilege, ObjectMissing
from lockgate.model.tables import TableName
from lockgate.model.value import Value

__all__ = ["SequenceState", "read_sequences", "set_sequences"]


class SequenceState(Value, frozen=True):
    """How far a sequence is, and whose it is."""

    table: TableName
    column: str
    sequence: TableName
    last: int
    called: bool
    """`last` was given out; otherwise it will be the first."""


_LAST: Final = """
SELECT w.oid, n.nspname, c.relname, has_sequence_privilege(w.oid, 'SELECT'),
       CASE WHEN has_sequence_privilege(w.oid, 'USAGE') OR has_sequence_privilege(w.oid, 'SELECT')
            THEN pg_sequence_last_value(w.oid) END
FROM unnest(%s::oid[]) AS w(oid)
JOIN pg_class c ON c.oid = w.oid JOIN pg_namespace n ON n.oid = c.relnamespace
"""


def read_sequences(
    connection: psycopg.Connection, definitions: Iterable[TableDefinition]
) -> list[SequenceState]:
    """The state of every sequence that these tables' columns take values from."""
    used = [
        (definition.table, column.name, column.sequence)
        for definition in definitions
        for column in definition.columns
        if column.sequence is not None
    ]
    states = _read(connection, {sequence.oid for _, _, sequence in used})
    return [
        SequenceState(table, column, TableName(one.schema, one.name), *states[one.oid])
        for table, column, one in used
    ]


def _read(connection: psycopg.Connection, oids: Iterable[int]) -> dict[int, tuple[int, bool]]:
    """The last value of each, and whether that was given out."""
    label = f"{connection.info.host}:{connection.info.port}/{connection.info.dbname}"
    states: dict[int, tuple[int, bool]] = {}
    with faults(object_=label, operation="read sequences"):
        for oid, schema, relation, may, last in connection.execute(_LAST, (list(oids),)).fetchall():
            name = TableName(schema, relation)
            if last is not None:
                states[oid] = (last, True)
            elif not may:
                # To be used is enough to see what was given out, not where it would begin.
                raise MissingPrivilege(
                    "the sequence may not be read",
                    object_=f"{name}, {label}",
                    hint=f"GRANT SELECT ON SEQUENCE {name} to the role that the URL names",
                    operation="read sequences",
                )
            else:
                query = sql.SQL("SELECT last_value, is_called FROM {}").format(identifier(name))
                [states[oid]] = connection.execute(query).fetchall()
    return states


_TARGET: Final = """
SELECT s.seqrelid, s.seqincrement, s.seqmin, s.seqmax,
       EXISTS (SELECT FROM pg_index i
               JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]
               WHERE i.indrelid = %(table)s::text::regclass AND i.indisvalid AND i.indpred IS NULL
                 AND a.attname = %(column)s::text)
FROM pg_sequence s
WHERE s.seqrelid = coalesce(
    pg_get_serial_sequence(%(table)s::text, %(column)s::text)::regclass,
    to_regclass(%(sequence)s::text))
"""


def set_sequences(
    connection: psycopg.Connection, states: Sequence[SequenceState], plans: Iterable[TablePlan]
) -> dict[TableName, int]:
    """Set the target's sequences beyond `states`, never back. Answers what the columns now follow.

    Doing it again changes nothing. In one transaction's worth of time nobody should write.
    """
    by_table = {plan.source.table: plan for plan in plans}
    done: dict[TableName, int] = {}
    for state in states:
        plan = by_table.get(state.table)
        if plan is None or state.column in plan.left_out:
            continue
        column = next(c for c in plan.source.columns if c.name == state.column)
        if column.sequence is None:
            continue
        name = sequence_name(plan, column.sequence)
        with faults(object_=f"{name}, for {plan.target}", operation="set sequences"):
            cycles = column.sequence.cycle
            value = _set(connection, plan.target, state, name, cycles=cycles)
        if value is not None:
            done[name] = value
    return done


def _set(
    connection: psycopg.Connection,
    table: TableName,
    state: SequenceState,
    name: TableName,
    *,
    cycles: bool,
) -> int | None:
    """The value that it follows now; None when it has given out none and was left as it is."""
    row = connection.execute(
        _TARGET, {"table": table.id, "column": state.column, "sequence": name.id}
    ).fetchone()
    if row is None:
        raise ObjectMissing(
            "the sequence is not at the target",
            object_=f"{name}, for {table}.{state.column}",
            hint="make it there, as the default of the column or by its name",
            operation="set sequences",
        )
    oid, increment, least, greatest, indexed = row
    here = _read(connection, [oid])[oid]
    known = [(state.last, state.called)]
    if not cycles:
        known.append(here)
    if indexed and not cycles:
        pick = "SELECT max({}) FROM {}" if increment > 0 else "SELECT min({}) FROM {}"
        found = connection.execute(
            sql.SQL(pick).format(sql.Identifier(state.column), identifier(table))
        ).fetchone()
        # Rows out of the sequence's own bounds were never its to give out.
        if found and isinstance(found[0], int) and least <= found[0] <= greatest:
            known.append((found[0], True))
    up = 1 if increment > 0 else -1
    last, called = max(known, key=lambda one: (up * one[0], one[1]))
    if (last, called) != here:
        connection.execute("SELECT setval(%s::oid::regclass, %s, %s)", (oid, last, called))
    elif not called:
        return None
    return last
