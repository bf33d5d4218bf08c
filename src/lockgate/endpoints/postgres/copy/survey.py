"""What is to be known of tables before they are copied, asked of both sides in a few queries."""

from collections.abc import Sequence

from msgspec import structs

from lockgate.endpoints.postgres.connect import connect
from lockgate.endpoints.postgres.copy.formats import binary_forms, same_forms
from lockgate.endpoints.postgres.copy.items import CopyTable, KeyColumn
from lockgate.endpoints.postgres.pgoutput.relations import TablePlan
from lockgate.endpoints.postgres.schema.definitions import TableDefinition
from lockgate.endpoints.postgres.schema.discover import TableSize, describe, sizes
from lockgate.endpoints.postgres.url import PostgresUrl
from lockgate.model.errors import ObjectMissing
from lockgate.model.ids import FeedId, Token
from lockgate.model.selection import TableSelection
from lockgate.model.spans import SpanSpec
from lockgate.model.tables import Column, TableName, TableShape
from lockgate.model.value import Value

__all__ = ["CopyOrder", "Surveyed", "key_columns", "survey", "survey_source"]


class CopyOrder(Value, frozen=True):
    """A span whose rows are to be copied, under which token, in which run."""

    span: SpanSpec
    token: Token
    selection: TableSelection
    """What is taken of its table, and where it goes."""
    run: int = 0


class Surveyed(Value, frozen=True):
    """A table to be copied."""

    table: CopyTable
    size: TableSize
    parts: tuple[int, ...]
    """The numbers (oids) of what its rows lie in: itself, or its partitions."""
    shape: TableShape
    """What its rows look like when they travel, of the columns that are chosen."""


def survey(
    source: PostgresUrl, target: PostgresUrl, feed: FeedId, orders: Sequence[CopyOrder]
) -> dict[TableName, Surveyed]:
    """All tables that the orders are about, by their names at the source."""
    found = survey_source(source, feed, orders)
    purpose = f"{feed} copy"
    with connect(source, purpose=purpose, autocommit=True) as connection:
        here = binary_forms(connection, list(found))
    with connect(target, purpose=purpose, autocommit=True) as connection:
        there = binary_forms(connection, [each.table.target for each in found.values()])
    return {
        name: structs.replace(
            each,
            table=structs.replace(
                each.table,
                binary=same_forms(
                    here[name], there[each.table.target], each.table.columns, list(each.table.masks)
                ),
            ),
        )
        for name, each in found.items()
    }


def survey_source(
    source: PostgresUrl, feed: FeedId, orders: Sequence[CopyOrder]
) -> dict[TableName, Surveyed]:
    """The same without a look at a target: in which form rows travel there is left open."""
    wanted = {order.selection.table: order.selection for order in orders}
    with connect(source, purpose=f"{feed} copy", autocommit=True) as connection:
        there = describe(connection, list(wanted))
        size = sizes(connection, there.values())
    for name in wanted:
        if name not in there:
            raise ObjectMissing(
                "the table is gone at the source",
                object_=f"{name}, {source.label}",
                hint="if it was dropped, the feed hears of it; leave it out if it was renamed",
                operation="copy",
            )
    return {
        name: Surveyed(
            CopyTable(
                source=name,
                target=each.target,
                columns=each.columns,
                key=key_columns(there[name]),
                masks=each.masks,
                row_filter=each.row_filter,
                partitioned=there[name].kind == "p",
                oid=there[name].oid,
                numbers=tuple(
                    (column.number, column.name, column.type_oid)
                    for column in there[name].columns
                    if column.name in each.columns
                ),
            ),
            size[name],
            tuple(leaf.oid for leaf in there[name].leaves) or (there[name].oid,),
            _travelling(there[name], each),
        )
        for name, each in wanted.items()
    }


def _travelling(definition: TableDefinition, selection: TableSelection) -> TableShape:
    whole = definition.shape()
    columns = tuple(column for column in whole.columns if column.name in selection.columns)
    return TablePlan(structs.replace(whole, columns=columns), selection.masks).travelling


def key_columns(definition: TableDefinition) -> tuple[KeyColumn, ...]:
    """The columns that the table is cut by, in the order of its index."""
    by_name = {column.name: column for column in definition.columns}
    return tuple(
        KeyColumn(
            Column(name=name, type=by_name[name].type, type_id=by_name[name].base_oid),
            by_name[name].collation,
        )
        for name in definition.key
    )
