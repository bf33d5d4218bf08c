"""Brings an operator about, between nodes that all have another part in it.

Ownership stays where it is: it is the spans that are put where the cell needs them.
"""

import contextlib
import threading
from collections.abc import Callable
from typing import Final, NamedTuple

from lockgate.model.errors import LockgateError
from lockgate.model.records import SpanRecord
from soak.matrix.truth import View
from soak.matrix.world import FEEDS, NODES, Unhealthy, World

__all__ = ["Scene", "arrange", "begin"]

SPANS_MAX: Final = 4
"""Of one table: splits make more of them, and matrices have many splits."""


class Scene(NamedTuple):
    """Everything is in its place; `act`, and the operator begins."""

    span: str
    """The operator is known by a span, or by a table."""
    table: str
    act: Callable[[str], None]
    """Takes the victim's name, who is not asked for anything."""


def arrange(world: World, feed: str, operator: str) -> Scene:
    """Put spans where the operator needs them."""
    return _ARRANGE[operator](world, feed)


def _others(view: View) -> tuple[str, str]:
    one, other = (name for name in NODES if name != view.owner)
    return one, other


def _spans(world: World, feed: str) -> list[SpanRecord]:
    return world.view(feed).of_table(FEEDS[feed][0])


def _move(world: World, feed: str) -> Scene:
    origin, destination = _others(world.view(feed))
    span = _spans(world, feed)[0].id
    world.move(feed, span, origin)
    return Scene(
        span,
        "",
        lambda victim: _quietly(
            lambda: world.client(victim).feeds.span_move(feed, span, destination)
        ),
    )


def _split(world: World, feed: str) -> Scene:
    origin, _ = _others(world.view(feed))
    while len(spans := _spans(world, feed)) >= SPANS_MAX:
        world.merge(feed, [one.id for one in spans[:3]])
    span = spans[0].id
    world.move(feed, span, origin)
    return Scene(
        span,
        "",
        lambda victim: _quietly(lambda: world.client(victim).feeds.span_split(feed, span, parts=2)),
    )


def _merge(world: World, feed: str) -> Scene:
    destination, origin = _others(world.view(feed))
    if len(_spans(world, feed)) < 2:
        world.split(feed, _spans(world, feed)[0].id, 3)
    first, second = (one.id for one in _spans(world, feed)[:2])
    world.move(feed, first, destination)
    world.move(feed, second, origin)
    return Scene(
        first,
        "",
        lambda victim: _quietly(
            lambda: world.client(victim).feeds.span_merge(feed, [first, second])
        ),
    )


def _add(world: World, feed: str) -> Scene:
    """A new table: it goes to the node that has least, which should not be the owner."""
    for table in world.extras(feed)[1:]:
        world.drop_table(table)
    world.until(lambda: len(world.extras(feed)) <= 1 and not world.problems(), world.problems)
    _load(world, feed)
    table = world.new_table_name(feed)
    return Scene("", table, lambda _: world.create_table(table))


def _load(world: World, feed: str) -> None:
    """Give the owner more than somebody else has."""
    for _ in range(4):
        view = world.view(feed)
        counts = view.counts()
        fewest = min(counts.values())
        if counts[view.owner] > fewest:
            return
        most = max(counts, key=lambda node: counts[node])
        span = next(
            one.id for one in view.spans.values() if one.node is not None and one.node.node == most
        )
        world.move(feed, span, view.owner)
    raise Unhealthy("the owner could not be given enough")


def _remove(world: World, feed: str) -> Scene:
    """A table that is dropped while a node that is not the owner runs it."""
    if not world.extras(feed):
        world.create_table(world.new_table_name(feed))
        world.until(lambda: world.view(feed).of_table(world.extras(feed)[0]), world.problems)
        world.converge()
    table = world.extras(feed)[0]
    view = world.view(feed)
    span = view.of_table(table)[0]
    if span.node is None or span.node.node == view.owner:
        world.move(feed, span.id, _others(view)[0])
    return Scene(span.id, table, lambda _: world.drop_table(table))


def _quietly(ask: Callable[[], object]) -> None:
    """Whoever asks while nodes die may hear of it; what becomes of it is in the records."""
    with contextlib.suppress(LockgateError, OSError):
        ask()


_ARRANGE: Final[dict[str, Callable[[World, str], Scene]]] = {
    "add": _add,
    "remove": _remove,
    "move": _move,
    "split": _split,
    "merge": _merge,
}


def begin(scene: Scene, victim: str) -> threading.Thread:
    """Act, beside whoever waits for the fail point: some answers come only after it."""
    thread = threading.Thread(target=scene.act, args=(victim,), name="provoke", daemon=True)
    thread.start()
    return thread
