"""From a schema step to the statements that bring the target to it, in one transaction.

    what refuses rows goes → tables go → tables are renamed → tables are altered → tables are made

Names are those at the target; columns that the feed leaves out are not there and are passed over.
Statements do not fail over what is so already, where PostgreSQL lets one say so.

The first statement marks the transaction as this feed's (`lockgate.feed`): should the target have
a log of schema changes of its own, for a feed that leads back, it tells whose change it was.
"""

from collections.abc import Iterator

import msgspec
from psycopg import sql

from lockgate.endpoints.postgres.ddl.changes import Chooser
from lockgate.endpoints.postgres.ddl.guards import attempted, schema_made
from lockgate.endpoints.postgres.ddl.table_statements import altered, loosened, of_types
from lockgate.endpoints.postgres.schema.compose import TablePlan, TargetFacts, compose_table
from lockgate.endpoints.postgres.schema.create import schemas_of
from lockgate.endpoints.postgres.schema.deferred import deferred
from lockgate.endpoints.postgres.schema.discover import DEFINITION
from lockgate.endpoints.postgres.schema.identifiers import identifier
from lockgate.model.errors import Terminal
from lockgate.model.ids import FeedId
from lockgate.model.schema_changes import (
    CreateTable,
    DropConstraint,
    DropTable,
    RenameTable,
    SchemaStep,
    TableChange,
)
from lockgate.model.tables import TableName

__all__ = ["SchemaChangeUnsupported", "compose_step"]

_SHOWN_MAX = 500


class SchemaChangeUnsupported(Terminal):
    """The source changed in a way that cannot be carried over."""

    code = "schema-change-unsupported"


def require_supported(step: SchemaStep) -> None:
    """Raise for a step that cannot be carried over."""
    if step.unsupported is not None:
        table, change = step.unsupported
        raise SchemaChangeUnsupported(
            f"a schema change at the source cannot be carried over: {change.why}",
            object_=f"{table}: {' '.join(step.statement.split())[:_SHOWN_MAX]}",
            hint=change.hint,
            operation="write a schema change",
        )


def compose_step(
    step: SchemaStep, choose: Chooser, *, feed: FeedId, facts: TargetFacts
) -> list[sql.Composed]:
    """The statements, in order. Raises for a step that cannot be carried over."""
    require_supported(step)
    mark = sql.SQL("SELECT set_config('lockgate.feed', {}, true)").format(sql.Literal(feed))
    plans = [(_plan(c.before, choose), _plan(c.after, choose), c) for c in step.tables]
    return [mark, *_in_order(plans, step.forms, facts)]


def _plan(raw: msgspec.Raw, choose: Chooser) -> TablePlan | None:
    return choose(DEFINITION.decode(raw)) if raw else None


def _in_order(
    plans: list[tuple[TablePlan | None, TablePlan | None, TableChange]],
    forms: dict[str, str],
    facts: TargetFacts,
) -> Iterator[sql.Composed]:
    for was, _, table in plans:
        for change in table.changes:
            if isinstance(change, DropConstraint) and was is not None:
                yield loosened(was, change)
    for was, _, table in plans:
        if was is not None and DropTable() in table.changes:
            yield sql.SQL("DROP TABLE IF EXISTS {}").format(identifier(was.target))
    yield from _renamed(
        [
            (was.target, now.target)
            for was, now, table in plans
            if was is not None and now is not None and RenameTable() in table.changes
        ]
    )
    for was, now, table in plans:
        if was is not None and now is not None:
            for change in table.changes:
                yield from altered(was, now, change, forms, facts)
    for _, now, table in plans:
        if now is not None and CreateTable() in table.changes:
            yield from _made(now, facts)


def _renamed(pairs: list[tuple[TableName, TableName]]) -> Iterator[sql.Composed]:
    """All aside, then all to their names: two tables may have swapped them."""
    moves = [(was, now) for was, now in pairs if was != now]
    for schema in sorted({now.schema for was, now in moves if was.schema != now.schema}):
        yield schema_made(schema)
    aside = len(moves) > 1
    if aside:
        for number, (was, _) in enumerate(moves):
            yield _named(was, f"lockgate_aside_{number}")
    for number, (was, now) in enumerate(moves):
        here = TableName(was.schema, f"lockgate_aside_{number}" if aside else was.name)
        if here.schema != now.schema:
            yield sql.SQL("ALTER TABLE {} SET SCHEMA {}").format(
                identifier(here), sql.Identifier(now.schema)
            )
        if here.name != now.name:
            yield _named(TableName(now.schema, here.name), now.name)


def _named(table: TableName, name: str) -> sql.Composed:
    return sql.SQL("ALTER TABLE {} RENAME TO {}").format(identifier(table), sql.Identifier(name))


def _made(plan: TablePlan, facts: TargetFacts) -> Iterator[sql.Composed]:
    """A new table. It is empty, so what is deferred for others is made at once."""
    for schema in sorted(schemas_of(plan)):
        yield schema_made(schema)
    yield from of_types(plan, plan.columns)
    made = compose_table(plan, facts)
    yield from made.statements
    for extra in made.extras:
        yield attempted(extra.statement)
    todo, _ = deferred([plan], foreign_keys=False)
    for each in todo:
        yield attempted(each.statement)
