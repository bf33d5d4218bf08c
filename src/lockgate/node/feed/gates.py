"""What is asked of a feed's target by others than its engine: how far it is, and to shut it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from lockgate.endpoints.delta.sink import LakeSink
from lockgate.endpoints.delta.url import LakeUrl
from lockgate.endpoints.postgres.sink.fence import PostgresSink
from lockgate.model.errors import LockgateError
from lockgate.model.feed_config import FeedConfig
from lockgate.model.ids import FeedId, Token
from lockgate.model.positions import Position
from lockgate.node.feed.ends import Url
from lockgate.node.feed.preparing import lake_sink

__all__ = ["Gate", "GiveUp", "opened_gate"]

GiveUp = Callable[[LockgateError], bool]


class Gate(Protocol):
    """One feed's fence at its target."""

    def close(self, token: Token, *, forget: bool, give_up: GiveUp) -> bool:
        """Void every lower token of the feed. False: a newer owner is there already. `give_up` says
        whether a table of which that cannot be done may be left when the feed is forgotten."""

    def least_position(self) -> Position | None:
        """Up to where everything of the feed is applied, whoever applies it; None: not born."""

    def copies_over(self) -> bool:
        """True when every table of the feed has its rows."""


@contextmanager
def opened_gate(target: Url, config: FeedConfig, home: str) -> Iterator[Gate]:
    """The gate of a feed, whatever its target is."""
    if isinstance(target, LakeUrl):
        sink: LakeSink = lake_sink(target, config, home)
        yield sink
        return
    with PostgresSink(target) as database:
        yield _DatabaseGate(database, config.name)


class _DatabaseGate:
    def __init__(self, sink: PostgresSink, feed: FeedId) -> None:
        self._sink = sink
        self._feed = feed

    def close(self, token: Token, *, forget: bool, give_up: GiveUp) -> bool:  # noqa: ARG002
        # Its tables have no fences of their own.
        return self._sink.close(self._feed, token, forget)

    def least_position(self) -> Position | None:
        return self._sink.least_position(self._feed)

    def copies_over(self) -> bool:
        return self._sink.copies_over(self._feed)
