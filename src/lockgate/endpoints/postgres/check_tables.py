"""Looking at a source's tables: those that a feed chooses, and whether it may and can take them."""

from collections.abc import Iterable, Iterator, Sequence
from secrets import token_hex
from typing import Final, NamedTuple

import psycopg
from psycopg import sql

from lockgate.endpoints.postgres.check import Server, error, ok, warning
from lockgate.endpoints.postgres.faults import faults
from lockgate.endpoints.postgres.schema.definitions import TableDefinition
from lockgate.endpoints.postgres.schema.discover import describe, findings
from lockgate.endpoints.postgres.schema.discover import tables as tables_of
from lockgate.model.errors import UsageError
from lockgate.model.feed_config import FeedConfig
from lockgate.model.findings import Finding
from lockgate.model.patterns import selected, split_name, unmatched
from lockgate.model.selection import (
    ROW_FILTERS_SINCE,
    TableSelection,
    check_selection,
    plan_for,
)
from lockgate.model.tables import Identity, TableName, quoted

__all__ = ["check_tables"]

_RELATIONS: Final = """
SELECT n.nspname::text, c.relname::text,
       CASE WHEN c.relispartition THEN 'partition' WHEN c.relpersistence = 't' THEN 'temporary'
            ELSE c.relkind::text END,
       pg_has_role(c.relowner, 'USAGE'),
       CASE WHEN c.relkind IN ('r', 'p') THEN row_security_active(c.oid) ELSE false END,
       has_schema_privilege(n.oid, 'USAGE'),
       CASE WHEN has_table_privilege(c.oid, 'SELECT') THEN '{}' ELSE ARRAY(
         SELECT a.attname::text FROM pg_attribute a
         WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
           AND NOT has_column_privilege(c.oid, a.attnum, 'SELECT')) END
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f')
ORDER BY 1, 2
"""

_KINDS: Final = {"v": "a view", "m": "a materialized view", "f": "a foreign table"}

_FILTER_USES: Final = """
SELECT a.attname::text
FROM pg_publication p
JOIN pg_publication_rel r ON r.prpubid = p.oid
JOIN pg_depend d ON d.classid = 'pg_publication_rel'::regclass AND d.objid = r.oid
     AND d.refclassid = 'pg_class'::regclass AND d.refobjid = r.prrelid AND d.refobjsubid > 0
JOIN pg_attribute a ON a.attrelid = r.prrelid AND a.attnum = d.refobjsubid
WHERE p.pubname = %s
"""


class _Relation(NamedTuple):
    """What could be taken for a table, and what the role may do with it."""

    schema: str
    name: str
    kind: str
    owned: bool
    filtered: bool
    """Row security hides rows of it from the role."""
    schema_usable: bool
    unreadable: list[str]
    """Columns that the role may not read."""


def check_tables(
    connection: psycopg.Connection,
    server: Server,
    patterns: Sequence[str],
    config: FeedConfig | None,
) -> Iterator[Finding]:
    """What there is to say of the chosen tables, in the order of their names."""
    patterns = config.tables if config else tuple(patterns)
    if not patterns:
        return
    names = tables_of(connection)
    with faults(object_=server.label, operation="test"):
        relations = {
            TableName(row[0], row[1]): _Relation(*row) for row in connection.execute(_RELATIONS)
        }
        connection.rollback()
    try:
        chosen = selected(patterns, names)
        definitions = describe(connection, chosen)
        connection.rollback()
        yield from _no_tables(patterns, relations, chosen)
        plans = {name: _plan(config, definitions[name]) for name in definitions}
        if config is not None:
            shapes = [definition.shape() for definition in describe(connection, names).values()]
            connection.rollback()
            check_selection(config, shapes, server_major=server.major)
    except UsageError as refused:
        yield error("selection", refused.what, refused.object, refused.hint)
        return
    bad: set[TableName] = set()
    for name, definition in definitions.items():
        for finding in _table(server, definition, relations[name], plans[name]):
            bad.add(name)
            yield finding
        plan = plans[name]
        if plan is not None and plan.row_filter and relations[name].owned:
            yield from _row_filter(connection, server, definition, plan.row_filter)
    good = len(definitions) - len(bad)
    if good:
        yield ok("tables", f"{good} of {len(definitions)} chosen tables are well", server.label)


def _plan(config: FeedConfig | None, definition: TableDefinition) -> TableSelection | None:
    if config is None:
        return None
    shape = definition.shape()
    return plan_for(config, shape.table, [each.name for each in shape.columns], shape.key)


def _no_tables(
    patterns: Sequence[str],
    relations: dict[TableName, _Relation],
    chosen: Iterable[TableName],
) -> Iterator[Finding]:
    """Patterns that match nothing, and what they match that is no table of its own."""
    taken = set(chosen)
    for text in unmatched(patterns, relations):
        if not text.startswith("!"):
            hint = "see the spelling, upper and lower case included"
            yield error("no-table", f"no table matches {text}", text, hint)
    by_name = {split_name(text) for text in patterns}
    for name in selected(patterns, relations):
        kind = relations[name].kind
        if name in taken or kind == "temporary":
            continue
        named = (name.schema, name.name) in by_name
        if kind == "partition":
            if named:
                hint = "choose the partitioned table; its partitions come with it"
                yield error("partition", "this is a partition, not a table", name.id, hint)
            continue
        what = f"this is {_KINDS.get(kind, 'part of an extension')}: it has no rows in the log"
        hint = f"leave it out: !{name.id}" if named else "it is left out"
        yield (error if named else warning)("not-a-table", what, name.id, hint)


def _table(
    server: Server,
    definition: TableDefinition,
    relation: _Relation,
    plan: TableSelection | None,
) -> Iterator[Finding]:
    name = definition.table.id
    for note in findings(definition):
        if note.code != "row-security":  # below it is known whether it hides anything
            make = error if note.blocking else warning
            yield make(note.code, note.what, note.object, note.hint)
    if definition.identity is Identity.FULL and not definition.key:
        yield warning(
            "no-key",
            "it has no key: whole rows are compared, and the table is never split",
            name,
            "give it a primary key if it is large",
        )
    if not relation.schema_usable:
        hint = f"GRANT USAGE ON SCHEMA {quoted(definition.schema)} TO …"
        yield error("schema-usage", f"{server.role} may not look into its schema", name, hint)
    left_out = plan.left_out if plan else frozenset()
    if unreadable := [column for column in relation.unreadable if column not in left_out]:
        yield error(
            "select",
            f"{server.role} may not read {_some(unreadable)}",
            name,
            f"GRANT SELECT ON {name} TO …",
        )
    if not relation.owned:
        yield error(
            "owner",
            f"{server.role} does not own it, and only its owner can publish it",
            name,
            "GRANT the owning role TO the role of the URL, or let the owner set the feed up",
        )
    if relation.filtered:
        yield error(
            "row-security",
            f"row security hides rows of it from {server.role}",
            name,
            "ALTER ROLE … BYPASSRLS, or connect as the table's owner",
        )


def _row_filter(
    connection: psycopg.Connection, server: Server, definition: TableDefinition, condition: str
) -> Iterator[Finding]:
    """The server knows best what a publication may filter by, so one is made and unmade."""
    if server.major < ROW_FILTERS_SINCE or not server.may_create:
        return
    name = definition.table
    publication = f"lockgate_test_{token_hex(8)}"
    try:
        with connection.transaction(force_rollback=True):
            connection.execute(
                sql.SQL("CREATE PUBLICATION {} FOR TABLE {} WHERE ({})").format(
                    sql.Identifier(publication),
                    sql.Identifier(name.schema, name.name),
                    sql.SQL(condition),
                ),
                binary=True,  # the way of the protocol that takes one statement only
            )
            uses = {row[0] for row in connection.execute(_FILTER_USES, (publication,))}
    except psycopg.errors.LockNotAvailable:
        hint = "somebody holds a lock on the table; test again later"
        yield warning("row-filter", "its row filter could not be tried", name.id, hint)
        return
    except psycopg.Error as refused:
        what = f"the server does not take its row filter: {refused.diag.message_primary}"
        yield error("row-filter", what, name.id, "see rows in the configuration")
        return
    finally:
        connection.rollback()
    hidden = sorted(uses - set(definition.key))
    if definition.identity is Identity.FULL or not hidden:
        yield ok("row-filter", f"its rows can be filtered by {condition}", name.id)
        return
    yield error(
        "row-filter",
        f"its row filter reads {_some(hidden)}, which the log does not tell of updated and deleted "
        "rows: such updates at the source would fail once it is published",
        name.id,
        f"filter by columns of the key, or ALTER TABLE {name.id} REPLICA IDENTITY FULL",
    )


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(quoted(name) for name in names[:5])
    return f"{shown} and {len(names) - 5} more" if len(names) > 5 else shown
