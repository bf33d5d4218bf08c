"""How a command speaks: results on stdout, everything else on stderr.

With `--json` stdout carries one JSON document and nothing else, also when the command fails, so
that a script may always parse it. Errors come as `error: …` and `hint: …` on stderr either way.
"""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Final

import typer

from lockgate.model.errors import LockgateError

__all__ = ["JsonFlag", "error", "failure", "line", "note", "progress", "result"]

JsonFlag = Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")]

PLAIN_PROGRESS_INTERVAL_S: Final = 5.0


def line(text: str = "") -> None:
    """One line of the result, for people."""
    typer.echo(text)


def note(text: str) -> None:
    """One line beside the result: what is going on."""
    typer.echo(text, err=True)


def result(document: object) -> None:
    """The whole result, for machines. A command calls this at most once."""
    import msgspec

    typer.echo(msgspec.json.format(msgspec.json.encode(document), indent=2))


def error(message: str, hint: str) -> None:
    """Why the command fails, and what to do next."""
    typer.secho("error:", err=True, nl=False, fg=typer.colors.RED, bold=True)
    typer.echo(f" {message}", err=True)
    if hint:
        typer.secho("hint:", err=True, nl=False, fg=typer.colors.CYAN)
        typer.echo(f" {hint}", err=True)


def failure(problem: LockgateError, *, as_json: bool) -> int:
    """Report an error that ended the command; returns the exit code it asks for."""
    if as_json:
        result({"error": problem.as_dict()})
    error(str(problem), problem.hint)
    return problem.exit_code


@contextmanager
def progress(what: str) -> Iterator[Callable[[int, int], None]]:
    """Show `advance(done, total)` on stderr: a bar on a terminal, a line now and then elsewhere."""
    if sys.stderr.isatty():
        with _bar(what) as advance:
            yield advance
    else:
        yield _lines(what)


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


def _lines(what: str) -> Callable[[int, int], None]:
    started = said = time.monotonic()

    def advance(done: int, total: int) -> None:
        nonlocal said
        now = time.monotonic()
        if now - said < PLAIN_PROGRESS_INTERVAL_S or not 0 < done < total:
            return
        said = now
        left_s = (now - started) * (total - done) / done
        typer.echo(f"{what} {done:,}/{total:,}, about {left_s:.0f} s left", err=True)

    return advance
