"""`lockgate move`: move tables to another database, step by step, with a way back.

Commands are waited for with their steps on stderr (`move_waiting.py`). They go on by themselves
when Ctrl-C ends the waiting.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from lockgate.cli import asking, output
from lockgate.cli.diff import RepairFlag, waited_for
from lockgate.model.errors import UsageError

if TYPE_CHECKING:
    from lockgate.model.move_status import MoveOutcome, MoveStatus

__all__ = ["app"]

app = typer.Typer(help="Tables on their way to another database: copy, switch, reverse, complete.")

DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Show the steps that would be done, and change nothing.")
]
Timeout = Annotated[
    float,
    typer.Option(
        "--timeout", min=1, max=3600, metavar="S", help="Writers are blocked no longer than this."
    ),
]
MaxLag = Annotated[
    float,
    typer.Option(
        "--max-lag", min=0, max=86_400, metavar="S", help="Refuse when the feed is further behind."
    ),
]

Lost = Annotated[
    Literal["source", "target"] | None,
    typer.Option(
        "--lost",
        help="This side is gone for ever, and does not have the traffic: do not wait for it, and "
        "say what is left there. Refused while it can be reached.",
    ),
]


@asking.command(app)
def create(
    asked: asking.Asked,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The new move's name.")],
    more: asking.MorePatterns = None,
    *,
    source: Annotated[str, asking.side("--from", "The endpoint that has the tables.")],
    target: Annotated[str, asking.side("--to", "The endpoint that gets them.")],
    tables: Annotated[list[str], asking.TABLES],
    defer_indexes: Annotated[
        bool,
        typer.Option(
            "--defer-indexes/--no-defer-indexes",
            help="Build indexes and foreign keys at the target when the rows are there.",
        ),
    ] = True,
    hook: Annotated[
        str,
        typer.Option(
            "--hook", metavar="NAME", help="Run at each flip: [hooks.NAME] of the server's config."
        ),
    ] = "",
    dry_run: DryRun = False,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait until all rows are copied and indexes are built.")
    ] = False,
) -> int:
    """Begin a move: copy the tables to the target, and follow every change.

    Nothing changes for applications before `move switch`. Asking again for the same move is no
    error.
    """
    from lockgate.cli import move_show, move_waiting
    from lockgate.model.move_config import read_move_config

    wish = {
        "source": source,
        "target": target,
        "tables": [*tables, *(more or ())],
        "defer_indexes": defer_indexes,
        "hook": hook,
    }
    read_move_config({"name": name, **wish})
    if dry_run:
        planned = asked.lg.moves.plan(name, **wish)  # type: ignore[arg-type]
        return move_show.outcome(planned, name, "", as_json=asked.as_json)
    status = asked.lg.moves.create(name, **wish)  # type: ignore[arg-type]
    if wait:
        status = move_waiting.copied(asked.lg, name)
    _show(asked, status)
    return _failed(status)


@asking.command(app, "list")
def list_(asked: asking.Asked) -> None:
    """All moves: how far they are, and where the traffic is."""
    from lockgate.cli import move_show

    asked.show_all(asked.lg.moves.list(), move_show.moves)


@asking.command(app)
def status(asked: asking.Asked, name: asking.MoveName) -> None:
    """How a move is, the steps of its last command, and what can be done next."""
    _show(asked, asked.lg.moves.status(name))


@asking.command(app)
def watch(
    asked: asking.Asked,
    name: asking.MoveName,
    *,
    interval: Annotated[
        float, typer.Option("--interval", min=0.1, metavar="S", help="How often to look.")
    ] = 1.0,
) -> None:
    """Go on showing a move until it is over, or until Ctrl-C.

    With --json it waits until nothing is copied and no command is under way, and then shows the
    status.
    """
    from lockgate.cli import move_waiting

    lg = asked.lg
    if asked.as_json:
        output.result(lg.moves.wait(name))
    else:
        move_waiting.watch(lambda: lg.moves.status(name), interval)


@asking.command(app)
def diff(
    asked: asking.Asked,
    name: asking.MoveName,
    *,
    repair: RepairFlag = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the move's last diff, which failed.")
    ] = False,
) -> int:
    """Compare both sides row by row, as of one position. Exit 0 when they are equal, 1 when not.

    Nobody has to stop writing. The side that has the traffic is right, and the other one is held
    against it.
    """
    return waited_for(asked, lambda: asked.lg.moves.start_diff(name, repair=repair, resume=resume))


@asking.command(app)
def switch(
    asked: asking.Asked,
    name: asking.MoveName,
    *,
    dry_run: DryRun = False,
    timeout: Timeout = 30.0,
    max_lag: MaxLag = 10.0,
) -> int:
    """Have the target take the traffic. The source follows it from then on.

    Writers at the source are blocked while the target catches up. What does not work within the
    timeout is put back: exit 1, and the source is as it was.
    """
    return _carried_out(
        *(asked, name, "switch", "the target has the traffic"),
        lambda: asked.lg.moves.switch(name, dry_run=dry_run, timeout_s=timeout, max_lag_s=max_lag),
    )


@asking.command(app)
def reverse(
    asked: asking.Asked,
    name: asking.MoveName,
    *,
    dry_run: DryRun = False,
    timeout: Timeout = 30.0,
    max_lag: MaxLag = 10.0,
) -> int:
    """Have the source take the traffic back, with everything that was written at the target."""
    return _carried_out(
        *(asked, name, "reverse", "the source has the traffic"),
        lambda: asked.lg.moves.reverse(name, dry_run=dry_run, timeout_s=timeout, max_lag_s=max_lag),
    )


@asking.command(app)
def complete(
    asked: asking.Asked,
    name: asking.MoveName,
    *,
    rename: Annotated[
        bool, typer.Option("--rename", help="The source's tables get the names _TABLE_old.")
    ] = False,
    drop: Annotated[bool, typer.Option("--drop", help="The source's tables are dropped.")] = False,
    keep: Annotated[
        bool, typer.Option("--keep", help="They stay, guarded: nobody can write to them.")
    ] = False,
    lost: Lost = None,
    dry_run: DryRun = False,
) -> int:
    """End a move that is switched. There is no way back from it.

    Of a source that is lost no table is touched, whichever of --rename, --drop and --keep is given.
    """
    ways = {"rename": rename, "drop": drop, "keep": keep}
    chosen = [way for way, said in ways.items() if said]
    if len(chosen) != 1:
        raise UsageError(
            "what becomes of the source's tables is to be said, once",
            object_="lockgate move complete",
            hint="give one of --rename, --drop and --keep",
        )
    way: Literal["rename", "drop", "keep"] = chosen[0]  # type: ignore[assignment]
    return _carried_out(
        *(asked, name, "complete", "the move is completed"),
        lambda: asked.lg.moves.complete(name, way, dry_run=dry_run, lost=lost),
    )


@asking.command(app)
def cancel(
    asked: asking.Asked,
    name: asking.MoveName,
    *,
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep the copies at the target as they are.")
    ] = False,
    lost: Lost = None,
    dry_run: DryRun = False,
) -> int:
    """End a move that is not switched, and drop its copies at the target."""
    return _carried_out(
        *(asked, name, "cancel", "the move is cancelled"),
        lambda: asked.lg.moves.cancel(name, keep=keep, dry_run=dry_run, lost=lost),
    )


@asking.command(app)
def remove(asked: asking.Asked, name: asking.MoveName) -> None:
    """Forget a move that is completed or cancelled. Its tables are not touched."""
    asked.lg.moves.remove(name)
    asked.show_removed(name, f"forgot the move {name}")


# --- inside ---------------------------------------------------------------------------------------


def _carried_out(
    asked: asking.Asked, name: str, command: str, done: str, verb: "Callable[[], MoveOutcome]"
) -> int:
    from lockgate.cli import move_show, move_waiting

    lg = asked.lg
    try:
        outcome = move_waiting.looked_on(lg, name, command, verb)
    except KeyboardInterrupt:
        move_show.left_running(name, as_json=asked.as_json)
        return output.INTERRUPTED
    return move_show.outcome(outcome, name, done, as_json=asked.as_json)


def _failed(status: "MoveStatus") -> int:
    from lockgate.model.moves import MoveState

    if status.state is not MoveState.ERROR:
        return 0
    hint = "; ".join(status.next_steps)
    output.error(f"the move is recorded and has failed ({status.name}): {status.error}", hint)
    return 1


def _show(asked: asking.Asked, status: "MoveStatus") -> None:
    from lockgate.cli import move_show

    asked.show(status, move_show.status)
