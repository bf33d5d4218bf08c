"""What an order means now: two addresses, the tables, and how snapshots of both sides are taken.

    with a feed      its ends, the tables that it has now; both sides at one position (`aligned`),
                     whoever writes meanwhile
    without one      two endpoints by name; each side as it is, one right after the other, so that
                     whoever writes meanwhile makes differences

Either side may be a lake; with a feed that is the target. A lake is asked for the position
(`endpoints/delta/diff_level`), so its feed is not held. Rows of lakes are not repaired.

Looked up whenever a diff is begun or taken up: passwords, places and tables may change.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Final, NamedTuple

from lockgate.endpoints.delta.diff_level import lake_apart, lake_level
from lockgate.endpoints.delta.url import LakeUrl
from lockgate.endpoints.postgres.aligned import aligned
from lockgate.endpoints.postgres.connect import connect
from lockgate.endpoints.postgres.diff.snapshots import Snapshots, apart
from lockgate.endpoints.postgres.source.slot import lsn_text
from lockgate.endpoints.postgres.url import PostgresUrl
from lockgate.model.diffs import DiffOrder
from lockgate.model.errors import Conflict, UsageError
from lockgate.model.feed_config import FeedConfig
from lockgate.model.ids import FeedId, TableId
from lockgate.model.patterns import selected, unmatched
from lockgate.model.secret import Secret
from lockgate.model.selection import TableSelection
from lockgate.model.tables import TableName
from lockgate.node.diff.lake_tables import chosen_in_lake
from lockgate.node.feed.ends import Url
from lockgate.node.feed.setup import choose, still_chosen
from lockgate.node.service.cluster import Cluster
from lockgate.node.service.contexts import Contexts, config_of
from lockgate.node.service.going import check_runs, live
from lockgate.node.service.statuses import Statuses
from lockgate.pipeline.lake_diff import not_repaired
from lockgate.store.feeds import FeedEntry

__all__ = ["DiffSides", "Sides"]

LOOK_S: Final = 1.0
"""How often a feed that is waited for is looked at."""
PATIENCE: Final = {"lock_timeout": "5s"}
"""Somebody listens while tables are chosen, and the catalog waits for who has a table locked."""

Check = Callable[[], None]
"""Called now and then while something is waited for; raises to end it."""


class Sides(NamedTuple):
    """What is compared."""

    source: Url
    target: Url
    tables: list[TableSelection]
    snapshots: Callable[[Check], AbstractContextManager[Snapshots]]

    @property
    def lake(self) -> bool:
        """A lake takes part."""
        return isinstance(self.source, LakeUrl) or isinstance(self.target, LakeUrl)


class DiffSides:
    """Finds the sides of orders."""

    def __init__(self, contexts: Contexts, statuses: Statuses, cluster: Cluster) -> None:
        self._contexts = contexts
        self._statuses = statuses
        self._cluster = cluster

    def of(self, order: DiffOrder) -> Sides:
        """The sides as they are now. Raises what keeps them from being compared."""
        return self._of_feed(order) if order.feed else self._apart(order)

    def feed(self, feed: FeedId) -> FeedEntry:
        """The feed between two sides. Raises NotFound, or Conflict when it is on its way out."""
        return live(self._statuses, feed)

    # --- inside -----------------------------------------------------------------------------------

    def _check_fit(self, entry: FeedEntry) -> None:
        """A feed that can be brought to one position. Conflict says why it cannot, or not yet."""
        feed = entry.feed
        set_up = entry.start is not None and feed in self._cluster.records()
        if not set_up and not entry.error:
            raise Conflict(
                "the feed is still being set up",
                object_=feed,
                hint=f"`lockgate feed status {feed}` says how far it is",
            )
        check_runs(self._statuses, self._cluster, feed)
        with self._contexts.gate(feed) as gate:
            if not gate.copies_over():
                raise Conflict(
                    "rows of the feed are still being copied",
                    object_=feed,
                    hint=f"when `lockgate feed wait {feed}` returns, they are there",
                )

    def _apart(self, order: DiffOrder) -> Sides:
        # Patterns are checked with the rest of a configuration.
        config = FeedConfig(
            name="diff",
            source=Secret(order.source),
            target=Secret(order.target),
            tables=order.tables,
        )
        source, target = map(self._contexts.address, (config.source, config.target))
        _check_repair(order, source, target)
        if isinstance(source, LakeUrl):
            tables = chosen_in_lake(source, order.tables)
        else:
            with connect(
                source, purpose="diff tables", autocommit=True, options=PATIENCE
            ) as connection:
                tables = [each.selection for each in choose(connection, config)]
        if order.repair:
            self._check_moved(target, {each.table.id for each in tables})
        return Sides(source, target, tables, lambda _: _as_they_are(source, target))

    def _check_moved(self, target: Url, tables: set[TableId]) -> None:
        """Which side of a move is right, its feed knows: without it, rows from before a switch
        would be written over those from after."""
        for entry in self._contexts.moves_at(target, tables):
            raise Conflict(
                f"the move {entry.move} has the table: it is repaired with the move's feed",
                object_=min(tables.intersection(entry.tables)),
                hint=f"lockgate move diff {entry.move} --repair",
            )

    def _of_feed(self, order: DiffOrder) -> Sides:
        feed = order.feed
        entry = self.feed(feed)
        config = config_of(entry)
        source, target = self._contexts.ends(config)
        _check_repair(order, source, target)
        self._check_fit(entry)
        replicated = {each.span.table for each in self._statuses.spans(feed)}
        with connect(source, purpose=f"diff {feed}", autocommit=True) as connection:
            chosen = [each.selection for each in still_chosen(connection, config, replicated)]
        tables = _wanted(order, chosen)

        def level(check: Check) -> AbstractContextManager[Snapshots]:
            going_on = self._going_on(feed, check)
            if isinstance(target, LakeUrl):
                return lake_level(source, target, feed, tables, check=going_on)
            return _level(source, target, feed, going_on)

        return Sides(source, target, tables, level)

    def _going_on(self, feed: FeedId, check: Check) -> Check:
        """The check, and a look now and then whether the feed still goes on."""
        looked = time.monotonic()

        def going_on() -> None:
            nonlocal looked
            check()
            if time.monotonic() - looked >= LOOK_S:
                live(self._statuses, feed)
                check_runs(self._statuses, self._cluster, feed)
                looked = time.monotonic()

        return going_on


@contextmanager
def _level(
    source: PostgresUrl, target: PostgresUrl, feed: FeedId, check: Check
) -> Iterator[Snapshots]:
    with aligned(source, target, feed, check=check) as found:
        yield Snapshots(lsn_text(found.position), found.source_snapshot, found.target_snapshot)


def _as_they_are(source: Url, target: Url) -> AbstractContextManager[Snapshots]:
    if isinstance(source, PostgresUrl) and isinstance(target, PostgresUrl):
        return apart(source, target)
    return lake_apart(source, target)


def _check_repair(order: DiffOrder, source: Url, target: Url) -> None:
    if order.repair and (isinstance(source, LakeUrl) or isinstance(target, LakeUrl)):
        raise not_repaired(target.label, order.feed)


def _wanted(order: DiffOrder, chosen: list[TableSelection]) -> list[TableSelection]:
    """Of the feed's tables those that are asked for."""
    names: list[TableName] = [each.table for each in chosen]
    if not names:
        raise Conflict(
            "the feed has no table that is there",
            object_=order.feed,
            hint=f"see `lockgate feed tables {order.feed}`",
        )
    if not order.tables:
        return chosen
    if idle := [text for text in unmatched(order.tables, names) if not text.startswith("!")]:
        raise UsageError(
            f"no table of the feed matches {', '.join(idle)}",
            object_="tables",
            hint=f"`lockgate feed tables {order.feed}` shows those that it has",
        )
    taken = set(selected(order.tables, names))
    if not taken:
        raise UsageError(
            "no table is left of the selection", object_="tables", hint="see the patterns with !"
        )
    return [each for each in chosen if each.table in taken]
