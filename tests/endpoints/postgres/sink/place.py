"""A table at a target with a feed of its own, and histories applied to it as tasks would."""

import itertools
from collections import Counter
from collections.abc import Callable
from typing import Any

import msgspec
import psycopg
from psycopg import sql

from lockgate.endpoints.postgres.sink.apply import Way, apply
from lockgate.endpoints.postgres.sink.fence import PostgresSink
from lockgate.endpoints.postgres.sink.rows import encoded
from lockgate.endpoints.postgres.sink.snapshots import ChunkOf
from lockgate.model.apply import ApplyItem, Receipt
from lockgate.model.floors import Floors
from lockgate.model.ids import Token
from lockgate.model.spans import TRIGGER_SPEC, WHOLE, Birth, KeyRange, SpanSpec
from lockgate.model.tables import TableName, TableShape
from tests.support.histories import History, shape_of

DDL = "CREATE TABLE t (id bigint PRIMARY KEY, name text, big text, u int UNIQUE)"
SHAPE = shape_of("id bigint", "name text", "big text", "u integer")

_NUMBERS = itertools.count(1)
TOKEN = Token(1, 1, 1)


class Place:
    """A schema, in it one table `t` as `ddl` says, and the feed's rows beside it.

    `as_url` is what tasks connect to, when that is not the owner's `url`.
    """

    def __init__(
        self,
        url: str,
        ddl: str,
        shape: TableShape,
        *,
        ranges: tuple[KeyRange, ...] = (WHOLE,),
        as_url: str | None = None,
    ) -> None:
        number = next(_NUMBERS)
        self.url = as_url or url
        self.feed = f"feed{number}"
        self.shape = shape
        self.target = TableName(f"place{number}", "t")
        self.admin = psycopg.connect(url, autocommit=True)
        self.admin.execute(f"CREATE SCHEMA {self.target.schema}")
        self.admin.execute(f"SET search_path = {self.target.schema}, public")
        self.admin.execute(ddl)
        self.sink = PostgresSink(url)
        self.sink.prepare()
        self.spans = {
            f"s{i}": SpanSpec(f"s{i}", shape.table.id, keys) for i, keys in enumerate(ranges)
        }
        born = self.sink.claim(
            self.feed, TRIGGER_SPEC, TOKEN, None, Birth(0, tuple(self.spans.values()))
        )
        assert isinstance(born, tuple), born
        self.floors = {name: self.claim(name) for name in self.spans}

    def again(self) -> None:
        """Back to the beginning: no rows, nothing applied. Quicker than another place."""
        self.admin.execute("TRUNCATE t")
        self.admin.execute(
            "UPDATE lockgate.progress SET floors = %s::jsonb, position = 0 "
            "WHERE feed = %s AND batch_to IS NULL",
            (encoded(((WHOLE, 0),)), self.feed),
        )
        self.floors = {name: self.claim(name) for name in self.spans}
        assert self.floors == dict.fromkeys(self.spans, ((WHOLE, 0),))

    def close(self) -> None:
        self.sink.disconnect()
        self.admin.close()

    def claim(self, span: str = "s0", token: Token = TOKEN) -> Floors:
        found = self.sink.claim(self.feed, self.spans[span], token, None, None)
        assert isinstance(found, tuple), found
        return found

    def item(self, to: int, span: str = "s0", **more: Any) -> ApplyItem:
        item = ApplyItem(
            self.feed,
            self.spans[span],
            TOKEN,
            self.floors[span],
            to,
            self.target,
            self.shape,
            segments=("the history",),
            **more,
        )
        # What a Spark task is given has been bytes on its way.
        return msgspec.msgpack.decode(msgspec.msgpack.encode(item), type=ApplyItem)

    def try_(
        self,
        history: History,
        to: int | None = None,
        span: str = "s0",
        *,
        way: Way | None = None,
        chunk_of: ChunkOf | None = None,
        **more: Any,
    ) -> Receipt:
        """Apply one item; whatever comes of it is the answer."""
        to = history.position - 1 if to is None else to
        return apply(
            self.item(to, span, **more),
            self.url,
            read=lambda *_: history.segment(),
            way=way,
            chunk_of=chunk_of,
        )

    def apply(
        self,
        history: History,
        to: int | None = None,
        span: str = "s0",
        *,
        parts: int = 1,
        **more: Any,
    ) -> Receipt:
        """Apply, in parts if asked to, and demand that it lands. The last receipt is the answer."""
        to = history.position - 1 if to is None else to
        if parts > 1:
            self.sink.record_batch(self.feed, span, TOKEN, self.floors[span], to, parts)
        receipts = [
            self.try_(history, to, span, part=part, parts=parts, **more) for part in range(parts)
        ]
        for receipt in receipts:
            assert receipt.applied, (receipt.refusal, str(receipt.error))
        if parts > 1:
            self.sink.finish_batch(self.feed, span, TOKEN)
        self.floors[span] = self.claim(span)
        assert all(position >= to for _, position in self.floors[span])
        return receipts[-1]

    def rows(self, *names: str) -> dict[Any, tuple[Any, ...]]:
        """The table's rows by their first column."""
        return {row[0]: row for row in self._select(names)}

    def counted(self) -> Counter[tuple[Any, ...]]:
        return Counter(self._select(()))

    def holds(self, history: History, at: int | None = None) -> bool:
        """True when the table has exactly the history's rows."""
        at = history.position - 1 if at is None else at
        names = [column.name for column in self.shape.columns]
        return Counter(self._select(names)) == history.counted_at(at)

    def _select(self, names: Any) -> list[tuple[Any, ...]]:
        columns = sql.SQL(", ").join(map(sql.Identifier, names)) if names else sql.SQL("*")
        return self.admin.execute(sql.SQL("SELECT {} FROM t").format(columns)).fetchall()


Places = Callable[..., Place]
"""Makes places that are closed at the test's end; by default with `DDL` and `SHAPE`."""


def started(place: Place, count: int = 3) -> History:
    """Some rows, applied."""
    history = History(place.shape)
    for n in range(1, count + 1):
        history.insert(id=n, name=f"n{n}", big="B" * n, u=n)
    history.commit()
    place.apply(history)
    return history
