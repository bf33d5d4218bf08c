"""Progress of long work, on stderr: a bar on a terminal, a line now and then elsewhere.

Two kinds: a count that the command itself advances (`counted`), and a feed whose status is asked
for now and then (`of_feed`), which brings its own estimate of what is left.
"""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import typer

if TYPE_CHECKING:
    from lockgate.model.feed_status import FeedStatus

__all__ = ["counted", "feed_line", "of_feed", "seconds"]

PLAIN_INTERVAL_S: Final = 5.0


@contextmanager
def counted(what: str) -> Iterator[Callable[[int, int], None]]:
    """Show `advance(done, total)`."""
    if sys.stderr.isatty():
        with _bar(what) as advance:
            yield advance
    else:
        yield _lines(what)


@contextmanager
def of_feed(name: str) -> Iterator[Callable[["FeedStatus"], None]]:
    """Show a feed's way: the copy with rows done, in all and the time left, then its lag."""
    if sys.stderr.isatty():
        with _feed_bar(name) as told:
            yield told
    else:
        yield _feed_lines()


def feed_line(status: "FeedStatus") -> str:
    """A feed in one line."""
    parts = [f"{status.name}: {status.state.value}"]
    copy = status.copy
    if copy.rows_total and copy.percent < 100:
        left = "" if copy.eta_s is None else f", about {seconds(copy.eta_s)} left"
        parts.append(f"copied {copy.rows_done:,} of {copy.rows_total:,} rows{left}")
    parts.append(f"{status.rows_applied:,} changes applied")
    if status.lag_s is not None:
        parts.append(f"lag {status.lag_s:.1f} s")
    if status.error:
        parts.append(status.error)
    return "; ".join(parts)


def seconds(count: float) -> str:
    """A length of time as people say it."""
    whole = round(count)
    if whole < 120:
        return f"{whole} s"
    if whole < 2 * 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


# --- elsewhere than on a terminal -----------------------------------------------------------------


def _lines(what: str) -> Callable[[int, int], None]:
    started = said = time.monotonic()

    def advance(done: int, total: int) -> None:
        nonlocal said
        now = time.monotonic()
        if now - said < PLAIN_INTERVAL_S or not 0 < done < total:
            return
        said = now
        left_s = (now - started) * (total - done) / done
        typer.echo(f"{what} {done:,}/{total:,}, about {left_s:.0f} s left", err=True)

    return advance


def _feed_lines() -> Callable[["FeedStatus"], None]:
    said = float("-inf")

    def told(status: "FeedStatus") -> None:
        nonlocal said
        if time.monotonic() - said >= PLAIN_INTERVAL_S:
            said = time.monotonic()
            typer.echo(feed_line(status), err=True)

    return told


# --- on a terminal --------------------------------------------------------------------------------


@contextmanager
def _bar(what: str) -> Iterator[Callable[[int, int], None]]:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = TextColumn(what), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what)
        yield lambda done, total: bar.update(task, completed=done, total=total)


@contextmanager
def _feed_bar(name: str) -> Iterator[Callable[["FeedStatus"], None]]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[said]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(f"{name}: waiting", total=None, said="")

        def told(status: "FeedStatus") -> None:
            copy = status.copy
            if copy.rows_total and copy.percent < 100:
                left = "" if copy.eta_s is None else f", about {seconds(copy.eta_s)} left"
                bar.update(
                    task,
                    description=f"{name}: copying",
                    completed=copy.rows_done,
                    total=copy.rows_total,
                    said=f"{copy.rows_done:,}/{copy.rows_total:,} rows{left}",
                )
            else:
                lag = "" if status.lag_s is None else f", lag {status.lag_s:.1f} s"
                bar.update(
                    task,
                    description=f"{name}: catching up",
                    total=None,
                    said=f"{status.rows_applied:,} changes applied{lag}",
                )

        yield told
