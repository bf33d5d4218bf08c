"""The demo's lake: the same tables as files, fresh before and after a drain, and a drop that waits.

What any reader of Delta sees is the stable layer; what Lockgate's readers see is ingest over it.
"""

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from rich.console import Console

from lockgate.client import Client
from lockgate.endpoints.delta.changes import may_follow
from lockgate.endpoints.delta.lake import Lake
from lockgate.endpoints.delta.layered import LayeredTable, Snapshot
from lockgate.endpoints.delta.place import Place
from lockgate.model.errors import Conflict
from lockgate.model.lake_documents import LakeOutcome

__all__ = ["FEED", "Pond"]

FEED: Final = "pond"
LAKE: Final = "lake"
WAIT_S: Final = 60.0
ORDERS: Final = "public.orders"
CUSTOMERS: Final = "public.customers"


class Pond:
    """A lake in a directory, shown step by step."""

    def __init__(self, console: Console, directory: Path) -> None:
        self._console = console
        self._directory = directory
        self._place = Place(str(directory), str(directory))
        self.troubles: list[str] = []
        """What is not as it has to be."""

    def fill(self, client: Client) -> None:
        """A feed into it, beside the one that runs."""
        self._command(f"endpoint add {LAKE} delta:{self._directory}")
        client.endpoints.add(LAKE, f"delta:{self._directory}")
        tables = [CUSTOMERS, ORDERS]
        self._command(f"feed create {FEED} --from here --to {LAKE} --tables {' '.join(tables)}")
        client.feeds.create(FEED, source="here", target=LAKE, tables=tables)
        client.feeds.wait(FEED)

    def drain(self, client: Client) -> None:
        """Rows before and after a drain: the same for our readers, later for all others."""
        self._look(client, "changes wait in ingest")
        self._command(f"lake drain {LAKE} {ORDERS}")
        outcome = client.lakes.drain(LAKE, ORDERS)
        self._say(f"   {outcome.verdict}")
        self._look(client, "drained: every reader of Delta has them now")

    def drop_during_step_up(self, client: Client) -> None:
        """The race that crashes others: a table is dropped while a new leader drains it."""
        self._command(f"lake step-down {LAKE} --flush")
        _patiently(lambda: client.lakes.step_down(LAKE, flush=True))
        waiting = self._wait_for_changes()
        self._command(f"lake step-up {LAKE}  &  lake drop {LAKE} {CUSTOMERS} --force --wait 30")
        told: list[str] = []
        up = threading.Thread(target=lambda: told.append(client.lakes.step_up(LAKE).verdict))
        up.start()
        dropped = self._drop(client)
        up.join()
        [stepped_up] = told or ["failed"]
        tables = self._tables()
        self._say(
            f"   {waiting:,} changes of {CUSTOMERS} had come meanwhile; step-up: {stepped_up}; "
            f"drop: {dropped}; left in the lake: {', '.join(tables)}"
        )
        self._require(waiting > 0, "the step-up had nothing to drain")
        self._require(stepped_up == "done", f"the step-up ended as {stepped_up}")
        self._require(dropped == "done", f"the drop ended as {dropped}")
        self._require(tables == [ORDERS], f"after the drop there were {tables}")

    def rows(self) -> int:
        """Of the orders, as our readers see them, when all is over."""
        tables = self._tables()
        self._require(tables == [ORDERS], f"in the end there were {tables}")
        count: int = self._orders().read().num_rows
        return count

    def _require(self, so: bool, trouble: str) -> None:
        if not so:
            self.troubles.append(f"of the lake: {trouble}")

    def _tables(self) -> list[str]:
        """What lives in the lake, by its files."""
        lake = Lake(self._place)
        return [table for table in lake.tables() if lake.living(table) is not None]

    def _wait_for_changes(self) -> int:
        """Nobody drains while nobody leads: how many changes wait of the table to be dropped."""
        deadline = time.monotonic() + WAIT_S
        while True:
            waiting = _changes(self._table(CUSTOMERS).snapshot())
            if waiting or time.monotonic() > deadline:
                return waiting
            time.sleep(0.05)

    def _drop(self, client: Client) -> str:
        try:
            return _patiently(
                lambda: client.lakes.drop(LAKE, CUSTOMERS, force=True, wait_s=30)
            ).verdict
        except Conflict as error:
            return error.what

    def _look(self, client: Client, what: str) -> None:
        client.feeds.wait(FEED)
        table = self._orders()
        seen = table.snapshot()
        waiting = _changes(seen)
        stable = sum(file.rows for file in seen.stable)
        self._say(
            f"   {ORDERS}: {table.read(seen).num_rows:,} rows for readers of Lockgate, "
            f"{stable:,} in stable, {waiting:,} changes in ingest ({what})"
        )

    def _orders(self) -> LayeredTable:
        return self._table(ORDERS)

    def _table(self, name: str) -> LayeredTable:
        lake = Lake(self._place)
        place = lake.live(name)
        return LayeredTable.open(place, lake.homes(place)[0])

    def _say(self, line: str) -> None:
        self._console.print(line, style="dim", highlight=False)

    def _command(self, text: str) -> None:
        self._console.print(f"   [cyan]$ lockgate {text}[/]")


def _patiently(ask: Callable[[], LakeOutcome]) -> LakeOutcome:
    """Asked until this installation may: before it leads, it is told so."""
    deadline = time.monotonic() + WAIT_S
    while True:
        try:
            return ask()
        except Conflict:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def _changes(seen: Snapshot) -> int:
    """Those that are not drained."""
    return sum(file.rows for file in seen.ingest if may_follow(file, seen.drained))
