"""`lockgate diff`: compare tables of two sides row by row, and see which rows differ.

A diff is waited for with its progress on stderr (`diff_waiting.py`). It goes on by itself when
Ctrl-C ends the waiting.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from lockgate.cli import asking, completion, output

if TYPE_CHECKING:
    from lockgate.model.diffs import DiffDocument

__all__ = ["RepairFlag", "app", "waited_for"]

app = typer.Typer(help="Tables of two sides compared, row by row.")

RepairFlag = Annotated[
    bool, typer.Option("--repair", help="Make the target's rows equal to the source's.")
]
DiffName = Annotated[
    str, typer.Argument(metavar="ID", help="The diff's name.", autocompletion=completion.diffs)
]


@asking.command(app)
def run(
    asked: asking.Asked,
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
) -> int:
    """Compare tables. Exit 0 when they are equal, 1 when not.

    Without --feed each side is looked at as it is: whoever writes meanwhile makes differences.
    """
    patterns = [*(tables or ()), *(more or ())]
    return waited_for(
        asked,
        lambda: asked.lg.diffs.start(
            source=source, target=target, tables=patterns, feed=feed, repair=repair
        ),
    )


@asking.command(app)
def resume(asked: asking.Asked, diff: DiffName) -> int:
    """Go on with a diff that failed, with what is left of it."""
    return waited_for(asked, lambda: asked.lg.diffs.start_resumed(diff))


@asking.command(app)
def cancel(asked: asking.Asked, diff: DiffName) -> None:
    """Call off a diff that runs. What it has found is kept; `diff resume` goes on with the rest."""
    asked.show(asked.lg.diffs.cancel(diff), lambda found: output.line(f"{found.id}: {found.error}"))


@asking.command(app)
def show(asked: asking.Asked, diff: DiffName) -> int:
    """How far a diff is, and the rows that differ. Exit 1 when they do, or when it failed."""
    from lockgate.cli import diff_show

    return diff_show.outcome(asked.lg.diffs.show(diff), as_json=asked.as_json)


@asking.command(app, "list")
def list_(asked: asking.Asked) -> None:
    """All diffs that are remembered, the newest first."""
    from lockgate.cli import diff_show

    asked.show_all(asked.lg.diffs.list(), diff_show.diffs)


def waited_for(asked: asking.Asked, begin: "Callable[[], DiffDocument]") -> int:
    """Begin a diff, wait for its end, and show what came of it; the exit code that it means."""
    from lockgate.cli import diff_show, diff_waiting

    begun = begin()
    try:
        with diff_waiting.shown() as told:
            found = asked.lg.diffs.wait(begun.id, told=told)
    except KeyboardInterrupt:
        diff_show.left_running(begun, as_json=asked.as_json)
        return output.INTERRUPTED
    return diff_show.outcome(found, as_json=asked.as_json)
