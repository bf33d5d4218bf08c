"""Feeds into a lake for tests: a database, a lake, a runner between them, and both compared."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql

from lockgate.endpoints.delta.lake import Lake
from lockgate.endpoints.delta.layered import LayeredTable
from lockgate.endpoints.delta.travel import NotLevel
from lockgate.lake.opening import looked_up, place_of
from lockgate.model.errors import NotFound
from lockgate.model.feed_config import read_config
from lockgate.model.tables import parse_table
from lockgate.node.runner import FeedRunner
from lockgate.pipeline.session import Spark
from tests.support.feeds import QUICK

__all__ = ["Shore"]


class Shore:
    """A database, and a lake beside it: in a directory, unless it has another address."""

    def __init__(
        self, source: str, lake: Path, home: Path, spark: Spark | None, address: str | None = None
    ) -> None:
        self.source, self.lake, self.home, self.spark = source, lake, home, spark
        self.address = address or f"delta:{lake}"
        self.root = place_of(self.address)

    def at_source(self, *statements: str) -> None:
        """One transaction."""
        with psycopg.connect(self.source) as connection:
            for statement in statements:
                connection.execute(statement)

    @contextmanager
    def running(self, **config: Any) -> Iterator[FeedRunner]:
        """The feed, until the block ends."""
        document = {
            "name": "feed",
            "source": self.source,
            "target": self.address,
            "tables": ["public.*"],
            "flush_interval_ms": 50,
            **config,
        }
        with FeedRunner(self.home, read_config(document), spark=self.spark, core=QUICK) as runner:
            yield runner

    def table(self, name: str) -> LayeredTable:
        """As it is in the lake."""
        lake = Lake(self.root)
        place = lake.live(name)
        return LayeredTable.open(place, lake.homes(place)[0])

    def can_be_read(self, name: str) -> bool:
        """Readers are not refused."""
        try:
            looked_up(self.root, name)
        except (NotFound, NotLevel):
            return False
        return True

    def in_lake(self, name: str) -> list[tuple[Any, ...]]:
        table = self.table(name).read()
        columns = sorted(table.column_names)
        rows = [tuple(row[column] for column in columns) for row in table.to_pylist()]
        return sorted(rows, key=repr)

    def at_home(self, name: str) -> list[tuple[Any, ...]]:
        """The same from the source."""
        table = parse_table(name)
        with psycopg.connect(self.source) as connection:
            query = sql.SQL("SELECT * FROM {}").format(sql.Identifier(table.schema, table.name))
            cursor = connection.execute(query)
            names = [column.name for column in cursor.description or ()]
            order = sorted(range(len(names)), key=names.__getitem__)
            rows = [tuple(row[i] for i in order) for row in cursor.fetchall()]
        return sorted(rows, key=repr)

    def assert_equal(self, *tables: str) -> None:
        """Every row of these tables is there once, and no other."""
        for table in tables:
            assert self.in_lake(table) == self.at_home(table), table
