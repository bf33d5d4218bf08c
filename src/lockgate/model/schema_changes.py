"""What a schema change at the source means: typed, table by table.

    log rows, or a table described anew  ──►  SchemaStep  ──►  statements at the target
                                                 │
                                                 ├─► Ddl, for the barrier
                                                 └─► JSON, for the change log

A step is everything that happened to schemas between two row changes of one transaction: its net
effect, for nobody has seen the states in between. It is written at the target as a whole.

What cannot be carried over is a change too, `Unsupported`: the feed stops when it comes to it,
with everything before it applied, and names the statement.
"""

from collections.abc import Sequence

import msgspec

from lockgate.model.ddl import Ddl, DdlKind
from lockgate.model.positions import Position
from lockgate.model.tables import TableName, TableShape
from lockgate.model.value import Value

__all__ = [
    "NOTHING",
    "AddColumn",
    "AddLabel",
    "AddPartition",
    "AlterType",
    "CreateTable",
    "DropColumn",
    "DropConstraint",
    "DropNotNull",
    "DropPartition",
    "DropTable",
    "Ignored",
    "LoosenDomain",
    "RenameColumn",
    "RenameConstraint",
    "RenameLabel",
    "RenamePartition",
    "RenameTable",
    "SchemaChange",
    "SchemaStep",
    "SetDefault",
    "SetKey",
    "SetNotNull",
    "TableChange",
    "Unsupported",
    "step_from_json",
    "together",
]


class _Change(Value, frozen=True, tag_field="change"):
    """The base of all kinds."""


class CreateTable(_Change, frozen=True, tag="create-table"):
    """A table that is new to the feed. It is empty."""


class DropTable(_Change, frozen=True, tag="drop-table"):
    """The table is gone, with its rows."""


class RenameTable(_Change, frozen=True, tag="rename-table"):
    """The table has another name or schema; `TableChange` has both."""


class AddColumn(_Change, frozen=True, tag="add-column"):
    """A new column. `fill` is what it holds in the rows that were there, as text."""

    column: str
    fill: str | None = None


class DropColumn(_Change, frozen=True, tag="drop-column"):
    """A column is gone."""

    column: str


class RenameColumn(_Change, frozen=True, tag="rename-column"):
    """A column has another name."""

    column: str
    to: str


class AlterType(_Change, frozen=True, tag="alter-type"):
    """A column is of another type; its values were turned into it by PostgreSQL's own cast."""

    column: str
    type: str
    was: str
    empty: bool = False
    """There are no rows, so it does not matter how values would be turned."""


class SetNotNull(_Change, frozen=True, tag="set-not-null"):
    """A column has a value in every row from now on."""

    column: str


class DropNotNull(_Change, frozen=True, tag="drop-not-null"):
    """A column may be without a value."""

    column: str


class SetDefault(_Change, frozen=True, tag="set-default"):
    """A column has another default, or none. Rows arrive with their values all the same."""

    column: str
    expression: str | None


class SetKey(_Change, frozen=True, tag="set-key"):
    """Other columns identify rows."""

    columns: tuple[str, ...]


class DropConstraint(_Change, frozen=True, tag="drop-constraint"):
    """A constraint or unique index is gone: the target must not be stricter than the source."""

    name: str
    index: bool = False
    """It is an index that no constraint stands for."""


class RenameConstraint(_Change, frozen=True, tag="rename-constraint"):
    """A constraint or index has another name: it is looked up by it later."""

    name: str
    to: str
    index: bool = False


class AddPartition(_Change, frozen=True, tag="add-partition"):
    """A new partition without rows."""

    partition: TableName


class DropPartition(_Change, frozen=True, tag="drop-partition"):
    """A partition is gone, with its rows."""

    partition: TableName


class RenamePartition(_Change, frozen=True, tag="rename-partition"):
    """A partition has another name."""

    partition: TableName
    to: TableName


class AddLabel(_Change, frozen=True, tag="add-label"):
    """An enum has one more label, right after another one, or as the first before another."""

    type: TableName
    label: str
    after: str | None
    before: str | None = None


class RenameLabel(_Change, frozen=True, tag="rename-label"):
    """A label of an enum has another text."""

    type: TableName
    label: str
    to: str


class LoosenDomain(_Change, frozen=True, tag="loosen-domain"):
    """A domain lets more values in."""

    type: TableName
    checks: tuple[str, ...] = ()
    """Those that are gone."""
    nullable: bool = False
    """It may be null from now on."""


class Ignored(_Change, frozen=True, tag="ignored"):
    """Something that rows do not depend on and that is not carried over."""

    what: str


class Unsupported(_Change, frozen=True, tag="unsupported"):
    """Something that cannot be carried over without knowing more than the source tells."""

    why: str
    hint: str


SchemaChange = (
    CreateTable
    | DropTable
    | RenameTable
    | AddColumn
    | DropColumn
    | RenameColumn
    | AlterType
    | SetNotNull
    | DropNotNull
    | SetDefault
    | SetKey
    | DropConstraint
    | RenameConstraint
    | AddPartition
    | DropPartition
    | RenamePartition
    | AddLabel
    | RenameLabel
    | LoosenDomain
    | Ignored
    | Unsupported
)


NOTHING = msgspec.Raw(b"")
"""No definition. It is false, and is not written."""


class TableChange(Value, frozen=True, omit_defaults=True):
    """What a step does to one table. `before` and `after` are in the endpoint's own words."""

    was: TableName | None
    """Its name before; None when it is new to the feed."""
    now: TableName | None
    """Its name afterwards; None when it is gone from the feed."""
    changes: tuple[SchemaChange, ...] = ()
    """In an order in which they can be done."""
    before: msgspec.Raw = NOTHING
    after: msgspec.Raw = NOTHING
    shape: TableShape | None = None
    """What its rows look like afterwards, as far as the feed takes them."""

    @property
    def table(self) -> TableName:
        """Its name, the newer one if there are two."""
        name = self.now or self.was
        assert name is not None
        return name


class SchemaStep(Value, frozen=True):
    """What happened to schemas between two row changes of one transaction."""

    statement: str
    """What the source's users wrote."""
    tables: tuple[TableChange, ...]
    forms: dict[str, str] = msgspec.field(default_factory=dict)
    """How the session that did it writes values as text."""
    every_table: bool = False
    """Nobody knows which tables it concerns."""

    @property
    def creates(self) -> tuple[TableName, ...]:
        """Names that the feed has afterwards and had not before."""
        was = {change.was for change in self.tables}
        return tuple(c.now for c in self.tables if c.now is not None and c.now not in was)

    @property
    def drops(self) -> tuple[TableName, ...]:
        """Names that the feed had before and has not afterwards."""
        now = {change.now for change in self.tables}
        return tuple(c.was for c in self.tables if c.was is not None and c.was not in now)

    @property
    def renames(self) -> tuple[tuple[TableName, TableName], ...]:
        """Names before and after of the tables that the feed has under another one now."""
        return tuple(
            (c.was, c.now)
            for c in self.tables
            if c.was is not None and c.now is not None and c.was != c.now
        )

    @property
    def unsupported(self) -> tuple[TableName, Unsupported] | None:
        """The first thing that cannot be carried over."""
        for table in self.tables:
            for change in table.changes:
                if isinstance(change, Unsupported):
                    return table.table, change
        return None

    @property
    def notes(self) -> list[str]:
        """What is not carried over and does not have to be."""
        return [
            f"{table.table}: {change.what}"
            for table in self.tables
            for change in table.changes
            if isinstance(change, Ignored)
        ]

    @property
    def has_effect(self) -> bool:
        """True when there is anything to write at the target, or rows look different now."""
        return any(
            table.was != table.now
            or table.shape is not None
            or any(not isinstance(change, Ignored) for change in table.changes)
            for table in self.tables
        )

    def ddl(self, position: Position) -> Ddl:
        """The step as an entry of the log that the barrier stops for."""
        drops, renames = self.drops, self.renames
        names = {name for c in self.tables for name in (c.was, c.now) if name is not None}
        if self.creates or renames:
            kind = DdlKind.CREATE
        elif drops and len(drops) == len(names):
            kind = DdlKind.DROP
        else:
            kind = DdlKind.ALTER
        return Ddl(
            position,
            kind,
            tuple(name.id for name in sorted(names)),
            every_table=self.every_table,
            statement=self.statement,
            drops=() if kind is DdlKind.DROP else tuple(name.id for name in sorted(drops)),
            renames=tuple((was.id, now.id) for was, now in sorted(renames)),
        )

    def to_json(self) -> str:
        """For the change log."""
        return msgspec.json.encode(self).decode()


def together(steps: Sequence[SchemaStep]) -> SchemaStep:
    """Several steps, one after the other, as one."""
    return SchemaStep(
        "; ".join(dict.fromkeys(step.statement for step in steps)),
        tuple(table for step in steps for table in step.tables),
        steps[-1].forms,
        any(step.every_table for step in steps),
    )


_STEP = msgspec.json.Decoder(SchemaStep)


def step_from_json(body: str | bytes) -> SchemaStep:
    """What `to_json` wrote."""
    return _STEP.decode(body)
