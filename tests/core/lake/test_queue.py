"""The queue: one piece of work per table, so many at a time, in order, by policy and on demand."""

import pytest

from lockgate.model.lake import Figures, LakeSettings, TableSeen, WorkKind, WorkOutcome
from lockgate.model.lake_events import DrainTable
from lockgate.model.lake_instructions import LakeVerdict
from tests.core.lake.bench import SETTINGS, TROUBLE, Bench, table

MB = 1024 * 1024


@pytest.fixture
def bench() -> Bench:
    bench = Bench()
    bench.lead(table("a"), table("b"), table("c"))
    return bench


def drain(bench: Bench, name: str, request: str) -> None:
    bench.handle(DrainTable(request, name))
    bench.surveyed(bench.mine(name))


def test_no_more_is_begun_than_there_are_workers(bench: Bench) -> None:
    for name in ("a", "b", "c"):
        drain(bench, name, name)
    assert bench.tables(WorkKind.DRAIN) == [("a", 1), ("b", 1)]
    bench.end("b")
    assert bench.tables(WorkKind.DRAIN) == [("a", 1), ("c", 1)]


def test_a_second_drain_of_a_table_waits_for_the_first(bench: Bench) -> None:
    drain(bench, "a", "one")
    drain(bench, "a", "two")
    assert len(bench.active()) == 1
    bench.end("a")
    assert bench.verdict("one") is LakeVerdict.DONE
    assert bench.verdict("two") is None, "changes may have come since the first began"
    bench.end("a")
    assert bench.verdict("two") is LakeVerdict.DONE


def test_drains_that_wait_for_one_table_are_one(bench: Bench) -> None:
    for request in ("one", "two", "three"):
        drain(bench, "a", request)
    bench.end("a")
    bench.end("a", WorkOutcome.NOTHING)
    assert bench.verdict("two") is bench.verdict("three") is LakeVerdict.NOTHING
    assert not bench.active()


def test_draining_all_tables_is_answered_when_the_last_is_through(bench: Bench) -> None:
    bench.handle(DrainTable("all", None))
    bench.surveyed(bench.mine("a"), bench.mine("b"), bench.mine("c"))
    bench.end("a")
    bench.end("b", WorkOutcome.FAILED, TROUBLE)
    assert bench.verdict("all") is None
    bench.end("c")
    assert bench.verdict("all") is LakeVerdict.FAILED
    assert [one.table for one in bench.answers["all"].failed] == ["b"]


def test_draining_all_of_no_tables_is_nothing_to_do() -> None:
    bench = Bench()
    bench.lead()
    bench.handle(DrainTable("all", None))
    bench.surveyed()
    assert bench.verdict("all") is LakeVerdict.NOTHING


def test_a_drain_of_unknown_outcome_is_not_called_failed(bench: Bench) -> None:
    drain(bench, "a", "drain")
    bench.end("a", WorkOutcome.UNKNOWN, TROUBLE)
    assert bench.verdict("drain") is LakeVerdict.UNKNOWN


def test_a_drain_finds_the_table_dead_and_skips_it(bench: Bench) -> None:
    drain(bench, "a", "drain")
    bench.end("a", WorkOutcome.DEAD)
    assert bench.verdict("drain") is LakeVerdict.SUPERSEDED
    assert bench.keeper.status().tables[0].state.value == "dead"


def test_a_table_that_is_not_ours_yet_is_claimed_before_it_is_drained(bench: Bench) -> None:
    bench.handle(DrainTable("drain", "new"))
    bench.surveyed(table("new"))
    assert [work.kind for work in bench.active()] == [WorkKind.CLAIM]
    bench.end("new")
    assert [work.kind for work in bench.active()] == [WorkKind.DRAIN]


def test_who_waits_for_a_table_that_cannot_be_claimed_is_told(bench: Bench) -> None:
    bench.handle(DrainTable("drain", "new"))
    bench.surveyed(table("new"))
    bench.end("new", WorkOutcome.FAILED, TROUBLE)
    assert bench.answers["drain"].hint == TROUBLE.hint


def test_people_do_not_wait_for_a_table_to_have_rested(bench: Bench) -> None:
    drain(bench, "a", "one")
    bench.end("a", WorkOutcome.FAILED, TROUBLE)
    drain(bench, "a", "two")
    assert bench.tables(WorkKind.DRAIN) == [("a", 1)]


# --- by policy --------------------------------------------------------------------------------

POLICY = LakeSettings(
    drain_rows=1_000,
    drain_bytes=MB,
    drain_ms=60_000,
    drain_share=0.1,
    share_rows_min=50,
    compact_files=4,
    vacuum_ms=3_600_000,
    survey_ms=SETTINGS.survey_ms,
)


def due(figures: Figures) -> WorkKind | None:
    """What a leader begins for a table with these figures."""
    bench = Bench(settings=POLICY)
    bench.lead(table("a"))
    bench.seen(TableSeen("a", 1, token=bench.token, figures=figures))
    bench.tick()
    return bench.active()[0].kind if bench.active() else None


@pytest.mark.parametrize(
    ("figures", "kind"),
    [
        (Figures(), None),
        (Figures(ingest_rows=999, stable_rows=10_000), None),
        (Figures(ingest_rows=1_000, stable_rows=10**6), WorkKind.DRAIN),
        (Figures(ingest_rows=1, ingest_bytes=MB, stable_rows=10**6), WorkKind.DRAIN),
        (Figures(ingest_rows=1, oldest_ms=60_000, stable_rows=10**6), WorkKind.DRAIN),
        (Figures(ingest_rows=1, oldest_ms=50_000, stable_rows=10**6), None),
        (Figures(ingest_rows=100, stable_rows=1_000), WorkKind.DRAIN),
        (Figures(ingest_rows=99, stable_rows=1_000), None),
        (Figures(ingest_rows=49, stable_rows=0), None),
        (Figures(small_files=4), WorkKind.COMPACT),
        (Figures(small_files=3), None),
    ],
    ids=lambda value: "" if isinstance(value, Figures) else str(value),
)
def test_the_policy(figures: Figures, kind: WorkKind | None) -> None:
    assert due(figures) is kind


def test_changes_grow_old_between_surveys() -> None:
    bench = Bench(settings=POLICY)
    bench.lead(table("a"))
    figures = Figures(ingest_rows=1, oldest_ms=50_000)
    bench.seen(TableSeen("a", 1, token=bench.token, figures=figures))
    bench.tick(9_000)
    assert not bench.active()
    bench.tick(1_000)
    assert bench.tables(WorkKind.DRAIN) == [("a", 1)]


def test_a_vacuum_is_due_after_its_time(bench: Bench) -> None:
    bench.seen(bench.mine("a"))
    bench.tick(SETTINGS.vacuum_ms)
    assert bench.tables(WorkKind.VACUUM) == [("a", 1)]
    bench.end("a")
    bench.tick()
    assert not bench.active(WorkKind.VACUUM)


@pytest.mark.parametrize(("awaits", "due"), [(False, True), (True, False)])
def test_a_vacuum_is_for_every_table_that_has_had_rows(awaits: bool, due: bool) -> None:
    """Also for one that has none just now, like a queue; never while a first copy may be made."""
    bench = Bench(settings=POLICY)
    bench.lead(table("a"))
    bench.seen(TableSeen("b", 1, token=bench.token, awaits=awaits))
    bench.tick(POLICY.vacuum_ms)
    assert (("b", 1) in bench.tables(WorkKind.VACUUM)) is due
