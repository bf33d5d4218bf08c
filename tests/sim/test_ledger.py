"""The ledger notices by itself what a sink without a fence would let through."""

import pytest

from lockgate.model.ddl import DdlKind
from lockgate.model.floors import Floors
from lockgate.model.positions import Position
from lockgate.model.spans import TRIGGER_SPEC, WHOLE, KeyRange, Lineage, SpanSpec
from lockgate.sim.ledger import covers_once
from lockgate.sim.rows import SpanRow
from lockgate.sim.sink import Sink
from lockgate.sim.violation import Law, LawBroken
from tests.sim.place import FEED, HIGH, LOW, A, B, Place, token


@pytest.fixture
def place() -> Place:
    return Place()


def broken(law: Law, what: str) -> pytest.RaisesExc[LawBroken]:
    return pytest.RaisesExc(LawBroken, match=what, check=lambda error: error.law is law)


@pytest.fixture
def unfenced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Sink, "_may", lambda *_: True)


@pytest.mark.usefixtures("unfenced")
def test_a_commit_under_an_old_token(place: Place) -> None:
    floors = place.claim(A, token(1, 2))
    place.claim(A, token(2, 1))
    assert isinstance(floors, tuple)
    with broken(Law.FENCE, "2.1.1 is the newest claimed"):
        place.apply(A, token(1, 2), floors, place.write("t00", 1))


@pytest.mark.usefixtures("unfenced")
def test_a_commit_after_the_close(place: Place) -> None:
    floors = place.claim(A, token(1, 2))
    place.sink.close(FEED, token(1, 99), forget=False)
    assert isinstance(floors, tuple)
    with broken(Law.FENCE, "after 1.99.1 was closed"):
        place.apply(A, token(1, 2), floors, place.write("t00", 1))


def test_a_commit_after_the_feed_was_stopped(place: Place) -> None:
    floors = place.claim(A, token(1, 2))
    place.ledger.stopped(FEED, 1)
    assert isinstance(floors, tuple)
    with broken(Law.FENCE, "after epoch 1 was stopped"):
        place.apply(A, token(1, 2), floors, place.write("t00", 1))


def _row(place: Place, span: str, floors: Floors) -> SpanRow:
    row = place.sink.feed(FEED).spans[span]
    row.floors = floors
    return row


def test_a_gap(place: Place) -> None:
    place.claim(A, token(1, 2))
    place.write("t00", 1)
    to = place.write("t00", 2)
    _row(place, "a", ((WHOLE, to - 1),))
    with broken(Law.COVER, "a gap"):
        place.apply(A, token(1, 2), ((WHOLE, to - 1),), to)


def test_the_same_rows_twice(place: Place) -> None:
    to = place.write("t00", 1)
    place.applied(A, token(1, 2), to)
    _row(place, "a", ((WHOLE, 0),))
    with broken(Law.COVER, "done twice"):
        place.apply(A, token(1, 2), ((WHOLE, 0),), to)


def test_a_row_that_is_not_the_sources(place: Place) -> None:
    to = place.write("t00", 1)
    place.claim(A, token(1, 2))
    with broken(Law.COVER, "at the source 1"):
        place.sink.apply(FEED, "a", token(1, 2), ((WHOLE, 0),), to, [])


def test_a_position_apart_from_its_data(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Sink, "_moved", lambda _self, floors, _to: floors)
    place.claim(A, token(1, 2))
    with broken(Law.TOGETHER, "its row says 0"):
        place.apply(A, token(1, 2), ((WHOLE, 0),), place.write("t00", 1))


def test_rows_on_the_wrong_side_of_a_ddl(place: Place) -> None:
    place.claim(A, token(1, 2))
    place.ddl(DdlKind.ALTER, "t00")
    with broken(Law.DRAIN, "past"):
        place.apply(A, token(1, 2), ((WHOLE, 0),), place.write("t00", 1))


def test_a_drop_while_somebody_is_behind(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Sink, "_all_there", lambda *_: True)
    place.write("t00", 1)
    place.ddl(DdlKind.DROP, "t00")
    with broken(Law.DRAIN, "was at 0"):
        place.sink.write_ddl(FEED, token(), place.source.ddls[-1], ())


def test_a_ddl_out_of_order(place: Place) -> None:
    place.ddl(DdlKind.ALTER, "t00")
    place.ddl(DdlKind.ALTER, "t00")
    place.claim(A, token(1, 2))
    _row(place, "a", ((WHOLE, 1),))
    feed = place.sink.feed(FEED)
    assert feed.row is not None
    feed.row.position = 1
    with broken(Law.DRAIN, "is not the next after 0"):
        place.sink.write_ddl(FEED, token(), place.source.ddls[-1], ())


def test_a_row_claimed_anew_for_a_dropped_table(place: Place) -> None:
    place.ddl(DdlKind.DROP, "t00")
    place.sink.write_ddl(FEED, token(), place.source.ddls[-1], ())
    ghost = SpanSpec("ghost", "t00")
    place.sink.feed(FEED).spans["ghost"] = SpanRow(ghost, token(), ((WHOLE, 0),))
    with broken(Law.DRAIN, "dropped table"):
        place.claim(ghost, token(1, 2))


def test_two_spans_for_one_key(place: Place) -> None:
    ghost = SpanSpec("ghost", "t00")
    place.sink.feed(FEED).spans["ghost"] = SpanRow(ghost, token(), ((WHOLE, 0),))
    with broken(Law.COVER, "belongs to a"):
        place.claim(ghost, token(1, 2))


def test_a_split_that_leaves_keys_out(place: Place) -> None:
    with broken(Law.COVER, "covers"):
        place.claim(LOW, token(1, 2), lineage=Lineage(("a",), (LOW,)))


def test_a_cut_span_that_comes_back(place: Place) -> None:
    place.claim(LOW, token(1, 2), lineage=Lineage(("a",), (LOW, HIGH)))
    place.sink.feed(FEED).spans["a"] = SpanRow(A, token(), ((WHOLE, 0),))
    with broken(Law.FENCE, "no more"):
        place.claim(A, token(1, 3))


def test_a_lower_claim(place: Place) -> None:
    place.claim(B, token(2, 1))
    place.sink.feed(FEED).spans["b"].token = token()
    with broken(Law.FENCE, "claimed after"):
        place.claim(B, token(1, 2))


def test_a_trigger_that_passes_a_ddl(place: Place) -> None:
    place.ddl(DdlKind.ALTER, "t00")
    floors = place.claim(TRIGGER_SPEC, token())
    assert isinstance(floors, tuple)
    with broken(Law.DRAIN, "past"):
        place.sink.apply(FEED, "trigger", token(), floors, 1, [])


def test_an_honest_life_breaks_nothing(place: Place) -> None:
    to: Position = place.write("t00", 1)
    place.applied(A, token(1, 2), to)
    place.applied(B, token(1, 3), to)
    assert place.ledger.feed(FEED).tables["t00"].at == [to] * 8


@pytest.mark.parametrize(
    ("ranges", "covered"),
    [
        ([KeyRange()], True),
        ([KeyRange(b"", b"5"), KeyRange(b"5", None)], True),
        ([KeyRange(b"5", None), KeyRange(b"", b"5")], True),
        ([], False),
        ([KeyRange(b"", b"5"), KeyRange(b"6", None)], False),
        ([KeyRange(b"", b"5"), KeyRange(b"4", None)], False),
        ([KeyRange(b"1", None)], False),
        ([KeyRange(b"", b"5")], False),
    ],
)
def test_cover_means_exactly_once(ranges: list[KeyRange], covered: bool) -> None:
    assert covers_once(ranges) is covered
