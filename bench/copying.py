"""The copy of a table: Lockgate, a person with psql, and PostgreSQL's own initial sync.

All copy from the same source, one after the other, each into a fresh server, and end in the same
state: every row, and the primary key. Lockgate's time begins with the start of a feed that does not
exist yet and ends when the target is level with the source; native replication's begins with
`CREATE SUBSCRIPTION` and ends when the table is in state `r`; psql's has the `CREATE TABLE` and the
key inside. For psql, the key is made before the rows come and after them; for native replication,
values travel as text and in binary. The better one of each is what Lockgate is held against.
"""

import time
from collections.abc import Callable
from pathlib import Path

from bench.figures import Figure, Limit
from bench.registry import Benchmark, Case
from bench.rig import byhand, orders, ours, servers
from bench.rig.cpu import Cpu
from bench.rig.native import Native
from bench.watch import Watch, seconds

ROWS = 5_000_000
BY_HAND = ("COPY | COPY, key first", "COPY | COPY, key last")
NATIVE = ("native", "native, binary")
OURS = "Lockgate"


def cases(quick: bool) -> tuple[Case, ...]:
    """One size."""
    rows = ROWS // 20 if quick else ROWS
    return (Case(f"{rows:,} rows", rows),)


def measure(case: Case, directory: Path) -> tuple[Figure, ...]:
    """All ways, one after the other."""
    rows = case.size
    watch = Watch()
    with servers.server() as source, ours.warm_spark() as spark:
        orders.create(source)
        orders.fill(source, rows)
        servers.settle(source)

        def by_hand(target: str, key_first: bool) -> None:
            byhand.copy(source, target, rows, key_first=key_first)

        def native(target: str, name: str, binary: bool) -> Callable[[], None]:
            subscription = Native(source, target, name=name, binary=binary)
            subscription.copy()
            return subscription.drop

        def lockgate(target: str) -> Callable[[], None]:
            runner = ours.feed(directory / "home", source, target, spark)
            began = time.perf_counter()
            runner.start()
            watch.seconds["of that, starting"] = time.perf_counter() - began
            runner.wait_level(ours.LEVEL_S)

            def end() -> None:
                runner.remove()
                runner.stop()

            return end

        processor = (
            *_timed(watch, BY_HAND[0], source, lambda target: by_hand(target, True)),
            *_timed(watch, BY_HAND[1], source, lambda target: by_hand(target, False)),
            *_timed(watch, NATIVE[0], source, lambda target: native(target, "text", False)),
            *_timed(watch, NATIVE[1], source, lambda target: native(target, "binary", True)),
            *_timed(watch, OURS, source, lockgate),
        )
    return _figures(watch, rows) + processor


def _timed(
    watch: Watch, name: str, source: str, copy: Callable[[str], Callable[[], None] | None]
) -> tuple[Figure, ...]:
    """One way into a fresh server, its rows compared; what is to be cleared up comes unmeasured.

    Answers whose processor time it took.
    """
    with servers.server() as target:
        servers.settle(target)
        with Cpu(source, target) as cpu, watch.lap(name):
            end = copy(target)
        orders.same_rows(source, target)
        if end is not None:
            end()
    return cpu.figures(name)


def _figures(watch: Watch, rows: int) -> tuple[Figure, ...]:
    spent = watch.seconds
    by_hand = min(spent[name] for name in BY_HAND)
    native = min(spent[name] for name in NATIVE)
    rates = [
        Figure(f"{name}, rate", round(rows / spent[name]), "rows/s")
        for name in (*BY_HAND, *NATIVE, OURS)
    ]
    return (
        *(seconds(name, spent[name]) for name in (*BY_HAND, *NATIVE, OURS, "of that, starting")),
        *rates,
        Figure("rate, by that of COPY | COPY", round(by_hand / spent[OURS], 3), ""),
        Figure("rate, by that of native", round(native / spent[OURS], 3), ""),
    )


BENCHMARK = Benchmark(
    name="copy",
    title="A copy of a table of ten columns, PostgreSQL 18 to 18, with its primary key",
    cases=cases,
    measure=measure,
    limits=(
        Limit(
            f"{ROWS:,} rows",
            "rate, by that of COPY | COPY",
            None,
            "",
            "copying at least 0.8 times as fast as COPY piped to COPY by hand",
            at_least=0.8,
        ),
        Limit(
            f"{ROWS:,} rows",
            "rate, by that of native",
            None,
            "",
            "copying faster than native logical replication's initial sync",
            at_least=1.0,
        ),
    ),
)
