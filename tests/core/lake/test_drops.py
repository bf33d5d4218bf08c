"""A drop and a drain never meet: busy, waiting, superseded, dead; and every answer is true."""

import pytest

from lockgate.model.lake import LakeTrouble, Leadership, TableSeen, WorkKind, WorkOutcome
from lockgate.model.lake_events import (
    DrainTable,
    DropTable,
    KeeperOver,
    StepUp,
    SurveyFailed,
    WorkEnded,
)
from lockgate.model.lake_instructions import LakeVerdict, RunWork, StopWork, Survey
from tests.core.lake.bench import SETTINGS, TROUBLE, Bench, table

MAYBE = LakeTrouble("the connection broke")


@pytest.fixture
def bench() -> Bench:
    """It leads three tables, and has two workers."""
    bench = Bench()
    bench.lead(table("a"), table("b"), table("c"))
    return bench


def ask(bench: Bench, verb: DropTable | DrainTable, *found: TableSeen) -> None:
    bench.handle(verb)
    bench.surveyed(*found)


def drain(bench: Bench, name: str, request: str = "") -> None:
    ask(bench, DrainTable(request or f"drain {name}", name), bench.mine(name))


def drop(bench: Bench, name: str, wait_ms: int = 0, request: str = "drop") -> None:
    ask(bench, DropTable(request, name, wait_ms=wait_ms), bench.mine(name))


def test_a_table_is_looked_at_before_it_is_dropped(bench: Bench) -> None:
    bench.handle(DropTable("drop", "a"))
    assert [one.table for one in bench.of(Survey)] == ["a"]
    assert not bench.of(RunWork)


def test_a_table_that_nobody_works_on_is_killed(bench: Bench) -> None:
    drop(bench, "a")
    assert bench.tables(WorkKind.KILL) == [("a", 1)]
    assert bench.verdict("drop") is None
    bench.end("a")
    assert bench.verdict("drop") is LakeVerdict.DONE
    assert bench.answers["drop"].incarnation == 1


def test_queued_work_is_superseded_once_the_table_is_dead_and_never_begun(bench: Bench) -> None:
    for name in ("a", "b", "c"):
        drain(bench, name)
    drop(bench, "c")
    assert bench.verdict("drain c") is None, "the kill may still fail"
    bench.end("c")
    assert bench.verdict("drop") is LakeVerdict.DONE
    assert bench.verdict("drain c") is LakeVerdict.SUPERSEDED
    bench.end("a")
    bench.end("b")
    assert not bench.active()


def test_a_kill_that_failed_leaves_queued_work_in_its_place(bench: Bench) -> None:
    for name in ("a", "b", "c"):
        drain(bench, name)
    drop(bench, "c")
    bench.end("c", WorkOutcome.FAILED, TROUBLE)
    assert bench.verdict("drop") is LakeVerdict.FAILED
    bench.end("a")
    assert bench.tables(WorkKind.DRAIN) == [("b", 1), ("c", 1)]


def test_active_work_makes_the_table_busy_and_goes_on(bench: Bench) -> None:
    drain(bench, "a")
    drop(bench, "a")
    assert bench.verdict("drop") is LakeVerdict.BUSY
    assert not bench.of(StopWork)
    bench.end("a")
    assert bench.verdict("drain a") is LakeVerdict.DONE
    assert not bench.active(WorkKind.KILL)


def test_a_drop_that_waits_comes_before_queued_work(bench: Bench) -> None:
    drain(bench, "a")
    drain(bench, "a", "again")
    drop(bench, "a", wait_ms=1_000)
    bench.end("a")
    assert bench.tables(WorkKind.KILL) == [("a", 1)]
    bench.end("a")
    assert bench.verdict("drop") is LakeVerdict.DONE
    assert bench.verdict("again") is LakeVerdict.SUPERSEDED


def test_a_drop_that_waited_too_long_is_busy_and_changes_nothing(bench: Bench) -> None:
    drain(bench, "a")
    drain(bench, "a", "again")
    drop(bench, "a", wait_ms=1_000)
    bench.tick(999)
    assert bench.verdict("drop") is None
    bench.tick(1)
    assert bench.verdict("drop") is LakeVerdict.BUSY
    bench.end("a")
    assert bench.tables(WorkKind.DRAIN) == [("a", 1)]


def test_a_drop_waits_for_a_claim_without_being_asked_to() -> None:
    bench = Bench()
    bench.gather(table("a"))
    drop(bench, "a")
    assert bench.verdict("drop") is None
    bench.end("a")
    assert bench.tables(WorkKind.KILL) == [("a", 1)]


def test_a_table_can_be_dropped_while_its_home_steps_up() -> None:
    bench = Bench()
    bench.claimed(table("a"), table("b"), table("c"))
    drop(bench, "c")
    bench.end("c")
    bench.end("a")
    bench.end("b")
    assert bench.verdict("up") is LakeVerdict.DONE
    assert not bench.active()


def test_a_dead_table_is_nothing_to_do(bench: Bench) -> None:
    ask(bench, DropTable("drop", "a"), table("a", dead=True))
    assert bench.verdict("drop") is LakeVerdict.NOTHING


def test_a_drain_of_a_dead_table_is_nothing_to_do_and_not_queued(bench: Bench) -> None:
    ask(bench, DrainTable("drain", "a"), table("a", dead=True))
    assert bench.verdict("drain") is LakeVerdict.NOTHING
    assert not bench.active()


@pytest.mark.parametrize("verb", [DropTable("r", "x"), DrainTable("r", "x")])
def test_a_table_that_nobody_knows_is_not_found(bench: Bench, verb: DropTable) -> None:
    ask(bench, verb)
    assert bench.verdict("r") is LakeVerdict.NOT_FOUND


def test_a_table_that_cannot_be_looked_at_is_told_with_its_trouble(bench: Bench) -> None:
    bench.handle(DropTable("drop", "a"))
    bench.handle(SurveyFailed(bench.surveys()[-1].number, TROUBLE))
    assert bench.verdict("drop") is LakeVerdict.FAILED
    assert bench.answers["drop"].hint == TROUBLE.hint


@pytest.mark.parametrize("verb", [DropTable("r", "a"), DrainTable("r", "a")])
def test_only_a_leader_serves(verb: DropTable) -> None:
    bench = Bench()
    bench.handle(verb)
    assert bench.verdict("r") is LakeVerdict.REFUSED
    assert "step-up" in bench.answers["r"].hint


def test_two_drops_of_one_table_are_one_kill(bench: Bench) -> None:
    drop(bench, "a", request="one")
    drop(bench, "a", request="two")
    assert len(bench.active(WorkKind.KILL)) == 1
    bench.end("a")
    assert bench.verdict("one") is bench.verdict("two") is LakeVerdict.DONE


def test_a_kill_of_unknown_outcome_is_repeated_until_it_is_known(bench: Bench) -> None:
    drop(bench, "a")
    bench.end("a", WorkOutcome.UNKNOWN, MAYBE)
    assert bench.verdict("drop") is None
    bench.tick(SETTINGS.retry_ms)
    bench.end("a", WorkOutcome.FAILED, TROUBLE)
    assert bench.verdict("drop") is None, "the first attempt may still have landed"
    bench.tick(SETTINGS.retry_ms)
    bench.end("a", WorkOutcome.DEAD)
    assert bench.verdict("drop") is LakeVerdict.DONE


def test_nothing_is_begun_while_it_is_not_known_whether_a_table_is_dead(bench: Bench) -> None:
    drop(bench, "a")
    bench.end("a", WorkOutcome.UNKNOWN, MAYBE)
    drain(bench, "a")
    assert not bench.active(WorkKind.DRAIN)


def test_a_survey_that_finds_it_dead_answers_too(bench: Bench) -> None:
    drop(bench, "a")
    bench.end("a", WorkOutcome.UNKNOWN, MAYBE)
    bench.handle(DrainTable("look", "a"))
    bench.surveyed(table("a", dead=True))
    assert bench.verdict("drop") is LakeVerdict.DONE
    bench.tick(SETTINGS.retry_ms)
    assert not bench.active()


def test_a_kill_that_fails_after_a_survey_found_the_table_dead_brings_nothing_back(
    bench: Bench,
) -> None:
    drop(bench, "a")
    bench.handle(DrainTable("look", "a"))
    bench.surveyed(table("a", dead=True))
    bench.end("a", WorkOutcome.FAILED, TROUBLE)
    assert bench.verdict("drop") is LakeVerdict.NOTHING
    assert bench.keeper.status().tables[0].state.value == "dead"


def test_a_stale_kill_is_refused_and_ends_the_role(bench: Bench) -> None:
    drop(bench, "a")
    bench.end("a", WorkOutcome.STALE)
    assert bench.verdict("drop") is LakeVerdict.REFUSED


def test_a_kill_in_doubt_that_turns_out_stale_is_not_called_refused(bench: Bench) -> None:
    drop(bench, "a")
    bench.end("a", WorkOutcome.UNKNOWN, MAYBE)
    bench.tick(SETTINGS.retry_ms)
    bench.end("a", WorkOutcome.STALE)
    assert bench.verdict("drop") is LakeVerdict.UNKNOWN


def test_a_kill_under_way_when_the_role_ends_is_answered_by_its_own_end(bench: Bench) -> None:
    drop(bench, "a")
    drain(bench, "b")
    bench.end("b", WorkOutcome.STALE)
    assert bench.verdict("drop") is None
    bench.end("a")
    assert bench.verdict("drop") is LakeVerdict.DONE


def test_a_drop_that_waits_is_refused_when_the_role_ends(bench: Bench) -> None:
    drain(bench, "a")
    drop(bench, "a", wait_ms=9_000)
    bench.leader = Leadership(9, "there", 1, 1)
    bench.seen()
    assert bench.verdict("drop") is LakeVerdict.REFUSED
    bench.end("a")
    assert not bench.active()


def test_everybody_is_answered_when_the_keeper_ends(bench: Bench) -> None:
    drain(bench, "a")
    drain(bench, "a", "queued")
    drop(bench, "a", wait_ms=9_000, request="waits")
    drop(bench, "b", request="kills")
    bench.handle(DropTable("looks", "c"))
    bench.handle(KeeperOver())
    assert bench.verdict("drain a") is bench.verdict("kills") is LakeVerdict.UNKNOWN
    for request in ("queued", "waits", "looks"):
        assert bench.verdict(request) is LakeVerdict.REFUSED


# --- after the death --------------------------------------------------------------------------


def test_files_of_a_dead_table_are_deleted_after_the_retention(bench: Bench) -> None:
    drop(bench, "a")
    bench.end("a")
    bench.tick(SETTINGS.retention_ms - 1)
    assert not bench.active()
    bench.tick()
    assert bench.tables(WorkKind.DELETE) == [("a", 1)]


def test_a_successor_deletes_by_how_long_a_table_has_been_dead() -> None:
    bench = Bench()
    old = TableSeen("a", 1, dead=True, dead_ms=SETTINGS.retention_ms)
    bench.lead(old, table("b", dead=True))
    bench.tick()
    assert bench.tables(WorkKind.DELETE) == [("a", 1)]


def test_files_that_readers_hold_are_tried_again_later(bench: Bench) -> None:
    bench.seen(TableSeen("a", 1, dead=True, dead_ms=60_000))
    bench.tick()
    bench.end("a", WorkOutcome.HELD, TROUBLE)
    bench.tick(SETTINGS.held_ms - 1)
    assert not bench.active(WorkKind.DELETE)
    bench.tick()
    assert bench.tables(WorkKind.DELETE) == [("a", 1)]


def test_a_newer_table_is_not_deleted_before_an_older_one_that_lives(bench: Bench) -> None:
    """The newest incarnation is what the name means: deleted first, the older would be back."""
    bench.seen(bench.mine("a", 1), TableSeen("a", 5, dead=True, dead_ms=60_000))
    bench.tick()
    assert bench.tables(WorkKind.KILL) == [("a", 1)]
    assert not bench.active(WorkKind.DELETE)
    bench.end("a")
    bench.tick()
    assert bench.tables(WorkKind.DELETE) == [("a", 5)]


# --- under the same name ----------------------------------------------------------------------


def test_a_replaced_table_is_killed_and_its_end_says_nothing_of_the_new_one(bench: Bench) -> None:
    bench.seen(bench.mine("a", 1), table("a", 5))
    bench.tick()
    assert bench.tables(WorkKind.KILL) == [("a", 1)]
    assert bench.tables(WorkKind.CLAIM) == [("a", 5)]
    kill = bench.active(WorkKind.KILL)[0]
    bench.handle(WorkEnded(kill.work, "a", 1, WorkOutcome.DONE))
    states = {t.incarnation: t.state.value for t in bench.keeper.status().tables if t.table == "a"}
    assert states == {1: "dead", 5: "live"}


def test_an_end_that_names_another_incarnation_than_it_was_begun_for_is_passed_over(
    bench: Bench,
) -> None:
    drop(bench, "a")
    kill = bench.active(WorkKind.KILL)[0]
    bench.handle(WorkEnded(kill.work, "a", 5, WorkOutcome.DONE))
    assert bench.verdict("drop") is None


def test_a_drop_means_the_newest_of_the_name(bench: Bench) -> None:
    ask(bench, DropTable("drop", "a"), bench.mine("a", 1), table("a", 5))
    assert ("a", 5) in bench.tables(WorkKind.KILL)


def awaiting(incarnation: int) -> TableSeen:
    return TableSeen("a", incarnation, awaits=True)


def end_kill(
    bench: Bench, incarnation: int, outcome: WorkOutcome = WorkOutcome.DONE, trouble: str = ""
) -> None:
    [kill] = [work for work in bench.active(WorkKind.KILL) if work.incarnation == incarnation]
    bench.over(kill, outcome, LakeTrouble(trouble))


def test_what_is_being_copied_to_be_the_table_next_is_killed_before_it(bench: Bench) -> None:
    """Landing after the drop was called done, it would be the table again."""
    bench.seen(bench.mine("a", 1), awaiting(20), awaiting(30))
    bench.end_all(WorkKind.CLAIM)
    ask(bench, DropTable("drop", "a"), bench.mine("a", 1), awaiting(20), awaiting(30))
    assert bench.tables(WorkKind.KILL) == [("a", 30)]
    end_kill(bench, 30)
    assert bench.tables(WorkKind.KILL) == [("a", 20)]
    end_kill(bench, 20)
    assert bench.tables(WorkKind.KILL) == [("a", 1)]
    assert bench.verdict("drop") is None
    end_kill(bench, 1)
    assert bench.verdict("drop") is LakeVerdict.DONE
    assert bench.answers["drop"].incarnation == 1


def test_what_is_being_copied_has_to_end_before_a_drop_is_done_that_another_had_begun(
    bench: Bench,
) -> None:
    """Whoever leads ends it by and by; but it may have got its rows by then, and be the table."""
    doomed = TableSeen("a", 30, awaits=True, dead=True, dropped=True)
    ask(bench, DropTable("drop", "a"), bench.mine("a", 1), awaiting(20), doomed)
    assert bench.tables(WorkKind.KILL) == [("a", 20)]
    end_kill(bench, 20)
    assert bench.verdict("drop") is None
    end_kill(bench, 1)
    assert bench.verdict("drop") is LakeVerdict.DONE


def test_what_is_being_copied_is_not_dropped_without_the_table_that_it_is_to_be(
    bench: Bench,
) -> None:
    """Its feed would have no table any more, and the older one would stay."""
    found = bench.mine("a", 1), awaiting(20)
    ask(bench, DropTable("drop", "a", incarnation=20), *found)
    assert bench.verdict("drop") is LakeVerdict.REFUSED
    assert not bench.active(WorkKind.KILL)


def test_a_drop_that_cannot_end_what_is_being_copied_leaves_the_table(bench: Bench) -> None:
    ask(bench, DropTable("drop", "a"), bench.mine("a", 1), awaiting(20))
    end_kill(bench, 20, WorkOutcome.FAILED, "the disk is full")
    assert bench.verdict("drop") is LakeVerdict.FAILED
    assert bench.answers["drop"].what == "the disk is full"
    assert not bench.active(WorkKind.KILL)


def test_a_drop_that_joins_another_ends_what_has_begun_to_be_copied_since(bench: Bench) -> None:
    drop(bench, "a", request="one")
    ask(bench, DropTable("two", "a"), bench.mine("a", 1), awaiting(20))
    end_kill(bench, 1)
    assert (bench.verdict("one"), bench.verdict("two")) == (LakeVerdict.DONE, None)
    end_kill(bench, 20)
    assert bench.verdict("two") is LakeVerdict.DONE


def test_a_drop_that_fails_while_another_kills_the_table_is_not_called_failed(
    bench: Bench,
) -> None:
    drop(bench, "a", request="one")
    ask(bench, DropTable("two", "a"), bench.mine("a", 1), awaiting(20))
    end_kill(bench, 20, WorkOutcome.FAILED, "the disk is full")
    assert bench.verdict("two") is LakeVerdict.UNKNOWN
    assert bench.verdict("one") is None
    end_kill(bench, 1)
    assert bench.verdict("one") is LakeVerdict.DONE


def test_a_drop_that_waits_for_others_first_is_not_over_with_a_kill_that_fails(
    bench: Bench,
) -> None:
    drop(bench, "a", request="one")
    ask(bench, DropTable("two", "a"), bench.mine("a", 1), awaiting(20))
    end_kill(bench, 1, WorkOutcome.FAILED, "the disk is full")
    assert (bench.verdict("one"), bench.verdict("two")) == (LakeVerdict.FAILED, None)
    end_kill(bench, 20)
    end_kill(bench, 1)
    assert bench.verdict("two") is LakeVerdict.DONE


def test_a_drop_of_a_dead_table_whose_heir_lives_is_not_called_refused_when_the_role_ends(
    bench: Bench,
) -> None:
    drop(bench, "a", request="one")
    ask(bench, DropTable("two", "a"), bench.mine("a", 1), awaiting(20))
    end_kill(bench, 1)
    end_kill(bench, 20, WorkOutcome.STALE)
    assert bench.verdict("two") is LakeVerdict.UNKNOWN


def test_a_drop_whose_heir_is_being_killed_is_not_called_refused_when_the_role_ends(
    bench: Bench,
) -> None:
    """That kill may land yet: the table would go, and whoever asked was told that it stays."""
    ask(bench, DropTable("drop", "a"), bench.mine("a", 1), awaiting(20))
    assert bench.tables(WorkKind.KILL) == [("a", 20)]
    bench.handle(KeeperOver())
    assert bench.verdict("drop") is LakeVerdict.UNKNOWN


def test_a_dropped_table_that_is_being_copied_anew_can_be_dropped(bench: Bench) -> None:
    ask(bench, DropTable("drop", "a"), table("a", 1, dead=True), awaiting(20))
    end_kill(bench, 20)
    assert bench.verdict("drop") is LakeVerdict.DONE
    assert bench.answers["drop"].incarnation == 20


def test_a_drop_that_names_a_former_incarnation_leaves_the_new_one(bench: Bench) -> None:
    found = table("a", 1, dead=True), table("a", 5)
    ask(bench, DropTable("drop", "a", incarnation=1), *found)
    assert bench.verdict("drop") is LakeVerdict.NOTHING
    assert not bench.active(WorkKind.KILL)


def test_a_step_up_drains_the_newest_of_a_name_only() -> None:
    bench = Bench()
    bench.claimed(table("a", 1), table("a", 5), table("b", 1, dead=True), table("b", 2))
    assert bench.tables(WorkKind.DRAIN) == [("a", 5), ("b", 2)]
    bench.handle(StepUp("too"))
