"""`lockgate diff`: compare tables of two sides row by row, and see which rows differ.

A diff is waited for with its progress on stderr (`diff_waiting.py`). It goes on by itself when
Ctrl-C ends the waiting.
"""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lockgate.cli import asking, completion, output

if TYPE_CHECKING:
    from lockgate.client import Client
    from lockgate.model.diffs import DiffDocument

__all__ = ["RepairFlag", "app", "waited_for"]

app = typer.Typer(help="Tables of two sides compared, row by row.")

RepairFlag = Annotated[
    bool, typer.Option("--repair", help="Make the target's rows equal to the source's.")
]
DiffName = Annotated[
    str, typer.Argument(metavar="ID", help="The diff's name.", autocompletion=completion.diffs)
]


@app.command()
def run(
    more: asking.MorePatterns = None,
    *,
    source: Annotated[str, asking.side("--from", "The endpoint that is right.")] = "",
    target: Annotated[str, asking.side("--to", "The endpoint that should be equal.")] = "",
    tables: Annotated[list[str] | None, asking.TABLES] = None,
    feed: Annotated[
        str,
        typer.Option(
            "--feed",
            metavar="NAME",
            help="The feed between the two: both sides as of one position, whoever writes "
            "meanwhile. Has its own endpoints and tables.",
            autocompletion=completion.feeds,
        ),
    ] = "",
    repair: RepairFlag = False,
    url: asking.UrlOption = None,
    home: asking.HomeOption = None,
    as_json: output.JsonFlag = False,
) -> int:
    """Compare tables. Exit 0 when they are equal, 1 when not.

    Without --feed each side is looked at as it is: whoever writes meanwhile makes differences.
    """
    patterns = [*(tables or ()), *(more or ())]
    return waited_for(
        lambda lg: lg.diffs.start(
            source=source, target=target, tables=patterns, feed=feed, repair=repair
        ),
        *(url, home, as_json),
    )


@app.command()
def resume(
    diff: DiffName,
    url: asking.UrlOption = None,
    home: asking.HomeOption = None,
    as_json: output.JsonFlag = False,
) -> int:
    """Go on with a diff that failed, with what is left of it."""
    return waited_for(lambda lg: lg.diffs.start_resumed(diff), url, home, as_json)


@app.command()
def cancel(
    diff: DiffName,
    url: asking.UrlOption = None,
    home: asking.HomeOption = None,
    as_json: output.JsonFlag = False,
) -> None:
    """Call off a diff that runs. What it has found is kept; `diff resume` goes on with the rest."""
    with asking.node(url, home) as lg:
        found = lg.diffs.cancel(diff)
    if as_json:
        output.result(found)
    else:
        output.line(f"{found.id}: {found.error}")


@app.command()
def show(
    diff: DiffName,
    url: asking.UrlOption = None,
    home: asking.HomeOption = None,
    as_json: output.JsonFlag = False,
) -> int:
    """How far a diff is, and the rows that differ. Exit 1 when they do, or when it failed."""
    with asking.node(url, home) as lg:
        found = lg.diffs.show(diff)
    from lockgate.cli import diff_show

    return diff_show.outcome(found, as_json=as_json)


@app.command("list")
def list_(
    url: asking.UrlOption = None,
    home: asking.HomeOption = None,
    as_json: output.JsonFlag = False,
) -> None:
    """All diffs that are remembered, the newest first."""
    with asking.node(url, home) as lg:
        found = list(lg.diffs.list())
    if as_json:
        output.result({"items": found})
        return
    from lockgate.cli import diff_show

    diff_show.diffs(found)


def waited_for(
    begin: "Callable[[Client], DiffDocument]", url: str | None, home: Path | None, as_json: bool
) -> int:
    """Begin a diff, wait for its end, and show what came of it; the exit code that it means."""
    from lockgate.cli import diff_show, diff_waiting

    with asking.node(url, home) as lg:
        begun = begin(lg)
        try:
            with diff_waiting.shown() as told:
                found = lg.diffs.wait(begun.id, told=told)
        except KeyboardInterrupt:
            diff_show.left_running(begun, as_json=as_json)
            return output.INTERRUPTED
    return diff_show.outcome(found, as_json=as_json)
