"""What a benchmark is, and the list of all of them."""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import msgspec

from bench.figures import Figure, Limit, Row

MODULES: dict[str, str] = {
    "bootstrap": "bench.bootstrap",
    "heartbeat": "bench.heartbeat",
    "sim": "bench.simulator",
    "metastore": "bench.metastore",
    "decode": "bench.decode",
    "copy": "bench.copying",
    "catchup": "bench.catchup",
    "steady": "bench.steady",
    "tables": "bench.tables",
    "giant": "bench.giant",
    "failover": "bench.failover",
    "idle": "bench.idle",
    "lake-upsert": "bench.lake_upsert",
    "lake-rounds": "bench.lake_rounds",
    "lake-read": "bench.lake_read",
    "lake-fresh": "bench.lake_fresh",
    "switch": "bench.switching",
    "diff": "bench.diffing",
    "move": "bench.moving",
}
"""In the order in which they run."""


class NotThere(Exception):
    """A part of Lockgate that the benchmark needs is not in this tree."""


class Case(msgspec.Struct, frozen=True):
    """One thing to measure: a name for people, and its size."""

    name: str
    size: int


class Benchmark(msgspec.Struct, frozen=True):
    """How one benchmark runs.

    `prepare` and `measure` run in separate fresh processes and share a directory; what
    `prepare` needs counts for neither time nor memory. `conclude` sees all rows of a run.
    """

    name: str
    title: str
    cases: Callable[[bool], tuple[Case, ...]]
    measure: Callable[[Case, Path], tuple[Figure, ...]]
    prepare: Callable[[Case, Path], None] | None = None
    conclude: Callable[[tuple[Row, ...]], tuple[Figure, ...]] | None = None
    plot: Callable[[tuple[Row, ...]], str] | None = None
    svg: Callable[[tuple[Row, ...]], str] | None = None
    limits: tuple[Limit, ...] = ()


def find(name: str) -> Benchmark:
    """The benchmark of this name."""
    benchmark = import_module(MODULES[name]).BENCHMARK
    assert isinstance(benchmark, Benchmark)
    return benchmark
