"""A table that is begun anew awaits its rows: until they are there, what it replaces is the table.
And what is deleted is deleted again when somebody has made a directory of it once more."""

import msgspec
import pytest

from lockgate.model.lake import TableSeen, WorkKind, WorkOutcome
from lockgate.model.lake_events import DrainTable, DropTable
from lockgate.model.lake_instructions import LakeVerdict
from tests.core.lake.bench import SETTINGS, TROUBLE, Bench, table


@pytest.fixture
def bench() -> Bench:
    bench = Bench()
    bench.lead(table("a"))
    return bench


def awaiting(seen: TableSeen) -> TableSeen:
    return msgspec.structs.replace(seen, awaits=True)


def test_what_is_to_be_replaced_lives_until_the_new_one_has_rows(bench: Bench) -> None:
    new = bench.mine("a", 2)
    bench.seen(bench.mine("a"), awaiting(new))
    bench.tick()
    assert not bench.active(WorkKind.KILL)
    bench.seen(bench.mine("a"), new)
    bench.tick()
    assert bench.tables(WorkKind.KILL) == [("a", 1)]


def test_a_drop_by_name_is_about_the_one_that_has_rows(bench: Bench) -> None:
    bench.handle(DropTable("drop", "a"))
    bench.surveyed(bench.mine("a"), awaiting(bench.mine("a", 2)))
    bench.end("a")
    assert bench.tables(WorkKind.KILL) == [("a", 1)]
    bench.end("a")
    assert bench.answers["drop"].incarnation == 1
    assert bench.verdict("drop") is LakeVerdict.DONE


def test_a_drain_is_about_what_the_name_means_if_the_newest_died_without_rows(
    bench: Bench,
) -> None:
    bench.seen(bench.mine("a"), awaiting(bench.mine("a", 2)))
    bench.handle(DropTable("drop", "a"))
    bench.surveyed(bench.mine("a"), awaiting(bench.mine("a", 2)))
    [newest] = bench.active(WorkKind.KILL)
    bench.over(newest, WorkOutcome.DONE)
    [older] = bench.active(WorkKind.KILL)
    bench.over(older, WorkOutcome.FAILED, TROUBLE)
    bench.handle(DrainTable("drain", "a"))
    bench.surveyed(bench.mine("a"), awaiting(bench.mine("a", 2)))
    assert bench.tables(WorkKind.DRAIN) == [("a", 1)]


def test_one_that_died_before_it_had_rows_has_replaced_nothing(bench: Bench) -> None:
    dead = awaiting(table("a", 2, dead=True))
    bench.seen(bench.mine("a"), dead)
    bench.tick(SETTINGS.retention_ms)
    assert not bench.active(WorkKind.KILL)
    assert bench.tables(WorkKind.DELETE) == [("a", 2)]


def test_a_drop_that_came_no_further_than_the_copy_is_ended_by_whoever_leads(
    bench: Bench,
) -> None:
    dead = awaiting(table("a", 2, dead=True))
    bench.seen(bench.mine("a"), msgspec.structs.replace(dead, dropped=True))
    bench.tick(SETTINGS.retention_ms)
    assert bench.tables(WorkKind.KILL) == [("a", 1)]
    assert not bench.active(WorkKind.DELETE)  # what says that the name was dropped


def test_a_drop_says_in_the_lake_that_it_goes_on_to_older_ones(bench: Bench) -> None:
    bench.handle(DropTable("drop", "a"))
    both = awaiting(bench.mine("a", 2)), awaiting(bench.mine("a", 3))
    bench.surveyed(bench.mine("a"), *both)
    said = []
    for _ in range(3):
        [kill] = bench.active(WorkKind.KILL)
        said.append((kill.incarnation, kill.dropped))
        bench.over(kill, WorkOutcome.DONE)
    assert said == [(3, True), (2, True), (1, False)]
    assert bench.verdict("drop") is LakeVerdict.DONE


@pytest.mark.parametrize("lost", [True, False])
def test_who_asked_for_a_drop_that_came_half_way_is_not_told_that_nothing_happened(
    bench: Bench, *, lost: bool
) -> None:
    bench.handle(DropTable("drop", "a"))
    bench.surveyed(bench.mine("a"), awaiting(bench.mine("a", 2)))
    [copy] = bench.active(WorkKind.KILL)
    bench.over(copy, WorkOutcome.DONE)
    [older] = bench.active(WorkKind.KILL)
    bench.over(older, WorkOutcome.STALE if lost else WorkOutcome.FAILED, TROUBLE)
    assert bench.verdict("drop") is LakeVerdict.UNKNOWN


def test_a_drop_that_has_begun_is_not_called_busy_at_its_deadline(bench: Bench) -> None:
    """Work on another copy may begin behind the first kill."""
    copies = [awaiting(bench.mine("a", 2, rows=1_000)), awaiting(bench.mine("a", 3))]
    busy = [bench.mine("a"), *copies, bench.mine("b")]
    for name in ("a", "b"):
        bench.handle(DrainTable(f"drain {name}", name))
        bench.surveyed(*(one for one in busy if one.table == name))
    bench.seen(*busy)
    bench.tick()
    bench.handle(DropTable("drop", "a", wait_ms=1_000))
    bench.surveyed(*busy[:3])
    [older] = [one for one in bench.active(WorkKind.DRAIN) if one.table == "a"]
    bench.over(older, WorkOutcome.DONE)
    assert bench.tables(WorkKind.KILL) == [("a", 3)]
    assert ("a", 2) in bench.tables(WorkKind.DRAIN)
    bench.tick(1_000)
    assert bench.verdict("drop") is None
    bench.end_all(WorkKind.DRAIN)
    bench.end_all(WorkKind.KILL)
    assert bench.verdict("drop") is LakeVerdict.DONE


def test_a_directory_that_is_there_again_is_deleted_again(bench: Bench) -> None:
    dead = table("a", dead=True)
    bench.seen(dead)
    bench.tick(SETTINGS.retention_ms)
    bench.end("a")
    bench.surveyed(dead)
    assert not bench.active()
    bench.seen(dead)
    bench.tick()
    assert bench.tables(WorkKind.DELETE) == [("a", 1)]


def test_a_survey_that_was_begun_before_the_deletion_ended_does_not_have_it_repeated(
    bench: Bench,
) -> None:
    dead = table("a", dead=True)
    bench.seen(dead)
    bench.tick(SETTINGS.retention_ms)
    before = bench.surveys()[-1].number
    bench.end("a")
    bench.surveyed(dead, number=before)
    bench.tick()
    assert not bench.active()


def test_people_are_told_which_one_the_name_means(bench: Bench) -> None:
    def meant() -> list[int]:
        return [one.incarnation for one in bench.keeper.status().tables if one.meant]

    bench.seen(bench.mine("a"), awaiting(bench.mine("a", 2)))
    assert meant() == [1]
    bench.seen(bench.mine("a"), awaiting(table("a", 2, dead=True)), bench.mine("a", 3))
    assert meant() == [3]
    bench.seen(bench.mine("a", 3), awaiting(table("a", 4, dead=True)))
    assert meant() == [3]
