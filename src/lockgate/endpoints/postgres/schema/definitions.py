"""What a PostgreSQL database says about its tables, as values.

The catalog is asked for one JSON document per table (`catalog.py`), and these classes are its
form: discovery decodes it, and so does whoever reads the log of schema changes, which holds the
same documents. Expressions and types are texts deparsed by the server with an empty search
path, so every name in them that is not PostgreSQL's own carries its schema.
"""

from lockgate.model.tables import Column, Identity, TableName, TableShape
from lockgate.model.value import Value

__all__ = [
    "ColumnDefinition",
    "ConstraintDefinition",
    "IndexDefinition",
    "PartitionDefinition",
    "SequenceDefinition",
    "TableDefinition",
    "TypeDefinition",
]


class SequenceDefinition(Value, frozen=True):
    """A sequence that a column takes its default from."""

    oid: int
    schema: str
    name: str
    type: str
    start: int
    increment: int
    minimum: int
    maximum: int
    cache: int
    cycle: bool
    owned: bool
    """It belongs to the column (serial, identity) and goes with it."""


class ColumnDefinition(Value, frozen=True):
    """One column, generated ones included, dropped ones not."""

    number: int
    name: str
    type: str
    type_oid: int
    base_oid: int
    """The type below all domains."""
    uses: int
    """The user-defined type that it is of, or is an array of; 0 when there is none."""
    not_null: bool
    default: str | None
    """Deparsed; of a generated column it is the expression."""
    identity: str
    """`a`lways, by `d`efault, or empty."""
    generated: str
    """`s`tored, `v`irtual, or empty."""
    collation: tuple[str, str] | None
    """Where it is not the type's own."""
    sequence: SequenceDefinition | None

    @property
    def takes_next_value(self) -> bool:
        """The default is the next value of `sequence` and nothing else."""
        default = self.default or ""
        return (
            self.sequence is not None
            and default.startswith("nextval('")
            and default.endswith("'::regclass)")
            and default.count("nextval(") == 1
        )


class IndexDefinition(Value, frozen=True):
    """One index that is valid."""

    oid: int
    name: str
    unique: bool
    primary: bool
    replica: bool
    """It was chosen as replica identity."""
    identifies: bool
    """Unique, at once, over columns alone that are not null: it may tell rows apart."""
    constraint: bool
    """A constraint made it."""
    key: tuple[str, ...]
    """Its key columns in order, when all of them are columns."""
    columns: tuple[str, ...]
    """Every column that it looks at, expressions and condition included."""
    tail: str
    """Its definition from `USING` on."""


class ConstraintDefinition(Value, frozen=True):
    """A primary key (`p`), unique (`u`), check (`c`), exclusion (`x`) or foreign key (`f`)."""

    oid: int
    name: str
    kind: str
    columns: tuple[str, ...]
    validated: bool
    definition: str
    """Of a foreign key: up to the referenced table."""
    references: tuple[str, str] | None = None
    tail: str = ""
    """Of a foreign key: from the referenced columns on, without NOT VALID."""
    referenced_columns: tuple[str, ...] = ()


class PartitionDefinition(Value, frozen=True):
    """A partition at any depth below a partitioned table. Parents come before children."""

    oid: int
    schema: str
    name: str
    parent: int
    kind: str
    """`r` for a table, `p` for one that is partitioned itself, `f` for a foreign table."""
    bound: str
    key: str | None
    """How it is partitioned itself: `LIST (region)`."""
    replica_identity: str
    has_primary_key: bool
    """One that may identify rows."""

    @property
    def table(self) -> TableName:
        return TableName(self.schema, self.name)


class TypeDefinition(Value, frozen=True):
    """A user-defined type: `e`num, `d`omain, `c`omposite, `r`ange or another `b`ase type."""

    oid: int
    schema: str
    name: str
    kind: str
    needs: tuple[int, ...]
    """The user-defined types that it is made of."""
    extension: str | None
    of_table: bool
    """It is the row type of a table and comes with it."""
    labels: tuple[tuple[int, str], ...] = ()
    """Of an enum, in order: the label's lasting number, and its text."""
    base: str | None = None
    """Of a domain the type below, of a range its subtype."""
    not_null: bool = False
    default: str | None = None
    collation: tuple[str, str] | None = None
    checks: tuple[tuple[str, str], ...] = ()
    attributes: tuple[tuple[str, str, tuple[str, str] | None], ...] = ()
    """Of a composite: names, types, collations other than the type's."""
    multirange: str | None = None

    @property
    def id(self) -> str:
        """Its name as people write it."""
        return TableName(self.schema, self.name).id


class TableDefinition(Value, frozen=True):
    """A table and all that is needed to have the same one elsewhere."""

    oid: int
    schema: str
    name: str
    kind: str
    """`r` for a table, `p` for a partitioned one."""
    persistence: str
    """`p`ermanent or `u`nlogged."""
    owner: str
    replica_identity: str
    """`d`efault, `i`ndex, `f`ull or `n`othing."""
    row_security: bool
    inherits: tuple[tuple[str, str], ...]
    has_children: bool
    """Other tables inherit from it: rows of its own are those of `ONLY` it."""
    partition_of: tuple[str, str] | None
    partition_key: str | None
    columns: tuple[ColumnDefinition, ...]
    indexes: tuple[IndexDefinition, ...]
    constraints: tuple[ConstraintDefinition, ...]
    partitions: tuple[PartitionDefinition, ...]
    types: tuple[TypeDefinition, ...]

    @property
    def table(self) -> TableName:
        return TableName(self.schema, self.name)

    @property
    def primary_key(self) -> ConstraintDefinition | None:
        return next((c for c in self.constraints if c.kind == "p"), None)

    @property
    def identity(self) -> Identity:
        """What the source tells of changed rows. One silent partition makes the table silent."""
        if self.silent_leaves:
            return Identity.NOTHING
        has_key = any(index.primary and index.identifies for index in self.indexes)
        return _told(self.replica_identity, has_key)

    @property
    def silent_leaves(self) -> tuple[PartitionDefinition, ...]:
        """The partitions that do not tell which row was changed."""
        return tuple(
            leaf
            for leaf in self.leaves
            if _told(leaf.replica_identity, leaf.has_primary_key) is Identity.NOTHING
        )

    @property
    def leaves(self) -> tuple[PartitionDefinition, ...]:
        """The partitions that hold rows."""
        return tuple(leaf for leaf in self.partitions if leaf.kind == "r")

    @property
    def key(self) -> tuple[str, ...]:
        """The columns that tell rows apart, as the source's log has them; empty for none."""
        fit = [index for index in self.indexes if index.identifies]
        if self.replica_identity == "i":
            return next((index.key for index in fit if index.replica), ())
        chosen = [index for index in fit if index.primary]
        if not chosen and self.replica_identity == "f":
            chosen = sorted(fit, key=lambda index: (len(index.key), index.name))
        return chosen[0].key if chosen else ()

    def shape(self, left_out: frozenset[str] = frozenset()) -> TableShape:
        """What its rows look like in the stream, without the columns that are `left_out`."""
        columns = tuple(
            Column(
                name=column.name,
                type=column.type,
                type_id=column.base_oid,
                nullable=not column.not_null,
                number=column.number,
            )
            for column in self.columns
            if not column.generated and column.name not in left_out
        )
        return TableShape(self.table, columns, self.key, self.identity)


def _told(replica_identity: str, has_key: bool) -> Identity:
    if replica_identity == "f":
        return Identity.FULL
    if replica_identity == "i" or (replica_identity == "d" and has_key):
        return Identity.KEY
    return Identity.NOTHING
