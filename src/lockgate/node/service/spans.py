"""What people ask of spans: where they run, and how a table is cut.

Every change is an operator of the feed's owner: recorded there before anybody is told that it went
well, finished or cleaned up by a successor. What cannot begin soon is told to have not begun, and
is not wished for any more.
"""

import itertools
import re
from collections.abc import Callable, Sequence
from typing import Final

from lockgate.endpoints.delta.url import LakeUrl
from lockgate.endpoints.postgres.connect import connect
from lockgate.model.errors import Conflict, NotFound, UsageError
from lockgate.model.events import MergeSpans, MoveSpan, SplitSpan
from lockgate.model.feed_status import FeedStatus
from lockgate.model.ids import FeedId, SpanId, TableId
from lockgate.model.records import SpanRecord
from lockgate.model.spans import KeyRange
from lockgate.node.feed.setup import still_chosen
from lockgate.node.link.wire import Verb
from lockgate.node.service.cluster import Cluster
from lockgate.node.service.contexts import Contexts, config_of
from lockgate.node.service.going import check_runs, live
from lockgate.node.service.noting import noted
from lockgate.node.service.statuses import Statuses
from lockgate.node.service.stores import Stores

__all__ = ["SpanDesk"]

PARTS_MAX: Final = 256
_POINT: Final = re.compile(r"[0-9a-fA-F]{1,16}")


class SpanDesk:
    """The verbs of spans, on any node."""

    def __init__(
        self, stores: Stores, contexts: Contexts, cluster: Cluster, statuses: Statuses
    ) -> None:
        self._stores = stores
        self._contexts = contexts
        self._cluster = cluster
        self._statuses = statuses

    def move(self, feed: FeedId, span: SpanId, node: str, who: str) -> FeedStatus:
        """Run a span elsewhere."""
        self._span(feed, span)
        if not any(row.node == node and row.alive for row in self._stores.members.all()):
            raise NotFound(
                "no node of this name is alive",
                object_=node,
                hint="`lockgate node list` shows which are",
            )
        return self._change(
            feed, "span move", f"{span} to {node}", who, lambda r: MoveSpan(r, feed, span, node)
        )

    def split(
        self, feed: FeedId, span: SpanId, points: Sequence[str], parts: int | None, who: str
    ) -> FeedStatus:
        """Cut a span at key hashes, or into equal parts."""
        record = self._span(feed, span)
        cuts = _cuts(record.span.range, points, parts)
        self._check_key(feed, record.span.table)
        detail = f"{span} at {', '.join(cut.hex() for cut in cuts)}"
        return self._change(
            feed, "span split", detail, who, lambda r: SplitSpan(r, feed, span, cuts)
        )

    def merge(self, feed: FeedId, spans: Sequence[str], who: str) -> FeedStatus:
        """Join neighbouring spans of one table."""
        found = sorted(
            (self._span(feed, span) for span in dict.fromkeys(spans)),
            key=lambda record: record.span.range.low,
        )
        if len(found) < 2:
            raise UsageError("a merge takes two spans or more", object_=feed, hint="name them")
        for one, other in itertools.pairwise(found):
            if one.span.table != other.span.table or not one.span.range.touches(other.span.range):
                raise Conflict(
                    "only neighbouring spans of one table can be merged",
                    object_=f"{one.id}, {other.id}",
                    hint=f"`lockgate feed tables {feed}` shows which lie side by side",
                )
        ids = tuple(record.id for record in found)
        return self._change(
            feed, "span merge", ", ".join(ids), who, lambda r: MergeSpans(r, feed, ids)
        )

    def _check_key(self, feed: FeedId, table: TableId) -> None:
        """A row without a key belongs to no part of a table: every part would take it."""
        config = config_of(self._statuses.entry(feed))
        source, target = self._contexts.ends(config)
        if isinstance(target, LakeUrl):
            raise Conflict(
                "a table that goes into a lake is one span",
                object_=table,
                hint="nothing: its changes land as files, which no split would make faster",
            )
        with connect(source, purpose=f"split {feed}", autocommit=True) as connection:
            found = still_chosen(connection, config, {table})
        if any(not each.shape.key for each in found):
            raise Conflict(
                "a table without a key cannot be split",
                object_=table,
                hint="give the table a primary key, or leave it in one span",
            )

    def _span(self, feed: FeedId, span: SpanId) -> SpanRecord:
        live(self._statuses, feed)
        for record in self._statuses.spans(feed):
            if record.id == span:
                return record
        raise NotFound(
            "the feed has no span of this name",
            object_=span,
            hint=f"`lockgate feed tables {feed}` shows its spans",
        )

    def _change(
        self, feed: FeedId, verb: str, detail: str, who: str, make: Callable[[str], Verb]
    ) -> FeedStatus:
        """Have the owner record it; from then on it goes on by itself."""
        check_runs(self._statuses, self._cluster, feed)
        with noted(self._stores.history, who, verb, feed, detail):
            self._cluster.ask_owner(make, feed)
        return self._statuses.one(feed)


def _cuts(range_: KeyRange, points: Sequence[str], parts: int | None) -> tuple[bytes, ...]:
    """Where the range is cut. Keys are hashes of eight bytes (`endpoints.keys`)."""
    if bool(points) == (parts is not None):
        raise UsageError(
            "a split needs either points or a number of parts",
            object_="split",
            hint="use --parts N, or --at with key hashes in hex",
        )
    try:
        if parts is None:
            cuts = tuple(sorted(_hash(point) for point in points))
        else:
            cuts = _equal_cuts(range_, parts)
        range_.divided(cuts)
    except ValueError as error:
        raise UsageError("the span cannot be cut there", object_="split", hint=str(error)) from None
    return cuts


def _hash(point: str) -> bytes:
    """A point as people write it: the first digits are enough, and zeros follow."""
    if not _POINT.fullmatch(point):
        raise ValueError("a key hash has up to 16 hex digits")
    return bytes.fromhex(point.ljust(16, "0"))


def _equal_cuts(range_: KeyRange, parts: int) -> tuple[bytes, ...]:
    if not 2 <= parts <= PARTS_MAX:
        raise ValueError(f"take 2 to {PARTS_MAX} parts")
    low = int.from_bytes(range_.low.ljust(8, b"\0"))
    high = 2**64 if range_.high is None else int.from_bytes(range_.high)
    if high - low < parts:
        raise ValueError("the span is too small for so many parts")
    return tuple((low + (high - low) * n // parts).to_bytes(8) for n in range(1, parts))
