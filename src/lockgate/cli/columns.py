"""Tables for people: Rich on a terminal, plain aligned columns elsewhere.

Columns elsewhere are for `awk` and for reading in a log: no colour, no frame, nothing cut off.
A heading that begins with `>` is of a column of numbers, which stand flush right.
"""

import sys
from collections.abc import Iterable, Sequence
from typing import Final

import typer

__all__ = ["colour_of", "show"]

_COLOURS: Final = {
    **dict.fromkeys(
        (
            *("normal", "running", "up", "ok", "finished", "done", "live", "leader"),
            *("switched", "completed"),
        ),
        "green",
    ),
    **dict.fromkeys(
        (
            *("warning", "copying", "starting", "draining", "retrying", "blocked"),
            *("stepping-up", "stepping-down", "switching", "reversing", "completing"),
            *("cancelling", "undoing", "undone"),
        ),
        "yellow",
    ),
    **dict.fromkeys(("failed", "down", "error", "refused"), "red"),
}
"""Of the words that say how something is."""


def colour_of(word: str) -> str:
    """The colour of a state on a terminal; empty: none."""
    return _COLOURS.get(word, "")


def show(headings: Sequence[str], rows: Iterable[Sequence[str]], nothing: str) -> None:
    """A table, or, when it has no rows, what that means."""
    cells = [[str(cell) for cell in row] for row in rows]
    if not cells:
        typer.echo(nothing, err=True)
    elif sys.stdout.isatty():
        _rich(headings, cells)
    else:
        _plain(headings, cells)


def _plain(headings: Sequence[str], rows: list[list[str]]) -> None:
    right = [heading.startswith(">") for heading in headings]
    lines = [[heading.lstrip(">") for heading in headings], *rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for cells in lines:
        padded = (
            cell.rjust(width) if number else cell.ljust(width)
            for cell, width, number in zip(cells, widths, right, strict=True)
        )
        typer.echo("  ".join(padded).rstrip())


def _rich(headings: Sequence[str], rows: list[list[str]]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for heading in headings:
        table.add_column(
            heading.lstrip(">"), justify="right" if heading[:1] == ">" else "left", overflow="fold"
        )
    for cells in rows:
        # As texts: what people named may look like Rich's markup.
        table.add_row(*(Text(cell, style=colour_of(cell)) for cell in cells))
    Console().print(table)
