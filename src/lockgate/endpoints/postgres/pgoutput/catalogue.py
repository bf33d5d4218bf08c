"""The tables of the stream: who they are, from which message on, and how their rows are read.

A Relation message in the middle of a buffer changes how the rows behind it are read, and not
how those before it are. So each table has a list of *editions*, each with the message from
which on it holds; between buffers only the newest is left.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

import numpy as np

from lockgate.endpoints.postgres.pgoutput.batches import Reader
from lockgate.endpoints.postgres.pgoutput.loads import Bytes, Indexes, Loads
from lockgate.endpoints.postgres.pgoutput.malformed import Malformed
from lockgate.endpoints.postgres.pgoutput.relations import Relation, TablePlan, read_relation
from lockgate.model.tables import TableName

__all__ = ["Catalogue", "Edition", "Plan"]

Plan = Callable[[Relation], TablePlan | None]

_RELATION, _TRUNCATE = b"RT"
_ROW: Final = np.zeros(256, np.bool_)
_ROW[list(b"IUD")] = True
_BEFORE: Final = -1
"""Instead of a message's number: since an earlier buffer."""


class Edition(NamedTuple):
    """A table as one Relation message described it."""

    since: int
    relation: Relation
    reader: Reader | None
    """None when the feed does not want the table."""
    is_ddl: bool
    """True for the table in which the source logs its DDL."""

    @property
    def plan(self) -> TablePlan | None:
        return self.reader.plan if self.reader else None


class Catalogue:
    """All tables that the stream has described."""

    def __init__(self, ddl_table: TableName, plan: Plan) -> None:
        self._ddl_table = ddl_table
        self._plan = plan
        self._editions: dict[int, list[Edition]] = {}

    def learn(
        self, loads: Loads, kinds: Bytes, starts: Indexes, ends: Indexes
    ) -> list[tuple[int, Relation | None, Relation]]:
        """Take in a buffer's Relation messages; return those that tell something new.

        Each with its number and with what was known of the table before. The table of DDL is not
        among them.
        """
        found = []
        for message in np.flatnonzero(kinds == _RELATION).tolist():
            relation = read_relation(loads.bytes_(int(starts[message]), int(ends[message])))
            editions = self._editions.setdefault(relation.oid, [])
            last = editions[-1] if editions else None
            now = self._edition(message, relation, last)
            if now is not last:
                editions.append(now)
            previous = last.relation if last else None
            if relation != previous and not now.is_ddl:
                found.append((message, previous, relation))
        return found

    def _edition(self, message: int, relation: Relation, last: Edition | None) -> Edition:
        """The edition that the message makes: the last one if nothing is different."""
        is_ddl = relation.table == self._ddl_table
        plan = None if is_ddl else self._plan(relation)
        if last is not None and last.relation == relation and last.plan == plan:
            return last
        return Edition(message, relation, Reader(relation, plan) if plan else None, is_ddl)

    def settle(self) -> None:
        """The end of a buffer: of each table, the newest edition holds from now on."""
        for editions in self._editions.values():
            editions[:] = [editions[-1]._replace(since=_BEFORE)]

    def at(self, oid: int, message: int) -> Edition:
        """The table as it is for this message."""
        editions = self._described(oid)
        number = bisect_right(editions, message, key=_since)
        if not number:
            raise Malformed(f"the table with number {oid} is described too late")
        return editions[number - 1]

    def rows(
        self, loads: Loads, kinds: Bytes, starts: Indexes
    ) -> Iterator[tuple[Edition, Indexes]]:
        """The row messages (insert, update, delete) by their numbers, for each edition."""
        rows = np.flatnonzero(_ROW[kinds])
        for oid, messages in _grouped(loads.u32(starts[rows] + 1), rows):
            self.at(oid, int(messages[0]))
            editions = self._described(oid)
            cuts = np.searchsorted(messages, [edition.since for edition in editions[1:]])
            for edition, part in zip(editions, np.split(messages, cuts), strict=True):
                if len(part):
                    yield edition, part

    def truncations(
        self, loads: Loads, kinds: Bytes, starts: Indexes, ends: Indexes
    ) -> list[tuple[int, list[Reader]]]:
        """The TRUNCATE messages by number, each with its tables that the feed wants."""
        found = []
        for message in np.flatnonzero(kinds == _TRUNCATE).tolist():
            head = starts[message : message + 1]
            oids = loads.u32(np.arange(int(head[0]) + 6, int(ends[message]), 4))
            if len(oids) != int(loads.u32(head + 1)[0]):
                raise Malformed("a TRUNCATE does not name as many tables as it says")
            readers = [self.at(oid, message).reader for oid in oids.tolist()]
            if wanted := [reader for reader in readers if reader is not None]:
                found.append((message, wanted))
        return found

    def _described(self, oid: int) -> list[Edition]:
        try:
            return self._editions[oid]
        except KeyError:
            raise Malformed(f"the table with number {oid} was never described") from None


def _since(edition: Edition) -> int:
    return edition.since


def _grouped(oids: Indexes, messages: Indexes) -> Iterable[tuple[int, Indexes]]:
    """The messages of each table, in their order."""
    if not len(oids):
        return []
    if (oids == oids[0]).all():
        return [(int(oids[0]), messages)]
    tables, which = np.unique(oids, return_inverse=True)
    # Sixteen bits are sorted by counting, in linear time.
    order = np.argsort(which.astype(np.uint16 if len(tables) < 2**16 else np.int64), kind="stable")
    cuts = np.cumsum(np.bincount(which))[:-1]
    return zip(tables.tolist(), np.split(messages[order], cuts), strict=True)
