"""Changes of the log as changes of ingest: what comes, goes and is wiped; values not sent again.

Held against a model that goes through the changes one by one and keeps a dictionary.
"""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockgate.endpoints.delta.changes import OP, POSITION, SEQ, ingest_schema, last_states, rows_of
from lockgate.endpoints.delta.landing import RowMissing, changes_of
from lockgate.endpoints.delta.types import lake_schema
from lockgate.endpoints.postgres.pgoutput.segments import segment_schema
from lockgate.endpoints.postgres.sink.log import Log
from lockgate.model.tables import Column, TableName, TableShape

SHAPE = TableShape(
    TableName("public", "t"),
    (Column("id", "integer", 23), Column("body", "text", 25), Column("n", "integer", 23)),
    ("id",),
)
Row = tuple[str | None, int]
"""The body, and the number."""
UNSENT = b"\x02"
"""The body's bit."""


class Table:
    """A table and the log of what happens to it."""

    def __init__(self, rows: dict[int, Row]) -> None:
        self.before = dict(rows)
        self.rows = dict(rows)
        self.log: list[dict[str, Any]] = []
        self.states: list[dict[int, Row]] = []

    def _add(self, op: str, new: Any = None, old: Any = None, unsent: bool = False) -> None:
        self.log.append(
            {
                "position": 10 + len(self.log),
                "seq": 100 + len(self.log),
                "op": ord(op),
                "xid": 1,
                "time": 0,
                "unchanged": UNSENT if unsent else None,
                "new": new,
                "old": old,
            }
        )
        self.states.append(dict(self.rows))

    def put(self, id_: int, body: str | None, n: int) -> None:
        known = id_ in self.rows
        self.rows[id_] = (body, n)
        self._add("U" if known else "I", {"id": id_, "body": body, "n": n})

    def touch(self, id_: int, n: int) -> None:
        """An update that leaves the large value alone."""
        if id_ in self.rows:
            self.rows[id_] = (self.rows[id_][0], n)
            self._add("U", {"id": id_, "body": None, "n": n}, unsent=True)

    def rename(self, id_: int, to: int) -> None:
        """Another key, and the large value is left alone."""
        if id_ in self.rows and to not in self.rows:
            self.rows[to] = row = self.rows.pop(id_)
            self._add("U", {"id": to, "body": None, "n": row[1]}, {"id": id_}, unsent=True)

    def delete(self, id_: int) -> None:
        if self.rows.pop(id_, None) is not None:
            self._add("D", old={"id": id_})

    def wipe(self) -> None:
        self.rows.clear()
        self._add("T")

    def landed(self) -> pa.Table:
        table = pa.Table.from_pylist(self.log, schema=segment_schema(SHAPE))
        order = np.random.default_rng(len(self.log)).permutation(len(self.log))
        table = table.take(pa.array(order))  # a file is in no order
        log = Log.of(table, SHAPE, 0, 10**9)
        seq = np.asarray(table["seq"], dtype=np.int64)
        return changes_of(log, seq, ingest_schema(lake_schema(SHAPE)), self.lookup)

    def lookup(self, keys: pa.Table, columns: list[str]) -> pa.Table:
        found = [id_ for id_ in keys["id"].to_pylist() if id_ in self.before]
        assert columns == ["body"]
        bodies = [self.before[id_][0] for id_ in found]
        return pa.table({"id": pa.array(found, pa.int32()), "body": pa.array(bodies, pa.string())})

    def after(self, changes: pa.Table, upto: int) -> dict[int, Row]:
        """What readers see at a position."""
        seen = changes.filter(pa.compute.less_equal(changes[POSITION], upto))
        states, wiped = last_states(seen, ["id"])
        rows = {} if wiped else dict(self.before)
        for id_ in states["id"].to_pylist():
            rows.pop(id_, None)
        for row in rows_of(states).to_pylist():
            rows[row["id"]] = (row["body"], row["n"])
        return rows


ids = st.integers(0, 3)
steps = st.one_of(
    st.tuples(st.just("put"), ids, st.sampled_from(["a", "b", None]), st.integers(0, 9)),
    st.tuples(st.just("touch"), ids, st.integers(0, 9)),
    st.tuples(st.just("rename"), ids, ids),
    st.tuples(st.just("delete"), ids),
    st.tuples(st.just("wipe")),
)


@given(st.dictionaries(ids, st.tuples(st.sampled_from(["x", "y"]), st.just(0))), st.lists(steps))
def test_at_every_position_readers_see_what_the_source_had(
    before: dict[int, Row], told: list[tuple[Any, ...]]
) -> None:
    table = Table(before)
    for name, *given_ in told:
        getattr(table, name)(*given_)
    if not table.log:
        return
    changes = table.landed()
    for number, state in enumerate(table.states):
        assert table.after(changes, 10 + number) == state


@given(st.lists(steps, min_size=1))
def test_no_two_changes_have_one_number_and_numbers_follow_the_log(
    told: list[tuple[Any, ...]],
) -> None:
    table = Table({})
    for name, *given_ in told:
        getattr(table, name)(*given_)
    if not table.log:
        return
    changes = table.landed().sort_by(SEQ)
    numbers = changes[SEQ].to_pylist()
    assert len(set(numbers)) == len(numbers)
    assert changes[POSITION].to_pylist() == sorted(changes[POSITION].to_pylist())
    assert set(changes[OP].to_pylist()) <= {"put", "delete", "wipe"}


def test_a_value_that_nobody_has_is_refused_and_not_made_up() -> None:
    table = Table({1: ("x", 0)})
    table.touch(1, 5)
    table.before.clear()
    with pytest.raises(RowMissing, match="not sent again"):
        table.landed()
