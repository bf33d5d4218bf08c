"""Feeds for tests: two databases, a runner between them, and both sides compared."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

from lockgate.demo.compare import compare
from lockgate.model.config import CoreConfig, Timing
from lockgate.model.feed_config import FeedConfig, read_config
from lockgate.model.tables import parse_table
from lockgate.node.runner import FeedRunner
from lockgate.pipeline.session import Spark

QUICK = CoreConfig(Timing(tick_ms=50, renew_ms=500, resend_ms=200, balance_ms=1_000))
LEVEL_S = 240.0


class Pair:
    """A source and a target database, and a home for the feed between them."""

    def __init__(self, source: str, target: str, home: Path, spark: Spark | None = None) -> None:
        self.source, self.target, self.home, self.spark = source, target, home, spark

    def at_source(self, *statements: str) -> None:
        """One transaction."""
        with psycopg.connect(self.source) as connection:
            for statement in statements:
                connection.execute(statement)

    def at_target(self, *statements: str) -> None:
        with psycopg.connect(self.target) as connection:
            for statement in statements:
                connection.execute(statement)

    def ask_target(self, query: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.target) as connection:
            return connection.execute(query).fetchall()

    def ask_source(self, query: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.source) as connection:
            return connection.execute(query).fetchall()

    def slots(self, column: str = "slot_name") -> list[tuple[Any, ...]]:
        """Of the source's lasting slots; the server may have others, in other databases."""
        return self.ask_source(
            f"SELECT {column} FROM pg_replication_slots "
            "WHERE database = current_database() AND NOT temporary"
        )

    def document(self, **config: Any) -> dict[str, Any]:
        """The feed's configuration, as people write it."""
        return {
            "name": "feed",
            "source": self.source,
            "target": self.target,
            "tables": ["public.*"],
            "flush_interval_ms": 50,
            **config,
        }

    def config(self, **config: Any) -> FeedConfig:
        return read_config(self.document(**config))

    @contextmanager
    def running(self, name: str = "feed", **config: Any) -> Iterator[FeedRunner]:
        """The feed, until the block ends."""
        made = self.config(name=name, **config)
        with FeedRunner(self.home, made, spark=self.spark, core=QUICK) as runner:
            yield runner

    def assert_equal(self, *tables: str) -> None:
        """Every row of these tables is there once, and no other."""
        names = [parse_table(table) for table in tables]
        for one in compare(self.source, self.target, zip(names, names, strict=True)):
            assert one.equal, one


def level(runner: FeedRunner) -> None:
    """Wait until the target has everything."""
    runner.wait_level(LEVEL_S)
