"""A diff of two equal tables, and of two that differ in three rows: Lockgate, and reladiff.

Both servers hold the same rows of ten columns. Lockgate's time has the survey and the plan inside,
on a Spark that is warm; reladiff's begins with its connections and ends when its answer is read to
the end. It is given all columns, hashes at the servers (its HASHDIFF), and as many threads as there
are cores, twice: with its defaults, and cut into as many pieces as there are a quarter million rows
each. The better one counts.
"""

import importlib
import os
from pathlib import Path
from typing import Any, Final

from bench.figures import Figure, Limit
from bench.registry import Benchmark, Case, NotThere
from bench.rig import orders, ours, servers
from bench.watch import Watch, seconds

ROWS: Final = 10_000_000
NAME: Final = f"{ROWS:,} rows"
DIFFERING: Final = 3
OURS, OURS_DIFFER = "Lockgate, equal", "Lockgate, 3 rows differ"
THEIRS: Final = ("reladiff, equal", "reladiff, equal, cut finely")
THEIRS_DIFFER: Final = "reladiff, 3 rows differ"
PIECE_ROWS: Final = 250_000


def cases(quick: bool) -> tuple[Case, ...]:
    """One size."""
    rows = 20_000 if quick else ROWS
    return (Case(f"{rows:,} rows", rows),)


def measure(case: Case, directory: Path) -> tuple[Figure, ...]:
    """All ways, one after the other, over the same rows."""
    del directory
    rows = case.size
    watch = Watch()
    reladiff = _reladiff()
    with servers.server() as source, servers.server() as target, ours.warm_spark() as spark:
        for url in (source, target):
            orders.create(url)
            orders.fill(url, rows)
        servers.settle(source, target)
        fine = max(2, rows // PIECE_ROWS)
        _is(0, _ours(spark, source, target, rows))  # both have read everything once
        with watch.lap(OURS):
            _is(0, _ours(spark, source, target, rows))
        with watch.lap(THEIRS[0]):
            _is(0, _theirs(reladiff, source, target))
        with watch.lap(THEIRS[1]):
            _is(0, _theirs(reladiff, source, target, fine))
        with servers.session(target) as connection:
            connection.execute("DELETE FROM orders WHERE id = %s", (rows // 3,))
            # Not to NULL, or from it: reladiff sorts what it has found, and breaks off there.
            connection.execute("UPDATE orders SET name = 'x' WHERE id = %s", (rows // 2,))
            connection.execute(
                "UPDATE orders SET customer = customer + 1 WHERE id = %s", (rows - 1,)
            )
        with watch.lap(OURS_DIFFER):
            _is(DIFFERING, _ours(spark, source, target, rows))
        with watch.lap(THEIRS_DIFFER):
            _is(DIFFERING, _theirs(reladiff, source, target))
    spent = watch.seconds
    best = min(spent[name] for name in THEIRS)
    return (
        *(seconds(name, took) for name, took in spent.items()),
        Figure("Lockgate, rate", round(rows / spent[OURS]), "rows/s"),
        Figure("reladiff, rate", round(rows / best), "rows/s"),
        Figure("rate, by that of reladiff", round(best / spent[OURS], 3), ""),
        Figure(
            "time with 3 rows, by the equal one's", round(spent[OURS_DIFFER] / spent[OURS], 3), ""
        ),
    )


def _is(wanted: int, found: int) -> None:
    if wanted != found:
        raise RuntimeError(f"{found} rows are said to differ, and {wanted} do")


def _ours(spark: Any, source: str, target: str, rows: int) -> int:
    """How many rows differ."""
    from lockgate.endpoints.postgres.diff.snapshots import apart
    from lockgate.endpoints.postgres.schema.discover import describe
    from lockgate.endpoints.postgres.url import PostgresUrl
    from lockgate.model.diffs import RangeOutcome
    from lockgate.model.selection import TableSelection
    from lockgate.model.tables import TableName
    from lockgate.pipeline.diff import DiffRun

    table = TableName("public", "orders")
    with servers.session(source) as connection:
        columns = tuple(each.name for each in describe(connection, [table])[table].columns)
    here, there = PostgresUrl.parse(source), PostgresUrl.parse(target)
    wanted = [TableSelection(table=table, target=table, columns=columns)]
    run = DiffRun(spark, here, there, wanted, seed=1, tag="bench")
    outcomes: list[RangeOutcome] = []
    failed = run.compare(run.plan(), (), lambda: apart(here, there), outcomes.extend)
    if failed:
        raise RuntimeError(f"the diff failed: {failed}")
    if sum(one.rows for one in outcomes) != rows:
        raise RuntimeError("not every row was compared")
    return sum(one.differing for one in outcomes)


def _reladiff() -> Any:
    try:
        return importlib.import_module("reladiff")
    except ImportError as error:
        raise NotThere(f"reladiff is not installed: {error}") from error


def _theirs(reladiff: Any, source: str, target: str, pieces: int | None = None) -> int:
    """How many keys differ."""
    more = {} if pieces is None else {"bisection_factor": pieces}
    tables = [
        reladiff.connect_to_table(url, "orders", "id", thread_count=os.cpu_count())
        for url in (source, target)
    ]
    others = ("customer", "quantity", "name", "amount", "score")
    others += ("active", "created", "ref", "note")
    try:
        found = reladiff.diff_tables(*tables, extra_columns=others, **more)
        return len({row[0] for _, row in found})
    finally:
        for each in tables:
            each.database.close()


BENCHMARK = Benchmark(
    name="diff",
    title="A diff of a table of ten columns on two servers, PostgreSQL 18",
    cases=cases,
    measure=measure,
    limits=(
        Limit(
            NAME,
            "rate, by that of reladiff",
            None,
            "",
            "comparing at least twice as fast as reladiff",
            at_least=2.0,
        ),
        Limit(
            NAME,
            "time with 3 rows, by the equal one's",
            1.3,
            "",
            "three rows that differ cost at most 1.3 times the time of equal tables",
        ),
    ),
)
