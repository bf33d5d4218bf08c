"""The writer of a scope: one batch at a time, and nobody is told before it is durable."""

import pytest

from lockgate.core.writer import Writer
from lockgate.model.batch import Batch, Landed, NotLanded, Unknown
from lockgate.model.records import FenceRecord, RecordKey, key_of

SCOPE = "node:a"
RETRY_MS = 1_000


def record(feed: str, epoch: int = 1) -> FenceRecord:
    return FenceRecord(feed, None, epoch)


class Desk:
    """A writer, the moment, and what its continuations said."""

    def __init__(self, *, serial: int = 0, records_max: int = 100) -> None:
        self.writer = Writer(SCOPE, 7, serial, records_max=records_max, retry_ms=RETRY_MS)
        self.now = 0
        self.said: list[str] = []

    def put(self, feed: str, epoch: int = 1) -> None:
        self.writer.write(puts=(record(feed, epoch),), then=lambda: self.said.append(feed))

    def flush(self) -> Batch | None:
        commit = self.writer.flush(self.now)
        return None if commit is None else commit.batch

    def flushed(self) -> Batch:
        batch = self.flush()
        assert batch is not None
        return batch

    def landed(self, serial: int) -> None:
        self.writer.answered(self.now, Landed(SCOPE, serial))

    def not_landed(self, serial: int) -> None:
        self.writer.answered(self.now, NotLanded(SCOPE, serial))

    def unknown(self, serial: int) -> None:
        self.writer.answered(self.now, Unknown(SCOPE, serial))

    def wait_for_retry(self) -> None:
        self.now += RETRY_MS


@pytest.fixture
def desk() -> Desk:
    return Desk()


# --- one at a time ----------------------------------------------------------------------------


def test_a_batch_carries_the_scope_the_fence_and_the_next_serial() -> None:
    desk = Desk(serial=41)
    desk.put("x")
    assert desk.flushed() == Batch(SCOPE, 7, 42, puts=(record("x"),))


def test_nothing_written_is_no_commit(desk: Desk) -> None:
    assert desk.flush() is None


def test_only_one_batch_is_in_flight(desk: Desk) -> None:
    desk.put("x")
    desk.flushed()
    desk.put("y")
    assert desk.flush() is None


def test_what_is_written_meanwhile_goes_into_the_next_batch(desk: Desk) -> None:
    desk.put("x")
    desk.flushed()
    desk.put("y")
    desk.put("z")
    desk.landed(1)
    assert desk.flushed() == Batch(SCOPE, 7, 2, puts=(record("y"), record("z")))


def test_an_answer_is_waited_for_and_then_not(desk: Desk) -> None:
    desk.put("x")
    assert not desk.writer.waiting
    desk.flushed()
    assert desk.writer.waiting
    desk.landed(1)
    assert not desk.writer.waiting


def test_a_writer_is_idle_only_when_everything_is_durable(desk: Desk) -> None:
    assert desk.writer.idle
    desk.put("x")
    assert not desk.writer.idle
    desk.flushed()
    assert not desk.writer.idle
    desk.landed(1)
    assert desk.writer.idle


# --- continuations ----------------------------------------------------------------------------


def test_a_continuation_does_not_run_before_its_batch_landed(desk: Desk) -> None:
    desk.put("x")
    desk.flushed()
    assert desk.said == []
    desk.landed(1)
    assert desk.said == ["x"]


@pytest.mark.parametrize("answer", ["not_landed", "unknown"])
def test_a_continuation_does_not_run_for_a_batch_that_did_not_land(desk: Desk, answer: str) -> None:
    desk.put("x")
    desk.flushed()
    getattr(desk, answer)(1)
    assert desk.said == []


def test_continuations_run_in_the_order_of_writing(desk: Desk) -> None:
    for feed in ("c", "a", "b"):
        desk.put(feed)
    desk.flushed()
    desk.landed(1)
    assert desk.said == ["c", "a", "b"]


def test_continuations_keep_their_order_over_a_recomposed_batch(desk: Desk) -> None:
    desk.put("first")
    desk.flushed()
    desk.put("second")
    desk.not_landed(1)
    desk.wait_for_retry()
    desk.flushed()
    desk.landed(1)
    assert desk.said == ["first", "second"]


def test_a_continuation_runs_once_however_often_its_batch_is_said_to_have_landed(
    desk: Desk,
) -> None:
    desk.put("x")
    desk.flushed()
    desk.landed(1)
    desk.landed(1)
    assert desk.said == ["x"]


def test_what_a_continuation_writes_is_in_the_next_batch(desk: Desk) -> None:
    desk.writer.write(puts=(record("x"),), then=lambda: desk.put("y"))
    desk.flushed()
    desk.landed(1)
    assert desk.flushed() == Batch(SCOPE, 7, 2, puts=(record("y"),))


def test_after_runs_at_once_when_everything_is_durable(desk: Desk) -> None:
    desk.writer.after(lambda: desk.said.append("now"))
    assert desk.said == ["now"]


def test_after_waits_for_what_was_written_before_it(desk: Desk) -> None:
    desk.put("x")
    desk.flushed()
    desk.writer.after(lambda: desk.said.append("after"))
    assert desk.said == []
    desk.landed(1)
    desk.flushed()
    desk.landed(2)
    assert desk.said == ["x", "after"]


# --- certainly not landed ---------------------------------------------------------------------


def test_not_landed_recomposes_under_the_same_serial_with_what_was_written_since(
    desk: Desk,
) -> None:
    desk.put("x")
    desk.flushed()
    desk.put("y")
    desk.not_landed(1)
    desk.wait_for_retry()
    assert desk.flushed() == Batch(SCOPE, 7, 1, puts=(record("x"), record("y")))


def test_not_landed_lets_a_newer_word_on_the_same_record_win(desk: Desk) -> None:
    desk.put("x", epoch=1)
    desk.flushed()
    desk.put("x", epoch=2)
    desk.not_landed(1)
    desk.wait_for_retry()
    assert desk.flushed().puts == (record("x", 2),)


def test_a_batch_is_not_repeated_before_the_retry_time(desk: Desk) -> None:
    desk.put("x")
    desk.flushed()
    desk.not_landed(1)
    desk.now += RETRY_MS - 1
    assert desk.flush() is None
    desk.now += 1
    assert desk.flush() is not None


def test_after_a_landing_the_next_batch_does_not_wait(desk: Desk) -> None:
    desk.put("x")
    desk.flushed()
    desk.not_landed(1)
    desk.wait_for_retry()
    desk.flushed()
    desk.put("y")
    desk.landed(1)
    assert desk.flush() is not None


# --- in doubt ---------------------------------------------------------------------------------


def test_unknown_repeats_the_very_same_batch_whatever_was_written_since(desk: Desk) -> None:
    desk.put("x", epoch=1)
    first = desk.flushed()
    desk.put("x", epoch=2)
    desk.unknown(1)
    desk.wait_for_retry()
    assert desk.flushed() == first


def test_unknown_is_repeated_only_after_the_retry_time(desk: Desk) -> None:
    desk.put("x")
    desk.flushed()
    desk.unknown(1)
    assert desk.flush() is None


def test_a_batch_in_doubt_stays_frozen_when_a_repeat_did_not_land(desk: Desk) -> None:
    desk.put("x", epoch=1)
    first = desk.flushed()
    desk.unknown(1)
    desk.wait_for_retry()
    desk.flushed()
    desk.put("x", epoch=2)
    desk.not_landed(1)
    desk.wait_for_retry()
    assert desk.flushed() == first


def test_a_batch_in_doubt_that_landed_after_all_frees_the_next_serial(desk: Desk) -> None:
    desk.put("x")
    desk.flushed()
    desk.put("y")
    desk.unknown(1)
    desk.landed(1)
    assert desk.said == ["x"]
    assert desk.flushed() == Batch(SCOPE, 7, 2, puts=(record("y"),))


def test_the_doubt_ends_with_its_batch(desk: Desk) -> None:
    desk.put("x")
    desk.flushed()
    desk.unknown(1)
    desk.wait_for_retry()
    desk.flushed()
    desk.landed(1)
    desk.put("y")
    desk.flushed()
    desk.put("z")
    desk.not_landed(2)
    desk.wait_for_retry()
    assert desk.flushed().puts == (record("y"), record("z"))


# --- late answers -----------------------------------------------------------------------------


@pytest.mark.parametrize("answer", ["landed", "not_landed", "unknown"])
def test_an_answer_to_an_older_batch_changes_nothing(desk: Desk, answer: str) -> None:
    desk.put("x")
    desk.flushed()
    desk.landed(1)
    desk.put("y")
    desk.flushed()
    getattr(desk, answer)(1)
    assert desk.writer.waiting
    assert desk.said == ["x"]


@pytest.mark.parametrize("answer", ["landed", "not_landed", "unknown"])
def test_an_answer_when_nothing_is_in_flight_changes_nothing(desk: Desk, answer: str) -> None:
    getattr(desk, answer)(0)
    getattr(desk, answer)(1)
    desk.put("x")
    assert desk.flushed().serial == 1


# --- entries are whole ------------------------------------------------------------------------


def test_an_entry_is_never_torn_even_above_the_limit() -> None:
    desk = Desk(records_max=2)
    desk.writer.write(puts=(record("a"), record("b"), record("c")), deletes=(RecordKey("k", "d"),))
    batch = desk.flushed()
    assert len(batch.puts) + len(batch.deletes) == 4


def test_an_entry_that_does_not_fit_waits_for_the_next_batch_whole() -> None:
    desk = Desk(records_max=3)
    desk.writer.write(puts=(record("a"), record("b")))
    desk.writer.write(puts=(record("c"), record("d")))
    assert desk.flushed().puts == (record("a"), record("b"))
    desk.landed(1)
    assert desk.flushed().puts == (record("c"), record("d"))


def test_a_smaller_entry_does_not_overtake_one_that_does_not_fit() -> None:
    desk = Desk(records_max=3)
    desk.writer.write(puts=(record("a"), record("b")))
    desk.writer.write(puts=(record("c"), record("d")))
    desk.writer.write(puts=(record("e"),))
    desk.flushed()
    desk.landed(1)
    assert desk.flushed().puts == (record("c"), record("d"), record("e"))


# --- the last word ----------------------------------------------------------------------------


def test_a_record_deleted_after_it_was_put_is_only_deleted(desk: Desk) -> None:
    desk.put("x")
    desk.writer.write(deletes=(key_of(record("x")),))
    batch = desk.flushed()
    assert (batch.puts, batch.deletes) == ((), (key_of(record("x")),))


def test_a_record_put_after_it_was_deleted_is_only_put(desk: Desk) -> None:
    desk.writer.write(deletes=(key_of(record("x")),))
    desk.put("x")
    batch = desk.flushed()
    assert (batch.puts, batch.deletes) == ((record("x"),), ())


def test_within_one_entry_the_put_counts(desk: Desk) -> None:
    desk.writer.write(puts=(record("x"),), deletes=(key_of(record("x")),))
    assert desk.flushed().puts == (record("x"),)
