"""Feeds keep out of tables that are moved, and moves out of tables that feeds end in.

Guards let all feeds pass: one would go on writing at a side that is closed, or has the traffic. So
where one of the two is, the other is not let in. It is known from the moment in which it is
entered, long before it is to be seen at its databases; each looks at the other's book, and once
more in the transaction in which it is entered itself, where feeds and moves take turns:

    a feed is planned, created, resumed before it was set up, set up   ──► no move has its tables
    a move is planned, created                                         ──► no feed ends in its own

What only a set-up meets is a move of another installation, by its guards, and one that was entered
by an older version, which did not look.
"""

from collections.abc import Callable, Collection, Iterator

import sqlalchemy as sa

from lockgate.endpoints.postgres.check import error
from lockgate.endpoints.postgres.cutover.checks import closed_findings
from lockgate.endpoints.postgres.url import PostgresUrl
from lockgate.model.errors import Conflict
from lockgate.model.findings import Finding
from lockgate.model.ids import TableId
from lockgate.model.moves import MoveId
from lockgate.model.tables import parse_table
from lockgate.node.feed.ends import Url
from lockgate.node.service.contexts import Contexts, config_of
from lockgate.node.service.stores import Stores
from lockgate.store.feeds import FeedEntry, filled
from lockgate.store.moves import unmoved

__all__ = ["fed", "refuse_if_moved", "refuse_set_up_if_moved"]


def refuse_if_moved(
    stores: Stores, contexts: Contexts, target: Url, tables: Collection[TableId]
) -> Callable[[sa.Connection], None]:
    """Raise Conflict when a move has one of these tables, there. Of moves that are not in our book,
    the guards at the target tell. Answers what is asked once more when the feed is entered."""
    known = stores.moves.all()
    for entry in contexts.moves_at(target, tables):
        raise Conflict(
            f"the move {entry.move} has the table, and no guard of it holds up a feed",
            object_=min(set(tables).intersection(entry.tables)),
            hint="let the feed end in the new place when the move is over: "
            f"lockgate move status {entry.move}",
        )
    if isinstance(target, PostgresUrl) and tables:
        for found in closed_findings(target, [parse_table(each) for each in tables]):
            raise Conflict(found.what, object_=found.object, hint=found.hint)
    return unmoved(tables, known)


def refuse_set_up_if_moved(stores: Stores, contexts: Contexts, entry: FeedEntry) -> None:
    """The same of a feed that is not set up, without a look at its source: it may be away."""
    tables = {table for move in stores.moves.all() for table in filled(entry, move.tables)}
    refuse_if_moved(stores, contexts, contexts.ends(config_of(entry)).target, tables)


def fed(
    contexts: Contexts, place: Url, tables: Collection[TableId], move: MoveId
) -> Iterator[Finding]:
    """Feeds in our book that end in these tables, there. Those of this very move are left out."""
    for entry, ends_in in contexts.feeds_at(place, tables):
        hint = f"lockgate feed remove {entry.feed}, and let it end in the new place when the move "
        hint += "is over"
        if entry.removing:
            hint = f"it is being removed: lockgate feed status {entry.feed}"
        what = f"the feed {entry.feed} ends in it, and would write to it after it has moved"
        for table in ends_in if entry.move != move else ():
            yield error("fed", what, table, hint)
