"""Surveys take time and arrive in any order: none brings a table back, none loses a new one."""

import pytest

from lockgate.model.lake import Figures, Leadership, TableSeen, WorkKind, WorkOutcome
from lockgate.model.lake_events import DrainTable, DropTable, LakeSurveyed, StepUp, SurveyFailed
from lockgate.model.lake_instructions import LakeVerdict, Survey
from tests.core.lake.bench import SETTINGS, TROUBLE, Bench, table


@pytest.fixture
def bench() -> Bench:
    bench = Bench()
    bench.lead(table("a"), table("b"), table("c"))
    return bench


def test_whether_it_still_leads_the_lake_says(bench: Bench) -> None:
    bench.handle(StepUp("again"))
    assert bench.verdict("again") is None
    bench.surveyed(bench.mine("a"))
    assert bench.verdict("again") is LakeVerdict.NOTHING


def test_who_leads_no_more_does_not_say_that_it_leads_already(bench: Bench) -> None:
    bench.handle(StepUp("again"))
    bench.leader = Leadership(9, "there", 1, 1)
    bench.surveyed(bench.mine("a"))
    assert bench.verdict("again") is LakeVerdict.REFUSED
    assert "step-up" in bench.answers["again"].hint


def test_nor_does_who_cannot_look(bench: Bench) -> None:
    bench.handle(StepUp("again"))
    [survey] = bench.of(Survey)
    bench.handle(SurveyFailed(survey.number, TROUBLE))
    assert bench.verdict("again") is LakeVerdict.FAILED


def begin(bench: Bench) -> int:
    """A survey of all tables is under way."""
    bench.tick(SETTINGS.survey_ms)
    [survey] = bench.of(Survey)
    return survey.number


def states(bench: Bench) -> dict[tuple[str, int], str]:
    return {(t.table, t.incarnation): t.state.value for t in bench.keeper.status().tables}


@pytest.mark.parametrize("before_the_kill", [True, False])
def test_a_survey_that_was_begun_before_a_death_does_not_bring_the_table_back(
    bench: Bench, before_the_kill: bool
) -> None:
    old = begin(bench) if before_the_kill else 0
    bench.handle(DropTable("drop", "a"))
    bench.surveyed(bench.mine("a"))
    old = old or begin(bench)
    bench.end("a")
    bench.surveyed(bench.mine("a", rows=1_000), bench.mine("b"), number=old)
    assert states(bench)["a", 1] == "dead"
    bench.tick()
    assert not bench.active()


def test_nor_does_one_that_arrives_after_the_table_was_deleted_and_forgotten(
    bench: Bench,
) -> None:
    old = begin(bench)
    bench.handle(DropTable("drop", "a"))
    bench.surveyed(bench.mine("a"))
    bench.end("a")
    bench.tick(SETTINGS.retention_ms)
    bench.end("a")
    bench.handle(DrainTable("gone", "a"))
    bench.surveyed()
    assert bench.verdict("gone") is LakeVerdict.NOT_FOUND
    bench.surveyed(bench.mine("a"), bench.mine("b"), number=old)
    assert ("a", 1) not in states(bench)


def test_a_table_is_forgotten_only_by_a_survey_that_was_begun_after_its_end(bench: Bench) -> None:
    bench.handle(DropTable("drop", "a"))
    bench.surveyed(bench.mine("a"))
    bench.end("a")
    before = begin(bench)
    bench.tick(SETTINGS.retention_ms)
    bench.end("a")
    bench.surveyed(bench.mine("b"), number=before)
    assert states(bench)["a", 1] == "dead"
    bench.seen(bench.mine("b"))
    assert ("a", 1) not in states(bench)


def test_a_table_that_an_earlier_survey_saw_born_is_not_lost_to_a_later_one(
    bench: Bench,
) -> None:
    """The earlier one may have looked later."""
    slow = begin(bench)
    bench.handle(DrainTable("drain", "new"))
    number = bench.surveys()[-1].number
    bench.surveyed(bench.mine("a"), bench.mine("b"), table("new"), number=slow)
    bench.surveyed(number=number)
    assert states(bench)["new", 1] == "live"


@pytest.mark.parametrize("answered", [True, False])
def test_a_death_is_believed_however_late_it_is_heard(bench: Bench, answered: bool) -> None:
    old = begin(bench)
    if answered:
        bench.surveyed(bench.mine("a"), bench.mine("b"), number=old)
    else:
        bench.handle(DrainTable("drain", "a"))
        bench.surveyed(bench.mine("a"))
    bench.surveyed(table("a", dead=True), bench.mine("b"), number=old)
    assert states(bench)["a", 1] == "dead"


def test_figures_of_before_a_drain_do_not_ask_for_another(bench: Bench) -> None:
    bench.seen(bench.mine("a", rows=1_000), bench.mine("b"))
    bench.tick()
    assert bench.tables(WorkKind.DRAIN) == [("a", 1)]
    old = begin(bench)
    bench.end("a")
    bench.surveyed(bench.mine("a", rows=1_000), bench.mine("b"), number=old)
    bench.tick()
    assert not bench.active()


def test_a_new_table_is_claimed_when_it_is_seen(bench: Bench) -> None:
    bench.seen(bench.mine("a"), bench.mine("b"), table("new"))
    bench.tick()
    assert bench.tables(WorkKind.CLAIM) == [("new", 1)]


def test_a_table_that_is_gone_is_let_go_of_and_who_waits_is_told(bench: Bench) -> None:
    for name in ("a", "b", "c"):
        bench.handle(DrainTable(name, name))
        bench.surveyed(bench.mine(name))
    bench.seen(bench.mine("a"), bench.mine("b"))
    bench.end("a")
    assert bench.verdict("c") is LakeVerdict.SUPERSEDED


def test_work_on_a_table_that_is_gone_ends_before_it_is_forgotten(bench: Bench) -> None:
    bench.handle(DrainTable("drain", "a"))
    bench.surveyed(bench.mine("a"))
    bench.seen(bench.mine("b"))
    assert states(bench)["a", 1] == "dead"
    bench.end("a", WorkOutcome.DEAD)
    bench.seen(bench.mine("b"))
    assert ("a", 1) not in states(bench)


def test_a_table_that_cannot_be_looked_at_shows_why_and_keeps_its_figures(bench: Bench) -> None:
    bench.seen(bench.mine("a", rows=7), TableSeen("b", 1, trouble=TROUBLE))
    bench.seen(TableSeen("a", 1, trouble=TROUBLE), bench.mine("b"))
    first, second = bench.keeper.status().tables[:2]
    assert (first.trouble, first.figures.ingest_rows) == (TROUBLE, 7)
    assert second.trouble is None


def test_surveys_are_repeated_in_their_time_and_one_at_a_time(bench: Bench) -> None:
    begin(bench)
    bench.tick(SETTINGS.survey_ms)
    assert not bench.of(Survey)
    bench.surveyed(bench.mine("a"), bench.mine("b"))
    bench.tick()
    assert [one.table for one in bench.of(Survey)] == [None]


def test_a_survey_that_is_never_answered_is_asked_for_again(bench: Bench) -> None:
    first = begin(bench)
    bench.tick(SETTINGS.survey_wait_ms)
    assert [one.number for one in bench.of(Survey)] == [first + 1]


def test_a_survey_that_failed_is_asked_for_again_soon(bench: Bench) -> None:
    bench.handle(SurveyFailed(begin(bench), TROUBLE))
    bench.tick(SETTINGS.retry_ms)
    assert bench.of(Survey)


def test_a_follower_looks_and_does_nothing(bench: Bench) -> None:
    follower = Bench()
    follower.tick()
    busy = TableSeen("a", 1, figures=Figures(ingest_rows=10**9))
    follower.surveyed(busy, table("b", dead=True))
    follower.tick(60_000)
    assert not follower.active()
    assert len(follower.keeper.status().tables) == 2


# --- a table that is begun anew -----------------------------------------------------------------


def anew(name: str, incarnation: int) -> TableSeen:
    """One whose rows are still to come."""
    return TableSeen(name, incarnation, awaits=True)


def test_a_table_lives_on_until_the_one_that_replaces_it_has_its_rows(bench: Bench) -> None:
    others = bench.mine("b"), bench.mine("c")
    bench.seen(bench.mine("a"), anew("a", 5), *others)
    bench.tick()
    assert not bench.active(WorkKind.KILL)
    bench.seen(bench.mine("a"), bench.mine("a", 5), *others)
    bench.tick()
    assert bench.tables(WorkKind.KILL) == [("a", 1)]


def test_one_that_nobody_could_look_at_replaces_nothing(bench: Bench) -> None:
    """The older may be all the rows that there are."""
    bench.seen(bench.mine("a"), TableSeen("a", 5, trouble=TROUBLE), bench.mine("b"))
    bench.tick()
    assert not bench.active(WorkKind.KILL)


def test_but_a_drop_of_the_name_means_it(bench: Bench) -> None:
    """What cannot be read any more must be possible to drop."""
    bench.handle(DropTable("drop", "a"))
    bench.surveyed(table("a", dead=True), TableSeen("a", 5, trouble=TROUBLE))
    assert bench.tables(WorkKind.KILL) == [("a", 5)]


def test_that_it_has_its_rows_is_believed_of_a_survey_that_is_too_old_for_figures(
    bench: Bench,
) -> None:
    others = bench.mine("b"), bench.mine("c")
    bench.seen(bench.mine("a"), TableSeen("a", 5, token=bench.token, awaits=True), *others)
    bench.handle(DrainTable("drain", None))
    old = bench.surveys()[-1].number
    bench.seen(bench.mine("a"), TableSeen("a", 5, token=bench.token, awaits=True), *others)
    bench.surveyed(bench.mine("a"), bench.mine("a", 5), *others, number=old)
    bench.end_all(WorkKind.DRAIN)
    bench.tick()
    assert bench.tables(WorkKind.KILL) == [("a", 1)]


def test_a_table_whose_directory_is_gone_is_not_what_its_name_means(bench: Bench) -> None:
    bench.seen(TableSeen("a", 1, dead=True, dead_ms=60_000), bench.mine("b"), bench.mine("c"))
    bench.tick()
    assert bench.tables(WorkKind.DELETE) == [("a", 1)]
    bench.handle(DrainTable("drain", "a"))
    bench.surveyed(anew("a", 5))
    assert bench.tables(WorkKind.CLAIM) == [("a", 5)]


def test_a_death_is_remembered_of_a_table_that_was_not_known(bench: Bench) -> None:
    """A survey that is still to come may have looked before, and have seen it alive."""
    slow = begin(bench)
    bench.handle(DrainTable("one", "new"))
    bench.handle(DrainTable("two", "new"))
    first, second = (one.number for one in bench.surveys()[-2:])
    bench.surveyed(number=first)
    bench.surveyed(table("new", dead=True), number=slow)
    bench.surveyed(table("new"), number=second)
    assert bench.verdict("two") is LakeVerdict.NOTHING
    assert not bench.active()


def unlisted(bench: Bench, *tables: TableSeen, name: str) -> None:
    """The last survey found these, and that the directory of that name cannot be listed."""
    number = bench.surveys()[-1].number
    bench.handle(LakeSurveyed(number, bench.leader, tables, {name: TROUBLE}))


def test_a_table_whose_directory_cannot_be_listed_is_kept_with_the_reason(bench: Bench) -> None:
    begin(bench)
    unlisted(bench, bench.mine("b", rows=1_000), bench.mine("c"), name="a")
    status = {one.table: one for one in bench.keeper.status().tables}
    assert (status["a"].state.value, status["a"].trouble) == ("live", TROUBLE)
    bench.tick()
    assert bench.tables(WorkKind.DRAIN) == [("b", 1)]
    bench.seen(bench.mine("a"), bench.mine("b"), bench.mine("c"))
    assert bench.keeper.status().tables[0].trouble is None


def test_who_asks_for_a_table_is_not_answered_by_a_survey_that_could_not_see_it(
    bench: Bench,
) -> None:
    bench.handle(DrainTable("drain", "z"))
    mine = bench.surveys()[-1].number
    begin(bench)
    unlisted(bench, bench.mine("a"), bench.mine("b"), bench.mine("c"), name="z")
    assert bench.verdict("drain") is None
    bench.handle(SurveyFailed(mine, TROUBLE))
    assert bench.verdict("drain") is LakeVerdict.FAILED


def test_a_table_of_which_nothing_was_ever_seen_is_shown_with_the_reason(bench: Bench) -> None:
    begin(bench)
    unlisted(bench, bench.mine("a"), bench.mine("b"), bench.mine("c"), name="z")
    assert bench.keeper.status().tables[-1].table == "z"
    assert bench.keeper.status().tables[-1].trouble == TROUBLE
