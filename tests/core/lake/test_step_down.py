"""Stepping down: nothing undrained is left behind unasked, active work ends first, the wish is
durable before anything and a successor puts it to an end."""

import pytest

from lockgate.core.lake.stages import Stage
from lockgate.model.lake import (
    LakeRole,
    Leadership,
    TableSeen,
    Wish,
    WishRecord,
    WorkKind,
    WorkOutcome,
)
from lockgate.model.lake_events import (
    DrainTable,
    DropTable,
    LakeRefused,
    LakeReleased,
    LakeSurveyed,
    ReleaseFailed,
    StepDown,
    StepUp,
)
from lockgate.model.lake_instructions import LakeVerdict, RecordWish, ReleaseLake, RunWork
from tests.core.lake.bench import SETTINGS, TROUBLE, Bench, table


@pytest.fixture
def bench() -> Bench:
    """It leads two tables."""
    bench = Bench()
    bench.lead(table("a"), table("b"))
    return bench


def down(bench: Bench, *, rows: int = 0, flush: bool = False) -> None:
    bench.handle(StepDown("down", flush))
    bench.surveyed(bench.mine("a", rows=rows), bench.mine("b"))


def released(bench: Bench) -> None:
    assert [one.epoch for one in bench.of(ReleaseLake)] == [1]
    bench.handle(LakeReleased(1))


def test_undrained_changes_are_a_reason_to_refuse_and_nothing_happens(bench: Bench) -> None:
    down(bench, rows=3)
    assert bench.verdict("down") is LakeVerdict.REFUSED
    assert "a" in bench.answers["down"].what
    assert bench.keeper.role is LakeRole.LEADER
    assert not bench.of(RecordWish)


def test_with_everything_drained_it_gives_the_lake_up_and_then_forgets_it(bench: Bench) -> None:
    down(bench)
    assert bench.keeper.role is LakeRole.STEPPING_DOWN
    assert bench.recorded().wish is Wish.LEAVE
    released(bench)
    assert bench.keeper.role is LakeRole.FOLLOWER
    assert bench.verdict("down") is None, "a successor would still find the wish to leave"
    assert bench.recorded().wish is Wish.FOLLOW
    assert bench.verdict("down") is LakeVerdict.DONE


def test_a_flush_drains_all_tables_whatever_the_last_look_said(bench: Bench) -> None:
    down(bench, flush=True)
    bench.recorded()
    assert bench.tables(WorkKind.DRAIN) == [("a", 1), ("b", 1)]
    bench.end("a")
    assert not bench.of(ReleaseLake)
    bench.end("b", WorkOutcome.NOTHING)
    released(bench)


def blind(bench: Bench, *, flush: bool) -> None:
    """It is to step down, and cannot look at one of its tables."""
    bench.handle(StepDown("down", flush))
    bench.surveyed(TableSeen("a", 1, trouble=TROUBLE), bench.mine("b"))


def unlisted(bench: Bench, *names: str, flush: bool = False) -> None:
    """It is to step down, and cannot list the incarnations of these."""
    bench.handle(StepDown("down", flush))
    seen = [bench.mine(name) for name in ("a", "b") if name not in names]
    why = dict.fromkeys(names, TROUBLE)
    bench.handle(LakeSurveyed(bench.surveys()[-1].number, bench.leader, tuple(seen), why))


def test_a_table_that_cannot_be_looked_at_may_have_changes(bench: Bench) -> None:
    blind(bench, flush=False)
    assert bench.verdict("down") is LakeVerdict.REFUSED
    assert not bench.of(RecordWish)


def test_nor_is_it_known_of_one_whose_work_ended_during_the_look(bench: Bench) -> None:
    """What that says of the table is not believed, and a drain is over at what it began with."""
    bench.handle(DrainTable("drain", "a"))
    bench.surveyed(bench.mine("a", rows=1))
    bench.handle(StepDown("down"))
    bench.end("a")
    bench.surveyed(bench.mine("a", rows=3), bench.mine("b"))
    assert bench.verdict("down") is LakeVerdict.REFUSED


def test_one_that_is_just_being_dropped_may_live_on(bench: Bench) -> None:
    bench.handle(DropTable("drop", "a"))
    bench.surveyed(bench.mine("a", rows=3))
    down(bench, rows=3)
    assert bench.verdict("down") is LakeVerdict.REFUSED


def test_a_flush_leaves_nothing_in_a_table_that_cannot_be_looked_at(bench: Bench) -> None:
    blind(bench, flush=True)
    bench.recorded()
    bench.end("b")
    bench.end("a", WorkOutcome.FAILED, TROUBLE)
    assert bench.recorded().wish is Wish.LEAD
    assert bench.verdict("down") is LakeVerdict.REFUSED
    assert TROUBLE.what in bench.answers["down"].what


@pytest.mark.parametrize("name", ["a", "new"])
@pytest.mark.parametrize("flush", [True, False])
def test_nobody_steps_down_whose_tables_cannot_be_listed(
    bench: Bench, name: str, flush: bool
) -> None:
    unlisted(bench, name, flush=flush)
    if flush:
        bench.recorded()
        bench.end_all(WorkKind.DRAIN)
        assert bench.recorded().wish is Wish.LEAD
    assert bench.verdict("down") is LakeVerdict.REFUSED
    assert f"as {name}" in bench.answers["down"].what
    assert bench.keeper.role is LakeRole.LEADER


def test_a_flush_drains_what_may_be_behind_one_that_nobody_could_look_at(bench: Bench) -> None:
    """Where that has no rows yet, the older one is the table."""
    bench.handle(StepDown("down", flush=True))
    unknown = TableSeen("a", 5, trouble=TROUBLE)
    bench.surveyed(bench.mine("a", rows=3), unknown, bench.mine("b"))
    bench.recorded()
    bench.end_all(WorkKind.CLAIM)
    assert ("a", 1) in bench.tables(WorkKind.DRAIN)


def test_a_flush_that_fails_leaves_the_leader_and_says_why(bench: Bench) -> None:
    down(bench, rows=3, flush=True)
    bench.recorded()
    bench.end("b")
    bench.end("a", WorkOutcome.FAILED, TROUBLE)
    assert not bench.of(ReleaseLake)
    assert bench.recorded().wish is Wish.LEAD
    assert bench.keeper.role is LakeRole.LEADER
    assert bench.verdict("down") is LakeVerdict.REFUSED
    assert TROUBLE.what in bench.answers["down"].what


def test_work_under_way_is_waited_for_and_queued_work_is_let_go(bench: Bench) -> None:
    for name in ("a", "b"):
        bench.handle(DrainTable(f"one {name}", name))
        bench.surveyed(bench.mine(name))
        bench.handle(DrainTable(f"two {name}", name))
        bench.surveyed(bench.mine(name))
    down(bench)
    bench.recorded()
    assert bench.verdict("two a") is LakeVerdict.REFUSED
    bench.end("a")
    assert not bench.of(ReleaseLake)
    bench.end("b")
    assert bench.verdict("one b") is LakeVerdict.DONE
    released(bench)


def test_nothing_is_queued_by_policy_while_it_leaves(bench: Bench) -> None:
    bench.handle(DrainTable("slow", "b"))
    bench.surveyed(bench.mine("b"))
    down(bench)
    bench.recorded()
    bench.seen(bench.mine("a", rows=1_000), bench.mine("b"))
    bench.tick()
    assert not bench.of(RunWork)


@pytest.mark.parametrize("verb", [DrainTable("r", "a"), DropTable("r", "a"), StepUp("r")])
def test_nobody_else_is_served_meanwhile(bench: Bench, verb: DrainTable | DropTable) -> None:
    down(bench)
    bench.recorded()
    bench.handle(verb)
    assert bench.verdict("r") is LakeVerdict.REFUSED


def test_a_lake_of_unknown_outcome_is_given_up_again(bench: Bench) -> None:
    down(bench)
    bench.recorded()
    bench.handle(ReleaseFailed(1))
    bench.tick(SETTINGS.retry_ms)
    released(bench)


def test_asked_twice_both_are_answered(bench: Bench) -> None:
    down(bench)
    bench.handle(StepDown("too"))
    bench.recorded()
    bench.handle(LakeReleased(1))
    bench.handle(StepDown("late"))
    bench.recorded()
    verdicts = {bench.verdict(name) for name in ("down", "too", "late")}
    assert verdicts == {LakeVerdict.DONE}


def test_a_follower_has_nothing_to_do() -> None:
    bench = Bench()
    bench.handle(StepDown("down"))
    assert bench.verdict("down") is LakeVerdict.NOTHING


def test_taken_by_another_meanwhile_it_follows(bench: Bench) -> None:
    bench.handle(DrainTable("slow", "b"))
    bench.surveyed(bench.mine("b"))
    down(bench)
    bench.recorded()
    bench.end("b", WorkOutcome.STALE)
    assert bench.verdict("down") is LakeVerdict.SUPERSEDED
    assert bench.keeper.role is LakeRole.FOLLOWER
    assert bench.recorded().wish is Wish.FOLLOW


def test_a_successor_finishes_a_flush() -> None:
    bench = Bench(WishRecord(Wish.LEAVE, over=0, flush=True, keeper=1, serial=2))
    bench.tick()
    bench.take(2)
    bench.surveyed(table("a", rows=3), table("b"))
    bench.end_all(WorkKind.CLAIM)
    assert bench.keeper.role is LakeRole.STEPPING_DOWN
    bench.end_all(WorkKind.DRAIN)
    assert [one.epoch for one in bench.of(ReleaseLake)] == [2]


def test_a_successor_does_not_take_the_lake_back_only_to_leave_it() -> None:
    bench = Bench(WishRecord(Wish.LEAVE, over=0, flush=True, keeper=1, serial=2))
    bench.tick()
    bench.handle(LakeRefused(1, Leadership(2, "there", 1, 1)))
    assert bench.recorded().wish is Wish.FOLLOW
    assert bench.keeper.stage is Stage.FOLLOWER


def test_a_step_up_is_refused_while_a_successor_puts_a_step_down_to_an_end() -> None:
    bench = Bench(WishRecord(Wish.LEAVE, over=0, keeper=1, serial=2))
    bench.tick()
    bench.handle(StepUp("up"))
    assert bench.verdict("up") is LakeVerdict.REFUSED
