"""Compaction alone: the net effect of many changes, against the rows that they leave behind."""

import random
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lockgate.endpoints.keys import hashes
from lockgate.endpoints.postgres.sink.compact import compact
from lockgate.endpoints.postgres.sink.log import Log
from lockgate.endpoints.postgres.sink.net import NeedsOnePart, Net
from lockgate.endpoints.postgres.sink.snapshots import Snapshot
from lockgate.endpoints.postgres.sink.unchanged import ValueElsewhere
from lockgate.endpoints.postgres.sink.window import Window
from lockgate.model.spans import WHOLE, KeyRange
from lockgate.model.tables import Identity
from tests.endpoints.postgres.sink.net_model import landed, states
from tests.support.histories import History, shape_of, wander

PLAIN = shape_of("id bigint", "name text", "big text")


def net(history: History, after: int = 0, to: int = 10**6, *, shuffle: int = 0) -> Net:
    log = Log.of(history.segment(shuffle=shuffle), history.shape, after, to)
    return compact(log, Window(((WHOLE, after),), to))


def sizes(found: Net) -> tuple[int, int, int, int]:
    return len(found.deletes[0]), len(found.updates), len(found.inserts), len(found.moves)


def check(history: History, after: int, to: int) -> Net:
    found = net(history, after, to)
    assert landed(found, history.rows_at(after)) == history.rows_at(to)
    return found


@pytest.fixture
def history() -> History:
    """One row, committed at 1."""
    return History(PLAIN).insert(id=1, name="a", big="B").commit()


def test_inserts_become_inserts(history: History) -> None:
    assert sizes(check(history, 0, 1)) == (0, 0, 1, 0)


def test_a_row_that_came_and_went_is_nothing(history: History) -> None:
    history.insert(id=2).delete(2).commit()
    assert sizes(check(history, 1, 2)) == (0, 0, 0, 0)


def test_insert_delete_insert_is_one_insert(history: History) -> None:
    history.insert(id=2, name="x").delete(2).insert(id=2, name="y").commit()
    assert sizes(check(history, 1, 2)) == (0, 0, 1, 0)


def test_delete_and_insert_of_a_row_that_was_there_is_an_update(history: History) -> None:
    history.delete(1).insert(id=1, name="new", big="new").update(1, name="newer").commit()
    assert sizes(check(history, 1, 2)) == (0, 1, 0, 0)


def test_the_last_update_wins(history: History) -> None:
    history.update(1, name="b").commit().update(1, name="c").commit()
    assert sizes(check(history, 1, 3)) == (0, 1, 0, 0)


def test_a_changed_key_is_a_delete_and_an_insert(history: History) -> None:
    history.update(1, id=2).commit()
    assert sizes(check(history, 1, 2)) == (1, 0, 1, 0)


def test_keys_that_are_swapped_are_two_updates(history: History) -> None:
    history.insert(id=2, name="b", big="C").commit()
    history.update(1, id=3).update(2, id=1).update(3, id=2).commit()
    assert sizes(check(history, 2, 3)) == (0, 2, 0, 0)


def test_a_truncate_voids_what_came_before(history: History) -> None:
    history.update(1, name="b").insert(id=2).truncate().insert(id=1, name="again").commit()
    found = check(history, 1, 2)
    assert found.truncation is not None
    assert found.truncation.whole
    assert sizes(found) == (0, 0, 1, 0)


def test_a_truncate_at_or_below_the_floor_is_over(history: History) -> None:
    history.truncate().commit().insert(id=1).commit()
    assert check(history, 2, 3).truncation is None


def test_the_order_of_the_file_does_not_matter(history: History) -> None:
    for n in range(2, 50):
        history.insert(id=n, name=str(n)).update(n, name="x").commit()
    straight, shuffled = net(history), net(history, shuffle=7)
    assert landed(straight, {}) == landed(shuffled, {}) == history.rows_at(49)


# --- unchanged TOAST values -----------------------------------------------------------------------


def test_an_unchanged_value_stays_with_the_target(history: History) -> None:
    history.update(1, unchanged=["big"], name="b").commit()
    found = check(history, 1, 2)
    assert found.updates.keeps[2].tolist() == [True]


def test_an_unchanged_value_is_found_in_an_earlier_change(history: History) -> None:
    history.update(1, big="BB").update(1, unchanged=["big"], name="b").commit()
    assert not check(history, 1, 2).updates.keeps


def test_an_unchanged_value_of_a_new_row_is_its_insert_s(history: History) -> None:
    history.insert(id=2, big="new").update(2, unchanged=["big"], name="b").commit()
    history.update(2, unchanged=["big"], name="c").commit()
    assert sizes(check(history, 1, 3)) == (0, 0, 1, 0)


def test_values_before_a_delete_are_not_taken_for_those_after(history: History) -> None:
    history.update(1, big="gone").delete(1).insert(id=1, big="new").commit()
    history.update(1, unchanged=["big"], name="b").commit()
    check(history, 1, 3)


def test_an_unchanged_value_follows_its_row_to_another_key(history: History) -> None:
    history.update(1, unchanged=["big"], id=2).commit().update(2, unchanged=["big"], id=3).commit()
    history.insert(id=1, name="other", big="other").commit()
    found = check(history, 1, 4)
    assert sizes(found) == (0, 1, 0, 1)
    assert found.moves.origin is not None
    assert found.moves.origin[0].to_pylist() == [1]


def test_a_moved_row_s_value_that_the_log_knows_needs_no_target(history: History) -> None:
    history.update(1, big="known").update(1, unchanged=["big"], id=2).commit()
    assert sizes(check(history, 1, 2)) == (1, 0, 1, 0)


def test_a_row_that_comes_back_to_its_key_keeps_its_value(history: History) -> None:
    history.update(1, unchanged=["big"], id=2).update(
        2, unchanged=["big"], id=1, name="back"
    ).commit()
    assert sizes(check(history, 1, 2)) == (0, 1, 0, 0)


def test_full_old_images_leave_nothing_unknown() -> None:
    shape = shape_of("id bigint", "name text", "big text", identity=Identity.FULL)
    history = History(shape).insert(id=1, big="B").commit()
    history.update(1, unchanged=["big"], name="b").commit().update(
        1, unchanged=["big"], id=2
    ).commit()
    found = check(history, 1, 3)
    assert sizes(found) == (1, 0, 1, 0)
    assert not found.log.unknown


def test_a_key_too_large_to_repeat_is_in_the_old_image() -> None:
    history = History(shape_of("id text", "name text")).insert(id="long", name="a").commit()
    history.update("long", name="b").commit()
    entry = history.entries[-1]
    entry["unchanged"], entry["new"]["id"], entry["old"] = b"\1", None, {"id": "long"}
    assert sizes(check(history, 1, 2)) == (0, 1, 0, 0)


# --- spans, parts, floors -------------------------------------------------------------------------

LOW, HIGH = KeyRange(b"", b"\x80"), KeyRange(b"\x80", None)


def split(history: History, after: int = 0) -> tuple[list[int], list[int]]:
    """The ids of a history's rows in the lower and the upper half of the keys."""
    rows = history.rows_at(after)
    ids = sorted(key[0] for key in rows)
    upper = (hashes([pa.array(ids, pa.int64())]) >> 63).tolist()
    low = [one for one, bit in zip(ids, upper, strict=True) if not bit]
    return low, [one for one, bit in zip(ids, upper, strict=True) if bit]


def many(count: int = 40) -> History:
    history = History(PLAIN)
    for n in range(count):
        history.insert(id=n, name=str(n), big="B" * n)
    return history.commit()


def in_window(
    history: History, floors: tuple[tuple[KeyRange, int], ...], to: int, parts: int = 1
) -> Net:
    after = min(position for _, position in floors)
    return compact(Log.of(history.segment(), PLAIN, after, to), Window(floors, to, parts))


def test_a_span_takes_its_own_keys() -> None:
    history = many()
    low, high = split(history, 1)
    assert low
    assert high
    found = in_window(history, ((LOW, 0),), 1)
    assert sorted(key[0] for key in landed(found, {})) == low
    found = in_window(history, ((HIGH, 0),), 1)
    assert sorted(key[0] for key in landed(found, {})) == high


def test_each_range_goes_on_from_its_own_floor() -> None:
    history = many()
    low, _ = split(history, 1)
    for n in range(40):
        history.update(n, name="two")
    history.commit()
    found = in_window(history, ((LOW, 0), (HIGH, 1)), 2)
    assert len(found.inserts) == len(low)
    assert len(found.updates) == 40 - len(low)


def test_a_row_that_changes_spans_is_half_each_one_s() -> None:
    history = many()
    low, _ = split(history, 1)
    free = next(n for n in range(100, 200) if _is_high(n))
    history.update(low[0], id=free).commit()
    assert sizes(in_window(history, ((LOW, 1),), 2)) == (1, 0, 0, 0)
    assert sizes(in_window(history, ((HIGH, 1),), 2)) == (0, 0, 1, 0)


def _is_high(n: int) -> bool:
    return bool(hashes([pa.array([n], pa.int64())])[0] >> 63)


@pytest.mark.parametrize("mine", [LOW, HIGH])
def test_neither_span_begins_when_a_value_would_get_lost_between_them(mine: KeyRange) -> None:
    history = many()
    low, _ = split(history, 1)
    free = next(n for n in range(100, 200) if _is_high(n))
    history.update(low[-1], unchanged=["big"], id=free).commit()
    with pytest.raises(ValueElsewhere, match="merge the table's spans"):
        in_window(history, ((mine, 1),), 2)
    with pytest.raises(NeedsOnePart):
        in_window(history, ((mine, 1),), 2, parts=2)


def test_a_value_is_looked_for_where_the_target_has_the_row_by_now() -> None:
    """The way to another key may be half gone: the lower range has not come so far."""
    history = many()
    _, high = split(history, 1)
    first, second = [n for n in range(100, 200) if _is_high(n)][:2]
    history.update(high[-1], unchanged=["big"], id=first).commit()
    history.update(first, unchanged=["big"], id=second).commit()
    found = in_window(history, ((LOW, 1), (HIGH, 2)), 3)
    assert found.moves.origin is not None
    assert found.moves.origin[0].to_pylist() == [first]
    assert landed(found, history.rows_at(2)) == history.rows_at(3)


def test_a_truncate_of_one_span_leaves_the_others_rows() -> None:
    history = many()
    low, high = split(history, 1)
    history.truncate().insert(id=low[0]).insert(id=high[0]).commit()
    found = in_window(history, ((LOW, 1),), 2)
    assert found.truncation is not None
    assert not found.truncation.whole
    mask = found.truncation.wiped([pa.array(range(40), pa.int64())])
    assert [n for n in range(40) if mask[n]] == low
    assert sizes(found) == (0, 0, 1, 0)


# --- snapshots ------------------------------------------------------------------------------------


def test_what_the_copy_saw_is_left_out() -> None:
    history = many(3)
    history.update(0, name="seen").commit().update(1, name="running").commit()
    history.update(2, name="later").commit()
    window = Window(((WHOLE, 0),), 4, 1, (Snapshot.parse("1001:1003:1002"),))
    found = compact(Log.of(history.segment(), PLAIN, 0, 4), window)
    assert sorted(row["name"] for _, row, _ in _states(found)) == ["later", "running"]


def _states(found: Net) -> list[Any]:
    return states(found, found.updates)


def test_several_snapshots_are_asked_by_key() -> None:
    history = many(4)
    for n in range(4):
        history.update(n, name="two")
    history.commit()
    old, new = Snapshot.parse("1001:1001:"), Snapshot.parse("1002:1002:")
    window = Window(((WHOLE, 0),), 2, 1, (old, new), lambda keys: np.asarray(keys[0]) % 2)
    found = compact(Log.of(history.segment(), PLAIN, 0, 2), window)
    assert sorted(key[0] for key, _, _ in _states(found)) == [0, 2]


def test_a_part_of_a_table_asks_about_its_own_keys_only() -> None:
    """The others are in none of its chunks; nobody could say under which snapshot they came."""
    history = many(40)
    for n in range(40):
        history.update(n, name="two")
    history.commit()
    half = KeyRange(bytes([128, *[0] * 7]), None)
    mine = {n for n in range(40) if hashes([pa.array([n])])[0] >= 2**63}
    asked: set[int] = set()

    def chunk_of(keys: list[Any]) -> Any:
        asked.update(keys[0].to_pylist())
        return np.asarray(keys[0]) % 2

    old, new = Snapshot.parse("1001:1001:"), Snapshot.parse("1002:1002:")
    window = Window(((half, 0),), 2, 1, (old, new), chunk_of)
    found = compact(Log.of(history.segment(), PLAIN, 0, 2), window)
    assert asked == mine
    assert {key[0] for key, _, _ in _states(found)} == {n for n in mine if n % 2 == 0}


# --- all of it at random --------------------------------------------------------------------------


@settings(max_examples=300, deadline=None)
@given(st.randoms(use_true_random=False))
def test_any_history_cut_anywhere_comes_out_right(rng: random.Random) -> None:
    history = History(PLAIN)
    wander(rng, history, rng.randrange(1, 12))
    last = history.position - 1
    cuts = sorted({0, last, *(rng.randrange(last + 1) for _ in range(rng.randrange(4)))})
    rows = history.rows_at(0)
    for after, to in pairwise(cuts):
        rows = landed(net(history, after, to, shuffle=rng.randrange(3)), rows)
        assert rows == history.rows_at(to)


@settings(max_examples=150, deadline=None)
@given(st.randoms(use_true_random=False))
def test_any_history_over_several_floors_comes_out_right(rng: random.Random) -> None:
    """A merged span: each range starts where its own source had come to."""
    history = History(PLAIN)
    wander(rng, history, rng.randrange(2, 10))
    last = history.position - 1
    edges = sorted(rng.sample(range(1, 255), 2))
    ranges = WHOLE.divided(tuple(bytes([edge]) for edge in edges))
    floors = tuple((keys, rng.randrange(last + 1)) for keys in ranges)
    low = min(position for _, position in floors)
    before = {}
    for keys, position in floors:
        for key, row in history.rows_at(position).items():
            if int(hashes([pa.array(key, pa.int64())])[0]).to_bytes(8, "big") in keys:
                before[key] = row
    try:
        found = compact(Log.of(history.segment(), PLAIN, low, last), Window(floors, last))
    except ValueElsewhere:
        return
    if found.truncation is not None and not found.truncation.whole:
        mask = found.truncation.wiped([pa.array([key[0] for key in before], pa.int64())])
        left = [key for key, gone in zip(before, mask, strict=True) if not gone]
        before = {key: before[key] for key in left}
        found = replace(found, truncation=None)
    assert landed(found, before) == history.rows_at(last)
