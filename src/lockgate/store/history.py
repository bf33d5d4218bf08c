"""The history: who did what, when. For people who ask afterwards.

Entries are numbered as they are written, and read from the newest back, a page at a time: the next
page is what came before the last entry of this one. No number is given twice, so a page stays what
it is while others write, and while the oldest entries are trimmed away.
"""

from datetime import UTC, datetime, timedelta
from typing import Final

import sqlalchemy as sa

from lockgate.model.documents import HistoryEntry
from lockgate.model.ids import Millis
from lockgate.store.tables import history
from lockgate.store.texts import fits, mended
from lockgate.store.transactions import Alive, Clock, Transactions

__all__ = ["History"]

_ID_MAX: Final = 2**63 - 1
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class History:
    """All that was done through one metastore."""

    def __init__(self, transactions: Transactions, clock: Clock) -> None:
        self._transactions = transactions
        self._clock = clock

    def write(self, who: str, verb: str, object_: str, detail: str = "", outcome: str = "") -> None:
        """Add an entry, of now."""
        said = {
            "who": mended(who),
            "verb": mended(verb),
            "object": mended(object_),
            "detail": mended(detail),
            "outcome": mended(outcome),
        }

        def work(connection: sa.Connection, _: Alive) -> tuple[None, bool]:
            connection.execute(sa.insert(history), {"at": self._clock(connection), **said})
            return None, True

        with self._transactions.told("write the history"):
            self._transactions.write(work)

    def read(self, object_: str, before: int | None, limit: int) -> list[HistoryEntry]:
        """Up to `limit` entries, the newest first: of one object, or (empty) of all; those with a
        lower number than `before`, or the newest there are."""
        if not fits(object_):
            return []
        query = sa.select(history).order_by(history.c.id.desc()).limit(limit)
        if object_:
            query = query.where(history.c.object == object_)
        if before is not None:
            # People may ask for any number; a column cannot hold any.
            query = query.where(history.c.id < max(0, min(before, _ID_MAX)))

        def work(connection: sa.Connection, _: Alive) -> list[HistoryEntry]:
            return [
                HistoryEntry(
                    row.id, _told(row.at), row.who, row.verb, row.object, row.detail, row.outcome
                )
                for row in connection.execute(query)
            ]

        with self._transactions.told("read the history"):
            return self._transactions.read(work)

    def trim(self, keep: int) -> int:
        """Leave the newest `keep` entries. Answers how many went."""
        oldest_gone = (
            sa.select(history.c.id).order_by(history.c.id.desc()).offset(keep).limit(1)
        ).scalar_subquery()

        def work(connection: sa.Connection, _: Alive) -> tuple[int, bool]:
            gone = connection.execute(sa.delete(history).where(history.c.id <= oldest_gone))
            return gone.rowcount, True

        with self._transactions.told("trim the history"):
            return self._transactions.write(work)


def _told(at: Millis) -> str:
    moment = _EPOCH + timedelta(milliseconds=at)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{at % 1000:03d}Z"
