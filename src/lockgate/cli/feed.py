"""`lockgate feed`: make feeds, look at them, stop and start them, wait for them.

Spans are in `feed_spans.py`, a feed without a server in `feed_run.py`; both add to this group.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lockgate.cli import asking, completion, config_file, feed_run, feed_spans, output, progress
from lockgate.cli.feed_run import OPTIONS
from lockgate.model.errors import UsageError

if TYPE_CHECKING:
    from lockgate.client import Client
    from lockgate.model.documents import Waited
    from lockgate.model.feed_status import FeedStatus

__all__ = ["app"]

app = typer.Typer(help="Continuous replication of chosen tables.")

TimeoutOption = Annotated[
    float | None,
    typer.Option("--timeout", min=0, metavar="S", help="Give up after this many seconds."),
]


@asking.command(app)
def create(
    asked: asking.Asked,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The new feed's name.")],
    more: asking.MorePatterns = None,
    *,
    source: Annotated[
        str | None, asking.side("--from", "The endpoint whose tables are replicated.")
    ] = None,
    target: Annotated[
        str | None, asking.side("--to", "The endpoint that they are replicated to.")
    ] = None,
    tables: Annotated[list[str] | None, asking.TABLES] = None,
    config: Annotated[
        Path | None,
        typer.Option(
            "--config",
            metavar="FILE",
            help="More about the feed (TOML): masks, row filters, renames, limits. Options win.",
        ),
    ] = None,
    copy: Annotated[
        bool | None,
        typer.Option(
            "--copy/--no-copy", help="Copy the rows that are there already. [default: copy]"
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be made, and change nothing.")
    ] = False,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait until all rows are copied and level.")
    ] = False,
    timeout: TimeoutOption = None,
) -> int:
    """Make a feed: copy chosen tables, then follow every change.

    Asking again for the same feed is no error.
    """
    from lockgate.model.feed_config import read_config

    written = config_file.read(config)
    said = {"name": name, "source": source, "target": target, "copy": copy}
    for key, value in {**said, "tables": _patterns(tables, more)}.items():
        written.say(key, value, OPTIONS.get(key, "--no-copy"))
    with written.located(OPTIONS):
        read_config(written.document)
        document: dict[str, Any] = written.document
        if dry_run:
            return _plan(asked, document)
        status = asked.lg.feeds.create(**document)
        waited = None
        if wait and not _has_failed(status):
            waited = _waited(asked.lg, name, timeout)
            status = asked.lg.feeds.status(name)
    _show(asked, status)
    if _has_failed(status):
        hint = "; ".join(status.next_steps)
        output.error(f"the feed is recorded and has failed ({name}): {status.error}", hint)
        return 1
    return 0 if waited is None else _verdict(name, waited, timeout)


@asking.command(app, "list")
def list_(asked: asking.Asked) -> None:
    """All feeds, with their state and lag."""
    from lockgate.cli import feed_show

    asked.show_all(asked.lg.feeds.list(), feed_show.feeds)


@asking.command(app)
def status(
    asked: asking.Asked,
    name: asking.FeedName,
    *,
    watch: Annotated[bool, typer.Option("--watch", help="Go on showing it until Ctrl-C.")] = False,
    interval: Annotated[
        float, typer.Option("--interval", min=0.1, metavar="S", help="With --watch: how often.")
    ] = 2.0,
) -> None:
    """How a feed is, and what can be done next."""
    if watch and asked.as_json:
        raise UsageError(
            "--watch has no end, and --json is one document",
            object_="lockgate feed status",
            hint="leave one of them out",
        )
    lg = asked.lg
    if watch:
        from lockgate.cli.watching import watch_feed

        watch_feed(lambda: lg.feeds.status(name), interval)
    else:
        _show(asked, lg.feeds.status(name))


@asking.command(app)
def tables(asked: asking.Asked, name: asking.FeedName) -> None:
    """The tables of a feed, and how each of them is."""
    from lockgate.cli import feed_show

    asked.show_all(asked.lg.feeds.tables(name), feed_show.tables)


@asking.command(app)
def pause(asked: asking.Asked, name: asking.FeedName) -> None:
    """Stop a feed. Its slot stays at the source, and keeps the log until it is resumed."""
    _show(asked, asked.lg.feeds.pause(name))


@asking.command(app)
def resume(asked: asking.Asked, name: asking.FeedName) -> None:
    """Let a stopped or failed feed go on where it was."""
    _show(asked, asked.lg.feeds.resume(name))


@asking.command(app)
def remove(
    asked: asking.Asked,
    name: asking.FeedName,
    *,
    force: Annotated[
        bool,
        typer.Option(
            "--force", help="Do not wait for a database that is gone; say what is left there."
        ),
    ] = False,
) -> int:
    """End a feed, and remove all that was made for it. The target's tables stay.

    Exits 1 when it is not gone yet: an endpoint is away. It goes on by itself then, or with
    --force without the endpoint.
    """
    from lockgate.model.feeds import FeedState

    left = asked.lg.feeds.remove(name, force=force)
    if left is None or left.state is FeedState.REMOVED:
        behind = () if left is None else left.notes
        if asked.as_json:
            output.result({"name": name, "removed": True, **({"left": behind} if behind else {})})
        else:
            output.line(f"removed the feed {name}")
            for each in behind:
                output.line(each)
        return 0
    if asked.as_json:
        output.result(
            {
                "name": name,
                "removed": False,
                "error": left.error,
                "notes": left.notes,
                "next_steps": left.next_steps,
            }
        )
    why = left.error or "; ".join(left.notes)
    output.error(
        f"the feed is being removed, and is not gone yet ({name})" + (f": {why}" if why else ""),
        "; ".join(("it goes on by itself", *left.next_steps)),
    )
    return 1


@asking.command(app, "wait")
def wait_(asked: asking.Asked, name: asking.FeedName, *, timeout: TimeoutOption = None) -> int:
    """Wait until all that is committed at the source now is applied. Exits 1 when it is not."""
    waited = _waited(asked.lg, name, timeout)
    if asked.as_json:
        output.result(waited)
    elif waited.level:
        output.line(f"{name} is level up to {waited.position}, after {waited.seconds:.1f} s")
    return _verdict(name, waited, timeout)


@asking.command(app)
def resync(
    asked: asking.Asked,
    name: asking.FeedName,
    table: Annotated[
        str,
        typer.Argument(
            metavar="TABLE", help="schema.table, at the source.", autocompletion=completion.tables
        ),
    ],
) -> None:
    """Copy one table of a feed anew."""
    _show(asked, asked.lg.feeds.resync(name, table))


feed_spans.add_to(app)
feed_run.add_to(app)


# --- inside ---------------------------------------------------------------------------------------


def _patterns(tables: list[str] | None, more: list[str] | None) -> list[str] | None:
    """All that are said. None without --tables: further arguments are patterns only behind it."""
    if more and not tables:
        raise UsageError(
            f"{more[0]!r} was not expected",
            object_="lockgate feed create",
            hint="patterns of tables follow --tables",
        )
    return [*(tables or ()), *(more or ())] or None


def _plan(asked: asking.Asked, document: dict[str, Any]) -> int:
    from lockgate.cli import feed_show

    planned = asked.lg.feeds.plan(**document)
    asked.show(planned, feed_show.plan)
    errors = sum(finding.severity == "error" for finding in planned.findings)
    if errors:
        output.error(
            f"{errors} thing{'s' * (errors != 1)} stand{'s' * (errors == 1)} in the way "
            f"({planned.name})",
            "each says above what helps",
        )
    return 1 if errors else 0


def _has_failed(status: "FeedStatus") -> bool:
    from lockgate.model.feeds import FeedState

    return status.state is FeedState.FAILED


def _waited(lg: "Client", name: str, timeout: float | None) -> "Waited":
    with progress.of_feed(name) as told:
        return lg.feeds.wait(name, timeout, told=told)


def _verdict(name: str, waited: "Waited", timeout: float | None) -> int:
    if waited.level:
        return 0
    applied = waited.checkpoint or "nothing"
    output.error(
        f"not level within {timeout or 0:g} s ({name}): "
        f"applied up to {applied}, waiting for {waited.position}",
        f"`lockgate feed status {name}` says how fast it goes; wait longer with --timeout",
    )
    return 1


def _show(asked: asking.Asked, status: "FeedStatus") -> None:
    from lockgate.cli import feed_show

    asked.show(status, feed_show.status)
