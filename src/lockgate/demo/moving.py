"""The demo's move: tables change their home while people write to them, twice there and once back.

What each flip costs is asked of the writers: how long the slowest transaction of each of them took.
"""

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Final

from rich.console import Console

from lockgate.client import Client
from lockgate.client.moves import took_s
from lockgate.demo.writers import Writers
from lockgate.model.errors import Conflict, Terminal
from lockgate.model.move_status import MoveOutcome, MoveStatus
from lockgate.model.tables import TableName

__all__ = ["MOVE", "Moving", "old_name"]

MOVE: Final = "shop"
TRIES_MAX: Final = 5
"""A machine that is busy may be too slow for a flip. It is put back then, and asked for again."""
WAIT_S: Final = 60.0
SHOWN_S: Final = 0.02
"""Steps that took less are not worth a word."""


class Moving:
    """A move from one endpoint to another, shown step by step."""

    def __init__(self, console: Console, writers: Writers) -> None:
        self._console = console
        self._writers = writers
        self.waits: list[float] = []
        """Of every writer in every flip, how long its slowest transaction took, in seconds."""
        self.differing = 0
        """Diffs that did not find both sides equal."""

    def create(self, client: Client, tables: Sequence[str]) -> float:
        """Begin it, and watch its copy; answers how long that took."""
        began = time.monotonic()
        self._command(f"move create {MOVE} --from here --to there --tables 'public.*'")
        client.moves.create(MOVE, source="here", target="there", tables=tables)
        shown = ""

        def tell(status: MoveStatus) -> None:
            nonlocal shown
            copy = status.copy
            line = f"   copied {copy.rows_done:,} of about {copy.rows_total:,} rows"
            if copy.rows_total and line != shown:
                shown = line
                self._say(line)

        client.moves.wait(MOVE, told=tell)
        return time.monotonic() - began

    def flip(self, client: Client, command: str) -> None:
        """Switch or reverse, with writers running through it."""
        self._command(f"move {command} {MOVE}")
        verb = {"switch": client.moves.switch, "reverse": client.moves.reverse}[command]
        began = time.monotonic()
        outcome = self._patiently(lambda: verb(MOVE))
        ended = time.monotonic()
        self._until_written()
        waits = self._writers.longest(began, ended)
        self.waits += waits
        status = outcome.status
        if status is not None:
            self._say(f"   {outcome.what}: {_steps(status)}")
        slowest = ", ".join(f"{one:.2f} s" for one in sorted(waits))
        self._say(f"   the slowest transaction of each writer: {slowest}")

    def diff(self, client: Client) -> None:
        """Compare both sides as of one position, row by row, while people write."""
        self._command(f"move diff {MOVE}")
        found = client.moves.diff(MOVE)
        self.differing += found.equal is not True
        rows = sum(one.rows for one in found.tables)
        verdict = "equal" if found.equal else f"NOT EQUAL {found.error}"
        self._say(f"   {rows:,} rows at {found.position}: {verdict}, in {found.seconds:.1f} s")

    def level(self, client: Client) -> int:
        """Wait until its feed, whichever way it goes, has applied all there is; its epoch."""
        status = client.moves.status(MOVE)
        feed = status.forward or status.reverse
        assert feed is not None, "a move that is not over has a feed"
        client.feeds.wait(feed.feed)
        return client.feeds.status(feed.feed).epoch

    def late(self) -> None:
        """What somebody was told who wrote where the tables were."""
        if self._writers.told:
            self._say(f"   somebody who came late was told: {self._writers.told}")

    def complete(self, client: Client) -> str:
        """End it; answers the position that the old tables stand at."""
        self._command(f"move complete {MOVE} --rename")
        outcome = self._patiently(lambda: client.moves.complete(MOVE, "rename"))
        status = outcome.status
        assert status is not None, "a move that is there has a status"
        self._say(f"   {outcome.what}; kept as of {status.as_of}: {', '.join(status.kept)}")
        return status.as_of

    def blocked(self) -> str:
        """In words, for the end."""
        return f"p50 {statistics.median(self.waits):.2f} s, max {max(self.waits):.2f} s"

    # --- inside ---------------------------------------------------------------------------------

    def _patiently(self, ask: Callable[[], MoveOutcome]) -> MoveOutcome:
        for left in reversed(range(TRIES_MAX)):
            try:
                return ask()
            except Conflict as error:
                if not left:
                    raise
                self._say(f"   not now: {error.what}; asked again")
                time.sleep(1.0)
        raise AssertionError("the loop returns or raises")

    def _until_written(self) -> None:
        """Everybody who was held up has got on: only then is known for how long."""
        got_on = self._writers.wrote_all(WAIT_S)
        if self._writers.errors or not got_on:
            raise Terminal(
                "a writer of the demo does not get on",
                object_=next(iter(self._writers.errors), "nobody can write"),
                hint="this is a bug: guards refuse writers, for as long as a flip takes",
            )

    def _say(self, line: str) -> None:
        self._console.print(line, style="dim", highlight=False)

    def _command(self, text: str) -> None:
        self._console.print(f"   [cyan]$ lockgate {text}[/]")


def old_name(table: TableName) -> TableName:
    """What `complete --rename` makes of it."""
    return TableName(table.schema, f"_{table.name}_old")


def _steps(status: MoveStatus) -> str:
    took = [(step.name, took_s(step)) for step in status.steps]
    return ", ".join(f"{name} {s:.2f} s" for name, s in took if s is not None and s >= SHOWN_S)
