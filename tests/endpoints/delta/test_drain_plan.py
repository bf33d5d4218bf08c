"""A plan of rewrites loses no row and doubles none, whatever the files' ranges are."""

from collections import Counter

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockgate.endpoints.delta import drain_plan
from lockgate.endpoints.delta.changes import DELETE, OP, PUT
from lockgate.endpoints.delta.drain_plan import plan_rewrites
from lockgate.endpoints.delta.files import DataFile

ranges = st.tuples(st.integers(0, 30), st.integers(0, 10), st.integers(1, 10))
states = st.lists(st.tuples(st.integers(-2, 45), st.sampled_from([PUT, DELETE])))


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drain_plan, "ROWS_MAX", 8)


def _files(ranges: list[tuple[int, int, int]]) -> list[DataFile]:
    return [
        DataFile(f"f{n}", rows, 100, {"id": low}, {"id": low + width})
        for n, (low, width, rows) in enumerate(ranges)
    ]


def _table(states: list[tuple[int, str]]) -> pa.Table:
    return pa.table(
        {
            "id": pa.array([id_ for id_, _ in states], pa.int64()),
            OP: pa.array([op for _, op in states], pa.string()),
        }
    )


@given(st.lists(ranges, max_size=6), states)
def test_every_put_is_written_once_and_meets_every_file_that_may_hold_its_key(
    ranges: list[tuple[int, int, int]], states: list[tuple[int, str]]
) -> None:
    files = _files(ranges)
    plan = plan_rewrites(files, _table(states), ["id"], wiped=False)
    taken = Counter(int(row) for rewrite in plan for row in rewrite.rows)
    gone = Counter(file.path for rewrite in plan for file in rewrite.files)
    assert set(gone.values()) <= {1}, "no file is rewritten twice"
    assert set(taken.values()) <= {1}, "no change is in two rewrites"
    for row, (id_, op) in enumerate(states):
        holders = {f.path for f in files if f.low["id"] <= id_ <= f.high["id"]}
        mine = [rewrite for rewrite in plan if row in rewrite.rows]
        assert mine or (op == DELETE and not holders), "only deletes of nothing are left out"
        if mine:
            assert holders <= {file.path for file in mine[0].kept}


@given(st.lists(ranges, max_size=6), states)
def test_what_no_change_concerns_is_left_alone(
    ranges: list[tuple[int, int, int]], states: list[tuple[int, str]]
) -> None:
    """But for files with room, which take in the keys behind them."""
    for rewrite in plan_rewrites(_files(ranges), _table(states), ["id"], wiped=False):
        assert len(rewrite.rows)
        full = [file for file in rewrite.files if file.rows >= drain_plan.ROWS_MAX // 2]
        if full and len(rewrite.files) == 1:
            low, high = full[0].low["id"], full[0].high["id"]
            assert any(low <= states[row][0] <= high for row in rewrite.rows)


def test_a_wipe_takes_all_files_and_keeps_none_of_their_rows() -> None:
    files = _files([(0, 5, 3), (10, 5, 3)])
    [rewrite] = plan_rewrites(files, _table([(1, PUT)]), ["id"], wiped=True)
    assert (len(rewrite.files), rewrite.kept, list(rewrite.rows)) == (2, (), [0])


def test_a_file_of_unknown_range_is_met_by_every_change() -> None:
    files = [*_files([(0, 5, 3)]), DataFile("strange", 3, 100)]
    [rewrite] = plan_rewrites(files, _table([(99, DELETE)]), ["id"], wiped=False)
    assert len(rewrite.kept) == 2


@given(st.lists(ranges, max_size=6), states, st.booleans())
def test_new_files_are_alike_in_size_and_none_is_larger_than_a_file_may_be(
    ranges: list[tuple[int, int, int]], states: list[tuple[int, str]], wiped: bool
) -> None:
    for rewrite in plan_rewrites(_files(ranges), _table(states), ["id"], wiped=wiped):
        puts = sum(states[row][1] == PUT for row in rewrite.rows)
        rows = sum(file.rows for file in rewrite.kept) + puts
        assert 0 < rewrite.file_rows <= drain_plan.ROWS_MAX
        assert -(-rows // rewrite.file_rows) == -(-rows // drain_plan.ROWS_MAX), (
            "no more than it takes"
        )
