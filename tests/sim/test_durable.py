"""What the records alone may never say, whoever wrote them."""

import pytest

from lockgate.model.batch import Batch, Leader, Raise
from lockgate.model.feeds import FeedSpec, FeedState, Goal
from lockgate.model.ids import NodeRef
from lockgate.model.records import (
    COORDINATOR,
    DrainRecord,
    DrainState,
    FeedRecord,
    FenceRecord,
    OperatorKind,
    OperatorRecord,
    ProgressRecord,
    Record,
    RecordKey,
    SpanRecord,
)
from lockgate.model.spans import TRIGGER_SPEC, KeyRange, SpanSpec
from lockgate.sim.durable import Durable
from lockgate.sim.violation import Law, LawBroken
from tests.sim.place import FEED, HIGH, LOW, A, B, Place, token

N1, N2 = NodeRef("n1", 1), NodeRef("n2", 1)


def broken(law: Law, what: str) -> pytest.RaisesExc[LawBroken]:
    return pytest.RaisesExc(LawBroken, match=what, check=lambda error: error.law is law)


class Books:
    """A memory of the metastore over a place where the feed stands at 0."""

    def __init__(self) -> None:
        self.place = Place()
        self.durable = Durable(self.place.sink)
        self.write(SpanRecord(A), SpanRecord(B), SpanRecord(TRIGGER_SPEC))

    def write(self, *puts: Record, deletes: tuple[RecordKey, ...] = ()) -> None:
        self.durable.landed(0, Batch(f"feed:{FEED}", 1, 1, puts, deletes))

    def own(self, epoch: int, owner: NodeRef | None, *raises: Raise) -> None:
        record = FeedRecord(FEED, FeedState.NORMAL, Goal.RUN, epoch, owner, FeedSpec())
        self.durable.landed(0, Batch(COORDINATOR, 1, 1, (record,), raises=raises))

    def drain(self, state: DrainState) -> None:
        self.durable.landed(0, Batch(COORDINATOR, 1, 1, (DrainRecord(N1, state),)))

    def fence(self, epoch: int, owner: NodeRef, closed: bool = False) -> None:
        record = FenceRecord(FEED, owner, epoch, closed)
        self.durable.landed(0, Batch("node:n1", 1, 1, (record,)))


@pytest.fixture
def books() -> Books:
    return Books()


def test_an_epoch_that_goes_down(books: Books) -> None:
    books.own(2, N1, Raise(f"feed:{FEED}", 1, 2))
    with broken(Law.FENCE, "epoch 1 after 2"):
        books.own(1, N1)


def test_an_epoch_recorded_without_a_fence(books: Books) -> None:
    with broken(Law.FENCE, "without raising"):
        books.own(1, N1)


def test_an_epoch_with_two_owners(books: Books) -> None:
    books.own(1, N1, Raise(f"feed:{FEED}", 0, 1))
    books.own(1, None)
    with broken(Law.FENCE, "went from n1/1 to n2/1"):
        books.own(1, N2)


def test_a_life_given_out_twice(books: Books) -> None:
    books.durable.joined(N1)
    with broken(Law.FENCE, "twice"):
        books.durable.joined(N1)


def test_a_term_given_out_twice(books: Books) -> None:
    books.durable.elected(Leader(N1, 3))
    with broken(Law.FENCE, "twice"):
        books.durable.elected(Leader(N2, 3))


def test_recorded_spans_with_a_gap(books: Books) -> None:
    with broken(Law.COVER, "the recorded spans of t00"):
        books.write(SpanRecord(LOW), deletes=(RecordKey("span", "a"),))


def test_recorded_spans_that_overlap(books: Books) -> None:
    with broken(Law.COVER, "the recorded spans of t00"):
        books.write(SpanRecord(LOW), SpanRecord(HIGH))


def test_a_split_that_is_recorded_whole(books: Books) -> None:
    books.write(SpanRecord(LOW), SpanRecord(HIGH), deletes=(RecordKey("span", "a"),))
    assert sorted(books.durable.feed(FEED).tables["t00"]) == ["high", "low"]


def test_a_feed_that_comes_into_being_piece_by_piece(books: Books) -> None:
    books.write(deletes=(RecordKey("span", "trigger"), RecordKey("span", "a")))
    books.write(SpanRecord(LOW))
    with broken(Law.COVER, "the recorded spans of t00"):
        books.write(SpanRecord(TRIGGER_SPEC))


def _merge(*spans: str, result: KeyRange) -> OperatorRecord:
    target = SpanSpec("m", "t00", result)
    return OperatorRecord("o", OperatorKind.MERGE, spans, token(), results=(target,))


def test_an_operator_that_does_not_cover_what_it_replaces(books: Books) -> None:
    with broken(Law.COVER, "does not cover"):
        books.write(_merge("a", result=KeyRange(b"", b"5")))


def test_a_checkpoint_that_goes_back(books: Books) -> None:
    books.durable.feed(FEED).checkpoint = 9
    with broken(Law.RECORD, "from 9 back to 0"):
        books.write(ProgressRecord(0, born=True))


def test_a_checkpoint_ahead_of_a_span(books: Books) -> None:
    row = books.place.sink.feed(FEED).row
    assert row is not None
    row.position = 5
    with broken(Law.TOGETHER, "the sink has 0"):
        books.write(ProgressRecord(5, born=True))


def test_a_checkpoint_ahead_of_the_trigger(books: Books) -> None:
    with broken(Law.TOGETHER, "the trigger is at 0"):
        books.write(ProgressRecord(5, born=True))


def test_a_fence_that_goes_down(books: Books) -> None:
    books.fence(2, N1)
    with broken(Law.FENCE, "the fence at n1"):
        books.fence(1, N2)


def test_a_fence_that_changes_its_owner_within_an_epoch(books: Books) -> None:
    books.fence(2, N1)
    with broken(Law.FENCE, "the fence at n1"):
        books.fence(2, N2)


def test_a_tombstone_that_opens_for_its_own_epoch(books: Books) -> None:
    books.fence(2, N1, closed=True)
    with broken(Law.FENCE, "the fence at n1"):
        books.fence(2, N1)
    books.fence(3, N2)


def test_a_drain_that_is_done_before_its_node_was_empty(books: Books) -> None:
    books.durable.reported_empty(N1)  # Before it was asked for: this says nothing.
    books.drain(DrainState.DRAINING)
    with broken(Law.DRAIN, "never seen empty"):
        books.drain(DrainState.DRAINED)


def test_a_drain_of_a_node_that_reported_empty(books: Books) -> None:
    books.drain(DrainState.DRAINING)
    books.durable.reported_empty(N1)
    books.drain(DrainState.DRAINED)
