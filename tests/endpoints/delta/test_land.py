"""A batch of the change log lands once, whoever else lands meanwhile, over what was copied."""

from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lockgate.endpoints.delta import land as landing
from lockgate.endpoints.delta.files import write_file
from lockgate.endpoints.delta.land import CopyTorn, LandItem, land_task
from lockgate.endpoints.delta.landing import RowMissing
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

    def __init__(self, place: Place, folder: Path, settled: int = 5) -> None:
        self.place, self._path = place, folder / "segment.parquet"
        self.table = LayeredTable.create(
            place, "h", lake_schema(SHAPE), ["id"], LEADER, DISPATCHER, 5, settled=settled
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


# --- what the first copy has ----------------------------------------------------------------------

BEFORE, AFTER = 7, 20
"""Transactions that the snapshot `10:10:` sees, and does not see."""


@pytest.fixture
def copied(place: Place, tmp_path: Path) -> Stream:
    """Of a table that awaits its first copy: see `_copy`."""
    stream = Stream(place, tmp_path, settled=0)
    stream.add(10, "U", (1, 1), xid=BEFORE)
    return stream


def _copy(stream: Stream, rows: dict[int, tuple[str, int]], *snapshots: str) -> None:
    """At 100, with these rows."""
    listed = [{"id": id_, "body": body, "n": n} for id_, (body, n) in rows.items()]
    table = pa.Table.from_pylist(listed, schema=lake_schema(SHAPE))
    file = write_file(stream.place.child("stable"), table, ["id"])
    stream.table.land_copy(LEADER, [file], 5, 100, snapshots)


@pytest.mark.parametrize("batches", [1, 2])
def test_of_what_the_snapshot_has_seen_no_value_is_missed(copied: Stream, batches: int) -> None:
    copied.add(20, "D", old=1, xid=BEFORE)
    copied.add(30, "U", (30, 2), old=3, xid=BEFORE)
    copied.add(40, "U", (20, 2), old=2, xid=BEFORE)
    copied.add(50, "I", (2, "another's", 0), xid=BEFORE)
    copied.add(60, "U", (4, 4), xid=AFTER)
    copied.add(110, "U", (20, 3), xid=AFTER)
    copied.add(120, "D", old=30, xid=AFTER)
    copied.add(130, "U", (300, 5), old=2, xid=AFTER)
    _copy(copied, {2: ("another's", 0), 4: ("d", 0), 20: ("b", 2), 30: ("c", 2)}, "10:10:")
    for after, to in [(5, 130)] if batches == 1 else [(5, 45), (45, 130)]:
        assert copied.land(after, to).applied
    assert copied.rows == {4: ("d", 4), 20: ("b", 3), 300: ("another's", 5)}


def test_a_transaction_that_was_running_at_the_snapshot_lands(copied: Stream) -> None:
    copied.add(90, "U", (1, 2), xid=BEFORE + 1)
    _copy(copied, {1: ("a", 1)}, f"8:10:{BEFORE + 1}")
    assert copied.land(5, 90).changes == 1
    assert copied.rows == {1: ("a", 2)}


def test_a_number_that_the_snapshot_had_seen_is_another_transaction_later(copied: Stream) -> None:
    """There are four billion of them."""
    copied.add(110, "U", (1, 2), xid=BEFORE)
    _copy(copied, {1: ("a", 1)}, "10:10:")
    assert copied.land(5, 110).applied
    assert copied.rows == {1: ("a", 2)}


@pytest.mark.parametrize("what", ["deleted", "moved", "reused"])
def test_a_value_that_may_be_gone_between_two_snapshots_has_the_table_copied_anew(
    copied: Stream, what: str
) -> None:
    rows = {1: ("a", 1)}
    if what == "deleted":
        rows = {}
        copied.add(20, "D", old=1, xid=BEFORE)
    else:
        copied.add(20, "U", (20, 2), old=2, xid=BEFORE)
    if what == "reused":
        rows[2] = ("another's", 0)
        copied.add(30, "I", (2, "another's", 0), xid=BEFORE)
    _copy(copied, rows, "10:10:", "30:30:")
    error = copied.land(5, 90).error
    assert error is not None
    assert (error.code, error.retryable) == (CopyTorn.code, True)
    assert copied.changes == 0


def test_under_two_snapshots_a_value_that_is_there_is_taken(copied: Stream) -> None:
    copied.add(110, "U", (20, 2), old=2, xid=AFTER)
    _copy(copied, {1: ("a", 0), 2: ("b", 0)}, "5:5:", "30:30:")
    assert copied.land(5, 110).applied
    assert copied.rows == {1: ("a", 1), 20: ("b", 2)}


def test_a_value_that_is_gone_after_the_copy_is_a_loss(copied: Stream) -> None:
    copied.add(110, "U", (2, 2), xid=AFTER)
    _copy(copied, {1: ("a", 0)}, "5:5:", "30:30:")
    assert copied.land(5, 90).applied
    error = copied.land(90, 110).error
    assert error is not None
    assert error.code == RowMissing.code


def test_the_snapshots_are_of_the_copy_that_landed(copied: Stream) -> None:
    _copy(copied, {}, "10:10:")
    copied.table.land_copy(LEADER, [], 5, 200, ["30:30:"])
    assert copied.table.snapshots == ("10:10:",)
