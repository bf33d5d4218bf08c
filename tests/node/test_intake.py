"""What waits for a core keeps its order, and does not pile up when heartbeats come too fast."""

import queue

import pytest

from lockgate.model.events import Event, Tick
from lockgate.model.ids import NodeRef
from lockgate.model.messages import Heartbeat
from lockgate.node.intake import Intake

A, B = NodeRef("a", 1), NodeRef("b", 1)


def _beat(number: int, node: NodeRef = A, feed: str = "shop", *, full: bool = True) -> Heartbeat:
    return Heartbeat(feed, 1, node, number, full, ())


def _all(intake: Intake[Event]) -> list[Event]:
    out = []
    while True:
        try:
            out.append(intake.get(0.001))
        except queue.Empty:
            return out


@pytest.fixture
def intake() -> Intake[Event]:
    return Intake()


def test_of_full_heartbeats_that_wait_only_the_newest_is_kept_in_its_place(
    intake: Intake[Event],
) -> None:
    for number in range(1, 1001):
        intake.put(_beat(number))
        if number == 1:
            intake.put(Tick())
    assert _all(intake) == [_beat(1000), Tick()]


def test_one_that_was_taken_does_not_swallow_the_next(intake: Intake[Event]) -> None:
    intake.put(_beat(1))
    assert intake.get(1) == _beat(1)
    intake.put(_beat(2))
    assert _all(intake) == [_beat(2)]


def test_others_and_parts_are_all_kept(intake: Intake[Event]) -> None:
    beats = [_beat(1), _beat(2, B), _beat(3, feed="more"), _beat(4, full=False)]
    beats += [_beat(5, full=False), _beat(6, NodeRef("a", 2))]
    for beat in beats:
        intake.put(beat)
    assert _all(intake) == beats
