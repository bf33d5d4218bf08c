"""Names for the shell to complete: asked of the node, quickly, and silent when it does not answer.

Somebody who presses TAB wants no error and no wait: one try, a short time, and nothing on failure.
"""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

import typer

if TYPE_CHECKING:
    from lockgate.client import Client

__all__ = [
    "diffs",
    "endpoints",
    "feeds",
    "lake_tables",
    "lakes",
    "moves",
    "nodes",
    "spans",
    "tables",
]

TIMEOUT_S: Final = 1.0


def feeds(ctx: typer.Context, incomplete: str) -> list[str]:
    """Names of feeds."""
    return _asked(ctx, incomplete, lambda lg: (feed.name for feed in lg.feeds.list()))


def moves(ctx: typer.Context, incomplete: str) -> list[str]:
    """Names of moves."""
    return _asked(ctx, incomplete, lambda lg: (move.name for move in lg.moves.list()))


def diffs(ctx: typer.Context, incomplete: str) -> list[str]:
    """Names of diffs."""
    return _asked(ctx, incomplete, lambda lg: (diff.id for diff in lg.diffs.list()))


def endpoints(ctx: typer.Context, incomplete: str) -> list[str]:
    """Names of endpoints."""
    return _asked(ctx, incomplete, lambda lg: (found.name for found in lg.endpoints.list()))


def lakes(ctx: typer.Context, incomplete: str) -> list[str]:
    """Names of endpoints that are lakes."""
    return _asked(
        ctx,
        incomplete,
        lambda lg: (found.name for found in lg.endpoints.list() if found.kind == "delta"),
    )


def lake_tables(ctx: typer.Context, incomplete: str) -> list[str]:
    """Tables of the lake that the line names."""
    lake = str(ctx.params.get("endpoint") or "")
    return _asked(
        ctx,
        incomplete,
        lambda lg: (found.table for found in lg.lakes.list(lake) if found.state != "dead"),
    )


def nodes(ctx: typer.Context, incomplete: str) -> list[str]:
    """Names of nodes."""
    return _asked(ctx, incomplete, lambda lg: (found.name for found in lg.nodes.list()))


def tables(ctx: typer.Context, incomplete: str) -> list[str]:
    """Tables of the feed that the line names."""
    feed = str(ctx.params.get("name") or "")
    return _asked(ctx, incomplete, lambda lg: (found.table for found in lg.feeds.tables(feed)))


def spans(ctx: typer.Context, incomplete: str) -> list[str]:
    """Spans of the feed that the line names."""
    feed = str(ctx.params.get("name") or "")
    return _asked(
        ctx,
        incomplete,
        lambda lg: (span.span for table in lg.feeds.tables(feed) for span in table.spans),
    )


def _asked(
    ctx: typer.Context, incomplete: str, names: "Callable[[Client], Iterable[str]]"
) -> list[str]:
    try:
        from lockgate.client import connect

        url, home = ctx.params.get("url"), ctx.params.get("home")
        with connect(url, home=home, timeout_s=TIMEOUT_S, tries=1) as client:
            return [name for name in names(client) if name.startswith(incomplete)]
    except Exception:
        return []
