"""Feeds run by processes of their own, on a Spark that outlives them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from soak.process import FeedProcess, write_config
from tests.support.bad_days import SOON_S
from tests.support.feeds import Pair
from tests.support.waiting import until

Start = Callable[..., FeedProcess]


class Waiter(NamedTuple):
    """A transaction that waits. What its session does afterwards is another one."""

    pid: int
    since: str
    session: str


@contextmanager
def processes(pair: Pair, spark: str) -> Iterator[Start]:
    """Starts runners of one feed with one home; all are gone at the end."""
    started: list[FeedProcess] = []

    def start(*options: str, **config: Any) -> FeedProcess:
        folder = pair.home.parent
        path = write_config(folder / "feed.toml", pair.document(**config))
        log = folder / f"runner-{len(started)}.log"
        process = FeedProcess("feed", path, pair.home, spark, log)
        started.append(process)
        process.start(*options)
        return process

    try:
        yield start
    finally:
        for process in started:
            process.kill()


def finish(process: FeedProcess) -> None:
    """Wait for a runner that was started with --until-level."""
    code = process.wait(2 * SOON_S)
    assert code == 0, process.said()


def until_same(pair: Pair, process: FeedProcess, *tables: str) -> None:
    """Wait until the tables hold the same number of rows on both sides."""
    for table in tables:
        count = f"SELECT count(*) FROM {table}"

        def same(count: str = count) -> bool:
            assert process.running, process.said()
            return _asked(pair, count) == pair.ask_source(count)

        until(same, SOON_S, 0.05)


def _asked(pair: Pair, query: str) -> Any:
    """None before the table is there."""
    import psycopg

    try:
        return pair.ask_target(query)
    except psycopg.errors.UndefinedTable:
        return None


def stands_at(pair: Pair, table: str) -> tuple[int, int]:
    """Epoch and position of a table's row at the target."""
    found = pair.ask_target(
        f"SELECT epoch, position FROM lockgate.progress WHERE table_id = '{table}'"
    )
    return found[0][0], found[0][1]


def waiting(pair: Pair, table: str) -> set[Waiter]:
    """Who of Lockgate's stands before the lock of that table at the target, and since when."""
    found = pair.ask_target(
        "SELECT a.pid, a.xact_start::text, a.application_name "
        "FROM pg_stat_activity a JOIN pg_locks l USING (pid) "
        "WHERE a.application_name LIKE 'lockgate %' AND a.datname = current_database() "
        f"AND NOT l.granted AND l.relation = '{table}'::regclass"
    )
    return {Waiter(*one) for one in found}
