"""`lockgate lake`: look at the tables of a lake, drain and drop them, lead it or follow.

What takes long is waited for with progress on stderr (`lake_waiting.py`). It goes on by itself when
the command is ended by Ctrl-C.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lockgate.cli import asking, completion, output

if TYPE_CHECKING:
    from lockgate.client import Client
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


@app.command("list")
def list_(
    endpoint: LakeName,
    url: asking.UrlOption = None,
    home: asking.HomeOption = None,
    as_json: output.JsonFlag = False,
) -> None:
    """Who leads a lake, and its tables: what is stable, and what waits to be drained."""
    with asking.node(url, home) as lg:
        lake = lg.lakes.show(endpoint)
        found = list(lg.lakes.list(endpoint))
    from lockgate.cli import lake_show

    if as_json:
        output.result(lake_show.document(lake, found))
    else:
        lake_show.lake(lake, found)


@app.command()
def status(
    endpoint: LakeName,
    table: TableName,
    url: asking.UrlOption = None,
    home: asking.HomeOption = None,
    as_json: output.JsonFlag = False,
) -> None:
    """How one table of a lake is, and what can be done next."""
    with asking.node(url, home) as lg:
        found = lg.lakes.status(endpoint, table)
    if as_json:
        output.result(found)
        return
    from lockgate.cli import lake_show

    lake_show.table(found)


@app.command()
def drain(
    endpoint: LakeName,
    table: TableOrAll = None,
    url: asking.UrlOption = None,
    home: asking.HomeOption = None,
    as_json: output.JsonFlag = False,
) -> int:
    """Bring changes into the stable layer now: of one table, or of all."""
    return _carried_out(
        lambda lg: lg.lakes.drain(endpoint, table),
        f"drained {table or 'all tables'}",
        *(endpoint, table or endpoint, url, home, as_json),
    )


@app.command()
def drop(
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
    url: asking.UrlOption = None,
    home: asking.HomeOption = None,
    as_json: output.JsonFlag = False,
) -> int:
    """End a table. Its files go later, when no reader holds them.

    While it is drained or compacted it is busy, and nothing happens: exit 1. On a terminal you are
    asked first.
    """
    if not (yes or as_json or _agreed(endpoint, table)):
        output.error(f"nothing was dropped ({table})", "")
        return 1
    return _carried_out(
        lambda lg: lg.lakes.drop(endpoint, table, force=force, wait_s=wait),
        f"dropped {table}; its files go when no reader holds them",
        *(endpoint, table, url, home, as_json),
    )


@app.command("step-up")
def step_up(
    endpoint: LakeName,
    url: asking.UrlOption = None,
    home: asking.HomeOption = None,
    as_json: output.JsonFlag = False,
) -> int:
    """Lead a lake, whoever leads it now: every table is claimed, then drained."""
    return _carried_out(
        lambda lg: lg.lakes.step_up(endpoint),
        f"this home leads {endpoint}",
        *(endpoint, endpoint, url, home, as_json),
    )


@app.command("step-down")
def step_down(
    endpoint: LakeName,
    *,
    flush: Annotated[
        bool, typer.Option("--flush", help="Drain first what is not drained.")
    ] = False,
    url: asking.UrlOption = None,
    home: asking.HomeOption = None,
    as_json: output.JsonFlag = False,
) -> int:
    """Lead a lake no longer, so that another home can. Refused while changes are not drained."""
    return _carried_out(
        lambda lg: lg.lakes.step_down(endpoint, flush=flush),
        f"this home follows {endpoint}",
        *(endpoint, endpoint, url, home, as_json),
    )


# --- inside ---------------------------------------------------------------------------------------


def _agreed(endpoint: str, table: str) -> bool:
    """Whether somebody who can be asked says yes. Nobody is there: it was meant."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return True
    return typer.confirm(f"Drop {table} of {endpoint}? Its rows cannot be read any more", err=True)


def _carried_out(
    verb: "Callable[[Client], LakeOutcome]",
    done: str,
    endpoint: str,
    object_: str,
    url: str | None,
    home: Path | None,
    as_json: bool,
) -> int:
    from lockgate.cli import lake_show, lake_waiting

    with asking.node(url, home) as lg:
        try:
            outcome = lake_waiting.looked_on(lg, endpoint, lambda: verb(lg))
        except KeyboardInterrupt:
            lake_show.left_running(endpoint, as_json=as_json)
            return output.INTERRUPTED
    return lake_show.outcome(outcome, done, object_, as_json=as_json)
