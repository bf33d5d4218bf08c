"""A whole move: twenty tables copied, switched and completed, against a feed that only copies.

The feed copies the same tables in the same run, by `feed run`'s machinery as in the benchmark of
copies, into a server of its own. The move is one of a server as people start it; its time begins
with `move create` and ends when rows, keys and indexes are at the target.
"""

import time
from pathlib import Path
from typing import Final

from psycopg import sql

from bench import switching
from bench.figures import Figure, Limit
from bench.registry import Benchmark, Case
from bench.rig import orders, ours, servers
from bench.watch import Watch, seconds
from lockgate.client.moves import took_s
from soak.nodes import NodeServer

ROWS: Final = 10_000_000
NAME: Final = f"{ROWS:,} rows"
TABLES: Final = 20
FEW: Final = 4
COPIED, FED = "copy by the move", "copy by a feed alone"
WARM: Final = "warm"


def cases(quick: bool) -> tuple[Case, ...]:
    """One size."""
    rows = 20_000 if quick else ROWS
    return (Case(f"{rows:,} rows", rows),)


def measure(case: Case, directory: Path) -> tuple[Figure, ...]:
    """The feed, then the move."""
    # A trial needs few: every table has its own set-up.
    tables = [f"orders_{number}" for number in range(TABLES if case.size >= ROWS else FEW)]
    each = case.size // len(tables)
    rows = each * len(tables)
    watch = Watch()
    with servers.server() as source:
        _fill(source, tables, each)
        with servers.server() as target, ours.warm_spark() as spark:
            runner = ours.feed(directory / "feed", source, target, spark, "public.orders_*")
            with watch.lap(FED):
                runner.start()
                runner.wait_level(ours.LEVEL_S)
            runner.remove()
            runner.stop()
        servers.settle(source)
        with servers.server() as target:
            node = NodeServer("one", directory, ["--listen", "127.0.0.1:0"], {})
            node.start()
            try:
                step_s = _moved(node, source, target, tables, watch)
            finally:
                node.close()
            _same(source, target, tables)
    spent = watch.seconds
    return (
        *(seconds(name, took) for name, took in spent.items()),
        *(seconds(f"step {name}", took) for name, took in step_s.items()),
        Figure("copy by the move, rate", round(rows / spent[COPIED]), "rows/s"),
        Figure("copy by a feed alone, rate", round(rows / spent[FED]), "rows/s"),
        Figure("rate, by that of a feed alone", round(spent[FED] / spent[COPIED], 3), ""),
    )


def _fill(url: str, tables: list[str], rows: int) -> None:
    orders.create(url)
    orders.fill(url, rows)
    with servers.session(url) as connection:
        warm = sql.SQL("CREATE TABLE {} AS SELECT * FROM orders LIMIT 10000")
        connection.execute(warm.format(sql.Identifier(WARM)))
        key = sql.SQL("ALTER TABLE {} ADD PRIMARY KEY (id)")
        connection.execute(key.format(sql.Identifier(WARM)))
        make = sql.SQL("CREATE TABLE {} (LIKE orders INCLUDING ALL)")
        fill = sql.SQL("INSERT INTO {} SELECT * FROM orders")
        for table in map(sql.Identifier, tables):
            connection.execute(make.format(table))
            connection.execute(fill.format(table))
        connection.execute("DROP TABLE orders")
    servers.settle(url)


def _moved(
    node: NodeServer, source: str, target: str, tables: list[str], watch: Watch
) -> dict[str, float]:
    """Copy, switch and complete; what the steps of the switch took."""
    client = node.client()
    # A small one first: what is measured is no start of Spark, nor of its Python workers.
    switching.copied(client, source, target, [f"public.{WARM}"])
    client.moves.cancel(switching.MOVE)
    client.moves.remove(switching.MOVE)
    servers.settle(target)
    with watch.lap(COPIED):
        client.moves.create(
            switching.MOVE,
            source="source",
            target="target",
            tables=[f"public.{table}" for table in tables],
        )
        while client.moves.status(switching.MOVE).state.value == "copying":
            time.sleep(0.1)
    with watch.lap("switch"):
        status = switching.flip(client, 0)
    with watch.lap("complete"):
        client.moves.complete(switching.MOVE, "rename")
    return {step.name: took_s(step) or 0.0 for step in status.steps}


def _same(source: str, target: str, tables: list[str]) -> None:
    """Rows are counted; that they are equal is the benchmark of diffs' business, and of tests."""
    count = sql.SQL("SELECT count(*) FROM {}")
    with servers.session(source) as one, servers.session(target) as other:
        for table in tables:
            ours_ = one.execute(count.format(sql.Identifier(f"_{table}_old"))).fetchone()
            theirs = other.execute(count.format(sql.Identifier(table))).fetchone()
            if ours_ != theirs:
                raise RuntimeError(f"{table}: {ours_} rows at the source, {theirs} at the target")


BENCHMARK = Benchmark(
    name="move",
    title=f"A whole move of {TABLES} tables, PostgreSQL 18 to 18",
    cases=cases,
    measure=measure,
    limits=(
        Limit(
            NAME,
            "rate, by that of a feed alone",
            None,
            "",
            "a move copies at least 0.9 times as fast as a feed alone",
            at_least=0.9,
        ),
    ),
)
