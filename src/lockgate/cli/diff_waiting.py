"""Progress of a diff on stderr: a bar on a terminal, a line now and then elsewhere."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from lockgate.cli import diff_show, output
from lockgate.model.diffs import DiffDocument

__all__ = ["shown"]

SAY_S: Final = 5.0

Told = Callable[[DiffDocument], None]


@contextmanager
def shown() -> Iterator[Told]:
    """Shows each document that it is told."""
    if sys.stderr.isatty():
        with _bar() as told:
            yield told
    else:
        yield _lines()


def _lines() -> Told:
    said, before = float("-inf"), ""

    def told(diff: DiffDocument) -> None:
        nonlocal said, before
        line = diff_show.line(diff)
        if line != before and time.monotonic() - said >= SAY_S:
            said, before = time.monotonic(), line
            output.note(line)

    return told


@contextmanager
def _bar() -> Iterator[Told]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[said]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("diff: beginning", total=None, said="")

        def told(diff: DiffDocument) -> None:
            progress = diff.progress
            bar.update(
                task,
                description=f"diff {diff.id}",
                completed=progress.rows_done,
                total=progress.rows_total or None,
                said=diff_show.rows_line(diff),
            )

        yield told
