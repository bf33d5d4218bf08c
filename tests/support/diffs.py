"""Two databases to be compared, without Spark: each range by a call of the task's own function."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec
import psycopg

from lockgate.endpoints.postgres.diff.items import DiffItem, DiffPart, DiffReceipt, KeySpace
from lockgate.endpoints.postgres.diff.repair import repair_task
from lockgate.endpoints.postgres.diff.snapshots import Snapshots, apart
from lockgate.endpoints.postgres.diff.survey import Surveyed, survey
from lockgate.endpoints.postgres.diff.task import diff_task
from lockgate.endpoints.postgres.schema.discover import describe
from lockgate.endpoints.postgres.url import PostgresUrl
from lockgate.model.diffs import RangeOutcome
from lockgate.model.selection import TableSelection
from lockgate.model.tables import TableName

SEED = 20_260_301


class Pair:
    """A source and a target."""

    def __init__(self, source: str, target: str) -> None:
        self.source = PostgresUrl.parse(source)
        self.target = PostgresUrl.parse(target)
        self.here = psycopg.connect(source, autocommit=True)
        self.there = psycopg.connect(target, autocommit=True)

    def both(self, *statements: str) -> None:
        """The same on either side."""
        for statement in statements:
            self.here.execute(statement)
            self.there.execute(statement)

    def selection(self, name: str = "t", **more: Any) -> TableSelection:
        """All columns of a table."""
        table = TableName("public", name)
        found = describe(self.here, [table])[table]
        columns = tuple(column.name for column in found.columns)
        return TableSelection(**{"table": table, "target": table, "columns": columns, **more})

    def survey(self, *selections: TableSelection) -> list[Surveyed]:
        return survey(self.source, self.target, selections or [self.selection()])

    def compare(
        self,
        selection: TableSelection | None = None,
        spaces: Sequence[KeySpace] = (KeySpace(0),),
        samples: int = 20,
    ) -> RangeOutcome:
        """What came of the first range of the table `t`."""
        return self.receipts(selection, spaces, samples)[0]

    def receipts(
        self,
        selection: TableSelection | None = None,
        spaces: Sequence[KeySpace] = (KeySpace(0),),
        samples: int = 20,
    ) -> list[RangeOutcome]:
        """What came of all these ranges."""
        with apart(self.source, self.target) as held:
            answer = diff_task(self.item(held, selection, spaces, samples))
        return _outcomes(answer)

    def repair(
        self, selection: TableSelection | None = None, spaces: Sequence[KeySpace] = (KeySpace(0),)
    ) -> RangeOutcome:
        """The same for a repair of the first, with no feed between the two."""
        with apart(self.source, self.target) as held:
            return _outcomes(repair_task(self.item(held, selection, spaces)))[0]

    def item(
        self,
        held: Snapshots,
        selection: TableSelection | None = None,
        spaces: Sequence[KeySpace] = (KeySpace(0),),
        samples: int = 20,
    ) -> bytes:
        """What a task is given."""
        [found] = self.survey(selection or self.selection())
        assert found.table is not None, found.trouble
        item = DiffItem(
            self.source.to_wire(),
            self.target.to_wire(),
            held.source,
            held.target,
            SEED,
            samples,
            tuple(DiffPart(found.table, space) for space in spaces),
            held.held,
        )
        return msgspec.msgpack.encode(item)

    def close(self) -> None:
        self.here.close()
        self.there.close()


def receipts_of(answer: bytes) -> list[DiffReceipt]:
    """What a task answers."""
    return msgspec.msgpack.decode(answer, type=list[DiffReceipt])


def _outcomes(answer: bytes) -> list[RangeOutcome]:
    receipts = receipts_of(answer)
    outcomes = [receipt.outcome for receipt in receipts]
    assert all(outcomes), receipts
    return outcomes  # type: ignore[return-value]


@contextmanager
def pair_of(source: str, target: str) -> Iterator[Pair]:
    """The two, with their connections closed afterwards."""
    pair = Pair(source, target)
    try:
        yield pair
    finally:
        pair.close()
