"""Stepping up: durable first, then the lake, then every table once; one that fails, fails alone."""

import pytest

from lockgate.core.lake.stages import Stage
from lockgate.model.lake import LakeRole, Leadership, Wish, WishRecord, WorkKind, WorkOutcome
from lockgate.model.lake_events import (
    DrainTable,
    LakeRefused,
    LakeSurveyed,
    LakeTakeFailed,
    LakeTaken,
    StepUp,
    SurveyFailed,
    WishNotRecorded,
    WishOutdated,
    WishRecorded,
    WorkEnded,
)
from lockgate.model.lake_instructions import (
    LakeVerdict,
    RecordWish,
    RunWork,
    StopWork,
    Survey,
    TakeLake,
)
from tests.core.lake.bench import SETTINGS, TROUBLE, Bench, table


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_the_wish_is_recorded_before_the_lake_is_asked_for(bench: Bench) -> None:
    bench.handle(StepUp("up"))
    bench.leader = Leadership(3, "there", 1, 1)
    bench.surveyed()
    [wish] = bench.of(RecordWish)
    assert (wish.record.wish, wish.record.over) == (Wish.LEAD, 3)
    assert not bench.of(TakeLake)
    bench.recorded()
    [take] = bench.of(TakeLake)
    assert take.over == 3


def test_a_wish_of_unknown_outcome_is_recorded_again_and_nothing_else(bench: Bench) -> None:
    bench.handle(StepUp("up"))
    bench.surveyed()
    bench.handle(WishNotRecorded(1))
    assert not bench.out
    bench.tick(SETTINGS.retry_ms)
    assert [one.record.serial for one in bench.of(RecordWish)] == [1]
    assert not bench.of(TakeLake)


def test_a_lake_of_unknown_outcome_is_asked_for_with_the_same_attempt(bench: Bench) -> None:
    bench.handle(StepUp("up"))
    bench.surveyed()
    bench.recorded()
    [first] = bench.of(TakeLake)
    bench.handle(LakeTakeFailed(first.attempt))
    bench.tick(SETTINGS.retry_ms)
    assert bench.of(TakeLake) == [first]


def test_a_home_that_comes_too_late_follows_and_says_who_leads(bench: Bench) -> None:
    bench.handle(StepUp("up"))
    bench.surveyed()
    bench.recorded()
    bench.handle(LakeRefused(1, Leadership(2, "there", 1, 1)))
    assert bench.keeper.role is LakeRole.FOLLOWER
    assert bench.verdict("up") is LakeVerdict.REFUSED
    assert "there" in bench.answers["up"].what
    assert bench.recorded().wish is Wish.FOLLOW


def test_tables_are_looked_at_anew_once_the_lake_is_taken(bench: Bench) -> None:
    bench.handle(StepUp("up"))
    bench.surveyed(table("old"))
    bench.recorded()
    bench.take(1)
    assert [one.table for one in bench.of(Survey)] == [None]
    assert not bench.active()
    bench.surveyed(table("old"), table("new"))
    assert bench.tables(WorkKind.CLAIM) == [("old", 1), ("new", 1)]


def test_every_live_table_is_claimed_before_the_first_is_drained(bench: Bench) -> None:
    bench.gather(table("a"), table("b"), table("c"), table("d", dead=True))
    bench.end("a")
    assert bench.tables(WorkKind.CLAIM) == [("b", 1), ("c", 1)]
    bench.end("b")
    assert not bench.active(WorkKind.DRAIN)
    bench.end("c")
    assert bench.tables(WorkKind.DRAIN) == [("a", 1), ("b", 1)]
    assert all(work.token == bench.token for work in bench.active())


def test_a_step_up_is_done_when_every_table_was_drained_once(bench: Bench) -> None:
    bench.claimed(table("a", rows=5), table("b"), table("c", rows=5))
    bench.end("a")
    bench.end("b", WorkOutcome.NOTHING)
    assert bench.keeper.role is LakeRole.STEPPING_UP
    assert bench.keeper.status().done == 2
    assert bench.keeper.status().total == 3
    bench.end("c")
    assert bench.keeper.role is LakeRole.LEADER
    assert bench.verdict("up") is LakeVerdict.DONE
    drains = [w for w in bench.all if isinstance(w, RunWork) and w.kind is WorkKind.DRAIN]
    assert sorted(work.table for work in drains) == ["a", "b", "c"]


def test_a_lake_without_tables_is_led_at_once(bench: Bench) -> None:
    bench.gather()
    assert bench.keeper.role is LakeRole.LEADER
    assert bench.verdict("up") is LakeVerdict.DONE


def test_a_failing_table_fails_alone_and_is_named(bench: Bench) -> None:
    bench.claimed(table("a"), table("b"))
    bench.end("a", WorkOutcome.FAILED, TROUBLE)
    bench.end("b")
    assert bench.verdict("up") is LakeVerdict.DONE
    assert [one.table for one in bench.answers["up"].failed] == ["a"]
    assert [t.trouble for t in bench.keeper.status().tables] == [TROUBLE, None]


def test_a_failing_table_is_drained_again_after_its_rest(bench: Bench) -> None:
    bench.claimed(table("a"))
    bench.end("a", WorkOutcome.FAILED, TROUBLE)
    bench.tick(SETTINGS.backoff_ms_min - 1)
    assert not bench.active(WorkKind.DRAIN)
    bench.tick()
    assert bench.tables(WorkKind.DRAIN) == [("a", 1)]
    bench.end("a")
    assert bench.keeper.status().tables[0].trouble is None


def test_the_rest_grows_with_every_failure_and_has_a_limit(bench: Bench) -> None:
    bench.claimed(table("a"))
    rests = []
    for _ in range(4):
        bench.end("a", WorkOutcome.FAILED, TROUBLE)
        rest = 0
        while not bench.active():
            bench.tick(100)
            rest += 100
        rests.append(rest)
    assert rests == [1_000, 2_000, 3_000, 3_000]


def test_a_table_that_cannot_be_claimed_is_not_drained_and_named(bench: Bench) -> None:
    bench.gather(table("a"), table("b"))
    bench.end("a", WorkOutcome.FAILED, TROUBLE)
    bench.end("b")
    assert bench.tables(WorkKind.DRAIN) == [("b", 1)]
    bench.end("b")
    assert [one.table for one in bench.answers["up"].failed] == ["a"]
    bench.tick(SETTINGS.backoff_ms_min)
    assert bench.tables(WorkKind.CLAIM) == [("a", 1)]


def test_a_table_that_died_before_it_was_claimed_is_passed_over(bench: Bench) -> None:
    bench.gather(table("a"), table("b"))
    bench.end("a", WorkOutcome.DEAD)
    bench.end("b")
    assert bench.tables(WorkKind.DRAIN) == [("b", 1)]


@pytest.mark.parametrize("kind", [WorkKind.CLAIM, WorkKind.DRAIN])
def test_told_stale_it_follows_at_once_and_begins_nothing_more(
    bench: Bench, kind: WorkKind
) -> None:
    tables = (table("a"), table("b"), table("c"))
    (bench.gather if kind is WorkKind.CLAIM else bench.claimed)(*tables)
    other = bench.active()[1].work
    bench.end("a", WorkOutcome.STALE)
    assert bench.keeper.role is LakeRole.FOLLOWER
    assert bench.verdict("up") is LakeVerdict.REFUSED
    assert bench.of(RunWork) == []
    assert [one.work for one in bench.of(StopWork)] == [other]
    bench.end("b")
    bench.recorded()
    bench.tick(60_000)
    assert not bench.active()


def test_stale_by_the_last_table_is_not_done(bench: Bench) -> None:
    bench.claimed(table("a"))
    bench.end("a", WorkOutcome.STALE)
    assert bench.verdict("up") is LakeVerdict.REFUSED


def test_a_survey_that_names_another_leader_ends_the_role(bench: Bench) -> None:
    bench.lead(table("a"))
    bench.leader = Leadership(9, "there", 1, 1)
    bench.seen(bench.mine("a"))
    assert bench.keeper.role is LakeRole.FOLLOWER


def test_work_of_a_former_epoch_is_waited_for_before_its_table_is_claimed_again(
    bench: Bench,
) -> None:
    bench.lead(table("a"), table("b"))
    bench.handle(DrainTable("drain", "a"))
    bench.surveyed(bench.mine("a"))
    bench.leader = Leadership(2, "there", 1, 1)
    bench.seen(bench.mine("a"), bench.mine("b"))
    bench.recorded()
    del bench.answers["up"]
    bench.gather(table("a"), table("b"))
    assert bench.tables(WorkKind.CLAIM) == [("b", 1)]
    bench.end("a", WorkOutcome.STALE)
    assert bench.keeper.role is LakeRole.STEPPING_UP, "that was news of the former epoch"
    assert ("a", 1) in bench.tables(WorkKind.CLAIM)


def test_a_successor_goes_on_with_the_wish_and_records_nothing_anew() -> None:
    bench = Bench(WishRecord(Wish.LEAD, over=4, keeper=1, serial=1))
    bench.tick()
    assert [(one.keeper, one.over) for one in bench.of(TakeLake)] == [(2, 4)]
    assert not [one for one in bench.all if isinstance(one, RecordWish)]
    bench.take(6)
    bench.surveyed(table("a"))
    bench.end("a")
    bench.end("a")
    assert bench.keeper.role is LakeRole.LEADER


def test_a_keeper_whose_home_has_a_later_one_ends_and_answers_everybody(bench: Bench) -> None:
    bench.handle(StepUp("up"))
    bench.surveyed()
    bench.handle(WishOutdated(1))
    assert bench.keeper.stage is Stage.ENDED
    assert bench.verdict("up") is LakeVerdict.UNKNOWN
    bench.handle(StepUp("again"))
    assert bench.verdict("again") is LakeVerdict.REFUSED


def test_asked_again_while_it_steps_up_both_are_answered(bench: Bench) -> None:
    bench.claimed(table("a"))
    bench.handle(StepUp("too"))
    bench.end("a")
    assert bench.verdict("up") is bench.verdict("too") is LakeVerdict.DONE


def test_asked_as_leader_there_is_nothing_to_do(bench: Bench) -> None:
    bench.lead()
    bench.handle(StepUp("again"))
    bench.surveyed()
    assert bench.verdict("again") is LakeVerdict.NOTHING


def test_a_lake_that_cannot_be_looked_at_leaves_a_follower(bench: Bench) -> None:
    bench.handle(StepUp("up"))
    [survey] = bench.of(Survey)
    bench.handle(SurveyFailed(survey.number, TROUBLE))
    assert bench.keeper.stage is Stage.FOLLOWER
    assert bench.answers["up"].what == TROUBLE.what


def test_late_and_repeated_answers_change_nothing(bench: Bench) -> None:
    bench.claimed(table("a"))
    claim = next(one for one in bench.all if isinstance(one, RunWork))
    for event in (
        WishRecorded(1),
        LakeTaken(1, 1),
        LakeRefused(1, Leadership(2, "there")),
        WorkEnded(claim.work, "a", 1, WorkOutcome.STALE),
    ):
        assert bench.handle(event) == []
    assert bench.keeper.stage is Stage.DRAINING


def test_a_table_whose_directory_cannot_be_listed_holds_nobody_up_and_is_named(
    bench: Bench,
) -> None:
    bench.handle(StepUp("up"))
    bench.surveyed(table("a"))
    bench.recorded()
    bench.take(1)
    number = bench.surveys()[-1].number
    bench.handle(LakeSurveyed(number, bench.leader, (table("a"),), {"z": TROUBLE}))
    bench.end_all(WorkKind.CLAIM)
    bench.end_all(WorkKind.DRAIN)
    assert bench.verdict("up") is LakeVerdict.DONE
    assert [one.table for one in bench.answers["up"].failed] == ["z"]
