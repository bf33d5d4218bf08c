"""`lockgate feed run`: one feed in one process, with no server, until it is stopped or level."""

import signal
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from lockgate.cli import config_file, output
from lockgate.cli.progress import feed_line

if TYPE_CHECKING:
    from collections.abc import Callable

    from lockgate.model.feed_config import FeedConfig

__all__ = ["OPTIONS", "add_to"]

OPTIONS: Final = {"source": "--from", "target": "--to", "tables": "--tables", "name": "NAME"}
"""What says a key of a feed's configuration on the command line."""

REPORT_S: Final = 2.0


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
    """Run a feed here and now, without a server. Started again with the same home, it goes on
    where it was."""
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
                output.note(feed_line(status))
        status = runner.status()
    if failed:
        raise failed[0]
    if as_json:
        output.result(status)
    else:
        output.line(feed_line(status))


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
    from lockgate.model.feed_config import read_config

    written = config_file.read(path)
    said = {"name": name, "source": source, "target": target, "tables": tables or None}
    for key, value in said.items():
        written.say(key, value, OPTIONS[key])
    written.say("copy", None if copy else False, "--no-copy")
    with written.located(OPTIONS):
        return read_config(written.document)


def add_to(app: typer.Typer) -> None:
    """Make it a command of the group `feed`."""
    app.command()(run)
