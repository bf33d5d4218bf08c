"""What is made at the target after the copy: indexes and constraints that a load is faster without.

    KEY, UNIQUE, EXCLUSION   each has its table for itself
    INDEX                    several of a table may be built side by side
    CHECK                    those NOT VALID at the source, as such
    FOREIGN_KEY              NOT VALID: each locks two tables
    VALIDATE                 lets others write meanwhile

Some of these tell rows apart (`identifies`): no change can be applied before they are there. All
others can wait. The list is a function of the definitions, and `outstanding` looks what of it is
there already, by definition or by name: a run that was killed goes on with the rest.

Foreign keys are checked by triggers, and rows arrive table by table: they stand only where the
applying role may switch such triggers off (`session_replication_role`). Where it may not, they
are left out and listed.
"""

import enum
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import psycopg
from psycopg import errors, sql

from lockgate.endpoints.postgres.faults import faults
from lockgate.endpoints.postgres.schema.compose import TablePlan
from lockgate.endpoints.postgres.schema.definitions import (
    ConstraintDefinition,
    IndexDefinition,
    TableDefinition,
)
from lockgate.endpoints.postgres.schema.discover import describe
from lockgate.endpoints.postgres.schema.identifiers import clipped, deparsed, identifier, kin
from lockgate.endpoints.postgres.schema.notes import Note
from lockgate.model.tables import TableName

__all__ = ["Deferred", "DeferredKind", "deferred", "may_switch_triggers_off", "outstanding", "run"]


_HIDDEN = "it is over a column that is left out or masked"


class DeferredKind(enum.Enum):
    """In the order in which the kinds are made."""

    KEY = "primary key"
    INDEX = "index"
    UNIQUE = "unique constraint"
    EXCLUSION = "exclusion constraint"
    CHECK = "check"
    FOREIGN_KEY = "foreign key"
    VALIDATE = "validation"

    @property
    def stage(self) -> int:
        """Everything of a lower stage is made before."""
        if self in (DeferredKind.CHECK, DeferredKind.FOREIGN_KEY):
            return 1
        return 2 if self is DeferredKind.VALIDATE else 0


@dataclass(frozen=True)
class Deferred:
    """One thing to be made at the target."""

    table: TableName
    """At the target."""
    kind: DeferredKind
    name: str
    unique: bool
    text: str
    """Its definition as the target's catalog will have it."""
    body: sql.Composed
    """What follows the name in the statement."""
    columns: tuple[str, ...] = ()
    """Of a primary key."""
    identifies: bool = False
    """By this the target tells rows apart when changes are applied."""

    @property
    def statement(self) -> sql.Composed:
        name = sql.Identifier(self.name)
        table = identifier(self.table)
        if self.kind is DeferredKind.INDEX:
            form = "CREATE UNIQUE INDEX {} ON {} {}" if self.unique else "CREATE INDEX {} ON {} {}"
            return sql.SQL(form).format(name, table, self.body)
        if self.kind is DeferredKind.VALIDATE:
            return sql.SQL("ALTER TABLE {} VALIDATE CONSTRAINT {}").format(table, name)
        form = "ALTER TABLE {} ADD CONSTRAINT {} {}"
        return sql.SQL(form).format(table, name, self.body)


def deferred(
    plans: Sequence[TablePlan], *, foreign_keys: bool
) -> tuple[list[Deferred], list[Note]]:
    """All that is to be made after the copy, and what is left out."""
    routes = {plan.source.table: plan.target for plan in plans}
    todo: list[Deferred] = []
    notes: list[Note] = []
    for plan in plans:
        todo += _indexes(plan, notes)
        for constraint in plan.source.constraints:
            todo += _constraint(plan, constraint, routes if foreign_keys else None, notes)
    order = list(DeferredKind)
    todo.sort(key=lambda each: order.index(each.kind))
    return todo, notes


def _indexes(plan: TablePlan, notes: list[Note]) -> Iterable[Deferred]:
    for index in plan.source.indexes:
        if index.constraint:
            continue
        if not plan.keeps(index.columns):
            notes.append(_left_out(plan, "index", index.name, _HIDDEN))
            continue
        name = kin(index.name, plan.source.table, plan.target)
        body = sql.Composed([deparsed(index.tail)])
        yield Deferred(
            plan.target,
            DeferredKind.INDEX,
            name,
            index.unique,
            index.tail,
            body,
            identifies=_identifies(plan, index),
        )


def _identifies(plan: TablePlan, index: IndexDefinition) -> bool:
    return index.primary or (index.identifies and index.key == plan.source.key)


_KINDS = {
    "p": DeferredKind.KEY,
    "u": DeferredKind.UNIQUE,
    "x": DeferredKind.EXCLUSION,
    "c": DeferredKind.CHECK,
    "f": DeferredKind.FOREIGN_KEY,
}


def _constraint(
    plan: TablePlan,
    constraint: ConstraintDefinition,
    routes: Mapping[TableName, TableName] | None,
    notes: list[Note],
) -> Iterable[Deferred]:
    kind = _KINDS[constraint.kind]
    if (kind is DeferredKind.KEY and plan.with_key) or (
        kind is DeferredKind.CHECK and constraint.validated
    ):
        return
    if not plan.keeps(constraint.columns):
        notes.append(_left_out(plan, kind.value, constraint.name, _HIDDEN))
        return
    if kind is DeferredKind.FOREIGN_KEY:
        yield from _foreign_key(plan, constraint, routes, notes)
        return
    scoped = kind is DeferredKind.CHECK
    name = constraint.name if scoped else kin(constraint.name, plan.source.table, plan.target)
    text = constraint.definition
    yield Deferred(
        plan.target,
        kind,
        name,
        False,
        text,
        sql.Composed([deparsed(text)]),
        columns=constraint.columns if kind is DeferredKind.KEY else (),
        identifies=any(
            index.constraint and index.name == constraint.name and _identifies(plan, index)
            for index in plan.source.indexes
        ),
    )


def _foreign_key(
    plan: TablePlan,
    constraint: ConstraintDefinition,
    routes: Mapping[TableName, TableName] | None,
    notes: list[Note],
) -> Iterable[Deferred]:
    assert constraint.references is not None
    referenced = TableName(*constraint.references)
    why = ""
    if routes is None:
        why = "the applying role may not set session_replication_role"
    elif referenced not in routes:
        why = f"it references {referenced}, which is not replicated"
    if why or routes is None:
        notes.append(_left_out(plan, "foreign key", constraint.name, why))
        return
    to = routes[referenced]
    # Partitioned tables had no foreign keys without validation before PostgreSQL 18.
    at_once = plan.source.kind == "p"
    body = sql.SQL("{} REFERENCES {}{}{}").format(
        deparsed(constraint.definition),
        identifier(to),
        deparsed(constraint.tail),
        sql.SQL("" if at_once else " NOT VALID"),
    )
    made = Deferred(
        plan.target,
        DeferredKind.FOREIGN_KEY,
        constraint.name,
        False,
        f"{constraint.definition} REFERENCES {to}{constraint.tail}",
        body,
    )
    yield made
    unenforced = constraint.tail.endswith(" NOT ENFORCED")
    if not at_once and constraint.validated and not unenforced:
        yield replace(made, kind=DeferredKind.VALIDATE)


def _left_out(plan: TablePlan, kind: str, name: str, why: str) -> Note:
    what = f"the {kind} is left out at the target: {why}"
    return Note("left-out", f"{plan.source.table}.{name}", what)


# --- at the target ------------------------------------------------------------------------------


def may_switch_triggers_off(connection: psycopg.Connection) -> bool:
    """True when this role may apply rows without foreign keys being checked."""
    try:
        with connection.transaction(force_rollback=True):
            connection.execute("SET LOCAL session_replication_role = replica")
    except errors.InsufficientPrivilege:
        return False
    return True


def outstanding(connection: psycopg.Connection, todo: Sequence[Deferred]) -> list[Deferred]:
    """What of `todo` is not there yet, under names that are free."""
    there = describe(connection, list(dict.fromkeys(each.table for each in todo)))
    left = [each for each in todo if each.table in there and not _is_made(each, there[each.table])]
    schemas = [each.table.schema for each in left]
    taken = {
        TableName(*row)
        for row in connection.execute(
            "SELECT n.nspname, c.relname FROM unnest(%s::text[], %s::text[]) AS w(schema, name) "
            "JOIN pg_namespace n ON n.nspname = w.schema "
            "JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = w.name",
            (schemas, [each.name for each in left]),
        )
    }
    return [_renamed(each, taken) for each in left]


def _renamed(each: Deferred, taken: set[TableName]) -> Deferred:
    """Indexes of a schema share one room of names with its tables."""
    if each.kind in (DeferredKind.CHECK, DeferredKind.FOREIGN_KEY, DeferredKind.VALIDATE):
        return each
    if TableName(each.table.schema, each.name) in taken:
        return replace(each, name=clipped(each.name, salt=each.table.id))
    taken.add(TableName(each.table.schema, each.name))
    return each


def _is_made(each: Deferred, there: TableDefinition) -> bool:
    names = {each.name, clipped(each.name, salt=each.table.id)}
    if each.kind is DeferredKind.INDEX:
        return any(
            index.name in names or (index.tail == each.text and index.unique == each.unique)
            for index in there.indexes
        )
    if each.kind is DeferredKind.KEY:
        # Somebody's own table may identify its rows in its own way; it cannot have two keys.
        return there.primary_key is not None or any(
            index.identifies and set(index.key) == set(each.columns) for index in there.indexes
        )
    for constraint in there.constraints:
        if constraint.name not in names:
            continue
        if each.kind is DeferredKind.VALIDATE:
            return constraint.validated
        if _KINDS[constraint.kind] is each.kind:
            return True
    if each.kind in (DeferredKind.VALIDATE, DeferredKind.FOREIGN_KEY):
        return False
    return any(
        constraint.definition == each.text and _KINDS[constraint.kind] is each.kind
        for constraint in there.constraints
    )


def run(
    connection: psycopg.Connection,
    each: Deferred,
    before: Callable[[psycopg.Cursor], None] = lambda _: None,
) -> None:
    """Make one of those that `outstanding` named, in a transaction that begins with `before`."""
    with (
        faults(object_=f"{each.kind.value} {each.name} of {each.table}", operation="build"),
        connection.transaction(),
        connection.cursor() as cursor,
    ):
        before(cursor)
        cursor.execute(each.statement)
