"""The chunks of a copy at the sink: planned once, done once, handed down, forgotten."""

from concurrent.futures import ThreadPoolExecutor

import msgspec
import psycopg
import pytest

from lockgate.endpoints.postgres.sink.chunks import Chunk, unland_chunks
from lockgate.endpoints.postgres.sink.gate import Refused, chunk_done, enter_copy
from lockgate.endpoints.postgres.sink.snapshots import BLIND
from lockgate.model.ddl import Ddl, DdlKind
from lockgate.model.floors import Refusal
from lockgate.model.ids import Token
from lockgate.model.spans import WHOLE, KeyRange, Lineage, SpanSpec
from tests.endpoints.postgres.sink.target import HIGH, LOW, A, B, Target, token
from tests.support.waiting import until

ME = token(1, 2)
SNAPSHOT = "740:745:741,743"
EDGES = [(None, ("10", "ä b")), (("10", "ä b"), ("20", "")), (("20", ""), None)]


def copy(
    target: Target, chunk: int, by: Token = ME, span: str = "a", rows: int = 100, run: int = 0
) -> bool:
    """A copy task: False when the chunk has landed already."""
    with target.session(span) as connection, connection.cursor() as cursor:
        if not enter_copy(cursor, target.feed, span, by, chunk, run):
            return False
        target.write(cursor, "t00", chunk, rows)
        chunk_done(cursor, target.feed, span, chunk, snapshot=SNAPSHOT, rows=rows, bytes_=rows * 10)
        connection.commit()
    return True


@pytest.fixture
def planned(target: Target) -> Target:
    """Span `a` is claimed, and its copy is planned in three chunks."""
    target.claim(A, ME)
    found = target.sink.plan_chunks(target.feed, "a", ME, EDGES)
    assert found == [Chunk(no, *edges) for no, edges in enumerate(EDGES)]
    return target


def test_a_copy_is_planned_once(planned: Target) -> None:
    again = planned.sink.plan_chunks(planned.feed, "a", ME, [(None, None)])
    assert again == planned.sink.chunks(planned.feed, "a") != []
    assert isinstance(again, list)
    assert [chunk.low for chunk in again] == [None, ("10", "ä b"), ("20", "")]


def test_a_chunk_lands_with_its_snapshot_and_once(planned: Target) -> None:
    assert copy(planned, 1)
    assert not copy(planned, 1, rows=7)
    found = planned.sink.chunks(planned.feed, "a")[1]
    assert found == Chunk(1, *EDGES[1], WHOLE, SNAPSHOT, 100, 1000, done=True)
    assert planned.rows() == {1: 100}


def test_two_attempts_at_a_chunk_do_not_both_land(planned: Target) -> None:
    with ThreadPoolExecutor(1) as threads, planned.session() as connection:
        with connection.cursor() as cursor:
            assert enter_copy(cursor, planned.feed, "a", ME, 0)
            second = threads.submit(copy, planned, 0)
            until(planned.waiting)
            chunk_done(cursor, planned.feed, "a", 0, snapshot=SNAPSHOT, rows=1, bytes_=1)
            connection.commit()
        assert second.result() is False


def test_a_copy_task_of_an_older_token_is_refused(planned: Target) -> None:
    planned.claim(A, token(2, 1))
    with pytest.raises(Refused) as refused:
        copy(planned, 0)
    assert refused.value.refusal is Refusal.NEWER
    assert planned.rows() == {}


def test_a_task_of_an_earlier_run_is_waited_for_or_refused(planned: Target) -> None:
    """It reads under a snapshot that the span may have moved past, since nothing had landed."""
    sink, feed = planned.sink, planned.feed
    with planned.session() as connection, connection.cursor() as cursor:
        assert enter_copy(cursor, feed, "a", ME, 0)
        with ThreadPoolExecutor(1) as threads:
            begun = threads.submit(sink.begin_copy_run, feed, "a", ME)
            until(planned.waiting)
            assert not begun.done()
            chunk_done(cursor, feed, "a", 0, snapshot=SNAPSHOT, rows=1, bytes_=1)
            connection.commit()
            assert begun.result() == 1
    assert [chunk.done for chunk in sink.chunks(feed, "a")] == [True, False, False]
    with pytest.raises(Refused) as refused:
        copy(planned, 1)
    assert refused.value.refusal is Refusal.MOVED
    assert copy(planned, 1, run=1)


def test_a_task_of_an_earlier_run_that_hangs_is_ended(hasty: Target) -> None:
    hasty.claim(A, ME)
    hasty.sink.plan_chunks(hasty.feed, "a", ME, EDGES)
    with hasty.session() as connection, connection.cursor() as cursor:
        assert enter_copy(cursor, hasty.feed, "a", ME, 0)
        assert hasty.sink.begin_copy_run(hasty.feed, "a", ME) == 1
        with pytest.raises(psycopg.OperationalError):
            connection.commit()


def test_only_the_owner_begins_a_run(planned: Target) -> None:
    planned.claim(A, token(2, 1))
    assert planned.sink.begin_copy_run(planned.feed, "a", ME) is Refusal.NEWER


def test_a_chunk_or_span_that_is_not_there_is_refused(planned: Target) -> None:
    with pytest.raises(Refused) as refused:
        copy(planned, 3)
    assert refused.value.refusal is Refusal.MOVED
    with pytest.raises(Refused) as refused:
        copy(planned, 0, span="ghost")
    assert refused.value.refusal is Refusal.GONE
    assert planned.sink.plan_chunks(planned.feed, "b", ME, EDGES) is Refusal.NEWER


def test_the_copy_is_over_when_all_chunks_have_landed_and_the_rest_is_built(
    planned: Target,
) -> None:
    sink, feed = planned.sink, planned.feed
    for chunk in range(3):
        assert sink.mark_built(feed, "a", ME) is Refusal.BEHIND
        copy(planned, chunk)
    assert sink.all_done(feed, "a") is False
    assert sink.forget_chunks(feed, "a", ME) is Refusal.BEHIND
    assert sink.mark_built(feed, "a", token(1, 1)) is Refusal.NEWER
    assert sink.mark_built(feed, "a", ME) is None
    assert sink.all_done(feed, "a") is True
    assert sink.forget_chunks(feed, "a", token(1, 1)) is Refusal.NEWER
    assert sink.forget_chunks(feed, "a", ME) is None
    assert sink.forget_chunks(feed, "a", ME) is None
    assert (sink.chunks(feed, "a"), sink.all_done(feed, "a")) == ([], True)


def test_a_copy_that_begins_anew_is_not_built(planned: Target) -> None:
    _all_built(planned)
    with planned.session() as connection, connection.cursor() as cursor:
        unland_chunks(cursor, planned.feed, "a", ME)
        connection.commit()
    assert planned.sink.all_done(planned.feed, "a") is False


@pytest.mark.parametrize("built", [True, False])
def test_a_split_and_a_merge_keep_what_is_built(planned: Target, built: bool) -> None:
    _all_built(planned)
    if not built:
        planned.admin.execute("UPDATE lockgate.progress SET built = false WHERE span = 'a'")
    planned.claim(LOW, token(1, 3), lineage=CUT)
    assert planned.sink.all_done(planned.feed, "high") is built
    planned.claim(WHOLE_AGAIN, token(1, 4), lineage=Lineage(("low", "high"), (WHOLE_AGAIN,)))
    assert planned.sink.all_done(planned.feed, "whole") is built


def _all_built(planned: Target) -> None:
    for chunk in range(3):
        copy(planned, chunk)
    assert planned.sink.mark_built(planned.feed, "a", ME) is None


def test_a_copy_that_is_over_is_not_planned_anew(planned: Target) -> None:
    _all_built(planned)
    planned.sink.forget_chunks(planned.feed, "a", ME)
    planned.claim(A, token(2, 1))
    assert planned.sink.plan_chunks(planned.feed, "a", token(2, 1), EDGES) == []
    assert planned.sink.all_done(planned.feed, "a") is True


def test_a_table_that_need_not_be_copied_is_said_so(target: Target) -> None:
    target.claim(A, ME)
    assert target.sink.all_done(target.feed, "a") is False
    assert target.sink.forget_chunks(target.feed, "a", ME) is Refusal.BEHIND  # nothing was planned
    assert target.sink.forget_chunks(target.feed, "a", ME, uncopied=True) is None
    assert target.sink.all_done(target.feed, "a") is True


def test_a_planned_copy_is_not_skipped(planned: Target) -> None:
    for chunk in range(3):
        copy(planned, chunk)
    assert planned.sink.forget_chunks(planned.feed, "a", ME, uncopied=True) is Refusal.BEHIND


def test_a_table_created_in_the_stream_is_not_copied(target: Target) -> None:
    new = SpanSpec("new", "t02")
    ddl = Ddl(1, DdlKind.CREATE, ("t02",))
    assert target.sink.write_ddl(target.feed, token(), ddl, (new,), []) == 1
    assert target.sink.all_done(target.feed, "new") is True


def test_an_empty_plan_is_refused(target: Target) -> None:
    target.claim(B, ME)
    with pytest.raises(ValueError, match="one chunk without edges"):
        target.sink.plan_chunks(target.feed, "b", ME, [])


# --- split and merge in the middle of a copy ------------------------------------------------------

CUT = Lineage(("a",), (LOW, HIGH))
WHOLE_AGAIN = SpanSpec("whole", "t00")


def test_a_split_hands_every_chunk_down_to_each_child(planned: Target) -> None:
    copy(planned, 0)
    planned.claim(LOW, token(1, 3), lineage=CUT)
    low, high = (planned.sink.chunks(planned.feed, span) for span in ("low", "high"))
    for found, spec in ((low, LOW), (high, HIGH)):
        assert [(chunk.low, chunk.high) for chunk in found] == EDGES
        assert [chunk.done for chunk in found] == [True, False, False]
        assert {chunk.keys for chunk in found} == {spec.range}
        assert [chunk.snapshot for chunk in found] == [SNAPSHOT, None, None]
    assert sum(chunk.rows for chunk in low + high) == 100
    assert planned.sink.chunks(planned.feed, "a") == []


def test_a_merge_keeps_what_each_source_has_copied(planned: Target) -> None:
    planned.claim(LOW, token(1, 3), lineage=CUT)
    for chunk in range(3):
        copy(planned, chunk, by=token(1, 3), span="low", rows=5)
    back = Lineage(("low", "high"), (WHOLE_AGAIN,))
    planned.claim(WHOLE_AGAIN, token(1, 4), lineage=back)
    found = planned.sink.chunks(planned.feed, "whole")
    assert [chunk.no for chunk in found] == list(range(6))
    assert {(chunk.keys, chunk.done) for chunk in found} == {(LOW.range, True), (HIGH.range, False)}
    assert planned.sink.all_done(planned.feed, "whole") is False


MERGED = Lineage(("low", "high"), (WHOLE_AGAIN,))
CUT_AGAIN = Lineage(
    ("whole",), (SpanSpec("low2", "t00", LOW.range), SpanSpec("high2", "t00", HIGH.range))
)
LOW_IS_THERE = Chunk(0, keys=LOW.range, snapshot=BLIND, done=True)


def test_a_merge_of_copied_and_unplanned_leaves_the_unplanned_to_copy(target: Target) -> None:
    target.claim(LOW, ME, lineage=CUT)
    target.sink.forget_chunks(target.feed, "low", ME, uncopied=True)
    target.claim(WHOLE_AGAIN, token(1, 4), lineage=MERGED)
    found = target.sink.chunks(target.feed, "whole")
    assert found == [Chunk(0, keys=HIGH.range), msgspec.structs.replace(LOW_IS_THERE, no=1)]
    assert target.sink.all_done(target.feed, "whole") is False


@pytest.fixture
def merged(planned: Target) -> Target:
    """The rows of `low` are there and their snapshot is forgotten; those of `high` are built."""
    planned.claim(LOW, token(1, 3), lineage=CUT)
    planned.claim(HIGH, token(1, 3), lineage=CUT)
    for span in ("low", "high"):
        for chunk in range(3):
            copy(planned, chunk, by=token(1, 3), span=span)
        assert planned.sink.mark_built(planned.feed, span, token(1, 3)) is None
    assert planned.sink.forget_chunks(planned.feed, "low", token(1, 3)) is None
    planned.claim(WHOLE_AGAIN, token(1, 4), lineage=MERGED)
    return planned


def test_a_merge_of_copied_and_built_keeps_the_snapshot_to_the_keys_it_is_of(
    merged: Target,
) -> None:
    found = merged.sink.chunks(merged.feed, "whole")
    assert [(chunk.keys, chunk.snapshot, chunk.low, chunk.high) for chunk in found] == [
        *((HIGH.range, SNAPSHOT, *edges) for edges in EDGES),
        (LOW.range, BLIND, None, None),
    ]
    assert all(chunk.done for chunk in found)
    assert merged.sink.all_done(merged.feed, "whole") is True
    assert merged.spans()["whole"].copied is False


def test_a_split_of_such_a_merge_knows_again_whose_copy_is_over(merged: Target) -> None:
    low = CUT_AGAIN.targets[0]
    merged.claim(low, token(1, 5), lineage=CUT_AGAIN)
    spans = merged.spans()
    assert (spans["low2"].copied, spans["high2"].copied, spans["high2"].built) == (
        *(True, False, True),
    )
    assert merged.sink.chunks(merged.feed, "low2") == []
    found = merged.sink.chunks(merged.feed, "high2")
    assert {(chunk.keys, chunk.snapshot) for chunk in found} == {(HIGH.range, SNAPSHOT)}


def test_a_split_across_such_a_merge_keeps_both_snapshots(merged: Target) -> None:
    """Cut within the part whose copy is over: one has that alone, the other some of each."""
    first = SpanSpec("first", "t00", KeyRange(b"", b"\x40"))
    rest = SpanSpec("rest", "t00", KeyRange(b"\x40", None))
    merged.claim(first, token(1, 5), lineage=Lineage(("whole",), (first, rest)))
    assert merged.spans()["first"].copied is True
    found = merged.sink.chunks(merged.feed, "rest")
    assert {(chunk.keys, chunk.snapshot) for chunk in found} == {
        (HIGH.range, SNAPSHOT),
        (KeyRange(b"\x40", b"\x80"), BLIND),
    }


def test_a_merge_that_begins_anew_copies_what_was_over_too(merged: Target) -> None:
    with merged.session("whole") as connection, connection.cursor() as cursor:
        unland_chunks(cursor, merged.feed, "whole", token(1, 4))
        connection.commit()
    found = merged.sink.chunks(merged.feed, "whole")
    assert Chunk(3, keys=LOW.range) in found
    assert not any(chunk.done for chunk in found)


def test_a_split_of_an_unplanned_copy_stays_unplanned(target: Target) -> None:
    target.claim(LOW, ME, lineage=CUT)
    assert target.sink.chunks(target.feed, "low") == []
    planned = target.sink.plan_chunks(target.feed, "low", ME, [(None, None)])
    assert planned == [Chunk(0, keys=KeyRange(b"", b"\x80"))]


def test_a_split_after_the_copy_has_nothing_to_copy(target: Target) -> None:
    target.claim(A, ME)
    target.sink.forget_chunks(target.feed, "a", ME, uncopied=True)
    target.claim(LOW, token(1, 3), lineage=CUT)
    for span in ("low", "high"):
        assert target.sink.all_done(target.feed, span) is True
        assert target.sink.chunks(target.feed, span) == []
