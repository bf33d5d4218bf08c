"""A batch of the change log lands once, whoever else lands meanwhile."""

from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lockgate.endpoints.delta import land as landing
from lockgate.endpoints.delta.land import LandItem, land_task
from lockgate.endpoints.delta.layered import LayeredTable
from lockgate.endpoints.delta.place import Place
from lockgate.endpoints.delta.types import lake_schema
from lockgate.endpoints.postgres.pgoutput.segments import segment_schema
from lockgate.model.apply import Receipt
from lockgate.model.floors import Refusal
from lockgate.model.tables import Column, TableName, TableShape
from tests.support.lakes import DISPATCHER, LEADER

SHAPE = TableShape(
    TableName("public", "t"),
    (Column("id", "integer", 23), Column("body", "text", 25), Column("n", "integer", 23)),
    ("id",),
)
UNSENT = b"\x02"
"""The body's bit."""


class Stream:
    """A change log, and the table that it lands in."""

    def __init__(self, place: Place, folder: Path) -> None:
        self.place, self._path = place, folder / "segment.parquet"
        self.table = LayeredTable.create(
            place, "h", lake_schema(SHAPE), ["id"], LEADER, DISPATCHER, 5, settled=5
        )
        self.log: list[dict[str, Any]] = []

    def add(
        self, position: int, op: str, new: Any = None, old: int | None = None, xid: int = 1
    ) -> None:
        """`new` is (id, n), which leaves the body alone, or (id, body, n)."""
        unsent = new is not None and len(new) == 2
        row = None
        if new is not None:
            row = {"id": new[0], "body": None if unsent else new[1], "n": new[-1]}
        self.log.append(
            {
                "position": position,
                "seq": len(self.log),
                "op": ord(op),
                "xid": xid,
                "time": 0,
                "unchanged": UNSENT if unsent else None,
                "new": row,
                "old": None if old is None else {"id": old},
            }
        )

    def land(self, after: int, to: int) -> Receipt:
        pq.write_table(pa.Table.from_pylist(self.log, schema=segment_schema(SHAPE)), self._path)
        item = LandItem(
            "s", DISPATCHER, after, to, self.place.to_wire(), "h", SHAPE, (str(self._path),)
        )
        return msgspec.msgpack.decode(land_task(msgspec.msgpack.encode(item)), type=Receipt)

    @property
    def rows(self) -> dict[int, tuple[str, int]]:
        found = self.table.read().to_pylist()
        assert len({row["id"] for row in found}) == len(found)
        return {row["id"]: (row["body"], row["n"]) for row in found}

    @property
    def changes(self) -> int:
        """In ingest."""
        return self.table.changes(self.table.snapshot()).num_rows


@pytest.fixture
def stream(place: Place, tmp_path: Path) -> Stream:
    return Stream(place, tmp_path)


# --- a task that outlives its job -----------------------------------------------------------------


def test_a_batch_of_which_a_part_has_landed_is_refused_and_goes_on_from_there(
    stream: Stream,
) -> None:
    stream.add(50, "I", (1, "a", 1))
    stream.add(100, "I", (2, "b", 1))
    stream.add(150, "I", (3, "c", 1))
    assert stream.land(5, 100).applied
    assert stream.land(5, 150).refusal is Refusal.MOVED
    assert stream.changes == 2
    assert stream.land(100, 150).applied
    assert stream.changes == 3
    assert stream.rows == {1: ("a", 1), 2: ("b", 1), 3: ("c", 1)}


def test_a_part_that_lands_while_the_whole_is_on_its_way_is_there_once(
    stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream.add(100, "I", (1, "a", 1))
    stream.add(150, "I", (2, "b", 1))
    made = landing.changes_of

    def meanwhile(*given: Any) -> pa.Table:
        monkeypatch.setattr(landing, "changes_of", made)
        assert stream.land(5, 100).applied
        return made(*given)

    monkeypatch.setattr(landing, "changes_of", meanwhile)
    assert stream.land(5, 150).refusal is Refusal.MOVED
    assert stream.changes == 1


@pytest.mark.parametrize("to", [100, 150])
def test_a_value_is_not_looked_up_in_what_others_have_made_of_the_table(
    stream: Stream, to: int
) -> None:
    """The row that an update left a large value of is gone in the later state."""
    stream.add(10, "I", (1, "a", 1))
    stream.add(50, "U", (1, 2))
    stream.add(100, "D", old=1)
    stream.add(150, "I", (2, "b", 1))
    assert stream.land(5, 10).applied
    assert stream.land(10, 100).applied
    again = stream.land(10, to)
    assert (again.error, again.refusal) == (None, None if to == 100 else Refusal.MOVED)
    assert stream.changes == 3


def test_a_value_that_goes_while_it_is_looked_up_is_no_loss(
    stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream.add(10, "I", (1, "a", 1))
    stream.add(50, "U", (1, 2))
    stream.add(100, "D", old=1)
    assert stream.land(5, 10).applied
    looked = landing.look_up

    def late(table: LayeredTable, keys: pa.Table, columns: list[str]) -> pa.Table:
        monkeypatch.setattr(landing, "look_up", looked)
        assert stream.land(10, 100).applied
        return looked(table, keys, columns)

    monkeypatch.setattr(landing, "look_up", late)
    assert stream.land(10, 100).applied
    assert stream.changes == 3


def test_a_batch_may_begin_after_where_the_table_stands(stream: Stream) -> None:
    """There was nothing in between, which the feed's rows alone say."""
    stream.add(150, "I", (1, "a", 1))
    assert stream.land(120, 150).applied
    assert stream.rows == {1: ("a", 1)}
