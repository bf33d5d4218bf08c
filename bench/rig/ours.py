"""Lockgate as it is measured: one feed in this process, on a Spark session that is warm already.

What a measured start has inside: the metastore opened, the node joined and elected, the feed's
dispatchers placed and their rows claimed at the sink, the replication slot taken up; for a new feed
also its set-up at both ends. What it has not: the Java process and the Python imports.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from bench.registry import NotThere

if TYPE_CHECKING:
    from lockgate.node.runner import FeedRunner
    from lockgate.pipeline.session import Spark

NAME = "bench"
LEVEL_S = 1800.0


@contextmanager
def warm_spark() -> Iterator["Spark"]:
    """`local[*]`, its Python workers started."""
    try:
        from lockgate.pipeline.jobs import warm_up
        from lockgate.pipeline.session import SparkOptions, start
    except ImportError as error:
        raise NotThere(f"there is no Spark: {error}") from error
    with start(SparkOptions()) as spark:
        warm_up(spark)
        yield spark


@contextmanager
def joining_spark() -> Iterator["Spark"]:
    """The same for who has Spark itself read, join and write: its Java compiles thoroughly."""
    from lockgate.pipeline.jobs import warm_up
    from lockgate.pipeline.session import SparkOptions, start

    settings = {
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=4",
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",  # as Delta has them
    }
    with start(SparkOptions(driver_memory="2g", settings=settings)) as spark:
        warm_up(spark)
        yield spark


def feed(
    home: Path, source: str, target: str, spark: "Spark", tables: str = "public.orders"
) -> "FeedRunner":
    """A feed of the table `orders`, or others; the same home is the same feed again."""
    from lockgate.model.feed_config import FeedConfig
    from lockgate.model.secret import Secret
    from lockgate.node.runner import FeedRunner

    config = FeedConfig(name=NAME, source=Secret(source), target=Secret(target), tables=(tables,))
    return FeedRunner(home, config, spark=spark)


class Captured:
    """When a running feed has captured everything up to a position of its source."""

    def __init__(self, runner: "FeedRunner", lsn: str) -> None:
        self._runner = runner
        self._lsn = _number(lsn)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="captured", daemon=True)
        self.at: float | None = None
        """On the clock of `perf_counter`."""

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        # A status tells what the last round has seen; the capture itself is further.
        while not self._ended.wait(0.02):
            engine = self._runner._executor.engine(NAME)
            landed = None if engine is None else engine.capture.resolved
            if landed is not None and landed >= self._lsn - 1:
                self.at = time.perf_counter()
                return


def _number(lsn: str) -> int:
    high, _, low = lsn.partition("/")
    return (int(high, 16) << 32) + int(low, 16)
