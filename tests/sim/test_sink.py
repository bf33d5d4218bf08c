"""The fake sink keeps the fence that a real one has to keep (F11)."""

import pytest

from lockgate.model.ddl import Ddl, DdlKind
from lockgate.model.floors import Refusal
from lockgate.model.spans import TRIGGER, TRIGGER_SPEC, WHOLE, Birth, Lineage, SpanSpec
from tests.sim.place import FEED, HIGH, LOW, A, B, Place, token


@pytest.fixture
def place() -> Place:
    return Place()


def test_the_first_claim_copies_the_tables(place: Place) -> None:
    at = place.sink.feed(FEED)
    assert sorted(at.tables) == ["t00", "t01"]
    assert {span: row.position for span, row in at.spans.items()} == {"a": 0, "b": 0}


def test_a_higher_token_takes_the_row_and_learns_the_position(place: Place) -> None:
    to = place.write("t00", 3)
    place.applied(A, token(1, 2), to)
    assert place.claim(A, token(2, 1)) == ((WHOLE, to),)


def test_a_repeated_claim_gets_the_same_answer(place: Place) -> None:
    assert place.claim(A, token(1, 2)) == place.claim(A, token(1, 2)) == ((WHOLE, 0),)


def test_a_lower_token_cannot_claim(place: Place) -> None:
    place.claim(A, token(2, 1))
    assert place.claim(A, token(1, 9)) is Refusal.NEWER


def test_a_transaction_of_an_older_token_does_not_commit(place: Place) -> None:
    to = place.write("t00", 3)
    floors = place.claim(A, token(1, 2))
    place.claim(A, token(2, 1))
    assert isinstance(floors, tuple)
    assert place.apply(A, token(1, 2), floors, to) is Refusal.NEWER
    assert place.sink.feed(FEED).tables["t00"].rows[3] is None


def test_a_transaction_from_elsewhere_than_the_row_stands_does_not_commit(place: Place) -> None:
    to = place.write("t00", 3)
    place.applied(A, token(1, 2), to)
    assert place.apply(A, token(1, 2), ((WHOLE, 0),), to) is Refusal.MOVED


def test_rows_and_position_change_together(place: Place) -> None:
    to = place.write("t00", 3)
    assert place.applied(A, token(1, 2), to) == ((WHOLE, to),)
    at = place.sink.feed(FEED)
    assert (at.tables["t00"].rows[3], at.spans["a"].position) == (to, to)


def test_a_claim_without_a_row_creates_nothing(place: Place) -> None:
    assert place.claim(SpanSpec("ghost", "t00"), token(9, 9)) is Refusal.GONE
    assert "ghost" not in place.sink.feed(FEED).spans


def test_the_first_child_turns_the_parents_row_into_the_childrens(place: Place) -> None:
    to = place.write("t00", 3)
    place.applied(A, token(1, 2), to)
    cut = Lineage(("a",), (LOW, HIGH))
    assert place.claim(HIGH, token(1, 4), lineage=cut) == ((HIGH.range, to),)
    assert sorted(place.sink.feed(FEED).spans) == ["b", "high", "low"]
    assert place.claim(LOW, token(1, 3), lineage=cut) == ((LOW.range, to),)


def test_a_cut_parent_does_not_apply(place: Place) -> None:
    to = place.write("t00", 3)
    floors = place.claim(A, token(1, 2))
    place.claim(LOW, token(1, 3), lineage=Lineage(("a",), (LOW, HIGH)))
    assert isinstance(floors, tuple)
    assert place.apply(A, token(1, 2), floors, to) is Refusal.GONE


def test_a_merged_span_starts_with_what_each_source_had(place: Place) -> None:
    place.claim(LOW, token(1, 2), lineage=Lineage(("a",), (LOW, HIGH)))
    to = place.write("t00", 0)
    place.applied(LOW, token(1, 3), to)
    place.claim(HIGH, token(1, 4))
    whole = SpanSpec("whole", "t00")
    joined = place.claim(whole, token(1, 5), lineage=Lineage(("low", "high"), (whole,)))
    assert joined == ((LOW.range, to), (HIGH.range, 0))
    assert isinstance(joined, tuple)
    assert place.apply(whole, token(1, 5), joined, to) == ((WHOLE, to),)


def test_a_lineage_of_an_older_token_is_refused(place: Place) -> None:
    place.claim(A, token(3, 1))
    cut = Lineage(("a",), (LOW, HIGH))
    assert place.claim(LOW, token(2, 1), lineage=cut) is Refusal.NEWER


def _ddl(place: Place, kind: DdlKind, *tables: str) -> Ddl:
    place.ddl(kind, *tables)
    return place.source.ddls[-1]


def _advance_trigger(place: Place, to: int) -> None:
    floors = place.claim(TRIGGER_SPEC, token())
    assert isinstance(floors, tuple)
    place.sink.apply(FEED, TRIGGER, token(), floors, to, [])


def test_a_ddl_waits_for_everybody_concerned(place: Place) -> None:
    last = place.write("t00", 1)
    drop = _ddl(place, DdlKind.DROP, "t00")
    _advance_trigger(place, last)
    assert place.sink.write_ddl(FEED, token(), drop, ()) is Refusal.BEHIND
    place.applied(A, token(1, 2), last)
    assert place.sink.write_ddl(FEED, token(), drop, ()) == drop.position
    assert "t00" not in place.sink.feed(FEED).tables
    assert "a" not in place.sink.feed(FEED).spans


def test_a_ddl_is_written_once(place: Place) -> None:
    alter = _ddl(place, DdlKind.ALTER, "t01")
    assert place.sink.write_ddl(FEED, token(), alter, ()) == alter.position
    version = place.sink.feed(FEED).tables["t01"].version
    assert place.sink.write_ddl(FEED, token(), alter, ()) == alter.position
    assert place.sink.feed(FEED).tables["t01"].version == version


def test_a_ddl_moves_the_rows_of_everybody_concerned(place: Place) -> None:
    alter = _ddl(place, DdlKind.ALTER, "t01")
    place.sink.write_ddl(FEED, token(), alter, ())
    at = place.sink.feed(FEED)
    assert (at.spans["b"].position, at.spans["a"].position) == (alter.position, 0)


def test_a_created_table_is_born_at_its_ddl(place: Place) -> None:
    create = _ddl(place, DdlKind.CREATE, "t05")
    new = SpanSpec("new", "t05")
    place.sink.write_ddl(FEED, token(), create, (new,))
    assert place.claim(new, token(1, 2)) == ((WHOLE, create.position),)


def test_an_old_trigger_writes_no_ddl(place: Place) -> None:
    alter = _ddl(place, DdlKind.ALTER, "t01")
    place.claim(TRIGGER_SPEC, token(2, 1))
    assert place.sink.write_ddl(FEED, token(), alter, ()) is Refusal.NEWER


def test_closing_voids_every_lower_token(place: Place) -> None:
    floors = place.claim(A, token(1, 2))
    assert place.sink.close(FEED, token(1, 99), forget=False)
    assert isinstance(floors, tuple)
    assert place.apply(A, token(1, 2), floors, place.write("t00", 1)) is Refusal.NEWER
    assert place.claim(B, token(1, 3)) is Refusal.NEWER
    assert place.claim(B, token(2, 1)) == ((WHOLE, 0),)


def test_an_old_owner_does_not_close(place: Place) -> None:
    place.claim(TRIGGER_SPEC, token(3, 1))
    assert not place.sink.close(FEED, token(2, 99), forget=True)
    assert place.sink.feed(FEED).spans


def test_a_tombstone_lets_only_a_later_epoch_in(place: Place) -> None:
    place.sink.close(FEED, token(2, 99), forget=True)
    again = Birth(0, (SpanSpec("a2", "t00"), SpanSpec("b2", "t01")))
    assert place.claim(TRIGGER_SPEC, token(2, 100), birth=again) is Refusal.CLOSED
    assert place.claim(TRIGGER_SPEC, token(3, 1)) is Refusal.GONE
    assert place.claim(TRIGGER_SPEC, token(3, 1), birth=again) == ((WHOLE, 0),)


def test_closing_an_unborn_feed_keeps_a_late_birth_out() -> None:
    place = Place()
    place.sink.close("other", token(2, 99), forget=False)
    late = place.sink.claim("other", TRIGGER_SPEC, token(1, 1), None, Birth(0, (A,)))
    assert late is Refusal.NEWER


def test_rows_born_after_a_close_are_not_claimed_by_who_was_closed() -> None:
    """The names of an unborn feed's spans come again when it is resumed."""
    place = Place()
    place.sink.close("other", token(2, 99), forget=False)
    place.sink.claim("other", TRIGGER_SPEC, token(3, 1), None, Birth(0, (A,)))
    assert place.sink.claim("other", A, token(0, 46), None, None) is Refusal.NEWER
    assert place.sink.claim("other", A, token(2, 1), None, None) is Refusal.NEWER
    assert place.sink.claim("other", A, token(3, 2), None, None) == ((WHOLE, 0),)


def test_rows_of_a_created_table_are_not_claimed_under_an_older_owner(place: Place) -> None:
    place.claim(TRIGGER_SPEC, token(2, 1))
    position = place.ddl(DdlKind.CREATE, "t02")
    place.sink.apply(FEED, TRIGGER, token(2, 1), ((WHOLE, 0),), position - 1, [])
    new = SpanSpec("new", "t02")
    ddl = Ddl(position, DdlKind.CREATE, ("t02",))
    assert place.sink.write_ddl(FEED, token(2, 1), ddl, (new,)) == position
    assert place.claim(new, token(1, 9)) is Refusal.NEWER
