"""What nodes say of the feeds on them, so that any node can tell how any feed does.

A report is a remark, not a record: nothing is decided by it, and it may be some seconds old. So it
has no fence but this: a life that was followed by a newer one of the same node no longer speaks.
The body belongs to those who write and read it.

    node a/3 ── write({shop: …, lake: …}) ──→ reports ──→ of(shop) ── node b, asked for shop
    node a/2 ── write({shop: …}) ──→ False: a/3 has joined

The last report of a life stays until the node's next life speaks of that feed, or the feed is
forgotten: what was last heard is better than nothing. `Report.incarnation` and `at_ms` say how much
it is worth.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import sqlalchemy as sa

from lockgate.model.ids import FeedId, Incarnation, Millis, NodeId, NodeRef
from lockgate.model.value import Value
from lockgate.store.tables import nodes, reports, upsert
from lockgate.store.texts import fits
from lockgate.store.transactions import Alive, Clock, Transactions

__all__ = ["Report", "Reports"]


class Report(Value, frozen=True):
    """What one life of a node last said of one feed, and when, by the store's clock."""

    node: NodeId
    incarnation: Incarnation
    feed: FeedId
    at_ms: Millis
    body: bytes


class Reports:
    """All reports of one metastore."""

    def __init__(self, transactions: Transactions, clock: Clock) -> None:
        self._transactions = transactions
        self._clock = clock

    def write(
        self, ref: NodeRef, bodies: Mapping[FeedId, bytes], gone: Iterable[FeedId] = ()
    ) -> bool:
        """Replace what the node said of these feeds, and take back what it said of those `gone`.

        All of it at once. False, and nothing changed, when a newer life of the node has joined.
        """
        left = sorted(set(gone) - set(bodies))

        def work(connection: sa.Connection, _: Alive) -> tuple[bool, bool]:
            # Locked: a newer life that joins now has to wait, and then finds us done.
            newest: int | None = connection.execute(
                sa.select(nodes.c.incarnation).where(nodes.c.node == ref.node).with_for_update()
            ).scalar_one_or_none()
            if newest is not None and newest > ref.incarnation:
                return False, False
            if left:
                connection.execute(
                    sa.delete(reports).where(
                        reports.c.node == ref.node, reports.c.feed == sa.bindparam("of_feed")
                    ),
                    [{"of_feed": feed} for feed in left],
                )
            if bodies:
                now = self._clock(connection)
                connection.execute(
                    upsert(connection, reports),
                    [
                        {
                            "node": ref.node,
                            "feed": feed,
                            "incarnation": ref.incarnation,
                            "at": now,
                            "body": body,
                        }
                        for feed, body in sorted(bodies.items())
                    ],
                )
            return True, True

        with self._transactions.told("write what this node says of its feeds"):
            return self._transactions.write(work)

    def of(self, feed: FeedId) -> list[Report]:
        """What is said of one feed, by node."""
        if not fits(feed):
            return []
        return self._read(sa.select(reports).where(reports.c.feed == feed))

    def all(self) -> list[Report]:
        """What is said of all feeds, by feed and node."""
        return self._read(sa.select(reports))

    def forget(self, feed: FeedId) -> None:
        """The feed is no more; nobody has anything to say of it."""

        def work(connection: sa.Connection, _: Alive) -> tuple[None, bool]:
            connection.execute(sa.delete(reports).where(reports.c.feed == feed))
            return None, True

        with self._transactions.told("forget what nodes said of a feed"):
            self._transactions.write(work)

    def _read(self, query: sa.Select[Any]) -> list[Report]:
        ordered = query.order_by(reports.c.feed, reports.c.node)

        def work(connection: sa.Connection, _: Alive) -> list[Report]:
            return [
                Report(row.node, row.incarnation, row.feed, row.at, bytes(row.body))
                for row in connection.execute(ordered)
            ]

        with self._transactions.told("read what nodes say of feeds"):
            return self._transactions.read(work)
