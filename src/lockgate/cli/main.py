"""The entry point: builds the command tree, and turns every outcome into an exit code.

0 is success, 2 is wrong usage, 1 is failure. A mistake of the user's is shown as an error and a
hint; a bug of Lockgate's own keeps its trace.
"""

import contextlib
import os
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from lockgate.cli import (
    asking,
    demo,
    diff,
    endpoint,
    feed,
    history,
    lake,
    metastore,
    move,
    node,
    output,
    server,
    sim,
    tokens,
)
from lockgate.model.errors import IllegalTransition, LockgateError, UsageError

__all__ = ["app", "main"]

app = typer.Typer(
    name="lockgate",
    help="Replicates live tables, moves them between databases, and proves both sides equal.",
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command()(demo.demo)
app.command()(server.server)
app.add_typer(endpoint.app, name="endpoint")
app.add_typer(feed.app, name="feed")
app.add_typer(move.app, name="move")
app.add_typer(diff.app, name="diff")
app.add_typer(lake.app, name="lake")
app.add_typer(node.app, name="node")
app.add_typer(tokens.app, name="token")
asking.command(app)(history.history)
app.add_typer(metastore.app, name="metastore")
app.command()(sim.sim)


def _version(wanted: bool) -> None:
    if wanted:
        import lockgate

        output.line(f"lockgate {lockgate.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    pass


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command. Commands return their exit code; None means that all went well."""
    args = list(sys.argv[1:] if argv is None else argv)
    as_json = "--json" in args
    try:
        code: int | None = app(args=args, prog_name="lockgate", standalone_mode=False)
    except IllegalTransition:
        raise
    except LockgateError as problem:
        return output.failure(problem, as_json=as_json)
    except typer.TyperException as problem:
        return output.failure(_wrong_usage(problem), as_json=as_json)
    except typer.Abort:
        return output.INTERRUPTED
    except BrokenPipeError:
        # Whoever read stdout has seen enough. Python would complain when it flushes at its end.
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return code or 0


def _wrong_usage(problem: typer.TyperException) -> UsageError:
    context = getattr(problem, "ctx", None)
    command = context.command_path if context else "lockgate"
    return UsageError(
        problem.format_message().rstrip("."),
        object_=command,
        hint=f"`{command} --help` shows what it takes",
    )
