"""Everything a node keeps in the metastore, in one hand."""

from typing import NamedTuple, Self

from lockgate.store.access import Tokens
from lockgate.store.changelog import Changelog
from lockgate.store.diffs import DiffBook
from lockgate.store.endpoints import EndpointBook
from lockgate.store.feeds import FeedBook
from lockgate.store.history import History
from lockgate.store.lakes import LakeBook
from lockgate.store.members import Members
from lockgate.store.metastore import SqlMetastore
from lockgate.store.moves import MoveBook
from lockgate.store.reports import Reports
from lockgate.store.settings import Settings

__all__ = ["Stores"]


class Stores(NamedTuple):
    """The metastore, by what is kept in it."""

    metastore: SqlMetastore
    feeds: FeedBook
    endpoints: EndpointBook
    settings: Settings
    members: Members
    reports: Reports
    history: History
    tokens: Tokens
    lakes: LakeBook
    moves: MoveBook
    diffs: DiffBook
    changelog: Changelog

    @classmethod
    def of(cls, metastore: SqlMetastore) -> Self:
        """All of one metastore."""
        transactions, clock = metastore.transactions, metastore.clock
        return cls(
            metastore,
            FeedBook(transactions),
            EndpointBook(transactions),
            Settings(transactions),
            Members(transactions, clock),
            Reports(transactions, clock),
            History(transactions, clock),
            Tokens(transactions),
            LakeBook(transactions),
            MoveBook(transactions, clock),
            DiffBook(transactions, clock),
            Changelog(metastore.data),
        )
