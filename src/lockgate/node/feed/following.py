"""Follows a feed's tables by the stream's own descriptions, where the source logs no DDL.

A feed begins with the shapes of its tables in the book; what has changed since is kept with the
change log, in the very append that brought the change. So the two together are what the log last
saw of each table, whoever died when, and a description is compared with that.

Tables are known by their lasting numbers. One that the feed did not begin with is not taken: its
earlier rows are nowhere.
"""

from collections.abc import Mapping

import msgspec

from lockgate.endpoints.postgres.capture import Follower
from lockgate.endpoints.postgres.connect import connect
from lockgate.endpoints.postgres.ddl.changes import Chooser
from lockgate.endpoints.postgres.ddl.described import alike, from_shapes, look, numbered
from lockgate.endpoints.postgres.pgoutput.following import Followed
from lockgate.endpoints.postgres.pgoutput.relations import Relation, TablePlan
from lockgate.endpoints.postgres.url import PostgresUrl
from lockgate.model.tables import TableShape

__all__ = ["UNLOGGED", "TableFollower", "following"]

UNLOGGED = (
    "the source logs no schema changes (its role may not have event triggers): changes of columns "
    "are seen with the next row of the table, new and dropped tables are not seen"
)


class TableFollower:
    """What the change log last saw of each table, and what a new description comes to."""

    def __init__(
        self, source: PostgresUrl, choose: Chooser, known: Mapping[int, TableShape]
    ) -> None:
        self._source = source
        self._choose = choose
        self._known = dict(known)

    def __call__(self, relation: Relation, plan: TablePlan | None) -> Followed | None:
        """What the description means for the feed; None when nothing."""
        known = self._known.get(relation.oid)
        if known is None:
            return None
        now = msgspec.structs.replace(known, table=relation.table) if plan is None else plan.shape
        if alike(known, now):
            return None
        with connect(self._source, purpose="describe", autocommit=True) as connection:
            seen = look(connection, relation.table)
        now = numbered(known, now, seen, self._choose)
        step = from_shapes(known, now, self._choose, seen)
        self._known[relation.oid] = now
        return None if step is None else Followed(step, now)


def following(source: PostgresUrl, choose: Chooser, at_start: Mapping[int, TableShape]) -> Follower:
    """Begins to follow from where a log ends; `at_start` are the shapes where it began."""

    def begin(since: Mapping[int, TableShape]) -> TableFollower:
        return TableFollower(source, choose, {**at_start, **since})

    return begin
