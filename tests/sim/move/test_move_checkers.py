"""The checkers of a move's world see each breach that they are there for, and its sides keep the
rules of real ones."""

import pytest

from lockgate.model.move_events import MoveCommand
from lockgate.model.move_instructions import MoveAnswer, MoveVerdict
from lockgate.model.moves import Command, MoveOrder, Side, Step, StepRecord, StepState
from lockgate.sim.loop import Loop
from lockgate.sim.move.ledger import MoveLedger
from lockgate.sim.move.probes import MoveProbes
from lockgate.sim.move.requests import MoveRequests
from lockgate.sim.move.side import SOMEBODY, Hold, NotNow, NotSo, SimSide, StaleKeeper
from lockgate.sim.move.store import MoveStore
from lockgate.sim.violation import Law, LawBroken

FEED = ("m--0", 1)


class Place:
    """Two sides, of which the target is closed; the source has one row, written once."""

    def __init__(self) -> None:
        self.loop = Loop(1)
        self.ledger = MoveLedger()
        self.source, self.target = (
            SimSide(self.loop, side, self.ledger, rate=1.0) for side in (Side.SOURCE, Side.TARGET)
        )
        self.ledger.sides = {Side.SOURCE: self.source, Side.TARGET: self.target}
        self.target.rows = {}
        self.target.close(1)
        self.ledger.guarded_once = True
        self.store = MoveStore(self.loop, self.ledger)
        self.store.begin()
        self.requests = MoveRequests(self.store, self.ledger, MoveProbes())
        self.write(self.source, 1, None)

    def write(self, side: SimSide, key: int, seen: int | None) -> None:
        side.write(key, self.ledger.commits(side.side, key, seen))

    def block(self, keeper: int = 1, ms: int = 100) -> int:
        """The position of a new block."""
        number = self.source.block(keeper, ms)
        assert number is not None
        return self.source.locate(keeper, number)

    def ask(self, command: Command) -> None:
        self.requests.ask("keeper 1", MoveCommand("r", MoveOrder(command)))

    def answer(self, verdict: MoveVerdict) -> None:
        self.requests.answered(MoveAnswer("r", verdict, "", ""), 1)


@pytest.fixture
def place() -> Place:
    return Place()


def broken(law: Law) -> "pytest.RaisesExc[LawBroken]":
    return pytest.raises(LawBroken, match=law.value)


# --- sides ------------------------------------------------------------------------------------


def test_a_block_ends_by_itself(place: Place) -> None:
    place.block()
    assert not place.source.writable
    place.loop.now = 100
    assert place.source.writable


def test_a_block_waits_for_who_writes(place: Place) -> None:
    place.source.writing = 1
    assert place.source.block(1, 100) is None


def test_a_seal_in_time_lasts(place: Place) -> None:
    assert place.source.seal(1, place.block())
    place.loop.now = 1_000
    assert not place.source.writable
    assert not place.source.unblock(1)


@pytest.mark.parametrize("late_ms", [98, 100, 1_000])
def test_a_seal_that_comes_late_is_refused_for_ever(place: Place, late_ms: int) -> None:
    position = place.block()
    place.loop.now = late_ms
    assert not place.source.seal(1, position)
    place.loop.now = 0
    assert not place.source.seal(1, position)


def test_an_earlier_block_cannot_be_sealed(place: Place) -> None:
    first = place.block()
    place.loop.now = 150
    place.write(place.source, 1, 1)
    place.block()
    assert not place.source.seal(1, first)


def test_a_block_that_somebody_ended_has_no_position(place: Place) -> None:
    number = place.source.block(1, 100)
    assert number is not None
    place.source.unblock(2)
    with pytest.raises(StaleKeeper):
        place.source.locate(1, number)
    with pytest.raises(NotSo):
        place.source.locate(2, number)


def test_a_side_refuses_a_former_keeper_and_everybody_once_it_is_over(place: Place) -> None:
    place.source.visit(2)
    with pytest.raises(StaleKeeper):
        place.source.visit(1)
    place.source.clean(2, keep_guard=False)
    with pytest.raises(StaleKeeper):
        place.source.visit(3)


def test_a_void_token_is_good_again_only_under_a_later_epoch(place: Place) -> None:
    assert place.target.claim(FEED, 1) is not None
    assert place.target.void(FEED, 1)
    assert place.target.claim(FEED, 1) is None
    assert place.target.live_feeds() == []
    assert place.target.claim(FEED, 2) is not None
    assert not place.target.void(FEED, 1)


def test_a_feed_has_one_hold_and_somebody_elses_ends(place: Place) -> None:
    place.target.hold(FEED, Hold(SOMEBODY, 0, 50))
    with pytest.raises(NotNow):
        place.target.hold(FEED, Hold(1, 0))
    place.loop.now = 50
    place.target.hold(FEED, Hold(1, 0))
    assert place.target.held(FEED) == Hold(1, 0)
    with pytest.raises(NotNow):
        place.target.hold(FEED, Hold(SOMEBODY, 0, 100))


def test_a_keeper_takes_over_what_one_before_it_holds_and_no_more(place: Place) -> None:
    place.target.hold(FEED, Hold(1, 0))
    place.target.hold(FEED, Hold(2, 0))
    assert place.target.held(FEED) == Hold(2, 0)
    place.target.let_go(FEED, 3)
    assert place.target.held(FEED) is None
    place.target.hold(FEED, Hold(SOMEBODY, 0, 50))
    place.target.let_go(FEED, 3)
    assert place.target.held(FEED) == Hold(SOMEBODY, 0, 50)


# --- the ledger -------------------------------------------------------------------------------


def test_a_write_that_does_not_see_the_one_before_is_seen(place: Place) -> None:
    with broken(Law.TOGETHER):
        place.write(place.source, 1, 0)


def test_a_value_of_a_sequence_that_is_in_use_is_seen(place: Place) -> None:
    with broken(Law.TOGETHER):
        place.write(place.source, 1, None)


@pytest.mark.parametrize("rows", [{}, {1: 2}, {1: 1, 2: 1}])
def test_a_write_that_is_lost_or_doubled_at_rest_is_seen(
    place: Place, rows: dict[int, int]
) -> None:
    place.ledger.has_all(Side.SOURCE)
    place.source.rows = rows
    with broken(Law.TOGETHER):
        place.ledger.has_all(Side.SOURCE)


def test_two_sides_that_take_writes_are_seen(place: Place) -> None:
    place.target.guard = None
    with broken(Law.FENCE):
        place.write(place.source, 1, 1)


def test_a_former_keeper_that_acts_is_seen_wherever_it_does(place: Place) -> None:
    place.ledger.acts_at(Side.SOURCE, 2)
    with broken(Law.FENCE):
        place.ledger.acts_at(Side.SOURCE, 1)
    place.ledger.tells_hook(2)
    with broken(Law.FENCE):
        place.ledger.tells_hook(1)
    with broken(Law.FENCE):
        place.ledger.changes_feeds(1, 2)


def test_a_side_that_is_opened_and_has_no_traffic_is_seen(place: Place) -> None:
    with broken(Law.RECORD):
        place.target.open(1)


def test_traffic_that_changes_hands_before_the_seal_is_seen(place: Place) -> None:
    place.block()
    with broken(Law.RECORD):
        place.ledger.traffic_recorded(Side.TARGET, Command.SWITCH, 0)


def test_a_command_that_takes_traffic_to_the_other_side_than_it_says_is_seen(place: Place) -> None:
    place.source.seal(1, place.block())
    with broken(Law.RECORD):
        place.ledger.traffic_recorded(Side.TARGET, Command.REVERSE, 0)
    place.ledger.traffic_recorded(Side.TARGET, Command.SWITCH, 0)


def _put_back(place: Place) -> None:
    steps = (StepRecord(Step.BLOCK, StepState.UNDONE), StepRecord(Step.FREEZE, StepState.UNDONE))
    record = place.store.record
    place.store.write(
        record.changed(
            order=MoveOrder(Command.SWITCH),
            steps=steps,
            ended=True,
            serial=record.serial + 1,
            facts=record.facts.changed(feed=FEED[0]),
        )
    )


def test_a_flip_that_is_put_back_and_has_left_a_guard_is_seen(place: Place) -> None:
    place.block()
    with broken(Law.RECORD):
        _put_back(place)
    place.source.unblock(1)
    _put_back(place)


def test_a_flip_that_is_put_back_and_has_left_a_hold_is_seen(place: Place) -> None:
    place.target.hold(FEED, Hold(1, 0))
    with broken(Law.RECORD):
        _put_back(place)
    place.target.let_go(FEED, 1)
    place.target.hold(FEED, Hold(SOMEBODY, 0, 50))
    _put_back(place)


def test_a_table_that_goes_under_a_feed_is_seen(place: Place) -> None:
    place.target.claim(FEED, 1)
    with broken(Law.DRAIN):
        place.target.dispose(1, rename=False)


def test_a_table_that_goes_with_all_that_was_written_is_seen(place: Place) -> None:
    with broken(Law.TOGETHER):
        place.source.dispose(1, rename=True)


def test_a_kept_table_that_is_of_another_moment_is_seen(place: Place) -> None:
    place.target.write(1, 1)
    place.target.write(1, 2)
    place.ledger.kept_as_of({1: 1}, 1)
    with broken(Law.TOGETHER):
        place.ledger.kept_as_of({1: 1}, 2)


# --- answers ----------------------------------------------------------------------------------


def test_a_second_answer_is_seen(place: Place) -> None:
    place.ask(Command.SWITCH)
    place.answer(MoveVerdict.BUSY)
    with broken(Law.RECORD):
        place.answer(MoveVerdict.BUSY)


@pytest.mark.parametrize("verdict", [MoveVerdict.BEGUN, MoveVerdict.DONE, MoveVerdict.NOTHING])
def test_an_answer_that_the_record_does_not_bear_out_is_seen(
    place: Place, verdict: MoveVerdict
) -> None:
    place.ask(Command.SWITCH)
    with broken(Law.RECORD):
        place.answer(verdict)


def test_who_is_not_answered_is_named(place: Place) -> None:
    place.ask(Command.CANCEL)
    assert "keeper 1" in place.requests.unanswered()
    place.requests.lose("keeper 1")
    assert not place.requests.unanswered()


# --- sides that are lost ----------------------------------------------------------------------


def _giving_up(place: Place, lost: Side, *steps: Step) -> None:
    done = tuple(StepRecord(step, StepState.DONE, started_ms=1) for step in steps)
    order = MoveOrder(Command.CANCEL, lost=lost)
    place.store.write(place.store.record.changed(order=order, steps=done, serial=1))


def test_a_side_that_answers_is_not_found_gone(place: Place) -> None:
    with broken(Law.DRAIN):
        place.ledger.found_gone(Side.TARGET, 0)


def test_a_side_that_was_away_meanwhile_may_be_taken_for_gone(place: Place) -> None:
    place.target.away_until = 20
    place.ledger.found_gone(Side.TARGET, 10)
    _giving_up(place, Side.TARGET, Step.CHECK_CANCEL, Step.STOP)


def test_a_side_is_not_given_up_before_anybody_has_looked(place: Place) -> None:
    _giving_up(place, Side.TARGET, Step.CHECK_CANCEL)
    with broken(Law.DRAIN):
        _giving_up(place, Side.TARGET, Step.CHECK_CANCEL, Step.STOP)


def test_what_has_the_traffic_is_not_given_up(place: Place) -> None:
    place.source.lost = True
    place.ledger.found_gone(Side.SOURCE, 0)
    with broken(Law.DRAIN):
        _giving_up(place, Side.SOURCE, Step.CHECK_CANCEL, Step.STOP)
