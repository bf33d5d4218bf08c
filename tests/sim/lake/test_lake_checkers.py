"""The checkers of the lake's world see each breach that they are there for."""

import contextlib

import pytest

from lockgate.model.ids import Token
from lockgate.model.lake import (
    LakeRole,
    Leadership,
    Wish,
    WishRecord,
    WorkKind,
    WorkOutcome,
)
from lockgate.model.lake_events import (
    DrainTable,
    DropTable,
    LakeTaken,
    StepDown,
    StepUp,
    WorkEnded,
)
from lockgate.model.lake_instructions import LakeAnswer, LakeVerdict, RunWork, TakeLake
from lockgate.sim.lake.lake import SimLake
from lockgate.sim.lake.ledger import LakeLedger
from lockgate.sim.lake.probes import LakeProbes
from lockgate.sim.lake.requests import Requests
from lockgate.sim.lake.store import WishStore
from lockgate.sim.lake.watch import Kill, Watch
from lockgate.sim.loop import Loop
from lockgate.sim.violation import Law, LawBroken

OLD, NEW = Token(1, 0, 1), Token(2, 0, 2)


class Place:
    """A lake with one table, and everybody who watches it."""

    def __init__(self) -> None:
        self.loop = Loop(1)
        self.probes = LakeProbes()
        self.ledger = LakeLedger(lambda: self.loop.now, self.probes)
        self.lake = SimLake(self.loop, self.ledger, self.probes)
        self.store = WishStore()
        self.requests = Requests(self.lake, self.ledger, self.store, self.probes)
        self.watch = Watch("h.1", self.store.begin("h"), self.probes, lambda: self.loop.now)
        self.table = self.lake.make("t", stable=True)
        self.key = self.table.key

    def work(self, number: int, kind: WorkKind, *, table: str = "t", token: Token = OLD) -> RunWork:
        return RunWork(number, kind, table, self.table.incarnation, token)

    def runs(self, work: RunWork, *, drops: bool = False, asked: int = 0) -> None:
        self.watch.runs(work, LakeRole.STEPPING_UP, drops, asked)

    def ends(self, number: int, outcome: WorkOutcome) -> None:
        self.watch.takes(WorkEnded(number, *self.key, outcome))

    def ask(self, verb: DrainTable | DropTable | StepUp | StepDown) -> None:
        self.requests.ask("h.1", "h", verb, self.loop.now, leads=True)

    def answer(self, verdict: LakeVerdict, what: str = "") -> None:
        answer = LakeAnswer("r", verdict, what, incarnation=self.table.incarnation)
        self.requests.answered(answer, self.watch)


@pytest.fixture
def place() -> Place:
    place = Place()
    place.watch.takes(LakeTaken(1, 1))
    return place


def broken(law: Law) -> "pytest.RaisesExc[LawBroken]":
    return pytest.raises(LawBroken, match=law.value)


# --- the lake ---------------------------------------------------------------------------------


def test_the_fence_lets_the_newest_claim_through_and_nobody_else(place: Place) -> None:
    lake, key, at = place.lake, place.key, place.table.drained
    assert lake.claim(key, OLD) is WorkOutcome.DONE
    assert lake.claim(key, NEW) is WorkOutcome.DONE
    assert lake.claim(key, OLD) is WorkOutcome.STALE
    assert lake.rewrite(key, OLD, frozenset(), at, at) is WorkOutcome.STALE
    assert lake.rewrite(key, NEW, frozenset(), at, at) is WorkOutcome.DONE
    assert lake.kill(key, OLD, dropped=True) is WorkOutcome.STALE
    assert lake.kill(key, NEW, dropped=True) is WorkOutcome.DONE
    assert lake.claim(key, NEW) is WorkOutcome.DEAD


def test_a_drain_that_was_overtaken_lands_nothing(place: Place) -> None:
    place.lake.claim(place.key, OLD)
    lake, key, at = place.lake, place.key, place.table.drained
    assert lake.rewrite(key, OLD, frozenset(), at, at + 1) is WorkOutcome.DONE
    assert lake.rewrite(key, OLD, frozenset(), at, at + 1) is WorkOutcome.FAILED


def test_a_commit_under_an_older_token_than_the_newest_claim_breaks_the_fence(
    place: Place,
) -> None:
    place.ledger.claimed(place.key, NEW)
    with broken(Law.FENCE):
        place.ledger.committed(place.key, OLD)


def test_a_commit_to_a_dead_table_is_seen(place: Place) -> None:
    place.ledger.killed(place.key, dropped=True)
    with broken(Law.DRAIN):
        place.ledger.committed(place.key, OLD)


def test_deleting_a_live_table_is_seen(place: Place) -> None:
    with broken(Law.DRAIN):
        place.lake.delete(place.key, "h.1")


def test_deleting_what_ones_own_work_reads_is_seen_and_anothers_is_not(place: Place) -> None:
    place.table.files = {1, 2}
    place.lake.kill(place.key, OLD, dropped=True)
    place.ledger.uses(place.key, "h.1")
    place.lake.delete(place.key, "h.2")
    with broken(Law.DRAIN):
        place.lake.delete(place.key, "h.1")


def test_a_table_that_comes_back_because_a_newer_one_was_deleted_is_seen(place: Place) -> None:
    newer = place.lake.make("t", stable=True)
    newer.awaits = False
    place.lake.kill(newer.key, OLD, dropped=True)
    with broken(Law.DRAIN):
        place.lake.delete(newer.key, "h.1")


def test_a_lake_that_is_taken_unasked_is_seen(place: Place) -> None:
    place.lake.leader = Leadership(3, "other", 1, 1)
    with broken(Law.FENCE):
        place.lake.take(TakeLake("h", 1, 1, over=3))


def test_a_lake_that_is_taken_as_asked_is_fine_once(place: Place) -> None:
    place.ask(StepUp("r"))
    assert place.lake.take(TakeLake("h", 1, 1, over=0)) is not None
    place.lake.leader = Leadership(2, "other", 1, 1)
    with broken(Law.FENCE):
        place.lake.take(TakeLake("h", 1, 2, over=2))


# --- a keeper ---------------------------------------------------------------------------------


def test_two_pieces_of_work_for_one_table_are_seen(place: Place) -> None:
    place.runs(place.work(1, WorkKind.CLAIM))
    with broken(Law.DRAIN):
        place.runs(place.work(2, WorkKind.DRAIN))


@pytest.mark.parametrize("outcome", [WorkOutcome.DEAD, WorkOutcome.STALE])
def test_going_on_after_it_was_told_is_seen(place: Place, outcome: WorkOutcome) -> None:
    place.runs(place.work(1, WorkKind.CLAIM))
    place.ends(1, outcome)
    with broken(Law.DRAIN if outcome is WorkOutcome.DEAD else Law.FENCE):
        place.runs(place.work(2, WorkKind.DRAIN))


def test_work_under_an_epoch_that_is_not_its_own_is_seen(place: Place) -> None:
    with broken(Law.FENCE):
        place.runs(place.work(1, WorkKind.DRAIN, token=NEW))


def test_a_kill_that_nobody_asked_for_is_seen(place: Place) -> None:
    place.runs(place.work(1, WorkKind.KILL), drops=True)
    place.ends(1, WorkOutcome.FAILED)
    with broken(Law.DRAIN):
        place.runs(place.work(2, WorkKind.KILL))


def test_a_second_drain_in_one_step_up_is_seen_unless_somebody_asked(place: Place) -> None:
    for number in (1, 2):
        place.runs(place.work(number, WorkKind.DRAIN), asked=1)
        place.ends(number, WorkOutcome.DONE)
    with broken(Law.DRAIN):
        place.runs(place.work(3, WorkKind.DRAIN), asked=1)


# --- answers ----------------------------------------------------------------------------------


def test_an_answer_that_comes_twice_is_seen(place: Place) -> None:
    place.ask(StepUp("r"))
    place.answer(LakeVerdict.REFUSED)
    with broken(Law.DRAIN):
        place.answer(LakeVerdict.REFUSED)


@pytest.mark.parametrize("verdict", [LakeVerdict.DONE, LakeVerdict.NOTHING])
def test_a_table_that_is_called_dropped_and_lives_is_seen(
    place: Place, verdict: LakeVerdict
) -> None:
    place.ask(DropTable("r", "t"))
    with broken(Law.DRAIN):
        place.answer(verdict)


@pytest.mark.parametrize(
    "verdict", [LakeVerdict.BUSY, LakeVerdict.REFUSED, LakeVerdict.FAILED], ids=lambda v: v.value
)
def test_a_side_effect_of_what_was_not_done_is_seen(place: Place, verdict: LakeVerdict) -> None:
    place.ask(DropTable("r", "t"))
    place.requests.begins_kill("h.1", Kill(place.key), heir=False)
    with broken(Law.DRAIN):
        place.answer(verdict)


@pytest.mark.parametrize("heir", [False, True])
def test_a_kill_of_another_incarnation_is_an_effect_if_it_was_for_the_drops_sake(
    place: Place, heir: bool
) -> None:
    place.ask(DropTable("r", "t"))
    table, incarnation = place.key
    place.requests.begins_kill("h.1", Kill((table, incarnation + 1)), heir=heir)
    with broken(Law.DRAIN) if heir else contextlib.nullcontext():
        place.answer(LakeVerdict.REFUSED)


def test_an_unknown_outcome_is_no_lie(place: Place) -> None:
    place.ask(DropTable("r", "t"))
    place.requests.begins_kill("h.1", Kill(place.key), heir=False)
    place.answer(LakeVerdict.UNKNOWN)


def test_a_drain_that_is_called_done_and_is_not_is_seen(place: Place) -> None:
    place.lake.change(place.table)
    place.ask(DrainTable("r", "t"))
    with broken(Law.DRAIN):
        place.answer(LakeVerdict.DONE)


def test_what_came_after_the_question_need_not_be_drained(place: Place) -> None:
    place.ask(DrainTable("r", "t"))
    place.lake.change(place.table)
    place.answer(LakeVerdict.DONE)


def test_superseded_without_a_death_is_seen(place: Place) -> None:
    place.ask(DrainTable("r", "t"))
    with broken(Law.DRAIN):
        place.answer(LakeVerdict.SUPERSEDED, "the table was dropped")


def test_a_leader_that_has_not_claimed_a_table_is_seen(place: Place) -> None:
    place.loop.now = 5
    place.watch.takes(LakeTaken(2, 2))
    place.ask(StepUp("r"))
    with broken(Law.FENCE):
        place.answer(LakeVerdict.DONE)


def test_following_before_it_is_durable_is_seen(place: Place) -> None:
    place.watch.wished = WishRecord(Wish.FOLLOW, keeper=1, serial=3)
    place.ask(StepDown("r"))
    with broken(Law.RECORD):
        place.answer(LakeVerdict.DONE)


def test_following_with_changes_that_were_kept_back_is_seen(place: Place) -> None:
    place.watch.wished = WishRecord(Wish.FOLLOW, keeper=1, serial=3)
    place.store.record("h", place.watch.wished)
    place.lake.leader = Leadership(place.watch.epoch)
    place.lake.change(place.table)
    place.ask(StepDown("r"))
    with broken(Law.DRAIN):
        place.answer(LakeVerdict.DONE)


def test_who_is_not_answered_is_named(place: Place) -> None:
    place.ask(DropTable("r", "t"))
    assert "h.1" in place.requests.unanswered()
    place.requests.lose("h.1")
    assert not place.requests.unanswered()
