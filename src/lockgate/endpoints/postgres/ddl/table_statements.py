"""The statements for changes inside one table: columns, keys, constraints, partitions, types."""

from collections.abc import Iterable, Iterator, Mapping
from typing import assert_never

from psycopg import sql

from lockgate.endpoints.postgres.connect import TEXT_FORMS
from lockgate.endpoints.postgres.ddl.closing import closed_like_its_table
from lockgate.endpoints.postgres.ddl.guards import (
    attempted,
    schema_made,
    unless,
    unless_there,
    when,
)
from lockgate.endpoints.postgres.ddl.texts import is_constant
from lockgate.endpoints.postgres.schema.compose import (
    TablePlan,
    TargetFacts,
    compose_column,
    compose_default,
    compose_partition,
    compose_sequence,
    sequence_name,
)
from lockgate.endpoints.postgres.schema.definitions import ColumnDefinition
from lockgate.endpoints.postgres.schema.identifiers import (
    collate,
    deparsed,
    identifier,
    kin,
    partition_name,
)
from lockgate.endpoints.postgres.schema.usertypes import compose_type, types_of
from lockgate.model.schema_changes import (
    AddColumn,
    AddLabel,
    AddPartition,
    AlterType,
    CreateTable,
    DropColumn,
    DropConstraint,
    DropNotNull,
    DropPartition,
    DropTable,
    Ignored,
    LoosenDomain,
    RenameColumn,
    RenameConstraint,
    RenameLabel,
    RenamePartition,
    RenameTable,
    SchemaChange,
    SetDefault,
    SetKey,
    SetNotNull,
    Unsupported,
)
from lockgate.model.tables import TableName

__all__ = ["altered", "loosened", "of_types"]

Statements = Iterator[sql.Composed]


def altered(
    was: TablePlan,
    now: TablePlan,
    change: SchemaChange,
    forms: Mapping[str, str],
    facts: TargetFacts,
) -> Statements:
    """What one change takes, once the table has its new name."""
    table = identifier(now.target)
    match change:
        case AddColumn():
            yield from _added(now, change, facts)
        case DropColumn(column):
            yield _alter(table, "DROP COLUMN IF EXISTS {}", sql.Identifier(column))
        case RenameColumn(column, to):
            rename = _alter(table, "RENAME COLUMN {} TO {}", *map(sql.Identifier, (column, to)))
            yield when(_has_column(now.target, column), rename)
        case AlterType():
            yield from _retyped(now, change, forms)
        case SetNotNull(column):
            yield _alter(table, "ALTER COLUMN {} SET NOT NULL", sql.Identifier(column))
        case DropNotNull(column):
            yield _alter(table, "ALTER COLUMN {} DROP NOT NULL", sql.Identifier(column))
        case SetDefault(column, expression):
            none = sql.SQL("DROP DEFAULT")
            default = none if expression is None else _default(expression)
            yield _alter(table, "ALTER COLUMN {} {}", sql.Identifier(column), default)
        case SetKey():
            yield from _keyed(was, now)
        case RenameConstraint():
            yield _renamed_constraint(was, now, change)
        case AddPartition() | DropPartition() | RenamePartition():
            yield from _partition(was, now, change)
        case AddLabel() | RenameLabel() | LoosenDomain():
            yield from _type(change)
        case CreateTable() | DropTable() | RenameTable() | DropConstraint():
            pass  # before or after all changes inside of tables
        case Ignored() | Unsupported():
            pass
        case _:
            assert_never(change)


def _default(expression: str) -> sql.Composed:
    return sql.SQL("SET DEFAULT {}").format(deparsed(expression))


def _alter(table: sql.Identifier, form: str, *parts: sql.Composable) -> sql.Composed:
    return sql.SQL("ALTER TABLE {} ").format(table) + sql.SQL(form).format(*parts)


def _has_column(table: TableName, column: str) -> sql.Composed:
    return sql.SQL(
        "EXISTS (SELECT FROM pg_catalog.pg_attribute WHERE attrelid = to_regclass({}) "
        "AND attname = {} AND NOT attisdropped)"
    ).format(sql.Literal(table.id), sql.Literal(column))


# --- columns ------------------------------------------------------------------------------------


def of_types(plan: TablePlan, columns: Iterable[ColumnDefinition]) -> Statements:
    """The types that these columns need, made where they are not."""
    for each in types_of(columns, plan.source.types):
        name = sql.Identifier(each.schema, each.name).as_string(None)
        there = sql.SQL("to_regtype({}) IS NOT NULL").format(sql.Literal(name))
        if each.extension is None and not each.of_table:
            yield schema_made(each.schema)
            yield unless(there, compose_type(each))


def _added(plan: TablePlan, change: AddColumn, facts: TargetFacts) -> Statements:
    table = identifier(plan.target)
    column = next(each for each in plan.columns if each.name == change.column)
    yield from of_types(plan, [column])
    text, _ = compose_column(plan, column, facts)
    add = _alter(table, "ADD COLUMN IF NOT EXISTS {}", text)
    own_default = column.default is not None and not column.generated
    if change.fill is not None:
        add += sql.SQL(" DEFAULT {}::{}").format(sql.Literal(change.fill), deparsed(column.type))
    elif own_default and is_constant(column.default or ""):
        add += sql.SQL(" DEFAULT {}").format(deparsed(column.default or ""))
    yield add
    name = sql.Identifier(column.name)
    if change.fill is not None:
        yield _alter(table, "ALTER COLUMN {} DROP DEFAULT", name)
    if own_default:
        if column.sequence is not None:
            create, *owned = compose_sequence(plan, column)
            yield unless_there(sequence_name(plan, column.sequence), create)
            yield from owned
        yield attempted(compose_default(plan, column).statement)


def _retyped(plan: TablePlan, change: AlterType, forms: Mapping[str, str]) -> Statements:
    """As at the source: by the cast that PostgreSQL has, under the settings it had there."""
    column = next(each for each in plan.columns if each.name == change.column)
    yield from of_types(plan, [column])
    yield from _formed(forms)
    type_ = sql.SQL(" ").join([deparsed(column.type), *collate(column.collation)])
    name = sql.Identifier(column.name)
    if change.empty:
        type_ += sql.SQL(" USING NULL::{}").format(deparsed(column.type))
    yield _alter(identifier(plan.target), "ALTER COLUMN {} TYPE {}", name, type_)
    yield from _formed({name: TEXT_FORMS[name] for name in forms if name in TEXT_FORMS})


def _formed(forms: Mapping[str, str]) -> Statements:
    for name, value in forms.items():
        if name in TEXT_FORMS:
            yield sql.SQL("SELECT set_config({}, {}, true)").format(
                sql.Literal(name), sql.Literal(value)
            )


# --- keys and constraints -----------------------------------------------------------------------


def _keyed(was: TablePlan, now: TablePlan) -> Statements:
    """The target has a unique index over what identifies rows; the former one may go."""
    table = identifier(now.target)
    old, new = was.source.primary_key, now.source.primary_key
    changed = (old and old.definition) != (new and new.definition)
    if old is not None and changed:
        name = sql.Identifier(kin(old.name, was.source.table, was.target))
        yield _alter(table, "DROP CONSTRAINT IF EXISTS {}", name)
    if new is not None and changed:
        name = sql.Identifier(kin(new.name, now.source.table, now.target))
        yield _alter(table, "ADD CONSTRAINT {} {}", name, deparsed(new.definition))
    for index in now.source.indexes:
        if index.identifies and not index.primary and index.key == now.source.key:
            name = sql.Identifier(kin(index.name, now.source.table, now.target))
            yield sql.SQL("CREATE UNIQUE INDEX IF NOT EXISTS {} ON {} {}").format(
                name, table, deparsed(index.tail)
            )


def loosened(was: TablePlan, change: DropConstraint) -> sql.Composed:
    """A constraint or unique index goes, under the name that the table has so far."""
    if change.index:
        name = kin(change.name, was.source.table, was.target)
        index = sql.Identifier(was.target.schema, name)
        return sql.SQL("DROP INDEX IF EXISTS {}").format(index)
    # Its table may be gone at the target.
    return sql.SQL("ALTER TABLE IF EXISTS {} DROP CONSTRAINT IF EXISTS {}").format(
        identifier(was.target), sql.Identifier(_constraint_name(was, change.name))
    )


def _constraint_name(plan: TablePlan, name: str) -> str:
    kinds = {constraint.name: constraint.kind for constraint in plan.source.constraints}
    # Those of an index share names with all tables of the schema, the others only among themselves.
    return kin(name, plan.source.table, plan.target) if kinds.get(name) in {"p", "u", "x"} else name


def _renamed_constraint(was: TablePlan, now: TablePlan, change: RenameConstraint) -> sql.Composed:
    if change.index:
        here = sql.Identifier(now.target.schema, kin(change.name, was.source.table, was.target))
        to = sql.Identifier(kin(change.to, now.source.table, now.target))
        return sql.SQL("ALTER INDEX IF EXISTS {} RENAME TO {}").format(here, to)
    name, to_name = _constraint_name(was, change.name), _constraint_name(now, change.to)
    there = sql.SQL(
        "EXISTS (SELECT FROM pg_catalog.pg_constraint WHERE conrelid = to_regclass({}) "
        "AND conname = {})"
    ).format(sql.Literal(now.target.id), sql.Literal(name))
    rename = _alter(
        identifier(now.target),
        "RENAME CONSTRAINT {} TO {}",
        sql.Identifier(name),
        sql.Identifier(to_name),
    )
    return when(there, rename)


# --- partitions ---------------------------------------------------------------------------------


def _partition(
    was: TablePlan, now: TablePlan, change: AddPartition | DropPartition | RenamePartition
) -> Statements:
    if isinstance(change, AddPartition):
        found = next(p for p in now.source.partitions if p.table == change.partition)
        name = partition_name(found.table, now.source.table, now.target)
        yield schema_made(name.schema)
        create = unless_there(name, compose_partition(now, found))
        # A target that is not partitioned has room for the rows as it is.
        yield when(_is_partitioned(now.target), create)
        yield closed_like_its_table(name)
        return
    name = partition_name(change.partition, was.source.table, was.target)
    if isinstance(change, DropPartition):
        # Its rows go with it. Where the target has no such partition, nobody knows which they are.
        yield sql.SQL("DROP TABLE {}").format(identifier(name))
        return
    to = partition_name(change.to, now.source.table, now.target)
    if name.schema != to.schema:
        yield sql.SQL("ALTER TABLE IF EXISTS {} SET SCHEMA {}").format(
            identifier(name), sql.Identifier(to.schema)
        )
    if name.name != to.name:
        yield sql.SQL("ALTER TABLE IF EXISTS {} RENAME TO {}").format(
            sql.Identifier(to.schema, name.name), sql.Identifier(to.name)
        )


def _is_partitioned(table: TableName) -> sql.Composed:
    return sql.SQL(
        "EXISTS (SELECT FROM pg_catalog.pg_class WHERE oid = to_regclass({}) AND relkind = 'p')"
    ).format(sql.Literal(table.id))


# --- types --------------------------------------------------------------------------------------


def _type(change: AddLabel | RenameLabel | LoosenDomain) -> Statements:
    """A type may be that of several tables of a step: the second time changes nothing."""
    name = identifier(change.type)
    if isinstance(change, AddLabel):
        add = sql.SQL("ALTER TYPE {} ADD VALUE IF NOT EXISTS {}").format(
            name, sql.Literal(change.label)
        )
        if change.after is not None:
            add += sql.SQL(" AFTER {}").format(sql.Literal(change.after))
        elif change.before is not None:
            add += sql.SQL(" BEFORE {}").format(sql.Literal(change.before))
        yield add
    elif isinstance(change, RenameLabel):
        there = sql.SQL(
            "EXISTS (SELECT FROM pg_catalog.pg_enum WHERE enumtypid = to_regtype({}) "
            "AND enumlabel = {})"
        ).format(sql.Literal(name.as_string(None)), sql.Literal(change.label))
        rename = sql.SQL("ALTER TYPE {} RENAME VALUE {} TO {}").format(
            name, sql.Literal(change.label), sql.Literal(change.to)
        )
        yield when(there, rename)
    else:
        for check in change.checks:
            yield sql.SQL("ALTER DOMAIN {} DROP CONSTRAINT IF EXISTS {}").format(
                name, sql.Identifier(check)
            )
        if change.nullable:
            yield sql.SQL("ALTER DOMAIN {} DROP NOT NULL").format(name)
