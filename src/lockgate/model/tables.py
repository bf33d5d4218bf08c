"""Tables as Lockgate sees them: names, columns, keys. The same words for every kind of database."""

import enum
import re

from lockgate.model.ids import TableId
from lockgate.model.value import Value

_PLAIN = re.compile(r"[a-z_][a-z0-9_$]*")


class TableName(Value, frozen=True, order=True, array_like=True):
    """A table's full name. Its text, `schema.table`, quoted where needed, is the `TableId`."""

    schema: str
    name: str

    @property
    def id(self) -> TableId:
        """One text per name: parts that are not plain identifiers stand in double quotes."""
        return f"{quoted(self.schema)}.{quoted(self.name)}"

    def __str__(self) -> str:
        return self.id


def parse_table(text: str) -> TableName:
    """The name that `text` is the id of. Raises ValueError when it is none."""
    parts: list[str] = []
    rest = text
    for last in (False, True):
        if rest.startswith('"'):
            match = re.match(r'"((?:[^"]|"")+)"', rest)
            part = match.group(1).replace('""', '"') if match else ""
        else:
            match = re.match(r'[^."]+', rest)
            part = match.group() if match else ""
        rest = rest[match.end() :] if match else rest
        if not part or (last and rest) or (not last and not rest.startswith(".")):
            raise ValueError(f"not a table's name: {text!r}; write schema.table")
        parts.append(part)
        rest = rest[1:]
    return TableName(*parts)


def quoted(part: str) -> str:
    """A name's part as people read it: in double quotes unless it is a plain identifier."""
    return part if _PLAIN.fullmatch(part) else '"' + part.replace('"', '""') + '"'


class Identity(enum.Enum):
    """What the source tells of a row that was changed or deleted."""

    KEY = "key"
    """The values of `TableShape.key`."""
    FULL = "full"
    """The whole former row."""
    NOTHING = "nothing"
    """Nothing: updates and deletes cannot be replicated."""


class Column(Value, frozen=True):
    """One column that is replicated."""

    name: str
    type: str
    """In the source's own words, with modifiers: `numeric(10,2)`, `character varying(40)[]`."""
    type_id: int = 0
    """The source's number for the base type (PostgreSQL: the OID); 0 when it has none."""
    nullable: bool = True
    number: int = 0
    """The source's lasting number of the column (PostgreSQL: attnum): survives a rename."""


class TableShape(Value, frozen=True):
    """What rows of a table look like between two schema changes.

    `columns` are those that travel, in the source's order: no generated ones, none that the
    feed leaves out. `key` names the columns by which the source identifies a row, in the key's
    order; empty when it has no key, and then `identity` is FULL or NOTHING.
    """

    table: TableName
    columns: tuple[Column, ...]
    key: tuple[str, ...] = ()
    identity: Identity = Identity.KEY
