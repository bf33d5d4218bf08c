"""Batches in several parts: receipts, and what becomes of a batch that its owner did not finish."""

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockgate.endpoints.postgres.sink.gate import Refused, enter, leave, part_landed, part_range
from lockgate.endpoints.postgres.sink.parts import Batch, folded
from lockgate.model.floors import Floors, Refusal, raised
from lockgate.model.ids import Token
from lockgate.model.spans import WHOLE, KeyRange, Lineage, SpanSpec
from tests.endpoints.postgres.sink.target import HIGH, LOW, A, Target, token

ME = token(1, 2)
START: Floors = ((WHOLE, 0),)
QUARTERS = [part_range(WHOLE, part, 4) for part in range(4)]


@contextmanager
def entered(target: Target, by: Token = ME, floors: Floors = START) -> Iterator[psycopg.Cursor]:
    """A task that shares the row of span `a`; commits if nothing is raised."""
    with target.session() as connection, connection.cursor() as cursor:
        enter(cursor, target.feed, "a", by, floors, share=True)
        yield cursor
        connection.commit()


def land(target: Target, part: int, parts: int = 4, to: int = 9) -> bool:
    with entered(target) as cursor:
        return part_landed(cursor, target.feed, "a", part, parts, to)


def record(target: Target, to: int = 9, parts: int = 4) -> Batch | Refusal:
    return target.sink.record_batch(target.feed, "a", ME, START, to, parts)


@pytest.fixture
def batch(target: Target) -> Target:
    """Span `a` is claimed, and a batch up to 9 in four parts is recorded."""
    target.claim(A, ME)
    assert record(target) == Batch(START, 9, 4)
    return target


# --- how it goes well -----------------------------------------------------------------------------


def test_a_batch_is_finished_when_all_parts_have_landed(batch: Target) -> None:
    for part in range(4):
        assert batch.sink.finish_batch(batch.feed, "a", ME) is Refusal.BEHIND
        assert land(batch, part)
    assert batch.sink.finish_batch(batch.feed, "a", ME) == ((WHOLE, 9),)
    left = batch.admin.execute("SELECT FROM lockgate.parts WHERE feed = %s", (batch.feed,))
    assert left.fetchall() == []
    assert batch.spans()["a"].batch_to is None


def test_finishing_again_answers_the_same(batch: Target) -> None:
    for part in range(4):
        land(batch, part)
    batch.sink.finish_batch(batch.feed, "a", ME)
    assert batch.sink.finish_batch(batch.feed, "a", ME) == ((WHOLE, 9),)


def test_a_part_that_has_landed_is_not_run_again(batch: Target) -> None:
    assert land(batch, 2)
    assert not land(batch, 2)
    assert record(batch) == Batch(START, 9, 4, (2,))


def test_the_receipt_goes_with_the_rows(batch: Target) -> None:
    with batch.session() as connection, connection.cursor() as cursor:
        enter(cursor, batch.feed, "a", ME, START, share=True)
        part_landed(cursor, batch.feed, "a", 1, 4, 9)
        batch.write(cursor, "t00", 1, 1)
        connection.rollback()
    assert record(batch) == Batch(START, 9, 4)
    assert batch.rows() == {}


def test_another_batch_is_answered_with_the_one_to_finish_first(batch: Target) -> None:
    land(batch, 0)
    assert record(batch, to=12, parts=2) == Batch(START, 9, 4, (0,))


# --- while it is recorded -------------------------------------------------------------------------


def test_nobody_moves_the_row_past_a_recorded_batch(batch: Target) -> None:
    assert batch.apply(A, ME, START, 9, key=1) is Refusal.MOVED
    assert batch.advance(A, ME, START, 9) is Refusal.MOVED
    assert batch.rows() == {}


def test_without_a_recorded_batch_nobody_enters_a_part(target: Target) -> None:
    target.claim(A, ME)
    with pytest.raises(Refused) as refused, entered(target):
        pass
    assert refused.value.refusal is Refusal.MOVED


def test_a_part_that_the_batch_does_not_have_is_refused(batch: Target) -> None:
    with pytest.raises(Refused):
        land(batch, 4)


def test_leaving_a_row_that_was_not_entered_alone_is_refused(batch: Target) -> None:
    with pytest.raises(Refused), entered(batch) as cursor:
        leave(cursor, batch.feed, "a", ME, START, 9)


def test_others_record_and_finish_nothing(batch: Target) -> None:
    other = token(1, 1)
    assert batch.sink.record_batch(batch.feed, "a", other, START, 9, 4) is Refusal.NEWER
    assert batch.sink.record_batch(batch.feed, "a", ME, ((WHOLE, 5),), 9, 4) is Refusal.MOVED
    assert batch.sink.finish_batch(batch.feed, "a", other) is Refusal.NEWER
    assert batch.sink.finish_batch(batch.feed, "ghost", ME) is Refusal.GONE


# --- an unfinished one ----------------------------------------------------------------------------


def test_a_claim_turns_receipts_into_floors(batch: Target) -> None:
    land(batch, 1)
    floors = batch.claim(A, token(2, 1))
    assert floors == (
        (QUARTERS[0], 0),
        (QUARTERS[1], 9),
        (KeyRange(QUARTERS[2].low, None), 0),
    )
    with pytest.raises(Refused) as refused:
        land(batch, 2)
    assert refused.value.refusal is Refusal.NEWER
    assert isinstance(floors, tuple)
    assert batch.apply(A, token(2, 1), floors, 12) == ((WHOLE, 12),)


def test_the_owner_itself_leaves_a_batch_by_claiming_again(batch: Target) -> None:
    """And its tasks of that batch that are still on their way are refused."""
    assert batch.claim(A, ME) == START
    with pytest.raises(Refused) as refused:
        land(batch, 0)
    assert refused.value.refusal is Refusal.MOVED
    assert record(batch, to=20, parts=2) == Batch(START, 20, 2)


def test_a_straggler_of_a_former_batch_takes_no_receipt_of_the_next(batch: Target) -> None:
    """From the same floors under the same token, but it does not go as far."""
    batch.claim(A, ME)
    assert record(batch, to=20) == Batch(START, 20, 4)
    with pytest.raises(Refused) as refused:
        land(batch, 0)
    assert refused.value.refusal is Refusal.MOVED
    assert land(batch, 0, to=20)
    batch.claim(A, ME)
    assert record(batch, parts=8) == Refusal.MOVED  # part 0 is at 20 by now


def test_a_part_that_starts_from_other_floors_is_refused(batch: Target) -> None:
    with pytest.raises(Refused) as refused, entered(batch, floors=((WHOLE, 3),)):
        pass
    assert refused.value.refusal is Refusal.MOVED


def test_a_split_takes_the_receipts_along(batch: Target) -> None:
    land(batch, 1)
    land(batch, 2)
    cut = Lineage(("a",), (LOW, HIGH))
    assert batch.claim(LOW, token(1, 3), lineage=cut) == ((QUARTERS[0], 0), (LOW_QUARTER, 9))
    assert batch.claim(HIGH, token(1, 4), lineage=cut) == ((HIGH_QUARTER, 9), (QUARTERS[3], 0))


LOW_QUARTER = KeyRange(QUARTERS[1].low, LOW.range.high)
HIGH_QUARTER = KeyRange(HIGH.range.low, QUARTERS[2].high)


def test_a_merge_takes_the_receipts_along(target: Target) -> None:
    cut = Lineage(("a",), (LOW, HIGH))
    target.claim(LOW, ME, lineage=cut)
    target.sink.record_batch(target.feed, "low", ME, ((LOW.range, 0),), 9, 2)
    with target.session("low") as connection, connection.cursor() as cursor:
        enter(cursor, target.feed, "low", ME, ((LOW.range, 0),), share=True)
        assert part_landed(cursor, target.feed, "low", 0, 2, 9)
        connection.commit()
    whole = SpanSpec("whole", "t00")
    merged = target.claim(whole, token(1, 5), lineage=Lineage(("low", "high"), (whole,)))
    half = part_range(LOW.range, 0, 2)
    assert merged == ((half, 9), (KeyRange(half.high or b"", None), 0))


# --- the cut --------------------------------------------------------------------------------------

edges = st.binary(max_size=10)
ranges = st.builds(KeyRange, edges, st.one_of(st.none(), edges)).filter(
    lambda keys: keys.high is None or keys.low < keys.high
)
hashes = st.binary(min_size=8, max_size=8)


@given(keys=ranges, parts=st.integers(1, 9), key=hashes)
def test_every_key_of_a_range_is_in_exactly_one_part(
    keys: KeyRange, parts: int, key: bytes
) -> None:
    found = [key in part_range(keys, part, parts) for part in range(parts)]
    assert sum(found) == (key in keys)


@given(keys=ranges, parts=st.integers(1, 6), landed=st.sets(st.integers(0, 5)), key=hashes)
def test_folding_moves_exactly_the_keys_that_have_landed(
    keys: KeyRange, parts: int, landed: set[int], key: bytes
) -> None:
    cut = [(part_range(keys, part, parts), part in landed) for part in range(parts)]
    floors = folded(((keys, 3),), 8, cut)
    there = [position for part, position in floors if key in part]
    assert there == [8 if any(key in part and done for part, done in cut) else 3] * (key in keys)
    if all(done for _, done in cut):
        assert floors == raised(((keys, 3),), 8)
