"""Two definitions of one table, before and after: what changed, as typed changes.

Columns are known by their numbers, constraints, partitions and labels by theirs, so a rename is
seen as one. The target must never be stricter than the source, or rows are refused: what the
source lets go of goes at the target too. What it adds beside columns and keys is ignored, and said.

Values that a change computed at the source are not in the stream. They are carried over where they
are known (the catalog keeps what a new column holds in old rows; a cast is the same everywhere),
and unsupported otherwise.
"""

import hashlib
from collections.abc import Iterator

from lockgate.endpoints.postgres.ddl.entries import Story
from lockgate.endpoints.postgres.ddl.texts import is_constant, says_using
from lockgate.endpoints.postgres.schema.compose import TablePlan
from lockgate.endpoints.postgres.schema.definitions import (
    ColumnDefinition,
    TableDefinition,
    TypeDefinition,
)
from lockgate.endpoints.postgres.schema.usertypes import types_of
from lockgate.model.feed_config import MaskKind
from lockgate.model.schema_changes import (
    AddColumn,
    AddLabel,
    AddPartition,
    AlterType,
    DropColumn,
    DropConstraint,
    DropNotNull,
    DropPartition,
    Ignored,
    LoosenDomain,
    RenameColumn,
    RenameConstraint,
    RenameLabel,
    RenamePartition,
    SchemaChange,
    SetDefault,
    SetKey,
    SetNotNull,
    Unsupported,
)
from lockgate.model.tables import Identity, TableName

__all__ = ["added", "differences"]

_RESYNC = "copy the table anew: lockgate feed resync"

_REWRITE_TYPE = 4
"""As `pg_event_trigger_table_rewrite_reason` has it."""


def differences(story: Story, was: TablePlan, now: TablePlan) -> Iterator[SchemaChange]:
    """What happened to a table that the feed has before and after, under `was` and `now`."""
    before, after = was.source, now.source
    yield from _types(was, now)
    yield from _constraints_gone(before, after)
    yield from _columns(story, was, now)
    yield from _keys(before, after)
    yield from _constraints_new(before, after)
    yield from _partitions(story, before, after)
    turned = story.filled and story.rewritten & _REWRITE_TYPE
    if turned and says_using(story.statement) is not False:
        yield Unsupported(
            "the values of a column were turned by an expression, which is not in the stream",
            _RESYNC,
        )


# --- columns ------------------------------------------------------------------------------------


def _columns(story: Story, was: TablePlan, now: TablePlan) -> Iterator[SchemaChange]:
    old = {column.number: column for column in was.columns}
    new = {column.number: column for column in now.columns}
    hidden = {c.number for c in was.source.columns if c.number not in old}
    # Dropped first: a new column may have taken the name. Generated ones depend on others.
    gone = [column for number, column in old.items() if number not in new]
    for column in sorted(gone, key=lambda column: not column.generated):
        yield DropColumn(column.name)
    yield from _renames([(old[n].name, new[n].name) for n in new if n in old])
    for number, column in new.items():
        if number in old:
            yield from _column(story, was, now, old[number], column)
        elif number in hidden:
            yield Unsupported(f"the column {column.name} was left out and is not any more", _RESYNC)
        else:
            yield added(story, now, column)


def _renames(pairs: list[tuple[str, str]]) -> Iterator[SchemaChange]:
    """Renames in an order in which no name is taken twice; over a third name when they swap."""
    todo = dict(pair for pair in pairs if pair[0] != pair[1])
    while todo:
        free = [name for name, to in todo.items() if to not in todo]
        if free:
            name = free[0]
            yield RenameColumn(name, todo.pop(name))
            continue
        name, to = next(iter(todo.items()))
        aside = "lockgate_" + hashlib.sha256(name.encode()).hexdigest()[:16]
        yield RenameColumn(name, aside)
        del todo[name]
        todo[aside] = to


def _column(
    story: Story, was: TablePlan, now: TablePlan, old: ColumnDefinition, new: ColumnDefinition
) -> Iterator[SchemaChange]:
    if (old.generated, old.default if old.generated else None) != (
        new.generated,
        new.default if new.generated else None,
    ):
        yield Unsupported(
            f"the expression of the generated column {new.name} is another one", _RESYNC
        )
        return
    mask = now.masks.get(new.name)
    if was.masks.get(old.name) != mask:
        yield Unsupported(f"the column {new.name} is masked in another way", _RESYNC)
        return
    types = [c.type for plan in (was, now) for c in plan.source.columns if c.number == new.number]
    if mask is not None and mask.kind is MaskKind.HASH and types[0] != types[1]:
        # The same value may be written otherwise in the other type, and then has another hash.
        yield Unsupported(f"the hashed column {new.name} is of another type", _RESYNC)
    if old.type != new.type and not _type_renamed(was, now, old, new):
        yield AlterType(new.name, new.type, old.type, empty=not story.filled)
    if old.not_null != new.not_null:
        yield SetNotNull(new.name) if new.not_null else DropNotNull(new.name)
    if old.default != new.default and not new.generated:
        if new.default is None or is_constant(new.default):
            yield SetDefault(new.name, new.default)
        else:
            yield Ignored(f"the default of {new.name} is now {new.default}")
    if old.identity != new.identity:
        yield Ignored(f"the column {new.name} is or is no longer an identity column")
    if old.collation != new.collation:
        yield Ignored(f"the column {new.name} has another collation")


def _type_renamed(
    was: TablePlan, now: TablePlan, old: ColumnDefinition, new: ColumnDefinition
) -> bool:
    """It is the same type under another name: `_types` says so."""
    names = [{t.oid: t.id for t in plan.source.types} for plan in (was, now)]
    return old.uses == new.uses != 0 and names[0].get(old.uses) != names[1].get(new.uses)


def added(story: Story, now: TablePlan, column: ColumnDefinition) -> SchemaChange:
    """A new column. What it holds in old rows must be known, if there are any."""
    mask = now.masks.get(column.name)
    source = next(c for c in now.source.columns if c.name == column.name)
    if not story.filled or column.generated or (mask and mask.kind is MaskKind.NULL):
        return AddColumn(column.name)
    if mask is not None and mask.kind is MaskKind.FIXED:
        return AddColumn(column.name, mask.text)
    fill = story.fills.get(column.number)
    if fill is not None:
        if mask is not None:
            fill = hashlib.sha256(fill.encode()).hexdigest()
        return AddColumn(column.name, fill)
    types = {each.oid: each for each in now.source.types}
    default = source.default
    if default is None and source.uses in types:
        default = types[source.uses].default
    if default is None and not source.identity:
        return AddColumn(column.name)
    if default is not None and mask is None and is_constant(default):
        # The table was rewritten, and the catalog keeps nothing. The expression will do: it
        # is evaluated at the target, as the default of the column.
        return AddColumn(column.name)
    if not story.rewritten and not source.identity and mask is None:
        # No rewrite and no value kept: the default is null, whatever its expression says.
        return AddColumn(column.name)
    return Unsupported(
        f"the new column {column.name} got other values in rows that were there, "
        "which are not in the stream",
        f"{_RESYNC}; or add the column without a default, set the default, then update the rows",
    )


# --- keys and constraints -----------------------------------------------------------------------


def _keys(before: TableDefinition, after: TableDefinition) -> Iterator[SchemaChange]:
    if after.identity is Identity.NOTHING:
        yield Unsupported(
            "the table no longer tells which row is updated or deleted",
            "give it a primary key, or ALTER TABLE … REPLICA IDENTITY FULL, then resync it",
        )
        return
    names = {column.number: column.name for column in after.columns}
    numbers = {column.name: column.number for column in before.columns}
    if tuple(names.get(numbers[name]) for name in before.key) == after.key:
        return
    if before.key and after.identity is Identity.FULL:
        # The stream tells whole rows from now on and not what identifies them: whoever reads it
        # would go on with the columns that it knows.
        yield Unsupported(
            f"rows were identified by ({', '.join(before.key)}) and are not any more",
            "give the table a primary key again, then resync it",
        )
        return
    yield SetKey(after.key)


def _rules(table: TableDefinition) -> dict[int, tuple[str, bool]]:
    """What may refuse rows, by number: its name, and whether it is an index of its own."""
    found = {c.oid: (c.name, False) for c in table.constraints}
    found |= {i.oid: (i.name, True) for i in table.indexes if i.unique and not i.constraint}
    return found


def _constraints_gone(before: TableDefinition, after: TableDefinition) -> Iterator[SchemaChange]:
    """What the source has no more, or under another name.

    A change of a column's type makes its constraints anew, under new numbers and the same names.
    """
    now = _rules(after)
    names = set(now.values())
    keys = (before.primary_key, after.primary_key)
    for oid, (name, index) in _rules(before).items():
        if oid in now:
            if now[oid][0] != name:
                yield RenameConstraint(name, now[oid][0], index)
        elif keys[0] is not None and name == keys[0].name:
            # The key itself is the matter of `_keys`; its name is looked up by later.
            if keys[1] is not None and keys[1].name != name and before.key == after.key:
                yield RenameConstraint(name, keys[1].name)
        elif (name, index) not in names:
            yield DropConstraint(name, index)


_WORDS = {"c": "check", "u": "unique constraint", "x": "exclusion constraint", "f": "foreign key"}


def _constraints_new(before: TableDefinition, after: TableDefinition) -> Iterator[SchemaChange]:
    known = {each for c in before.constraints for each in (c.oid, c.name)}
    for constraint in after.constraints:
        if constraint.kind != "p" and known.isdisjoint((constraint.oid, constraint.name)):
            what = f"the new {_WORDS[constraint.kind]} {constraint.name} is not carried over"
            yield Ignored(what)
    indexes = {each for index in before.indexes for each in (index.oid, index.name)}
    for index in after.indexes:
        if not index.constraint and indexes.isdisjoint((index.oid, index.name)):
            yield Ignored(f"the new index {index.name} is not carried over")


# --- partitions ---------------------------------------------------------------------------------


def _partitions(
    story: Story, before: TableDefinition, after: TableDefinition
) -> Iterator[SchemaChange]:
    if before.partition_key != after.partition_key:
        yield Unsupported("the table is partitioned in another way", _RESYNC)
        return
    old = {partition.oid: partition for partition in before.partitions}
    new = {partition.oid: partition for partition in after.partitions}
    for oid, partition in reversed(old.items()):
        if oid in story.truncated and oid in new:
            yield Unsupported(
                f"the partition {partition.table} was truncated alone, which the stream leaves out",
                f"{_RESYNC}; next time truncate the whole table, or drop or delete instead",
            )
        if oid in story.detached:
            yield Unsupported(
                f"the partition {partition.table} was detached, with its rows", _RESYNC
            )
        elif oid not in new:
            yield DropPartition(partition.table)
    for oid, partition in new.items():
        if oid in old:
            if partition.bound != old[oid].bound or partition.parent != old[oid].parent:
                yield Unsupported(
                    f"the partition {partition.table} holds other rows than before", _RESYNC
                )
            elif partition.table != old[oid].table:
                yield RenamePartition(old[oid].table, partition.table)
        elif oid in story.filled:
            yield Unsupported(
                f"the partition {partition.table} was attached and may have rows already", _RESYNC
            )
        else:
            yield AddPartition(partition.table)


# --- types --------------------------------------------------------------------------------------


def _types(was: TablePlan, now: TablePlan) -> Iterator[SchemaChange]:
    old = {each.oid: each for each in types_of(was.columns, was.source.types)}
    for new in types_of(now.columns, now.source.types):
        if new.oid in old:
            yield from _type(old[new.oid], new)


def _type(old: TypeDefinition, new: TypeDefinition) -> Iterator[SchemaChange]:
    name = TableName(new.schema, new.name)
    if old.id != new.id:
        yield Unsupported(f"the type {old.id} is called {new.id} now", _rename_type_hint(old, new))
        return
    if (old.base, old.attributes) != (new.base, new.attributes):
        yield Unsupported(f"the type {new.id} is made of other parts now", _RESYNC)
        return
    labels = dict(old.labels)
    last: str | None = None
    for oid, label in new.labels:
        if oid not in labels:
            first = next((text for number, text in new.labels if number in labels), None)
            yield AddLabel(name, label, last, None if last is not None else first)
        elif labels[oid] != label:
            yield RenameLabel(name, labels[oid], label)
        last = label
    checks = {check for check, _ in new.checks}
    gone = tuple(check for check, _ in old.checks if check not in checks)
    nullable = old.not_null and not new.not_null
    if gone or nullable:
        yield LoosenDomain(name, gone, nullable)
    if extra := checks - {check for check, _ in old.checks}:
        yield Ignored(f"new checks of the domain {new.id}: {', '.join(sorted(extra))}")


def _rename_type_hint(old: TypeDefinition, new: TypeDefinition) -> str:
    return f"rename {old.id} to {new.id} at the target too, then resync the table"
