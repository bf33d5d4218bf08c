"""What is to be known of tables before they are compared, asked of both sides in a few queries.

    columns   those of one name on both sides, and what their values are taken for (`forms.py`)
    key       a unique index over columns that are never NULL, which both sides have; else rows are
              told apart as a whole, and counted
    order     ranges of keys mean the same rows on both sides only where both sort alike: numbers,
              times, bytes always; texts under the same collation of the same version; nothing else

Where keys have no common order, ranges are shares of the key's hash: each is a pass over the whole
table, so there are few.

Generated columns are left out: they follow from the others.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import psycopg

from lockgate.endpoints.postgres.connect import connect
from lockgate.endpoints.postgres.copy.items import KeyColumn
from lockgate.endpoints.postgres.diff.forms import ColumnForm, Form, form_of, shared_form
from lockgate.endpoints.postgres.diff.items import Compared, SideTable
from lockgate.endpoints.postgres.faults import faults
from lockgate.endpoints.postgres.schema.definitions import ColumnDefinition, TableDefinition
from lockgate.endpoints.postgres.schema.discover import TableSize, describe, sizes
from lockgate.endpoints.postgres.url import PostgresUrl
from lockgate.model.diffs import DiffTrouble
from lockgate.model.feed_config import Mask
from lockgate.model.selection import TableSelection
from lockgate.model.tables import Column, TableName
from lockgate.model.value import Value

__all__ = ["Seen", "Surveyed", "look", "paired", "survey"]

_ORDERED: Final = frozenset(Form) - {Form.WRITTEN, Form.TEXT}
"""Forms whose values have one order everywhere."""
_MODERN: Final = 180000

_COLLATIONS: Final = """
WITH wanted AS (
    SELECT n.nspname, c.relname, a.attname, to_jsonb(co) AS co, to_jsonb(d) AS d,
           pg_collation_actual_version(co.oid) AS of_collation,
           {database_version} AS of_database
    FROM unnest(%s::text[], %s::text[]) AS w(schema, name)
    JOIN pg_namespace n ON n.nspname = w.schema
    JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = w.name
    JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
    JOIN pg_collation co ON co.oid = a.attcollation
    JOIN pg_database d ON d.datname = current_database()
), named AS (
    SELECT nspname, relname, attname, (co ->> 'collisdeterministic')::bool AS deterministic,
           CASE WHEN co ->> 'collprovider' = 'd' THEN coalesce(d ->> 'datlocprovider', 'c')
                ELSE co ->> 'collprovider' END AS provider,
           CASE WHEN co ->> 'collprovider' = 'd'
                THEN coalesce(d ->> 'datlocale', d ->> 'daticulocale', d ->> 'datcollate')
                ELSE coalesce(co ->> 'colllocale', co ->> 'colliculocale', co ->> 'collcollate')
                END AS locale,
           CASE WHEN co ->> 'collprovider' = 'd' THEN of_database ELSE of_collation END AS version
    FROM wanted
)
SELECT nspname, relname, attname,
       CASE WHEN NOT deterministic THEN NULL
            WHEN provider = 'b' OR locale IN ('C', 'POSIX') THEN 'C'
            WHEN locale LIKE 'C.%%' THEN provider || ' ' || locale
            ELSE provider || ' ' || locale || ' ' || version END
FROM named
"""
"""How each column of text is sorted, in words that mean the same on every server, or NULL."""

_STORAGE: Final = """
SELECT oid::int8, pg_relation_filenode(oid)::int8 FROM unnest(%s::oid[]) AS oid
WHERE pg_relation_filenode(oid) IS NOT NULL
"""


class Seen(Value, frozen=True):
    """Tables as one side has them."""

    tables: dict[TableName, TableDefinition]
    sizes: dict[TableName, TableSize]
    sorting: dict[tuple[str, str, str], str | None]
    """By schema, table and column: how texts are sorted."""
    storage: dict[int, int]
    version: int
    encoding: str


class Surveyed(Value, frozen=True):
    """A table to be compared, or why it cannot be."""

    selection: TableSelection
    table: Compared | None = None
    size: TableSize = TableSize(0, 0)
    ordered: bool = False
    """It may be cut into ranges of the key."""
    lacks: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    trouble: DiffTrouble | None = None


def look(url: PostgresUrl, names: Sequence[TableName]) -> Seen:
    """All that one side has to say. Taken before a snapshot, or files may have changed since."""
    with connect(url, purpose="diff survey", autocommit=True) as connection:
        tables = describe(connection, names)
        size = sizes(connection, tables.values())
        with faults(object_=url.label, operation="read the catalog"):
            sorting = _sorting(connection, names)
            oids = [oid for table in tables.values() for oid in _parts(table)]
            storage = {row[0]: row[1] for row in connection.execute(_STORAGE, (oids,))}
            row = connection.execute("SELECT current_setting('server_encoding')").fetchone()
        version = connection.info.server_version
    return Seen(tables, size, sorting, storage, version, row[0] if row else "")


def survey(
    source: PostgresUrl, target: PostgresUrl, wanted: Sequence[TableSelection]
) -> list[Surveyed]:
    """Everything about all these tables, in their order."""
    here = look(source, [each.table for each in wanted])
    there = look(target, [each.target for each in wanted])
    return [paired(each, here, there) for each in wanted]


def paired(selection: TableSelection, here: Seen, there: Seen) -> Surveyed:
    """One table, as both sides have it."""
    ours, theirs = here.tables.get(selection.table), there.tables.get(selection.target)
    if ours is None or theirs is None:
        where, name = ("source", selection.table) if ours is None else ("target", selection.target)
        what = f"there is no such table at the {where}"
        return Surveyed(
            selection, trouble=DiffTrouble("object-missing", what, str(name), "leave it out")
        )
    targets = {column.name: column for column in theirs.columns}
    chosen = [
        column
        for column in ours.columns
        if column.name in selection.columns and not column.generated
    ]
    both = [column for column in chosen if column.name in targets]
    lacks = tuple(column.name for column in chosen if column.name not in targets)
    extra = [
        column.name
        for column in theirs.columns
        if column.name not in selection.columns and not column.generated
    ]
    if not both:
        trouble = DiffTrouble("no-columns", "the two have no column in common", str(ours.table))
        return Surveyed(selection, lacks=lacks, trouble=trouble)
    key = _key(ours, theirs, [column.name for column in both], selection.masks)
    both.sort(key=lambda column: key.index(column.name) if column.name in key else len(key))
    notes = [f"the target has a column {name} that is not compared" for name in extra]
    if not key:
        notes.append("no key that both sides have: whole rows are compared, and counted")
    pairs = [
        _forms(column, targets[column.name], selection.masks.get(column.name), here, there)
        for column in both
    ]
    return Surveyed(
        selection,
        Compared(
            _side(ours, here, [pair[0] for pair in pairs], key, selection.row_filter),
            _side(theirs, there, [pair[1] for pair in pairs], key),
        ),
        here.sizes[ours.table],
        bool(key) and _same_order(ours, theirs, key, here, there),
        lacks,
        tuple(notes),
    )


def _side(
    table: TableDefinition,
    seen: Seen,
    columns: Sequence[ColumnForm],
    key: Sequence[str],
    row_filter: str = "",
) -> SideTable:
    by_name = {column.name: column for column in table.columns}
    return SideTable(
        table.table,
        tuple(columns),
        tuple(
            KeyColumn(
                Column(name=name, type=by_name[name].type, type_id=by_name[name].base_oid),
                by_name[name].collation,
            )
            for name in key
        ),
        table.kind == "p",
        row_filter,
        tuple((oid, seen.storage[oid]) for oid in _parts(table) if oid in seen.storage),
        table.oid,
        tuple(
            (by_name[each.name].number, each.name, by_name[each.name].type_oid) for each in columns
        ),
    )


def _parts(table: TableDefinition) -> list[int]:
    """What its rows lie in: itself, or its partitions."""
    return [leaf.oid for leaf in table.leaves] or [table.oid]


def _key(
    ours: TableDefinition,
    theirs: TableDefinition,
    columns: Sequence[str],
    masks: Mapping[str, Mask],
) -> tuple[str, ...]:
    """The primary key, or the shortest unique index, that both sides have."""
    known = {frozenset(index.key) for index in theirs.indexes if index.identifies}
    found = [
        index
        for index in ours.indexes
        if index.identifies
        and frozenset(index.key) in known
        and all(name in columns and name not in masks for name in index.key)
    ]
    found.sort(key=lambda index: (not index.primary, len(index.key), index.name))
    return found[0].key if found else ()


def _forms(
    ours: ColumnDefinition,
    theirs: ColumnDefinition,
    mask: Mask | None,
    here: Seen,
    there: Seen,
) -> tuple[ColumnForm, ColumnForm]:
    """One column, for either side."""
    mine = Form.TEXT if mask else form_of(ours.base_oid, ours.type)
    form = shared_form(mine, form_of(theirs.base_oid, theirs.type))
    recoded = here.encoding != there.encoding

    def of_side(column: ColumnDefinition, seen: Seen, hidden: Mask | None) -> ColumnForm:
        return ColumnForm(
            column.name,
            form,
            nullable=hidden is not None or not column.not_null,
            # A user-defined type may be one, and of any other it says the same.
            composite=hidden is None and bool(column.uses),
            recoded=recoded,
            modern=seen.version >= _MODERN,
            mask=hidden,
        )

    return of_side(ours, here, mask), of_side(theirs, there, None)


def _same_order(
    ours: TableDefinition, theirs: TableDefinition, key: tuple[str, ...], here: Seen, there: Seen
) -> bool:
    """Do both sides have an index that goes through the keys in the same order?"""
    if not any(index.identifies and index.key == key for index in theirs.indexes):
        return False
    mine = {column.name: column for column in ours.columns}
    other = {column.name: column for column in theirs.columns}
    for name in key:
        types = mine[name].base_oid, other[name].base_oid
        form = shared_form(form_of(types[0], mine[name].type), form_of(types[1], other[name].type))
        if form in _ORDERED:
            continue
        sorting = (
            here.sorting.get((ours.schema, ours.name, name)),
            there.sorting.get((theirs.schema, theirs.name, name)),
        )
        alike = types[0] == types[1] or set(types) == {25, 1043}
        same_bytes = here.encoding == there.encoding
        if form is not Form.TEXT or not alike or not same_bytes:
            return False
        if sorting[0] is None or sorting[0] != sorting[1]:
            return False
    return True


def _sorting(
    connection: psycopg.Connection, names: Sequence[TableName]
) -> dict[tuple[str, str, str], str | None]:
    of_database = "NULL::text"
    if connection.info.server_version >= 150000:
        of_database = "pg_database_collation_actual_version(d.oid)"
    query = _COLLATIONS.replace("{database_version}", of_database)
    asked = [name.schema for name in names], [name.name for name in names]
    return {(row[0], row[1], row[2]): row[3] for row in connection.execute(query, asked)}
