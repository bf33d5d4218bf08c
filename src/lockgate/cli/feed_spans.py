"""`lockgate feed spans`, `span-move`, `span-split`, `span-merge`, and a feed's history.

A span is a key range of one table, and runs on one node. Moving, splitting and merging are recorded
before they take effect and finish by themselves, whoever dies meanwhile; `--wait` looks on. That
nothing is under way any more does not say that it came about (a merge is given up when a node
dies), so `--wait` looks at the spans themselves.
"""

import enum
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Final

import typer

from lockgate.cli import asking, completion, output, progress
from lockgate.model.errors import Transient, UsageError

if TYPE_CHECKING:
    from lockgate.client import Client
    from lockgate.model.feed_status import FeedSpan, FeedStatus

    Achieved = Callable[[dict[str, FeedSpan]], bool]
    """Whether the spans, by their names, are as they were to be."""

__all__ = ["add_to"]

LOOK_S: Final = 0.5
GRACE_S: Final = 5.0
"""Nodes tell once a second what they run, and a new owner takes up what a dead one had begun."""


class Seen(enum.Enum):
    """What waiting has seen."""

    DONE = "done"
    UNDER_WAY = "under way"
    GIVEN_UP = "given up"
    """No operator, and it is not so."""


SpanName = Annotated[
    str,
    typer.Argument(
        metavar="SPAN",
        help="The span's name, as `lockgate feed spans` shows it.",
        autocompletion=completion.spans,
    ),
]
WaitFlag = Annotated[bool, typer.Option("--wait", help="Wait until it is done.")]
TimeoutOption = Annotated[
    float, typer.Option("--timeout", min=0, metavar="S", help="With --wait: give up after this.")
]


def spans(asked: asking.Asked, name: asking.FeedName) -> None:
    """The spans of a feed, and where they run.

    A span is a key range of one table. It can be moved, split and merged.
    """
    from lockgate.cli import feed_show

    found = list(asked.lg.feeds.tables(name))
    if asked.as_json:
        output.result({"items": [span for table in found for span in table.spans]})
    else:
        feed_show.spans(found)


def span_move(
    asked: asking.Asked,
    name: asking.FeedName,
    span: SpanName,
    *,
    node: Annotated[
        str,
        typer.Option(
            "--node",
            metavar="N",
            help="The node that is to run it.",
            autocompletion=completion.nodes,
        ),
    ],
    wait: WaitFlag = False,
    timeout: TimeoutOption = 60.0,
) -> int:
    """Run a span on another node."""
    return _carried_out(
        *(asked, name, wait, timeout),
        lambda: asked.lg.feeds.span_move(name, span, node),
        lambda found: span in found and found[span].node == node,
    )


def span_split(
    asked: asking.Asked,
    name: asking.FeedName,
    span: SpanName,
    more: Annotated[list[str] | None, typer.Argument(metavar="KEY", hidden=True)] = None,
    *,
    at: Annotated[
        list[str] | None,
        typer.Option(
            "--at",
            metavar="KEY…",
            help="Where to cut: first hex digits of key hashes. Several may follow.",
        ),
    ] = None,
    parts: Annotated[
        int | None,
        typer.Option("--parts", min=2, metavar="N", help="Cut it into this many equal parts."),
    ] = None,
    wait: WaitFlag = False,
    timeout: TimeoutOption = 60.0,
) -> int:
    """Cut a span into several.

    So that several nodes or tasks share its table. Without --at and --parts: into two.
    """
    points = [*(at or ()), *(more or ())]
    if (more and not at) or (points and parts):
        raise UsageError(
            f"{more[0]!r} was not expected" if more and not at else "--at and --parts together",
            object_="lockgate feed span-split",
            hint="say where with --at KEY…, or how many with --parts N",
        )
    count = parts if points or parts else 2
    return _carried_out(
        *(asked, name, wait, timeout),
        lambda: asked.lg.feeds.span_split(name, span, at=points, parts=count),
        lambda found: span not in found,
    )


def span_merge(
    asked: asking.Asked,
    name: asking.FeedName,
    spans: Annotated[
        list[str],
        typer.Argument(
            metavar="SPAN SPAN…",
            help="Neighbours of one table, in their order.",
            autocompletion=completion.spans,
        ),
    ],
    *,
    wait: WaitFlag = False,
    timeout: TimeoutOption = 60.0,
) -> int:
    """Join neighbouring spans of a table into one."""
    if len(spans) < 2:
        raise UsageError(
            "one span is no neighbour of itself",
            object_="lockgate feed span-merge",
            hint="name two or more; `lockgate feed spans` shows them",
        )
    return _carried_out(
        *(asked, name, wait, timeout),
        lambda: asked.lg.feeds.span_merge(name, spans),
        lambda found: not any(span in found for span in spans),
    )


def history(
    asked: asking.Asked,
    name: asking.FeedName,
    *,
    limit: Annotated[
        int, typer.Option("--limit", min=1, metavar="N", help="At most so many.")
    ] = 50,
) -> None:
    """Who did what to a feed, the newest first."""
    from lockgate.cli.history import show

    show(asked, name, limit)


def add_to(app: typer.Typer) -> None:
    """Make these commands of the group `feed`."""
    asking.command(app)(spans)
    asking.command(app, "span-move")(span_move)
    asking.command(app, "span-split")(span_split)
    asking.command(app, "span-merge")(span_merge)
    asking.command(app)(history)


# --- inside ---------------------------------------------------------------------------------------


def _carried_out(
    asked: asking.Asked,
    name: str,
    wait: bool,
    timeout_s: float,
    verb: "Callable[[], FeedStatus]",
    achieved: "Achieved",
) -> int:
    from lockgate.cli import feed_show

    seen = Seen.DONE
    status = verb()
    if wait:
        seen = _settled(asked.lg, name, achieved, timeout_s)
        status = asked.lg.feeds.status(name)
    asked.show(status, feed_show.status)
    if seen is Seen.UNDER_WAY:
        output.error(
            f"it is still under way after {timeout_s:g} s ({name})",
            f"it goes on by itself; `lockgate feed spans {name}` shows how far it is",
        )
    elif seen is Seen.GIVEN_UP:
        output.error(
            f"it was begun, nothing of it is under way any more, and it is not so ({name})",
            f"a node may have died meanwhile: see `lockgate feed spans {name}`, and ask again",
        )
    return 0 if seen is Seen.DONE else 1


def _settled(lg: "Client", name: str, achieved: "Achieved", timeout_s: float) -> Seen:
    """Wait until no operator of the feed is under way, and say whether it came about."""
    began = idle_since = time.monotonic()
    most = 0
    seen = Seen.UNDER_WAY
    with progress.counted("operators done") as advance:
        while True:
            try:
                spans = {span.span: span for table in lg.feeds.tables(name) for span in table.spans}
            except Transient as error:
                output.note(f"{error}; trying again")
                idle_since = time.monotonic()
            else:
                under_way = sum(bool(span.operator) for span in spans.values())
                if under_way:
                    seen, idle_since = Seen.UNDER_WAY, time.monotonic()
                elif achieved(spans):
                    return Seen.DONE
                else:
                    seen = Seen.GIVEN_UP
                most = max(most, under_way)
                advance(most - under_way, most)
            now = time.monotonic()
            if now - began >= timeout_s or now - idle_since >= GRACE_S:
                return seen
            time.sleep(LOOK_S)
