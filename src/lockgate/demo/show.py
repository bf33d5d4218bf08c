"""The show itself: what happens, told while it happens, for real.

A server of Lockgate's own process, killed with SIGKILL in the middle: what it had in hand goes on
where the records say. Then the tables change their home, under writers, and in the end every row is
compared, and every transaction that was ever acknowledged is looked for.
"""

import contextlib
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from rich.console import Console
from rich.table import Table

from lockgate.client import Client
from lockgate.client.routes import RouteFollower
from lockgate.demo.compare import Compared, compare, guests
from lockgate.demo.moving import MOVE, Moving, old_name
from lockgate.demo.pond import FEED as POND
from lockgate.demo.pond import Pond
from lockgate.demo.server import DemoServer
from lockgate.demo.shop import open_shop
from lockgate.demo.writers import Writers
from lockgate.endpoints.postgres.embedded import EmbeddedPostgres
from lockgate.model.tables import TableName

__all__ = ["run"]

TABLES: Final = [TableName("public", name) for name in ("customers", "orders", "visits")]
ORDERS: Final = TABLES[1].id
SETTINGS: Final[dict[str, str | int]] = {"wal_level": "logical"}
STREAM_S: Final = 3.0


class Ending(NamedTuple):
    """What is left when the show is over."""

    compared: list[Compared]
    in_lake: int
    lost: int
    """Transactions that were acknowledged and are not there, or are there twice, or unasked."""
    differing: int
    """Diffs on the way that did not find both sides equal."""
    troubles: list[str]
    """What else was not as it has to be."""
    seconds: float

    @property
    def good(self) -> bool:
        orders = next(one for one in self.compared if one.table.id == ORDERS)
        equal = all(one.equal for one in self.compared) and not self.differing
        whole = not self.lost and self.in_lake == orders.rows
        return equal and whole and not self.troubles


def run(console: Console, rows: int, keep: bool) -> bool:
    """Show it; True when nothing was lost, nothing doubled, and all was equal at the end."""
    folder = Path(tempfile.mkdtemp(prefix="lockgate-demo-"))
    console.print(
        "[bold]Lockgate[/]: two PostgreSQL servers, writers that never rest, a lake, a server\n"
        "that is killed in the middle; and tables that move from one database to the\n"
        "other, there, back and there again.\n"
    )
    began = time.monotonic()
    node = DemoServer(folder / "home")
    with (
        EmbeddedPostgres(settings=SETTINGS) as here,
        EmbeddedPostgres(settings=SETTINGS) as there,
    ):
        homes = {"here": here.url(), "there": there.url()}
        console.print(f"1. Two databases are up. One gets a shop with about {rows:,} orders.")
        open_shop(homes["here"], rows)
        writers = Writers(homes, ORDERS, "here")
        moving = Moving(console, writers)
        try:
            ending = _acts(console, node, Pond(console, folder / "lake"), moving, writers, homes)
        finally:
            writers.stop()
            node.stop()
    _summary(console, ending, moving, writers, time.monotonic() - began)
    if keep:
        console.print(f"Metastore, change log and the server's log are kept in {folder}.")
    return ending.good


def _acts(
    console: Console,
    node: DemoServer,
    pond: Pond,
    moving: Moving,
    writers: Writers,
    homes: dict[str, str],
) -> Ending:
    say = console.print
    client = node.start()
    say(f"2. A Lockgate server is up: {node.url}, home {node.home}")
    writers.start()
    say("3. Writers insert, update and delete. A move begins while they do:")
    for name, url in homes.items():
        _command(console, f"endpoint add {name} postgres://…")
        client.endpoints.add(name, url)
    copied_s = moving.create(client, ["public.*"])
    say(f"   The rows are over after {copied_s:.1f} s; changes follow as they happen.", style="dim")
    _watch(console, client, writers)
    say(
        "4. A feed takes the same tables into a lake: changes in ingest, over a stable Delta table."
    )
    pond.fill(client)
    pond.drain(client)
    say("   A new leader drains all while a table is dropped: no race, an answer.")
    pond.drop_during_step_up(client)
    client, away_s = _kill(console, node, moving, client)
    with _following(client, writers):
        say("6. The writers go by the table of routes, and never rest. Both sides are compared,")
        say("   as of one position, and the tables move:")
        moving.diff(client)
        moving.flip(client, "switch")
        moving.late()
        say("7. A change of mind: back, with everything that was written there.")
        moving.flip(client, "reverse")
        say("8. And there again; compared once more, the other way round.")
        moving.flip(client, "switch")
        moving.diff(client)
        writers.stop()
    say("9. The writers rest. The lake was fed all the time, by whoever had the traffic.")
    moving.level(client)
    client.feeds.wait(POND)
    in_lake = pond.rows()
    client.feeds.remove(POND)
    say("10. The move is completed; what is left behind is kept under another name.")
    moving.complete(client)
    client.close()
    pairs = [(table, old_name(table)) for table in TABLES]
    compared = compare(homes["there"], homes["here"], pairs)
    asked, found = sorted(writers.guests), guests(homes["there"])
    lost = _differing(asked, found)
    return Ending(compared, in_lake, lost, moving.differing, pond.troubles, away_s)


@contextlib.contextmanager
def _following(client: Client, writers: Writers) -> Iterator[None]:
    with RouteFollower(client.routes) as follower:
        writers.follow(follower)
        try:
            yield
        finally:
            writers.follow(None)


def _command(console: Console, text: str) -> None:
    console.print(f"   [cyan]$ lockgate {text}[/]")


def _watch(console: Console, client: Client, writers: Writers) -> None:
    deadline = time.monotonic() + STREAM_S
    while time.monotonic() < deadline:
        time.sleep(1.0)
        status = client.moves.status(MOVE)
        lag = "?" if status.lag_s is None else f"{status.lag_s:.1f} s"
        written = f"{len(writers.guests):,} transactions written"
        line = f"{MOVE}: {status.state.value}, traffic at the {status.traffic}"
        console.print(f"   {line}; {written}, lag {lag}", style="dim", highlight=False)


def _kill(
    console: Console, node: DemoServer, moving: Moving, client: Client
) -> tuple[Client, float]:
    """The accident; answers how long nothing was applied."""
    client.close()
    pid = node.kill()
    began = time.monotonic()
    console.print(f"5. [red]kill -9 {pid}[/]: the server is gone, its Spark too. Writers go on.")
    console.print("   It is started again, on the same home:")
    _command(console, f"server --home {node.home.name}")
    client = node.start()
    epoch = moving.level(client)
    away_s = time.monotonic() - began
    console.print(
        f"   It went on where its records say and has caught up {away_s:.1f} s after the kill,\n"
        f"   Spark's start included. This is epoch {epoch}: what the killed one still had under\n"
        "   way is refused."
    )
    return client, away_s


def _differing(asked: list[str], found: list[str]) -> int:
    """How many stand in one and not in the other, each as often as it stands there."""
    one, other = Counter(asked), Counter(found)
    return ((one - other) + (other - one)).total()


def _summary(
    console: Console, ending: Ending, moving: Moving, writers: Writers, took_s: float
) -> None:
    table = Table(
        "table", "rows there", "left behind as", "rows", "equal", title="Every row compared"
    )
    for one in ending.compared:
        mark = "[green]yes[/]" if one.equal else "[red]NO[/]"
        table.add_row(one.table.id, f"{one.rows:,}", one.other.id, f"{one.other_rows:,}", mark)
    console.print(table)
    compared = sum(one.rows for one in ending.compared)
    lines = [
        ("moved", f"{len(ending.compared)} tables, {compared:,} rows compared"),
        ("written", f"{len(writers.guests):,} transactions, {writers.rows:,} rows, meanwhile"),
        ("lost or doubled", f"{ending.lost:,} transactions"),
        ("blocked", f"{moving.blocked()} (each writer's slowest, flip by flip)"),
        ("killed", f"once, for {ending.seconds:.1f} s"),
        ("lake", f"{ending.in_lake:,} orders"),
        ("took", f"{took_s:.0f} s"),
    ]
    for name, value in lines:
        console.print(f"[dim]{name:>15}[/]  {value}", highlight=False)
    if not ending.good:
        console.print("[red]Something is missing, doubled, or differs.[/]")
    for trouble in ending.troubles:
        console.print(trouble, style="red", highlight=False, markup=False)
