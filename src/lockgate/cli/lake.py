"""`lockgate lake`: look at the tables of a lake, drain and drop them, lead it or follow.

What takes long is waited for with progress on stderr (`lake_waiting.py`). It goes on by itself when
the command is ended by Ctrl-C.
"""

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from lockgate.cli import asking, completion, output

if TYPE_CHECKING:
    from lockgate.model.lake_documents import LakeOutcome

__all__ = ["app"]

app = typer.Typer(help="Tables in files, with changes that wait to be drained into them.")

LakeName = Annotated[
    str,
    typer.Argument(
        metavar="EP", help="The lake: the name of its endpoint.", autocompletion=completion.lakes
    ),
]
TableName = Annotated[
    str,
    typer.Argument(
        metavar="TABLE",
        help="As `lockgate lake list` shows it.",
        autocompletion=completion.lake_tables,
    ),
]
TableOrAll = Annotated[
    str | None,
    typer.Argument(
        metavar="[TABLE]",
        help="As `lockgate lake list` shows it; else all tables.",
        autocompletion=completion.lake_tables,
    ),
]


@asking.command(app, "list")
def list_(asked: asking.Asked, endpoint: LakeName) -> None:
    """Who leads a lake, and its tables: what is stable, and what waits to be drained."""
    from lockgate.cli import lake_show

    lake = asked.lg.lakes.show(endpoint)
    found = list(asked.lg.lakes.list(endpoint))
    if asked.as_json:
        output.result(lake_show.document(lake, found))
    else:
        lake_show.lake(lake, found)


@asking.command(app)
def status(asked: asking.Asked, endpoint: LakeName, table: TableName) -> None:
    """How one table of a lake is, and what can be done next."""
    from lockgate.cli import lake_show

    asked.show(asked.lg.lakes.status(endpoint, table), lake_show.table)


@asking.command(app)
def drain(asked: asking.Asked, endpoint: LakeName, table: TableOrAll = None) -> int:
    """Bring changes into the stable layer now: of one table, or of all."""
    return _carried_out(
        *(asked, endpoint, table or endpoint),
        lambda: asked.lg.lakes.drain(endpoint, table),
        f"drained {table or 'all tables'}",
    )


@asking.command(app)
def drop(
    asked: asking.Asked,
    endpoint: LakeName,
    table: TableName,
    *,
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            help="Also a table that a feed still writes to; never one that is being worked on.",
        ),
    ] = False,
    wait: Annotated[
        float,
        typer.Option(
            "--wait", min=0, max=86_400, metavar="S", help="For work that is under way for it."
        ),
    ] = 0.0,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask whether to.")] = False,
) -> int:
    """End a table. Its files go later, when no reader holds them.

    While it is drained or compacted it is busy, and nothing happens: exit 1. On a terminal you are
    asked first.
    """
    if not (yes or asked.as_json or _agreed(endpoint, table)):
        output.error(f"nothing was dropped ({table})", "")
        return 1
    return _carried_out(
        *(asked, endpoint, table),
        lambda: asked.lg.lakes.drop(endpoint, table, force=force, wait_s=wait),
        f"dropped {table}; its files go when no reader holds them",
    )


@asking.command(app, "step-up")
def step_up(asked: asking.Asked, endpoint: LakeName) -> int:
    """Lead a lake, whoever leads it now: every table is claimed, then drained."""
    return _carried_out(
        *(asked, endpoint, endpoint),
        lambda: asked.lg.lakes.step_up(endpoint),
        f"this home leads {endpoint}",
    )


@asking.command(app, "step-down")
def step_down(
    asked: asking.Asked,
    endpoint: LakeName,
    *,
    flush: Annotated[
        bool, typer.Option("--flush", help="Drain first what is not drained.")
    ] = False,
) -> int:
    """Lead a lake no longer, so that another home can. Refused while changes are not drained."""
    return _carried_out(
        *(asked, endpoint, endpoint),
        lambda: asked.lg.lakes.step_down(endpoint, flush=flush),
        f"this home follows {endpoint}",
    )


# --- inside ---------------------------------------------------------------------------------------


def _agreed(endpoint: str, table: str) -> bool:
    """Whether somebody who can be asked says yes. Nobody is there: it was meant."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return True
    return typer.confirm(f"Drop {table} of {endpoint}? Its rows cannot be read any more", err=True)


def _carried_out(
    asked: asking.Asked, endpoint: str, object_: str, verb: "Callable[[], LakeOutcome]", done: str
) -> int:
    from lockgate.cli import lake_show, lake_waiting

    lg = asked.lg
    try:
        outcome = lake_waiting.looked_on(lg, endpoint, verb)
    except KeyboardInterrupt:
        lake_show.left_running(endpoint, as_json=asked.as_json)
        return output.INTERRUPTED
    return lake_show.outcome(outcome, done, object_, as_json=asked.as_json)
