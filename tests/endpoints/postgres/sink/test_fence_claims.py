"""Claims at a real sink: who gets a row, and what becomes of the others (F11)."""

from lockgate.model.floors import Refusal
from lockgate.model.ids import SEQ_MAX
from lockgate.model.spans import TRIGGER_SPEC, WHOLE, Birth, Lineage, SpanSpec
from tests.endpoints.postgres.sink.target import HIGH, LOW, A, B, Target, token


def test_a_higher_token_takes_the_row_and_learns_the_position(target: Target) -> None:
    target.apply(A, token(1, 2), target.floors(A, token(1, 2)), 7, key=3)
    assert target.claim(A, token(2, 1)) == ((WHOLE, 7),)


def test_a_repeated_claim_gets_the_same_answer(target: Target) -> None:
    assert target.claim(A, token(1, 2)) == target.claim(A, token(1, 2)) == ((WHOLE, 0),)


def test_a_lower_token_cannot_claim(target: Target) -> None:
    target.claim(A, token(2, 1))
    assert target.claim(A, token(1, 9)) is Refusal.NEWER
    assert target.spans()["a"].token == token(2, 1)


def test_a_transaction_of_an_older_token_does_not_commit(target: Target) -> None:
    floors = target.floors(A, token(1, 2))
    target.claim(A, token(2, 1))
    assert target.apply(A, token(1, 2), floors, 7, key=3) is Refusal.NEWER
    assert target.rows() == {}


def test_a_transaction_from_elsewhere_than_the_row_stands_does_not_commit(target: Target) -> None:
    floors = target.floors(A, token(1, 2))
    target.apply(A, token(1, 2), floors, 7, key=3)
    assert target.apply(A, token(1, 2), floors, 8, key=4) is Refusal.MOVED
    assert target.rows() == {3: 7}


def test_rows_and_position_change_together(target: Target) -> None:
    floors = target.floors(A, token(1, 2))
    assert target.apply(A, token(1, 2), floors, 7, key=3) == ((WHOLE, 7),)
    assert (target.rows(), target.spans()["a"].floors) == ({3: 7}, ((WHOLE, 7),))


def test_a_claim_without_a_row_creates_nothing(target: Target) -> None:
    assert target.claim(SpanSpec("ghost", "t00"), token(9, 9)) is Refusal.GONE
    assert sorted(target.spans()) == ["a", "b"]


# --- split and merge ------------------------------------------------------------------------------

CUT = Lineage(("a",), (LOW, HIGH))


def test_the_first_child_turns_the_parents_row_into_the_childrens(target: Target) -> None:
    target.apply(A, token(1, 2), target.floors(A, token(1, 2)), 7)
    assert target.claim(HIGH, token(1, 4), lineage=CUT) == ((HIGH.range, 7),)
    assert sorted(target.spans()) == ["b", "high", "low"]
    assert target.claim(LOW, token(1, 3), lineage=CUT) == ((LOW.range, 7),)


def test_a_cut_parent_does_not_apply(target: Target) -> None:
    floors = target.floors(A, token(1, 2))
    target.claim(LOW, token(1, 3), lineage=CUT)
    assert target.apply(A, token(1, 2), floors, 7, key=3) is Refusal.GONE
    assert target.rows() == {}


def test_a_merged_span_starts_with_what_each_source_had(target: Target) -> None:
    target.claim(LOW, token(1, 2), lineage=CUT)
    target.apply(LOW, token(1, 3), target.floors(LOW, token(1, 3)), 7)
    target.claim(HIGH, token(1, 4))
    whole = SpanSpec("whole", "t00")
    merged = target.claim(whole, token(1, 5), lineage=Lineage(("low", "high"), (whole,)))
    assert merged == ((LOW.range, 7), (HIGH.range, 0))
    assert target.apply(whole, token(1, 5), merged, 7) == ((WHOLE, 7),)


def test_a_lineage_of_an_older_token_is_refused(target: Target) -> None:
    target.claim(A, token(3, 1))
    assert target.claim(LOW, token(2, 1), lineage=CUT) is Refusal.NEWER
    assert sorted(target.spans()) == ["a", "b"]


def test_a_lineage_of_the_very_token_of_a_source_is_refused(target: Target) -> None:
    target.claim(A, token(3, 1))
    assert target.claim(LOW, token(3, 1), lineage=CUT) is Refusal.NEWER
    assert sorted(target.spans()) == ["a", "b"]


# --- birth, close, tombstones ---------------------------------------------------------------------


def test_closing_voids_every_lower_token(target: Target) -> None:
    floors = target.floors(A, token(1, 2))
    assert target.sink.close(target.feed, token(1, SEQ_MAX), forget=False)
    assert target.apply(A, token(1, 2), floors, 7, key=3) is Refusal.NEWER
    assert target.claim(B, token(1, 3)) is Refusal.NEWER
    assert target.claim(B, token(2, 1)) == ((WHOLE, 0),)


def test_an_old_owner_does_not_close(target: Target) -> None:
    target.claim(TRIGGER_SPEC, token(3, 1))
    assert not target.sink.close(target.feed, token(2, SEQ_MAX), forget=True)
    assert sorted(target.spans()) == ["a", "b"]


def test_a_tombstone_lets_only_a_later_epoch_in(target: Target) -> None:
    assert target.sink.close(target.feed, token(2, 99), forget=True)
    again = Birth(0, (SpanSpec("a2", "t00"), SpanSpec("b2", "t01")))
    assert target.claim(A, token(9, 9)) is Refusal.GONE
    assert target.claim(TRIGGER_SPEC, token(2, 100), birth=again) is Refusal.CLOSED
    assert target.claim(TRIGGER_SPEC, token(3, 1)) is Refusal.GONE
    assert target.claim(TRIGGER_SPEC, token(3, 1), birth=again) == ((WHOLE, 0),)
    assert sorted(target.spans()) == ["a2", "b2"]


def test_forgetting_leaves_nothing_but_the_tombstone(target: Target) -> None:
    floors = target.floors(A, token(1, 2))
    target.sink.record_batch(target.feed, "a", token(1, 2), floors, 9, 4)
    target.sink.plan_chunks(target.feed, "a", token(1, 2), [(None, None)])
    target.sink.close(target.feed, token(2, 99), forget=True)
    left = [
        target.admin.execute(
            f"SELECT count(*) FROM lockgate.{table} WHERE feed = %s", (target.feed,)
        ).fetchone()
        for table in ("feeds", "progress", "parts", "chunks")
    ]
    assert left == [(1,), (0,), (0,), (0,)]


def test_closing_an_unborn_feed_keeps_a_late_birth_out(target: Target) -> None:
    assert target.sink.close(target.feed + "-other", token(2, 99), forget=False)
    late = target.sink.claim(
        target.feed + "-other", TRIGGER_SPEC, token(1, 1), None, Birth(0, (A,))
    )
    assert late is Refusal.NEWER


def test_the_very_token_that_closed_an_unborn_feed_gives_no_birth(target: Target) -> None:
    feed, closed = target.feed + "-other", token(2, 99)
    target.sink.close(feed, closed, forget=False)
    assert target.sink.claim(feed, TRIGGER_SPEC, closed, birth=Birth(0, (A,))) is Refusal.NEWER


def test_rows_born_after_a_close_are_not_claimed_by_who_was_closed(target: Target) -> None:
    target.sink.close(target.feed + "-other", token(2, 99), forget=False)
    target.sink.claim(target.feed + "-other", TRIGGER_SPEC, token(3, 1), None, Birth(0, (A,)))
    assert target.sink.claim(target.feed + "-other", A, token(2, 1)) is Refusal.NEWER
    assert target.sink.claim(target.feed + "-other", A, token(3, 2)) == ((WHOLE, 0),)


def test_a_refused_first_claim_leaves_no_row(target: Target) -> None:
    other = target.feed + "-other"
    assert target.sink.claim(other, TRIGGER_SPEC, token(5, 1)) is Refusal.GONE
    assert target.sink.claim(other, TRIGGER_SPEC, token(1, 1), birth=Birth(3, (A,))) == (
        (WHOLE, 3),
    )


# --- idle spans -----------------------------------------------------------------------------------


def test_idle_spans_move_each_for_itself(target: Target) -> None:
    mine, old = token(1, 2), target.floors(A, token(1, 2))
    target.claim(B, token(2, 1))
    trigger = (TRIGGER_SPEC.id, token(), ((WHOLE, 0),), 5)
    answers = target.sink.advance(
        target.feed, [("a", mine, old, 5), ("b", mine, old, 5), ("ghost", mine, old, 5), trigger]
    )
    moved = ((WHOLE, 5),)
    refused = {"b": Refusal.NEWER, "ghost": Refusal.GONE}
    assert answers == {"a": moved, "trigger": moved} | refused
    assert (target.spans()["a"].floors, target.spans()["b"].floors) == (moved, old)
    again = target.sink.advance(target.feed, [("a", mine, old, 9), trigger])
    assert again == {"a": Refusal.MOVED, "trigger": Refusal.MOVED}


def test_an_uneven_span_comes_level_by_advancing(target: Target) -> None:
    target.claim(LOW, token(1, 2), lineage=CUT)
    target.apply(LOW, token(1, 3), target.floors(LOW, token(1, 3)), 7)
    whole = SpanSpec("whole", "t00")
    merged = target.claim(whole, token(1, 5), lineage=Lineage(("low", "high"), (whole,)))
    assert isinstance(merged, tuple)
    assert target.advance(whole, token(1, 5), merged, 6) == ((LOW.range, 7), (HIGH.range, 6))
    assert target.spans()["whole"].floors == ((LOW.range, 7), (HIGH.range, 6))


def test_thousands_of_idle_spans_move_at_once(target: Target) -> None:
    spans = tuple(SpanSpec(f"s{number}", f"t{number}") for number in range(5_000))
    target.sink.claim(target.feed + "-wide", TRIGGER_SPEC, token(), birth=Birth(0, spans))
    floor, start = token().floor(), ((WHOLE, 0),)
    answers = target.sink.advance(
        target.feed + "-wide", [(spec.id, floor, start, 5) for spec in spans]
    )
    assert set(answers.values()) == {((WHOLE, 5),)}
