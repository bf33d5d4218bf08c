"""Tables at the target: made as at the source, under the names they are routed to.

An equal table that is there is kept, so a run that was killed goes on where it was. A table that
could not take the source's rows is refused, and so is, when asked, one that has rows.
On a connection in autocommit each table is a transaction of its own; else all are part of the
caller's.
"""

import functools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import psycopg
from psycopg import errors, sql

from lockgate.endpoints.postgres.faults import faults
from lockgate.endpoints.postgres.schema.compare import compare
from lockgate.endpoints.postgres.schema.compose import (
    Composition,
    Extra,
    TablePlan,
    TargetFacts,
    compose_table,
    sequence_name,
)
from lockgate.endpoints.postgres.schema.definitions import TableDefinition, TypeDefinition
from lockgate.endpoints.postgres.schema.discover import bare_names, describe
from lockgate.endpoints.postgres.schema.errors import TableDiffers, TableNotEmpty
from lockgate.endpoints.postgres.schema.identifiers import identifier, partition_name
from lockgate.endpoints.postgres.schema.notes import Note
from lockgate.endpoints.postgres.schema.usertypes import compose_type, missing_types, types_of
from lockgate.model.errors import Terminal
from lockgate.model.tables import TableName

__all__ = ["Created", "create", "facts_of", "obstacles", "schemas_of", "unmake"]

_LACKING = (
    errors.UndefinedFunction,
    errors.UndefinedObject,
    errors.UndefinedTable,
    errors.UndefinedColumn,
    errors.InvalidSchemaName,
    errors.InsufficientPrivilege,
)
"""What an expression can fail with that calls or names something the target does not have."""


@dataclass
class Created:
    """What there is now at the target."""

    made: list[TableName] = field(default_factory=list)
    kept: list[TableName] = field(default_factory=list)
    """Were there already."""
    notes: list[Note] = field(default_factory=list)


def create(
    connection: psycopg.Connection, plans: Sequence[TablePlan], *, must_be_empty: bool = True
) -> Created:
    """Have all planned tables at the target. Raises before anything is made if one cannot be."""
    label = _label(connection)
    done = Created()
    there = describe(connection, [plan.target for plan in plans])
    for plan in plans:
        if plan.target in there:
            done.notes += _check(plan, there[plan.target])
    if must_be_empty:
        _check_empty(connection, list(there))
    lacking = _lacking(connection, plans)
    with faults(object_=label, operation="make tables"):
        facts = facts_of(connection, plans)
        with connection.transaction():
            _make_schemas(connection, plans, lacking)
            for each in lacking:
                connection.execute(compose_type(each))
    for plan in plans:
        if plan.target in there:
            done.kept.append(plan.target)
        else:
            with faults(object_=f"{plan.target}, {label}", operation="make a table"):
                done.notes += _make(connection, compose_table(plan, facts))
            done.made.append(plan.target)
    return done


def obstacles(
    connection: psycopg.Connection, plans: Sequence[TablePlan], *, must_be_empty: bool = True
) -> list[Terminal]:
    """All that `create` would refuse, found out without making anything."""
    there = describe(connection, [plan.target for plan in plans])
    looks: list[Callable[[], object]] = [
        functools.partial(_check, plan, there[plan.target])
        for plan in plans
        if plan.target in there
    ]
    if must_be_empty:
        looks.append(lambda: _check_empty(connection, list(there)))
    looks.append(lambda: _lacking(connection, plans))
    found: list[Terminal] = []
    for look in looks:
        try:
            look()
        except Terminal as error:
            found.append(error)
    return found


def unmake(
    connection: psycopg.Connection, plans: Sequence[TablePlan], made: Sequence[TableName]
) -> None:
    """Drop what an unfinished attempt has made and what no plan fits. Tables with rows stay."""
    there = describe(connection, made)
    planned = {plan.target: plan for plan in plans}
    for name, definition in there.items():
        plan = planned.get(name)
        if plan is not None and not any(note.blocking for note in compare(plan, definition)):
            continue
        with faults(object_=str(name), operation="make a table again"):
            row = connection.execute(
                sql.SQL("SELECT EXISTS (SELECT FROM {})").format(identifier(name))
            ).fetchone()
            if row is not None and not row[0]:
                connection.execute(sql.SQL("DROP TABLE {}").format(identifier(name)))


def facts_of(connection: psycopg.Connection, plans: Iterable[TablePlan]) -> TargetFacts:
    """What the target's server can, as far as these tables ask for it."""
    wanted = {column.collation for plan in plans for column in plan.columns if column.collation}
    found = connection.execute(
        "SELECT n.nspname, c.collname FROM pg_collation c "
        "JOIN pg_namespace n ON n.oid = c.collnamespace "
        "WHERE c.collname = ANY (%s) AND c.collencoding IN (-1, ("
        "SELECT encoding FROM pg_database WHERE datname = current_database()))",
        ([name for _, name in wanted],),
    )
    there = {(schema, name) for schema, name in found}
    return TargetFacts(connection.info.server_version, frozenset(wanted - there))


def schemas_of(plan: TablePlan) -> set[str]:
    """The schemas that the table, its partitions and its sequences lie in."""
    parts = {
        partition_name(each.table, plan.source.table, plan.target).schema
        for each in plan.source.partitions
    }
    sequences = {
        sequence_name(plan, column.sequence).schema
        for column in plan.columns
        if column.sequence is not None and not column.identity
    }
    return {plan.target.schema} | parts | sequences


def _label(connection: psycopg.Connection) -> str:
    return f"{connection.info.host}:{connection.info.port}/{connection.info.dbname}"


def _lacking(connection: psycopg.Connection, plans: Sequence[TablePlan]) -> list[TypeDefinition]:
    """Types that have to be made first. Raises when one cannot be, or is another one there."""
    types = types_of(
        (column for plan in plans for column in plan.columns),
        (each for plan in plans for each in plan.source.types),
    )
    with faults(object_=_label(connection), operation="make tables"), bare_names(connection):
        return missing_types(connection, types)


def _check(plan: TablePlan, there: TableDefinition) -> list[Note]:
    found = compare(plan, there)
    blocking = [note for note in found if note.blocking]
    if blocking:
        hints = [note.hint for note in blocking if note.hint]
        raise TableDiffers(
            f"a table of this name is there and differs: {'; '.join(map(str, blocking))}",
            object_=str(plan.target),
            hint="; ".join(hints) or "change or drop it, or route the table to another name",
            operation="make tables",
        )
    return found


def _check_empty(connection: psycopg.Connection, there: list[TableName]) -> None:
    if not there:
        return
    some = sql.SQL(" UNION ALL ").join(
        sql.SQL("SELECT {} WHERE EXISTS (SELECT FROM {})").format(number, identifier(name))
        for number, name in enumerate(there)
    )
    with faults(object_=str(there[0]), operation="look for rows"):
        found = [there[row[0]] for row in connection.execute(some)]
    if found:
        more = f" (so have {len(found) - 1} more)" if len(found) > 1 else ""
        raise TableNotEmpty(
            f"the table is there and has rows{more}",
            object_=", ".join(map(str, found[:5])),
            hint="empty or drop it, route the table to another name, or start without a copy",
            operation="make tables",
        )


def _make_schemas(
    connection: psycopg.Connection, plans: Iterable[TablePlan], types: Iterable[TypeDefinition]
) -> None:
    wanted = {schema for plan in plans for schema in schemas_of(plan)}
    wanted |= {each.schema for each in types}
    # Looked up first: CREATE SCHEMA IF NOT EXISTS wants a privilege even when there is nothing
    # to do.
    found = connection.execute(
        "SELECT nspname FROM pg_namespace WHERE nspname = ANY (%s)", (list(wanted),)
    )
    for schema in sorted(wanted - {row[0] for row in found}):
        connection.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(sql.Identifier(schema)))


def _make(connection: psycopg.Connection, composition: Composition) -> list[Note]:
    """One table. Its extras go in together; only if that fails, one by one."""
    left_out: list[Note] = []
    with connection.transaction():
        for statement in composition.statements:
            connection.execute(statement)
        if composition.extras and not _try(connection, composition.extras):
            left_out = [extra.note for extra in composition.extras if not _try(connection, [extra])]
    return composition.notes + left_out


def _try(connection: psycopg.Connection, extras: list[Extra]) -> bool:
    try:
        with connection.transaction():
            for extra in extras:
                connection.execute(extra.statement)
    except _LACKING:
        return False
    return True
