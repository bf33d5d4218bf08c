"""Schema changes without a log: from the stream's own description of a table.

Where the source lets nobody have event triggers, the stream still describes a table anew before
the first row of another form: names, types and the key, nothing else. What led there is taken
for granted only where one thing alone can have led there:

    columns only added       added; what they hold in old rows is asked of the source's catalog
    columns only dropped     dropped
    both at once             a rename, or not: unsupported
    names in another order   renames, for an order never changes by itself: unsupported
    another type             altered, where the new type holds every value of the old one
    another key or name      unsupported

A column that took the name of another one shows by its lasting number, which the catalog has and
the stream has not: `numbered` puts the two together, as long as they are about the same columns.

New tables do not show, nor do dropped ones.
"""

import re
from typing import Final

import msgspec
import psycopg

from lockgate.endpoints.postgres.ddl.changes import Chooser
from lockgate.endpoints.postgres.ddl.diff import added
from lockgate.endpoints.postgres.ddl.entries import Story
from lockgate.endpoints.postgres.ddl.texts import is_constant
from lockgate.endpoints.postgres.faults import faults
from lockgate.endpoints.postgres.schema.compose import TablePlan
from lockgate.endpoints.postgres.schema.definitions import ColumnDefinition, TableDefinition
from lockgate.endpoints.postgres.schema.discover import describe
from lockgate.model.schema_changes import (
    AlterType,
    DropColumn,
    SchemaChange,
    SchemaStep,
    TableChange,
    Unsupported,
)
from lockgate.model.tables import Column, Identity, TableName, TableShape

__all__ = ["alike", "from_shapes", "look", "numbered"]

_ANEW: Final = (
    "remove the feed and create it anew; best let a superuser set it up, then schema changes are "
    "logged and such a one is followed"
)
_UNKNOWN_REWRITE: Final = 2
"""Whether values were computed for old rows is not known, so they may have been."""


def look(connection: psycopg.Connection, table: TableName) -> Story:
    """What the source's catalog says of the table now. It may have gone on since."""
    definition = describe(connection, [table]).get(table)
    if definition is None:
        return Story(None, None)
    oids = [leaf.oid for leaf in definition.leaves] or [definition.oid]
    with faults(object_=str(table), operation="read the catalog"):
        filled = connection.execute(
            "SELECT o FROM unnest(%s::oid[]) AS o WHERE pg_relation_size(o) > 0", (oids,)
        )
        full = [row[0] for row in filled]
        fills = connection.execute(
            "SELECT r.attnum, (a.attmissingval::text::text[])[1] FROM pg_attribute a "
            "JOIN pg_attribute r ON r.attrelid = %s AND r.attname = a.attname "
            "WHERE a.attrelid = %s AND a.atthasmissing",
            (definition.oid, full[0] if full else definition.oid),
        )
        known = {number: text for number, text in fills if text is not None}
    return Story(None, definition, [], known, set(full), rewritten=_UNKNOWN_REWRITE)


def from_shapes(
    known: TableShape, described: TableShape, choose: Chooser, seen: Story
) -> SchemaStep | None:
    """The step from one shape of a table to the next, by names. None when they are alike.

    `seen` is what `look` says.
    """
    if alike(known, described):
        return None
    statement = f"(the source describes {described.table} anew)"
    if known.table != described.table:
        why = f"it is called {described.table} now, which takes a log of schema changes to follow"
        unfit = TableChange(known.table, known.table, (Unsupported(why, _ANEW),))
        return SchemaStep(statement, (unfit,))
    like = seen.after if seen.after is not None and seen.after.table == described.table else None
    was, now = choose(_drawn(known, like)), choose(_drawn(described, _loose(known, like, seen)))
    if was is None or now is None:
        return None
    change = TableChange(
        known.table,
        described.table,
        tuple(_changes(known, described, now, seen)),
        msgspec.Raw(msgspec.json.encode(was.source)),
        msgspec.Raw(msgspec.json.encode(now.source)),
        described,
    )
    return SchemaStep(statement, (change,))


def numbered(known: TableShape, described: TableShape, seen: Story, choose: Chooser) -> TableShape:
    """The shape with the columns' lasting numbers: the catalog's, if it says the same columns in
    the same order; else those that are known already. 0 where nobody knows."""
    plan = None if seen.after is None else choose(seen.after)
    own = () if plan is None else plan.source.shape(plan.left_out).columns
    told = [(column.name, column.type) for column in described.columns]
    if [(column.name, column.type) for column in own] != told:
        own = known.columns
    numbers = {column.name: column.number for column in own}
    columns = tuple(
        msgspec.structs.replace(column, number=numbers.get(column.name, 0))
        for column in described.columns
    )
    return msgspec.structs.replace(described, columns=columns)


def alike(one: TableShape, other: TableShape) -> bool:
    """True when the stream cannot tell the two apart."""

    def told(shape: TableShape) -> object:
        columns = [(column.name, column.type) for column in shape.columns]
        return shape.table, columns, set(shape.key), shape.identity

    return told(one) == told(other)


def _changes(
    known: TableShape, described: TableShape, now: TablePlan, seen: Story
) -> list[SchemaChange]:
    if described.identity is Identity.NOTHING:
        why = "the table no longer tells which row is updated or deleted"
        return [Unsupported(why, f"give it a primary key or full replica identity; {_ANEW}")]
    old = {column.name: column for column in known.columns}
    new = {column.name: column for column in described.columns}
    gone = [name for name in old if name not in new]
    came = [name for name in new if name not in old]
    if gone and came:
        return [
            Unsupported(
                f"the columns {', '.join(gone)} are gone and {', '.join(came)} are there: a "
                "rename, or not, which the stream does not say",
                _ANEW,
            )
        ]
    moved = [
        name
        for name in old
        if name in new and 0 not in (numbers := {old[name].number, new[name].number})
        if len(numbers) > 1
    ]
    if list(new) != [*(name for name in old if name in new), *came] or moved:
        return [
            Unsupported(
                f"columns have taken the names of others ({', '.join(moved or new)}); which values "
                "they hold now is not in the stream",
                _ANEW,
            )
        ]
    changes: list[SchemaChange] = [DropColumn(name) for name in gone]
    columns = {column.name: column for column in now.columns}
    for name, column in new.items():
        if name not in old:
            changes.append(_added(seen, now, columns[name], column.type))
        elif old[name].type != column.type:
            changes.append(_retyped(old[name], column))
    if set(known.key) != set(described.key):
        changes.append(
            Unsupported(
                f"rows are identified by ({', '.join(described.key)}) now",
                _ANEW,
            )
        )
    return changes


def _added(seen: Story, now: TablePlan, column: ColumnDefinition, type_: str) -> SchemaChange:
    """A new column. What it holds in old rows is what the catalog keeps for them, or null. Where
    the table was rewritten it keeps nothing: then it is the default, or the default came later
    and says nothing about them. But if null is not allowed, rows that had it were updated since,
    and these updates are on their way."""
    source = next(c for c in now.source.columns if c.name == column.name)
    default = source.default
    of_now = {} if seen.after is None else {c.name: c.type for c in seen.after.columns}
    kept = seen.fills.get(column.number) is not None
    masked = column.name in now.masks
    doubtful = _is_constant(default) and not kept and not source.not_null
    if seen.filled and not masked and (doubtful or of_now.get(column.name, type_) != type_):
        return Unsupported(
            f"what the new column {column.name} holds in rows that were there is not known: the "
            "table was changed again, or rewritten, before a row of it came",
            _ANEW,
        )
    return added(seen, now, column)


def _is_constant(default: str | None) -> bool:
    return default is not None and is_constant(default)


# --- types --------------------------------------------------------------------------------------

_WIDER: Final = {
    "smallint": {"integer", "bigint", "numeric"},
    "integer": {"bigint", "numeric"},
    "bigint": {"numeric"},
    "real": {"double precision"},
}
_SIZED: Final = re.compile(
    r"(?P<name>character varying|bit varying|numeric)(?:\((?P<size>\d+)(?:,(?P<scale>\d+))?\))?"
)


def _retyped(old: Column, new: Column) -> SchemaChange:
    if new.type in _WIDER.get(old.type, ()) or _is_larger(old.type, new.type):
        return AlterType(new.name, new.type, old.type)
    return Unsupported(
        f"the column {new.name} is {new.type} and was {old.type}; how its values were turned "
        "is not in the stream",
        _ANEW,
    )


def _is_larger(old: str, new: str) -> bool:
    one, other = _SIZED.fullmatch(old), _SIZED.fullmatch(new)
    if one is None:
        return False
    if new == "text":
        return one["name"] == "character varying"
    if other is None or one["name"] != other["name"]:
        return False
    if other["size"] is None:
        return True
    return (
        one["size"] is not None
        and int(one["size"]) <= int(other["size"])
        and one["scale"] == other["scale"]
    )


# --- definitions --------------------------------------------------------------------------------


def _drawn(shape: TableShape, like: TableDefinition | None) -> TableDefinition:
    """A definition of a table with this shape; what the shape does not say is as in `like`."""
    own = {column.name: column for column in like.columns} if like else {}
    columns = tuple(
        own[column.name]
        if column.name in own and own[column.name].type == column.type
        else _column(column)
        for column in shape.columns
    )
    if like is not None:
        return msgspec.structs.replace(
            like, schema=shape.table.schema, name=shape.table.name, columns=columns
        )
    return TableDefinition(
        oid=0,
        schema=shape.table.schema,
        name=shape.table.name,
        kind="r",
        persistence="p",
        owner="",
        replica_identity="f" if shape.identity is Identity.FULL else "d",
        row_security=False,
        inherits=(),
        has_children=False,
        partition_of=None,
        partition_key=None,
        columns=columns,
        indexes=(),
        constraints=(),
        partitions=(),
        types=(),
    )


def _loose(known: TableShape, like: TableDefinition | None, seen: Story) -> TableDefinition | None:
    """The catalog may be ahead of the stream: a new column that has no value for old rows was
    null in them, even if it must not be any more."""
    if like is None or not seen.filled:
        return like
    old = {column.name for column in known.columns}
    columns = tuple(
        column
        if column.name in old or column.number in seen.fills or _is_constant(column.default)
        else msgspec.structs.replace(column, not_null=False)
        for column in like.columns
    )
    return msgspec.structs.replace(like, columns=columns)


def _column(column: Column) -> ColumnDefinition:
    return ColumnDefinition(
        number=column.number,
        name=column.name,
        type=column.type,
        type_oid=column.type_id,
        base_oid=column.type_id,
        uses=0,
        not_null=False,
        default=None,
        identity="",
        generated="",
        collation=None,
        sequence=None,
    )
