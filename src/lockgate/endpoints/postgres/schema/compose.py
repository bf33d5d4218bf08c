"""The statements that make a table at the target, out of its definition at the source.

Made at once: columns with types, NOT NULL, collations, generated and identity columns,
partitions, sequences of defaults; and the primary key, unless rows are to be copied into the table
first (`TablePlan.with_key`). Added if the target can: defaults and checks, which may call functions
that are not there; a table without them takes the same rows. Left for after the copy
(`deferred.py`): other indexes and constraints, and the key that was not made at once.

Identity columns are BY DEFAULT at the target even where the source has ALWAYS: rows arrive with
their values, and an ALWAYS column cannot be updated.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from msgspec import structs
from psycopg import sql

from lockgate.endpoints.postgres.schema.definitions import (
    ColumnDefinition,
    ConstraintDefinition,
    PartitionDefinition,
    SequenceDefinition,
    TableDefinition,
)
from lockgate.endpoints.postgres.schema.identifiers import (
    collate,
    deparsed,
    identifier,
    kin,
    partition_name,
)
from lockgate.endpoints.postgres.schema.notes import Note
from lockgate.endpoints.postgres.types import TEXT
from lockgate.model.feed_config import Mask, MaskKind
from lockgate.model.selection import TableSelection
from lockgate.model.tables import TableName

__all__ = [
    "Composition",
    "Extra",
    "TablePlan",
    "TargetFacts",
    "compose_column",
    "compose_default",
    "compose_partition",
    "compose_sequence",
    "compose_table",
    "sequence_name",
]

_VIRTUAL_SINCE: Final = 180000
_UNENFORCED_SINCE: Final = 180000
_PARTITIONED_IDENTITY_SINCE: Final = 170000


@dataclass(frozen=True)
class TablePlan:
    """One table to be at the target: as what, under which name, without which columns."""

    source: TableDefinition
    target: TableName
    left_out: frozenset[str] = frozenset()
    with_key: bool = True
    """Its primary key is made with it, not after the copy."""
    masks: Mapping[str, Mask] = field(default_factory=dict)

    @classmethod
    def of(
        cls, source: TableDefinition, selection: TableSelection, *, with_key: bool = True
    ) -> "TablePlan":
        """What a feed takes of the table."""
        return cls(source, selection.target, selection.left_out, with_key, selection.masks)

    @property
    def columns(self) -> list[ColumnDefinition]:
        """Its columns at the target."""
        return [self._masked(c) for c in self.source.columns if c.name not in self.left_out]

    def _masked(self, column: ColumnDefinition) -> ColumnDefinition:
        """Masks make text of values, or nothing; what the source says of values holds no more."""
        mask = self.masks.get(column.name)
        if mask is None or column.generated:
            return column
        bare = {"default": None, "identity": "", "sequence": None}
        if mask.kind is MaskKind.NULL:
            return structs.replace(column, not_null=False, **bare)
        text = {"type": "text", "type_oid": TEXT, "base_oid": TEXT, "uses": 0, "collation": None}
        return structs.replace(column, **bare, **text)

    def keeps(self, columns: tuple[str, ...]) -> bool:
        """True when all these columns are at the target as they are at the source."""
        return self.left_out.isdisjoint(columns) and self.masks.keys().isdisjoint(columns)


@dataclass(frozen=True)
class TargetFacts:
    """What is to know of the target server before composing for it."""

    version: int = _VIRTUAL_SINCE
    missing_collations: frozenset[tuple[str, str]] = frozenset()


@dataclass(frozen=True)
class Extra:
    """Something that a table can do without, and that the target may not be able to have."""

    statement: sql.Composed
    note: Note
    """What is to be said when it was left out."""


@dataclass
class Composition:
    """A table's statements, in order, and what they leave out."""

    statements: list[sql.Composed] = field(default_factory=list)
    extras: list[Extra] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)


def compose_table(plan: TablePlan, facts: TargetFacts) -> Composition:
    """All that makes the table; its schemas and types are expected to be there."""
    made = Composition()
    source = plan.source
    elements: list[sql.Composable] = []
    for column in plan.columns:
        text, notes = compose_column(plan, column, facts)
        elements.append(text)
        made.notes += notes
    key = source.primary_key
    if key is not None and plan.with_key:
        elements.append(_constraint(plan, key))
    statement = sql.SQL("CREATE TABLE {} ({})").format(
        identifier(plan.target), sql.SQL(", ").join(elements)
    )
    if source.partition_key is not None:
        by = sql.SQL(" PARTITION BY {}").format(deparsed(source.partition_key))
        statement += by
    made.statements.append(statement)
    made.statements += [compose_partition(plan, partition) for partition in source.partitions]
    made.statements += _identities(plan)
    for column in plan.columns:
        if column.default is not None and not column.generated:
            made.statements += _sequence_of_default(plan, column)
            made.extras.append(compose_default(plan, column))
    made.extras += _checks(plan, facts, made.notes)
    return made


# --- columns ------------------------------------------------------------------------------------


def compose_column(
    plan: TablePlan, column: ColumnDefinition, facts: TargetFacts
) -> tuple[sql.Composed, list[Note]]:
    """The column as CREATE TABLE and ADD COLUMN write it, without its default."""
    where = f"{plan.source.table}.{column.name}"
    parts: list[sql.Composable] = [sql.Identifier(column.name), deparsed(column.type)]
    notes: list[Note] = []
    if column.collation is not None and column.collation in facts.missing_collations:
        name = TableName(*column.collation).id
        notes.append(
            Note(
                "collation-missing",
                where,
                f"the collation {name} is not at the target; the column has the default one",
                "rows are the same, their order under this column may not be; "
                "CREATE COLLATION at the target first to have it",
            )
        )
    else:
        parts += collate(column.collation)
    if column.generated:
        how = "STORED"
        if column.generated == "v":
            how = "VIRTUAL"
            if facts.version < _VIRTUAL_SINCE:
                how = "STORED"
                notes.append(
                    Note("virtual-stored", where, "virtual at the source, stored at the target")
                )
        parts.append(
            sql.SQL("GENERATED ALWAYS AS ({}) {}").format(
                deparsed(column.default or ""), sql.SQL(how)
            )
        )
    elif column.identity and column.sequence is not None:
        if plan.source.kind == "p" and facts.version < _PARTITIONED_IDENTITY_SINCE:
            notes.append(
                Note("identity-left-out", where, "identity of a partitioned table, left out there")
            )
        else:
            options = _sequence_options(column.sequence)
            parts.append(sql.SQL("GENERATED BY DEFAULT AS IDENTITY ({})").format(options))
    if column.not_null:
        parts.append(sql.SQL("NOT NULL"))
    return sql.SQL(" ").join(parts), notes


def compose_default(plan: TablePlan, column: ColumnDefinition) -> Extra:
    """What gives the column its default."""
    expression: sql.Composable = deparsed(column.default or "NULL")
    if column.takes_next_value and column.sequence is not None:
        sequence = sequence_name(plan, column.sequence)
        expression = sql.SQL("nextval({}::regclass)").format(sql.Literal(sequence.id))
    statement = sql.SQL("ALTER TABLE {} ALTER COLUMN {} SET DEFAULT {}").format(
        identifier(plan.target), sql.Identifier(column.name), expression
    )
    note = Note(
        "default-left-out",
        f"{plan.source.table}.{column.name}",
        f"its default is left out at the target: {column.default}",
        "make what the default uses at the target, then set it there",
    )
    return Extra(statement, note)


# --- sequences ----------------------------------------------------------------------------------


def sequence_name(plan: TablePlan, sequence: SequenceDefinition) -> TableName:
    """Where a sequence lies at the target: one that belongs to the table goes with it."""
    source = plan.source.table
    if not sequence.owned:
        return TableName(sequence.schema, sequence.name)
    schema = plan.target.schema if sequence.schema == source.schema else sequence.schema
    return TableName(schema, kin(sequence.name, source, plan.target))


def compose_sequence(plan: TablePlan, column: ColumnDefinition) -> list[sql.Composed]:
    """The sequence of the column's default; it starts anew, and is set when rows are there."""
    sequence = column.sequence
    if sequence is None:
        return []
    name = identifier(sequence_name(plan, sequence))
    create = "CREATE SEQUENCE {} AS {} {}"
    if not sequence.owned:
        create = "CREATE SEQUENCE IF NOT EXISTS {} AS {} {}"
    made = [
        sql.SQL(create).format(name, deparsed(sequence.type), _sequence_options(sequence)),
    ]
    if sequence.owned:
        column_name = sql.Identifier(plan.target.schema, plan.target.name, column.name)
        made.append(sql.SQL("ALTER SEQUENCE {} OWNED BY {}").format(name, column_name))
    return made


def _sequence_of_default(plan: TablePlan, column: ColumnDefinition) -> list[sql.Composed]:
    return compose_sequence(plan, column) if not column.identity else []


def _sequence_options(sequence: SequenceDefinition) -> sql.Composed:
    return sql.SQL("INCREMENT BY {} MINVALUE {} MAXVALUE {} START WITH {} CACHE {}{}").format(
        sql.Literal(sequence.increment),
        sql.Literal(sequence.minimum),
        sql.Literal(sequence.maximum),
        sql.Literal(sequence.start),
        sql.Literal(sequence.cache),
        sql.SQL(" CYCLE" if sequence.cycle else ""),
    )


# --- partitions ---------------------------------------------------------------------------------


def compose_partition(plan: TablePlan, partition: PartitionDefinition) -> sql.Composed:
    """A partition of the source's table, below its parent at the target."""

    def name(of: PartitionDefinition | None) -> sql.Identifier:
        if of is None:
            return identifier(plan.target)
        return identifier(partition_name(of.table, plan.source.table, plan.target))

    parent = next((p for p in plan.source.partitions if p.oid == partition.parent), None)
    statement = sql.SQL("CREATE TABLE {} PARTITION OF {} {}").format(
        name(partition), name(parent), deparsed(partition.bound)
    )
    if partition.key is not None:
        statement += sql.SQL(" PARTITION BY {}").format(deparsed(partition.key))
    return statement


def _identities(plan: TablePlan) -> Iterator[sql.Composed]:
    """Whole rows in the log, where the source has them: another feed may begin at this table, such
    as the one back. An index that identifies rows is only built later; whole rows do as well."""
    source = plan.source
    full = sql.SQL("ALTER TABLE ONLY {} REPLICA IDENTITY FULL")
    if _in_whole(source.replica_identity, source.primary_key is not None):
        yield full.format(identifier(plan.target))
    for each in source.partitions:
        if each.kind == "r" and _in_whole(each.replica_identity, each.has_primary_key):
            name = partition_name(each.table, source.table, plan.target)
            yield full.format(identifier(name))


def _in_whole(replica_identity: str, has_key: bool) -> bool:
    return replica_identity == "f" or (replica_identity == "i" and not has_key)


# --- constraints --------------------------------------------------------------------------------


def _constraint(plan: TablePlan, constraint: ConstraintDefinition) -> sql.Composed:
    name = constraint.name
    if constraint.kind != "c":
        name = kin(name, plan.source.table, plan.target)
    return sql.SQL("CONSTRAINT {} {}").format(sql.Identifier(name), deparsed(constraint.definition))


def _checks(plan: TablePlan, facts: TargetFacts, notes: list[Note]) -> Iterator[Extra]:
    """Checks that hold for all rows of the source. Those NOT VALID come after the copy."""
    for check in plan.source.constraints:
        if check.kind != "c" or not check.validated:
            continue
        note = Note(
            "check-left-out",
            f"{plan.source.table}.{check.name}",
            f"the check is left out at the target: {check.definition}",
            "make what the check uses at the target, then add it there",
        )
        unenforced = check.definition.endswith(" NOT ENFORCED")
        if not plan.keeps(check.columns) or (unenforced and facts.version < _UNENFORCED_SINCE):
            notes.append(note)
            continue
        yield Extra(
            sql.SQL("ALTER TABLE {} ADD {}").format(
                identifier(plan.target), _constraint(plan, check)
            ),
            note,
        )
