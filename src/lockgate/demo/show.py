"""The show itself: what happens, told while it happens, for real.

A server of Lockgate's own process, killed with SIGKILL in the middle: the feed goes on where the
records say, and in the end every row is compared.
"""

import tempfile
import time
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table

from lockgate.client import Client
from lockgate.demo.compare import Compared, compare
from lockgate.demo.server import DemoServer
from lockgate.demo.shop import Writers, open_shop
from lockgate.endpoints.postgres.embedded import EmbeddedPostgres
from lockgate.model.feed_status import FeedStatus
from lockgate.model.tables import TableName

TABLES: Final = [TableName("public", name) for name in ("customers", "orders", "visits")]
SETTINGS: Final[dict[str, str | int]] = {"wal_level": "logical"}
STREAM_S: Final = 4.0
FEED: Final = "shop"


def run(console: Console, rows: int, keep: bool) -> bool:
    """Show it; True when both sides were equal at the end."""
    folder = Path(tempfile.mkdtemp(prefix="lockgate-demo-"))
    say = console.print
    say(
        "[bold]Lockgate[/]: two PostgreSQL servers, a feed between them, writers that never rest,\n"
        "and a server that is killed in the middle.\n"
    )
    node = DemoServer(folder / "home")
    with EmbeddedPostgres(settings=SETTINGS) as source, EmbeddedPostgres() as target:
        say(f"1. Two databases are up. The source gets a shop with about {rows:,} orders.")
        open_shop(source.url(), rows)
        writers = Writers(source.url())
        try:
            client = node.start()
            say(f"2. A Lockgate server is up: {node.url} (its token is in {node.home / 'token'}).")
            writers.start()
            copied_s = _copy(console, client, source.url(), target.url())
            say(f"4. The rows are over after {copied_s:.1f} s; changes follow as they happen.")
            _watch_stream(console, client)
            client, away_s = _kill(console, node, client)
            _watch_stream(console, client)
            writers.stop()
            level = client.feeds.wait(FEED)
            say(f"6. The writers rest. {level.seconds:.1f} s later the target is level. Compare:")
            compared = compare(source.url(), target.url(), TABLES)
            epoch = client.feeds.status(FEED).epoch
            client.feeds.remove(FEED)
            client.close()
        finally:
            writers.stop()
            node.stop()
    _summary(console, compared, writers, epoch, away_s)
    if keep:
        say(f"Metastore, change log and the server's log are kept in {folder}.")
    return all(one.equal for one in compared)


def _command(console: Console, text: str) -> None:
    console.print(f"   [cyan]$ lockgate {text}[/]")


def _copy(console: Console, client: Client, source: str, target: str) -> float:
    """Create the feed and watch its copy; answers how long it took."""
    console.print("3. Writers insert, update and delete. The feed is created while they do:")
    began = time.monotonic()
    for name, url in (("here", source), ("there", target)):
        _command(console, f"endpoint add {name} postgres://…")
        client.endpoints.add(name, url)
    _command(console, f"feed create {FEED} --from here --to there --tables 'public.*'")
    client.feeds.create(FEED, source="here", target="there", tables=["public.*"])
    shown = ""

    def tell(status: FeedStatus) -> None:
        nonlocal shown
        copy = status.copy
        line = f"   copied {copy.rows_done:,} of about {copy.rows_total:,} rows"
        if copy.rows_total and line != shown:
            shown = line
            console.print(line, style="dim")

    client.feeds.wait(FEED, told=tell)
    return time.monotonic() - began


def _watch_stream(console: Console, client: Client) -> None:
    deadline = time.monotonic() + STREAM_S
    while time.monotonic() < deadline:
        time.sleep(1.3)
        status = client.feeds.status(FEED)
        lag = "?" if status.lag_s is None else f"{status.lag_s:.1f} s"
        console.print(
            f"   {status.rows_applied:,} changes applied in this life, lag {lag}", style="dim"
        )


def _kill(console: Console, node: DemoServer, client: Client) -> tuple[Client, float]:
    """The accident; answers how long nothing was applied."""
    client.close()
    pid = node.kill()
    began = time.monotonic()
    console.print(f"5. [red]kill -9 {pid}[/]: the server is gone, its Spark too. Writers go on.")
    console.print("   It is started again, on the same home:")
    _command(console, f"server --home {node.home.name}")
    client = node.start()
    client.feeds.wait(FEED)
    away_s = time.monotonic() - began
    status = client.feeds.status(FEED)
    console.print(
        f"   It went on where its records say, as epoch {status.epoch}, and has caught up "
        f"{away_s:.1f} s after the kill, Spark's start included."
    )
    return client, away_s


def _summary(
    console: Console, compared: list[Compared], writers: Writers, epoch: int, away_s: float
) -> None:
    table = Table("table", "source rows", "target rows", "equal", title="Every row compared")
    for one in compared:
        mark = "[green]yes[/]" if one.equal else "[red]NO[/]"
        table.add_row(one.table.id, f"{one.source_rows:,}", f"{one.target_rows:,}", mark)
    console.print(table)
    if not all(one.equal for one in compared):
        console.print("[red]The sides differ.[/]")
        return
    console.print(
        f"What you saw: {writers.transactions:,} transactions with {writers.written:,} changed "
        "rows were written at the source while it was copied, followed, and left alone for "
        f"{away_s:.1f} s by a server that was killed. The feed came back as epoch {epoch}: "
        "whatever the killed server still had under way is refused. No row is missing, none is "
        "doubled."
    )
