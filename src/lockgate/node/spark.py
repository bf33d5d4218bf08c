"""A process's one Spark: started when it is first needed, and again when it was lost.

    needed ──► start ──► running ──┬── its Java process died ──► let go, start at the next need
                                   └── a job did not come to its end: see `lost`

Whoever uses it goes through `SparkHandle`, and owns nothing. A Spark that was handed in, by a test
or a benchmark, is used and never stopped.
"""

import contextlib
import threading

from lockgate.model.errors import LockgateError, Transient
from lockgate.node.feed.context import SparkHandle
from lockgate.pipeline.jobs import warm_up
from lockgate.pipeline.session import Spark, SparkOptions
from lockgate.pipeline.session import start as start_spark

__all__ = ["SparkKeeper"]


class SparkKeeper:
    """The Spark of one process. Safe to use from many threads."""

    def __init__(self, given: SparkOptions | Spark | None = None) -> None:
        self._given = given if isinstance(given, Spark) else None
        self._options = given if isinstance(given, SparkOptions) else SparkOptions()
        self._spark = self._given
        self._lock = threading.Lock()
        self._closed = False
        self.starts = 0
        """How often a session was started here."""
        self.handle = SparkHandle(self._have, lambda: self._spark, self._lost)

    @property
    def is_running(self) -> bool:
        """True while there is a session."""
        spark = self._spark
        return spark is not None and spark.running

    def warm_up_soon(self) -> None:
        """Start it beside whatever else begins now. One that does not start is told of when it is
        needed, with the reason."""
        threading.Thread(target=self._warm_up, name="spark", daemon=True).start()

    def close(self) -> None:
        """Stop it, unless it was handed in."""
        with self._lock:
            self._closed = True
            if self._spark is not None and self._spark is not self._given:
                self._spark.stop()
                self._spark = None

    def _warm_up(self) -> None:
        with contextlib.suppress(LockgateError):
            warm_up(self._have())

    def _have(self) -> Spark:
        with self._lock:
            if self._closed:
                raise Transient("the process is ending", object_="Spark", hint="")
            if self._spark is not None and not self._spark.running:
                self._let_go_of(self._spark)
            if self._spark is None:
                self._spark = start_spark(self._options)
                self.starts += 1
            return self._spark

    def _lost(self, spark: Spark) -> None:
        """A job did not come to its end. A driver of our own tells whether it is gone; of one
        behind a Connect address we cannot know, and another session there is cheap."""
        with self._lock:
            if spark is self._spark and (spark.options.is_connect or not spark.running):
                self._let_go_of(spark)

    def _let_go_of(self, spark: Spark) -> None:
        if spark is not self._given:
            spark.stop()
            self._spark = None
