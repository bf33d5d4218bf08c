"""A flip that goes well: recorded before it acts, sealed before traffic changes hands."""

import pytest

from lockgate.core.move.plans import PLANS
from lockgate.core.move.stages import Stage
from lockgate.model.move_events import MoveNotRecorded, MoveRecorded, StepEnded, StepOutcome
from lockgate.model.move_instructions import MoveVerdict, RecordMove, RunStep
from lockgate.model.moves import Command, MoveFacts, Side, Step, StepState
from tests.core.move.keeping import RUNNING, SWITCHED, Keeping, states


def switching() -> Keeping:
    keeping = Keeping(RUNNING)
    keeping.command(Command.SWITCH, timeout_ms=10_000)
    return keeping


def test_a_step_is_durable_before_it_acts() -> None:
    keeping = switching()
    assert not keeping.ran
    assert not keeping.answers
    record = keeping.record_lands()
    assert states(record, [Step.CHECK, Step.BLOCK]) == [StepState.RUNNING, StepState.PENDING]
    assert keeping.ran == [(Step.CHECK, False)]
    assert keeping.verdicts() == [MoveVerdict.BEGUN]


def test_all_steps_are_done_in_their_order_and_the_end_is_told_once_durable() -> None:
    keeping = switching()
    keeping.until(Step.RETIRE)
    keeping.end()
    assert keeping.verdicts() == [MoveVerdict.BEGUN]
    keeping.record_lands()
    assert keeping.verdicts() == [MoveVerdict.BEGUN, MoveVerdict.DONE]
    assert [step for step, _ in keeping.ran] == [
        step for step in PLANS[Command.SWITCH] if step is not Step.FLIP
    ]
    assert keeping.durable.ended
    assert not keeping.durable.undoing
    assert keeping.stage is Stage.RESTING


def test_every_step_was_recorded_as_running_when_it_began() -> None:
    keeping = switching()
    while keeping.stage is not Stage.RESTING:
        if keeping.ran and keeping.stage is Stage.RUNNING:
            assert states(keeping.durable, [keeping.ran[-1][0]]) == [StepState.RUNNING]
        keeping.go_on()


def test_traffic_changes_hands_in_the_record_that_says_sealed() -> None:
    keeping = switching()
    keeping.until(Step.SEAL)
    assert keeping.durable.traffic is Side.SOURCE
    keeping.end()
    record = keeping.record_lands()
    assert record.facts.sealed
    assert record.traffic is Side.TARGET
    assert states(record, [Step.SEAL, Step.FLIP, Step.OPEN]) == [
        StepState.DONE,
        StepState.DONE,
        StepState.RUNNING,
    ]
    sealed = [one.facts.sealed for one in keeping.records]
    assert [one.traffic is Side.TARGET for one in keeping.records] == sealed


def test_feeds_are_called_by_the_number_of_flips() -> None:
    keeping = switching()
    assert keeping.until(Step.WAY_BACK).facts.feed == "m--0"
    facts = keeping.until(Step.RETIRE).facts
    assert (facts.flips, facts.feed, facts.frozen) == (1, "m--1", "m--0")
    keeping.through()
    assert keeping.durable.facts.frozen == ""


def test_who_gives_stays_the_same_behind_the_flip() -> None:
    keeping = switching()
    assert keeping.until(Step.BLOCK).giving is Side.SOURCE
    assert keeping.until(Step.OPEN).giving is Side.SOURCE


def test_a_reverse_is_the_same_plan_the_other_way() -> None:
    keeping = Keeping(SWITCHED)
    keeping.command(Command.REVERSE)
    assert keeping.until(Step.BLOCK).giving is Side.TARGET
    keeping.through()
    assert keeping.durable.traffic is Side.SOURCE
    assert keeping.durable.facts.feed == "m--2"


def test_what_a_step_found_out_is_handed_to_the_next() -> None:
    keeping = switching()
    facts = keeping.until(Step.BLOCK).facts
    keeping.end(facts=facts.changed(blocked_at=77), detail="10 tables")
    record = keeping.record_lands()
    assert record.facts.blocked_at == 77
    assert keeping.running().facts.blocked_at == 77
    assert [one.detail for one in record.steps if one.step is Step.BLOCK] == ["10 tables"]


def test_facts_of_a_flip_do_not_outlive_it() -> None:
    keeping = Keeping(SWITCHED.changed(facts=MoveFacts(1, "m--1", "", 5, 6, 0, sealed=True)))
    keeping.command(Command.REVERSE)
    facts = keeping.record_lands().facts
    assert (facts.blocked_at, facts.back_from, facts.sealed) == (0, 0, False)


def test_times_are_those_that_the_keeper_was_told() -> None:
    keeping = switching()
    keeping.until(Step.BLOCK)
    keeping.now += 40
    keeping.end()
    [block] = [one for one in keeping.record_lands().steps if one.step is Step.BLOCK]
    assert (block.started_ms, block.ended_ms) == (1_000, 1_040)


def test_the_time_that_is_left_is_counted_from_when_people_are_held_up() -> None:
    keeping = switching()
    keeping.until(Step.CHECK)
    keeping.now += 5_000
    assert keeping.until(Step.HOOK_BEFORE).left_ms == 10_000
    keeping.now += 300
    assert keeping.until(Step.BLOCK).left_ms == 9_700
    assert keeping.until(Step.SEAL).left_ms == 9_700
    assert keeping.until(Step.OPEN).left_ms == 0


def test_a_record_that_did_not_land_is_written_again_and_nothing_acts_before() -> None:
    keeping = switching()
    serial = keeping.take(RecordMove).record.serial
    keeping.give(MoveNotRecorded(serial))
    keeping.tick()
    assert not keeping.asked
    keeping.tick(100)
    assert keeping.take(RecordMove).record.serial == serial
    assert not keeping.ran
    keeping.give(MoveRecorded(serial))
    assert keeping.ran


def test_an_answer_that_comes_again_changes_nothing() -> None:
    keeping = switching()
    keeping.until(Step.BLOCK)
    keeping.give(MoveRecorded(keeping.durable.serial))
    keeping.give(StepEnded(1, Step.CHECK, StepOutcome.REFUSED))
    assert keeping.stage is Stage.RUNNING
    assert not [one for one in keeping.asked if isinstance(one, RecordMove)]
    run = keeping.end()
    keeping.give(StepEnded(run.number, run.step, StepOutcome.FAILED))
    keeping.through()
    assert keeping.durable.traffic is Side.TARGET


@pytest.mark.parametrize("outcome", [StepOutcome.FAILED, StepOutcome.REFUSED])
@pytest.mark.parametrize("step", [Step.OPEN, Step.HOOK_AFTER, Step.RETIRE])
def test_behind_the_seal_a_step_is_tried_until_it_is_done(step: Step, outcome: StepOutcome) -> None:
    keeping = switching()
    keeping.until(step)
    for _ in range(5):
        keeping.end(outcome)
        if any(isinstance(one, RecordMove) for one in keeping.asked):
            record = keeping.record_lands()
            assert record.trouble is not None
            assert record.stuck is (outcome is StepOutcome.REFUSED)
        keeping.tick(20_000)
        assert keeping.running().step is step
    keeping.through()
    assert keeping.verdicts()[-1] is MoveVerdict.DONE
    assert keeping.durable.trouble is None
    assert not keeping.durable.stuck
    assert not keeping.undone()


def test_attempts_come_further_and_further_apart_but_not_while_people_wait() -> None:
    def waits(step: Step) -> list[int]:
        keeping = switching()
        keeping.until(step)
        found = []
        for _ in range(6):
            keeping.end(StepOutcome.FAILED)
            before = keeping.now
            while not any(isinstance(one, RunStep) for one in keeping.asked):
                keeping.tick(50)
            found.append(keeping.now - before)
        return found

    assert waits(Step.RETIRE) == [100, 200, 400, 800, 1_600, 1_600]
    assert waits(Step.OPEN) == [100, 200, 400, 400, 400, 400]


def test_the_same_command_again_tries_at_once() -> None:
    keeping = switching()
    keeping.until(Step.HOOK_AFTER)
    keeping.end(StepOutcome.REFUSED)
    keeping.record_lands()
    assert keeping.stage is Stage.WAITING
    keeping.command(Command.SWITCH, "again")
    assert keeping.running().step is Step.HOOK_AFTER
    keeping.through()
    assert keeping.verdicts("again") == [MoveVerdict.BEGUN, MoveVerdict.DONE]
    assert keeping.verdicts() == [MoveVerdict.BEGUN, MoveVerdict.DONE]
