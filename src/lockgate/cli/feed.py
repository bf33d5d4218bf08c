"""`lockgate feed run`: one feed in one process, until it is stopped or level."""

import signal
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from lockgate.cli import output
from lockgate.model.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from lockgate.model.feed_config import FeedConfig
    from lockgate.model.feed_status import FeedStatus

__all__ = ["app"]

app = typer.Typer(help="Continuous replication of chosen tables.", no_args_is_help=True)

REPORT_S: Final = 2.0


@app.callback()
def _feed() -> None:
    """Continuous replication of chosen tables."""


@app.command()
def run(
    name: Annotated[str, typer.Argument(help="The feed's name.")],
    source: Annotated[
        str | None, typer.Option("--from", help="URL of the source: postgres://…")
    ] = None,
    target: Annotated[str | None, typer.Option("--to", help="URL of the target.")] = None,
    tables: Annotated[
        list[str] | None,
        typer.Option("--tables", help="schema.table with * and ?; !pattern leaves out."),
    ] = None,
    config: Annotated[
        Path | None, typer.Option("--config", help="The feed's configuration (TOML).")
    ] = None,
    home: Annotated[
        Path, typer.Option("--home", help="Where the metastore and the change log are kept.")
    ] = Path("lockgate-home"),
    spark: Annotated[
        str, typer.Option("--spark", help="A Spark master, or a Connect URL: sc://…")
    ] = "local[*]",
    ship: Annotated[
        bool,
        typer.Option(
            "--ship/--no-ship",
            help="Send Lockgate's code to a remote Spark; not needed where it is installed.",
        ),
    ] = True,
    copy: Annotated[
        bool, typer.Option("--copy/--no-copy", help="Copy the rows that are there already.")
    ] = True,
    until_level: Annotated[
        bool,
        typer.Option(
            "--until-level", help="End once all that was committed at the start is applied."
        ),
    ] = False,
    as_json: output.JsonFlag = False,
) -> None:
    """Run a feed here and now. Started again with the same home, it goes on where it was."""
    from lockgate.node.runner import FeedRunner
    from lockgate.pipeline.session import SparkOptions

    feed = _config(name, source, target, tables, config, copy)
    stopped = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopped.set())
    with FeedRunner(home, feed, spark=SparkOptions(spark, ship=ship)) as runner:
        for note in runner.status().notes:
            output.note(f"{name}: {note}")
        level = threading.Event()
        failed: list[Exception] = []
        if until_level:
            threading.Thread(
                target=_wait, args=(runner.wait_level, level, stopped, failed), daemon=True
            ).start()
        while not (stopped.wait(REPORT_S if not until_level else 0.2) or level.is_set()):
            status = runner.check()
            if not as_json:
                output.note(_line(status))
        status = runner.status()
    if failed:
        raise failed[0]
    if as_json:
        output.result(status)
    else:
        output.line(_line(status))


def _wait(
    wait: "Callable[[float], object]",
    level: threading.Event,
    stopped: threading.Event,
    failed: list[Exception],
) -> None:
    try:
        wait(float("inf"))
    except Exception as error:
        failed.append(error)
        stopped.set()
    level.set()


def _config(
    name: str,
    source: str | None,
    target: str | None,
    tables: list[str] | None,
    path: Path | None,
    copy: bool,
) -> "FeedConfig":
    import tomllib

    from lockgate.model.feed_config import read_config

    document: dict[str, object] = {}
    if path is not None:
        try:
            document = tomllib.loads(path.read_text("utf-8"))
        except (OSError, ValueError) as error:
            raise UsageError(
                "the configuration cannot be read",
                object_=str(path),
                hint="write a TOML file; docs/guides/feeds.md shows one",
                cause=error,
            ) from error
    given = {"name": name, "source": source, "target": target, "tables": tables or None}
    document |= {key: value for key, value in given.items() if value is not None}
    if not copy:
        document["copy"] = False
    return read_config(document)


def _line(status: "FeedStatus") -> str:
    parts = [f"{status.name}: {status.state.value}"]
    if status.copy.rows_total and status.copy.percent < 100:
        done, total = status.copy.rows_done, status.copy.rows_total
        eta = "" if status.copy.eta_s is None else f", about {status.copy.eta_s:.0f} s left"
        parts.append(f"copied {done:,} of {total:,} rows{eta}")
    parts.append(f"{status.rows_applied:,} changes applied")
    if status.lag_s is not None:
        parts.append(f"lag {status.lag_s:.1f} s")
    if status.error:
        parts.append(status.error)
    return "; ".join(parts)
