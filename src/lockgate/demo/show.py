"""The show itself: what happens, told while it happens, for real."""

import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from lockgate.demo.compare import Compared, compare
from lockgate.demo.shop import Writers, open_shop
from lockgate.endpoints.postgres.embedded import EmbeddedPostgres
from lockgate.model.feed_config import FeedConfig
from lockgate.model.secret import Secret
from lockgate.model.tables import TableName
from lockgate.node.runner import FeedRunner
from lockgate.pipeline.session import SparkOptions

TABLES = [TableName("public", name) for name in ("customers", "orders", "visits")]
SETTINGS: dict[str, str | int] = {"wal_level": "logical"}
STREAM_S = 6.0


def run(console: Console, rows: int, keep: bool) -> bool:
    """Show it; True when both sides were equal at the end."""
    home = Path(tempfile.mkdtemp(prefix="lockgate-demo-"))
    say = console.print
    say(
        "[bold]Lockgate[/]: two PostgreSQL servers, a feed between them, writers that never rest.\n"
    )
    with EmbeddedPostgres(settings=SETTINGS) as source, EmbeddedPostgres() as target:
        say(f"1. Two servers are up. The source gets a shop with about {rows:,} orders.")
        open_shop(source.url(), rows)
        writers = Writers(source.url())
        writers.start()
        config = FeedConfig(
            name="shop",
            source=Secret(source.url()),
            target=Secret(target.url()),
            tables=("public.*",),
        )
        say(
            "2. Writers insert, update and delete. The feed starts while they do: Spark, then copy."
        )
        began = time.monotonic()
        with FeedRunner(home / "home", config, spark=SparkOptions()) as runner:
            _watch_copy(console, runner)
            copied_s = time.monotonic() - began
            say(
                f"3. The rows are over after {copied_s:.1f} s, Spark's start included; "
                "changes follow as they happen."
            )
            _watch_stream(console, runner)
            writers.stop()
            level = time.monotonic()
            runner.wait_level()
            level_s = time.monotonic() - level
            applied = runner.status().rows_applied
            say(f"4. The writers rest. {level_s:.1f} s later the target is level. Compare:")
            compared = compare(source.url(), target.url(), TABLES)
            runner.remove()
    equal = all(one.equal for one in compared)
    _summary(console, compared, writers, applied)
    if keep:
        say(f"Metastore and change log are kept in {home}.")
    return equal


def _watch_copy(console: Console, runner: FeedRunner) -> None:
    shown = ""
    while True:
        copy = runner.status().copy
        line = f"   copied {copy.rows_done:,} of about {copy.rows_total:,} rows"
        if copy.rows_total and line != shown:
            shown = line
            console.print(line, style="dim")
        if runner.checkpoint() > 0:
            return
        time.sleep(0.1)


def _watch_stream(console: Console, runner: FeedRunner) -> None:
    deadline = time.monotonic() + STREAM_S
    while time.monotonic() < deadline:
        time.sleep(1.5)
        status = runner.status()
        lag = "?" if status.lag_s is None else f"{status.lag_s:.1f} s"
        console.print(f"   {status.rows_applied:,} changes applied, lag {lag}", style="dim")


def _summary(console: Console, compared: list[Compared], writers: Writers, applied: int) -> None:
    table = Table("table", "source rows", "target rows", "equal", title="Every row compared")
    for one in compared:
        mark = "[green]yes[/]" if one.equal else "[red]NO[/]"
        table.add_row(one.table.id, f"{one.source_rows:,}", f"{one.target_rows:,}", mark)
    console.print(table)
    console.print(
        f"{writers.transactions:,} transactions with {writers.written:,} changed rows were written "
        f"meanwhile; {applied:,} changes came through the log."
    )
