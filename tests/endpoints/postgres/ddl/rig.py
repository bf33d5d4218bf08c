"""A source with a log of schema changes and a target that follows it, without a stream between.

Rows of the log are read from its table, in their order, and written at the target at once: what
capture, change log and barrier do in between does not matter to what a change means.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import psycopg
from psycopg import sql

from lockgate.endpoints.postgres.connect import connect
from lockgate.endpoints.postgres.ddl.changes import chooser, interpret
from lockgate.endpoints.postgres.ddl.entries import LogRow, read_row
from lockgate.endpoints.postgres.ddl.log import (
    add_capture,
    install,
    installed_version,
    remove_capture,
)
from lockgate.endpoints.postgres.ddl.statements import compose_step
from lockgate.endpoints.postgres.schema.compose import TablePlan, TargetFacts
from lockgate.endpoints.postgres.schema.create import create
from lockgate.endpoints.postgres.schema.discover import describe, discover, tables
from lockgate.endpoints.postgres.schema.identifiers import identifier
from lockgate.model.feed_config import FeedConfig
from lockgate.model.patterns import selected
from lockgate.model.schema_changes import SchemaStep, step_from_json
from lockgate.model.secret import Secret
from lockgate.model.tables import TableName
from tests.support.catalogs import picture

FEED = "shop"
PUBLICATION = "lockgate_shop"


def config(**given: Any) -> FeedConfig:
    """A feed's configuration, of all tables of the schema public unless said otherwise."""
    urls = {"source": Secret("postgres://a/b"), "target": Secret("postgres://c/d")}
    return FeedConfig(**{"name": FEED, "tables": ("public.*",), **urls, **given})


@dataclass
class Rig:
    """Both databases, and how far the target has come."""

    source: psycopg.Connection
    target: psycopg.Connection
    config: FeedConfig
    last: int = 0
    steps: list[SchemaStep] = field(default_factory=list)

    @property
    def choose(self) -> Any:
        return chooser(self.config)

    @property
    def facts(self) -> TargetFacts:
        return TargetFacts(self.target.info.server_version)

    def begin(self, setup: str) -> None:
        """Make tables at the source, start logging, and have the same tables at the target."""
        self.source.execute(setup)
        install(self.source)
        names = selected(self.config.tables, tables(self.source))
        with self.source.transaction():
            listed = sql.SQL(", ").join(identifier(name) for name in names)
            self.source.execute(
                sql.SQL(
                    "CREATE PUBLICATION {} FOR TABLE {} WITH (publish_via_partition_root)"
                ).format(sql.Identifier(PUBLICATION), listed)
            )
            add_capture(self.source, FEED, PUBLICATION, self.config.tables, self.config.rows)
        create(self.target, self.plans())
        self.copy()

    def reset(self) -> None:
        """As it was before `begin`."""
        self.last, self.steps, self.config = 0, [], config()
        for connection in (self.source, self.target):
            connection.rollback()
            connection.execute("RESET ALL")
            connection.execute(
                sql.SQL("DROP PUBLICATION IF EXISTS {}").format(sql.Identifier(PUBLICATION))
            )
            for publication in _captures(connection):
                connection.execute(
                    sql.SQL("DROP PUBLICATION IF EXISTS {}").format(sql.Identifier(publication))
                )
                remove_capture(connection, publication)
            remove_capture(connection, PUBLICATION)
            schemas = connection.execute(
                "SELECT nspname FROM pg_namespace "
                "WHERE nspname !~ '^pg_' AND nspname <> 'information_schema'"
            ).fetchall()
            for (schema,) in schemas:
                connection.execute(sql.SQL("DROP SCHEMA {} CASCADE").format(sql.Identifier(schema)))
            connection.execute("CREATE SCHEMA public")

    def plans(self) -> list[TablePlan]:
        """The feed's tables, as they are at the source now."""
        names = selected(self.config.tables, tables(self.source))
        chosen = [self.choose(each) for each in discover(self.source, names).values()]
        return [plan for plan in chosen if plan is not None]

    def copy(self) -> None:
        """Bring all rows to the target."""
        for plan in self.plans():
            columns = sql.SQL(", ").join(
                sql.Identifier(column.name) for column in plan.columns if not column.generated
            )
            read = sql.SQL("COPY (SELECT {} FROM {}) TO STDOUT").format(
                columns, identifier(plan.source.table)
            )
            write = sql.SQL("COPY {} ({}) FROM STDIN").format(identifier(plan.target), columns)
            with (
                self.source.cursor().copy(read) as rows,
                self.target.cursor().copy(write) as copy,
            ):
                for chunk in rows:
                    copy.write(chunk)

    def logged(self) -> list[LogRow]:
        """What was logged since the last time, read as the stream would have it."""
        cursor = self.source.execute(
            "SELECT id::text, tag, statement, objects::text FROM lockgate.ddl_log "
            "WHERE id > %s ORDER BY id",
            (self.last,),
        )
        rows = [
            read_row(dict(zip(("id", "tag", "statement", "objects"), row, strict=True)))
            for row in cursor
        ]
        self.last = max([self.last, *(row.id for row in rows)])
        return rows

    def step(self, statement: str | None = None) -> SchemaStep | None:
        """Do it at the source; what it means for the feed, by way of the change log's JSON."""
        if statement is not None:
            self.source.execute(statement)
        step = interpret(self.logged(), self.choose, feed=FEED)
        if step is None:
            return None
        again = step_from_json(step.to_json())
        assert again.ddl(1) == step.ddl(1)
        self.steps.append(again)
        return again

    def follow(self, statement: str | None = None) -> SchemaStep:
        """Do it at the source, and bring the target along."""
        step = self.step(statement)
        assert step is not None
        self.write(step)
        return step

    def write(self, step: SchemaStep) -> None:
        """Bring the target to the step, in one transaction."""
        with self.target.transaction():
            for composed in compose_step(step, self.choose, feed=FEED, facts=self.facts):
                self.target.execute(composed)

    def rows(self, connection: psycopg.Connection, table: TableName) -> list[tuple[Any, ...]]:
        """All rows of a table as text, in order."""
        found = connection.execute(
            sql.SQL("SELECT r::text FROM (SELECT * FROM {}) AS r ORDER BY 1").format(
                identifier(table)
            )
        )
        return found.fetchall()

    def assert_equal(self, *, without: tuple[str, ...] = ("identity",)) -> None:
        """Both sides have the same tables, catalog and rows."""
        self.source.execute("RESET ALL")  # what a test has set is not to be seen in its rows
        plans = self.plans()
        there = describe(self.target, [plan.target for plan in plans])
        assert len(there) == len(plans)
        for plan in plans:
            here = picture(plan.source, without=without)
            found = picture(there[plan.target], without=without)
            assert found == here
            assert self.rows(self.target, plan.target) == self.rows(self.source, plan.source.table)


def _captures(connection: psycopg.Connection) -> list[str]:
    if installed_version(connection) is None:
        return []
    found = connection.execute("SELECT publication FROM lockgate.ddl_captures").fetchall()
    return [publication for (publication,) in found]


@contextmanager
def rig(source: str, target: str, **given: Any) -> Iterator[Rig]:
    """A rig over two empty databases."""
    with (
        connect(source, purpose="test", autocommit=True) as one,
        connect(target, purpose="test", autocommit=True) as other,
    ):
        yield Rig(one, other, config(**given))
