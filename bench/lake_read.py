"""A lake table read with a tenth of its rows still in ingest, against its stable layer alone.

With a Spark of the reader's own, as anybody would start it, on `local[*]`; a full aggregate over
every value of every column. Reading begins with `lockgate.lake.read`, so looking at the table and
all planning are inside the time. Both take turns in one session, warm; times are medians.
"""

import os
import statistics
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bench.figures import Figure, Limit
from bench.registry import Benchmark, Case
from bench.watch import seconds

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS = 5_000_000
SHARE: Final = 0.1
SEGMENTS: Final = 10
QUICK: Final = 20
WARM, RUNS = 3, 7
STABLE, MERGED, SOURCE = "stable alone", "merged", 'merged, format("lockgate")'
RATIO = "time, by that of stable alone"


def _name(rows: int) -> str:
    return f"{rows:,} rows, {SHARE:.0%} in ingest"


def cases(quick: bool) -> tuple[Case, ...]:
    """One size."""
    rows = ROWS // QUICK if quick else ROWS
    return (Case(_name(rows), rows),)


def prepare(case: Case, directory: Path) -> None:
    """The table."""
    from bench.rig.lake_rows import changes
    from bench.rig.lake_tables import Base, Layered

    table = Layered(directory, Base(directory, case.size, smaller=ROWS // case.size))
    given = changes(case.size, int(case.size * SHARE), 1).as_ingest(1)
    size = given.num_rows // SEGMENTS
    for number in range(SEGMENTS):
        table.land(given.slice(number * size, size))


def measure(case: Case, directory: Path) -> tuple[Figure, ...]:
    """All ways in turns."""
    from bench.rig.lake_tables import TABLE
    from lockgate import lake

    path = str(directory / "layered")
    spark = _spark(directory)
    lake.register(spark)
    source = spark.read.format("lockgate").option("path", path).option("table", TABLE)
    ways = {
        STABLE: lambda: lake.read(spark, path, TABLE, version=1),
        MERGED: lambda: lake.read(spark, path, TABLE),
        SOURCE: source.load,
    }
    taken: dict[str, list[float]] = {name: [] for name in ways}
    found: dict[str, tuple[int, int]] = {}
    for _ in range(WARM + (1 if case.size < ROWS else RUNS)):
        for name, way in ways.items():
            began = time.perf_counter()
            found[name] = _aggregate(way())
            taken[name].append(time.perf_counter() - began)
    _end(spark)
    if found[MERGED] != found[SOURCE] or found[MERGED] == found[STABLE]:
        raise RuntimeError(f"the rows are not what they should be: {found}")
    spent = {name: statistics.median(some[WARM:]) for name, some in taken.items()}
    return (
        Figure("rows", found[MERGED][0], "rows"),
        *(seconds(name, value) for name, value in spent.items()),
        Figure(RATIO, round(spent[MERGED] / spent[STABLE], 3), ""),
        Figure(f"{SOURCE}, by stable alone", round(spent[SOURCE] / spent[STABLE], 3), ""),
    )


def _end(spark: "SparkSession") -> None:
    """Wait for its Java process: the time of one that nobody has waited for is told as others'."""
    java = spark.sparkContext._gateway.proc
    spark.stop()
    java.stdin.close()
    java.wait()


def _spark(directory: Path) -> "SparkSession":
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    return (
        SparkSession.builder.master("local[*]")
        .config("spark.driver.memory", "2g")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.warehouse.dir", str(directory / "warehouse"))
        .config("spark.local.dir", str(directory / "spark"))
        .getOrCreate()
    )


def _aggregate(frame: "DataFrame") -> tuple[int, int]:
    """How many rows, and a digest of all their values, whatever their order."""
    columns = ", ".join(f"`{name}`" for name in frame.columns)
    [row] = frame.selectExpr("count(*)", f"bit_xor(xxhash64({columns}))").collect()
    return row[0], row[1]


BENCHMARK = Benchmark(
    name="lake-read",
    title="A lake table read by a full aggregate, with a tenth of its rows in ingest",
    cases=cases,
    measure=measure,
    prepare=prepare,
    limits=(
        Limit(
            _name(ROWS),
            RATIO,
            2.0,
            "",
            f"reading with {SHARE:.0%} of the rows in ingest at most 2 times stable alone",
        ),
    ),
)
