"""The fake executor: two-step transactions, and who may stop them."""

from typing import Any

import pytest

from lockgate.model.ddl import DdlKind
from lockgate.model.events import (
    DispatcherAdvanced,
    DispatcherBlocked,
    DispatcherEvent,
    DispatcherHeld,
    DispatcherRefused,
    DispatcherStarted,
    DispatcherStopped,
    SinkCloseFailed,
)
from lockgate.model.ids import Token
from lockgate.model.instructions import (
    CloseSink,
    HoldDispatcher,
    PassBarrier,
    ReleaseDispatcher,
    StartDispatcher,
    StopDispatcher,
    WriteBarrier,
)
from lockgate.model.spans import TRIGGER, TRIGGER_SPEC, SpanSpec
from lockgate.sim.closer import Closer
from lockgate.sim.executor import Executor
from lockgate.sim.faults import Faults
from lockgate.sim.loop import Action, Loop
from lockgate.sim.probes import Probe
from tests.sim.place import FEED, A, B, Place, token

WORKS = token(1, 2)


class Process:
    """An executor over a place, without faults; `events` is what its core would take."""

    def __init__(self) -> None:
        self.place = Place()
        self.loop = Loop(1)
        self.faults = Faults(self.loop.rng)
        self.faults.heal()
        self.events: list[DispatcherEvent] = []
        self.paused = False
        self.deferred: list[tuple[Action, Any]] = []
        self.executor = self.new_executor()

    def new_executor(self) -> Executor:
        return Executor(
            self.loop,
            self.faults,
            self.place.probes,
            self.place.sink,
            lambda _: self.place.source,
            self.events.append,
            self._defer,
        )

    def _defer(self, action: Action, arg: object) -> bool:
        if self.paused:
            self.deferred.append((action, arg))
        return self.paused

    def resume(self) -> None:
        self.paused = False
        for action, arg in self.deferred:
            action(arg)

    def start(self, spec: SpanSpec = A, by: Token = WORKS) -> None:
        self.executor.start(StartDispatcher(FEED, spec, by))

    def run(self, ms: int = 3_000) -> None:
        self.loop.run(self.loop.now + ms)

    def run_until_reading_is_over(self) -> None:
        """Right between the reading and the commit of a transaction."""
        dispatcher = self.executor.running[FEED, "a"]
        while dispatcher.tx is None or dispatcher.floors is None:
            self.run(1)

    def last(self, kind: type) -> Any:
        return [event for event in self.events if isinstance(event, kind)][-1]

    @property
    def position(self) -> int:
        return self.place.sink.feed(FEED).spans["a"].position


@pytest.fixture
def process() -> Process:
    return Process()


def test_it_claims_then_applies_to_the_end(process: Process) -> None:
    to = process.place.write("t00", 1)
    process.start()
    process.run()
    assert process.events[0] == DispatcherStarted(FEED, "a", token(1, 2), 0)
    assert process.last(DispatcherAdvanced).position == to == process.position


def test_a_refused_claim_ends_it(process: Process) -> None:
    process.place.claim(A, token(5, 1))
    process.start()
    process.run()
    assert isinstance(process.events[-1], DispatcherRefused)
    assert not process.executor.running


def test_between_reading_and_commit_a_newer_token_shuts_it_out(process: Process) -> None:
    process.start()
    process.run()
    process.place.write("t00", 1)
    process.run_until_reading_is_over()
    process.place.claim(A, token(2, 1))
    process.run()
    assert isinstance(process.events[-1], DispatcherRefused)
    assert process.position == 0


def test_stopped_means_that_nothing_commits_any_more(process: Process) -> None:
    process.start()
    process.run()
    process.place.write("t00", 1)
    process.executor.carry_out(StopDispatcher(FEED, "a", token(1, 2)))
    process.run()
    stopped_at = process.position
    process.place.write("t00", 1)
    process.run()
    assert isinstance(process.events[-1], DispatcherStopped)
    assert process.position == stopped_at
    assert not process.executor.running


def test_stopping_what_is_not_there_is_answered(process: Process) -> None:
    process.executor.carry_out(StopDispatcher(FEED, "a", token(1, 2)))
    assert process.events == [DispatcherStopped(FEED, "a", token(1, 2))]


def test_held_it_applies_nothing_until_released(process: Process) -> None:
    process.start()
    process.run()
    process.executor.carry_out(HoldDispatcher(FEED, "a", token(1, 2), "m"))
    process.run()
    assert process.last(DispatcherHeld).span == "a"
    to = process.place.write("t00", 1)
    process.run()
    assert process.position == 0
    process.executor.carry_out(ReleaseDispatcher(FEED, "a", token(1, 2)))
    process.run()
    assert process.position == to


def test_it_stands_before_a_ddl_until_it_may_pass(process: Process) -> None:
    place = process.place
    at = place.ddl(DdlKind.ALTER, "t00")
    to = place.write("t00", 1)
    process.start(TRIGGER_SPEC, token(1, 1))
    process.start()
    process.run()
    assert {event.span for event in process.events if isinstance(event, DispatcherBlocked)} == {
        "a",
        TRIGGER,
    }
    process.executor.carry_out(WriteBarrier(FEED, TRIGGER, token(1, 1), place.source.ddls[0]))
    process.run()
    assert process.last(DispatcherAdvanced) == DispatcherAdvanced(FEED, TRIGGER, token(), at)
    assert process.position == at
    process.executor.carry_out(PassBarrier(FEED, "a", token(1, 2), at))
    process.run()
    assert process.position == to


def test_an_unknown_outcome_is_cleared_up_by_claiming_again(process: Process) -> None:
    process.faults.sink_unknown = 0.5
    process.start()
    for _ in range(40):
        process.place.write("t00", 1)
        process.run(1_000)
    process.faults.sink_unknown = 0.0
    process.run()
    assert process.place.probes.hits[Probe.SINK_OUTCOME_UNKNOWN] > 0
    assert process.position == process.place.source.head


def test_a_sink_that_is_down_is_claimed_again_when_it_is_back(process: Process) -> None:
    process.place.sink.down = True
    process.start(A, WORKS)
    process.loop.run(5_000)
    assert not process.events
    process.place.sink.down = False
    process.loop.run(10_000)
    assert isinstance(process.events[0], DispatcherStarted)
    assert process.place.probes.hits[Probe.SINK_DOWN] > 1


def test_a_sink_that_is_down_is_not_closed() -> None:
    process, answers = Process(), list[Any]()
    closer = Closer(process.loop, process.faults, process.place.probes, process.place.sink)
    process.place.sink.down = True
    closer.close(CloseSink(FEED, token(1, 99), False), answers.append)
    process.loop.run(1_000)
    assert [type(answer) for answer in answers] == [SinkCloseFailed]
    assert process.place.ledger.feed(FEED).void is None
    process.place.sink.down = False
    process.loop.run(30_000)
    assert process.place.ledger.feed(FEED).void == token(1, 99)


def test_a_task_may_outlive_its_process_and_is_then_shut_out(process: Process) -> None:
    process.faults.zombie = 1.0
    process.start()
    process.run()
    process.place.write("t00", 1)
    process.run_until_reading_is_over()
    process.executor.die()
    process.place.claim(A, token(2, 1))
    process.run(60_000)
    assert process.place.probes.hits[Probe.ZOMBIE_FENCED] == 1
    assert process.position == 0


def test_a_task_may_outlive_its_process_and_commit(process: Process) -> None:
    process.faults.zombie = 1.0
    process.start()
    process.run()
    to = process.place.write("t00", 1)
    process.run_until_reading_is_over()
    process.executor.die()
    process.run(60_000)
    assert process.position == to


def test_a_paused_process_commits_when_it_goes_on(process: Process) -> None:
    process.start()
    process.run()
    to = process.place.write("t00", 1)
    process.run_until_reading_is_over()
    process.paused = True
    process.run()
    assert process.position == 0
    process.resume()
    assert process.position == to


def test_stopping_everything_is_silent(process: Process) -> None:
    process.start()
    process.start(B, token(1, 3))
    process.run()
    before = len(process.events)
    process.executor.stop_everything()
    process.place.write("t00", 1)
    process.run(60_000)
    assert len(process.events) == before
    assert process.position == 0
