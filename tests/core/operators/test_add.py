"""add: recorded, then asked for, then seen; anything else leaves the span absent (O1, O3)."""

from collections.abc import Callable

import pytest

from lockgate.core.operators.add import Add, AddState
from lockgate.model.ids import Token
from lockgate.model.requests import Create
from lockgate.model.statuses import Stage
from tests.core.operators.hands import A, B, FakeHands, drop, lost, puts, seen, tick
from tests.core.support import spec


def begun() -> tuple[FakeHands, Add]:
    hands = FakeHands()
    hands.live("s", None)
    add = Add("op", hands, hands.seq + 1, "s", A)
    hands.begin(add)
    return hands, add


def creating() -> tuple[FakeHands, Add]:
    hands, add = begun()
    hands.land()
    hands.asked(Create)
    return hands, add


def test_the_span_is_asked_for_only_when_its_place_is_durable() -> None:
    hands, add = begun()
    assert hands.asks == []
    (record,) = puts(hands.land())
    assert (record.node, record.token) == (A, add.placement.token)
    assert hands.asked(Create) == [(A, Create(spec("s"), add.placement.token))]


def test_it_is_asked_for_again_until_it_is_seen() -> None:
    hands, add = creating()
    tick(add)
    assert hands.asked(Create) == [(A, Create(spec("s"), add.placement.token))]


def test_seen_working_it_is_through() -> None:
    hands, add = creating()
    seen(add, A, "s", add.placement.token, Stage.WORKING)
    assert hands.through == [add]
    assert not hands.is_absent("s")


@pytest.mark.parametrize("stage", [Stage.STARTING, Stage.STOPPING, Stage.HELD, Stage.PREPARING])
def test_seen_on_its_way_it_waits(stage: Stage) -> None:
    hands, add = creating()
    seen(add, A, "s", add.placement.token, stage)
    assert hands.through == []


def test_another_node_that_runs_the_span_does_not_count() -> None:
    hands, add = creating()
    seen(add, B, "s", add.placement.token, Stage.WORKING)
    assert hands.through == []


def test_the_span_under_an_older_token_does_not_count() -> None:
    hands, add = creating()
    seen(add, A, "s", Token(3, 1, 1), Stage.WORKING)
    assert hands.through == []


@pytest.mark.parametrize("stage", [Stage.FENCED, Stage.FAILED, Stage.GONE])
def test_o1_a_placement_that_came_to_nothing_leaves_the_span_absent(stage: Stage) -> None:
    hands, add = creating()
    seen(add, A, "s", add.placement.token, stage)
    assert hands.through == [add]
    assert hands.is_absent("s")


def test_gone_up_to_an_older_token_says_nothing_about_this_placement() -> None:
    hands, add = creating()
    seen(add, A, "s", Token(3, add.placement.token.seq - 1, 1), Stage.GONE)
    assert hands.through == []


@pytest.mark.parametrize("begin", [begun, creating], ids=["recording", "creating"])
def test_o1_a_destination_that_dies_leaves_the_span_absent(
    begin: Callable[[], tuple[FakeHands, Add]],
) -> None:
    hands, add = begin()
    lost(add, A)
    assert hands.through == [add]
    assert hands.is_absent("s")


def test_another_node_that_dies_is_no_concern() -> None:
    hands, add = creating()
    lost(add, B)
    assert hands.through == []


def test_a_record_that_lands_after_the_destination_died_asks_nobody() -> None:
    hands, add = begun()
    lost(add, A)
    hands.land()
    assert hands.asks == []


def test_o3_a_span_dropped_before_it_was_asked_for_is_not_asked_for() -> None:
    hands, add = begun()
    drop(hands, add, "s")
    hands.land()
    assert hands.through == [add]
    assert hands.asks == []
    assert hands.removes == []


def test_o3_a_span_dropped_after_it_was_asked_for_is_removed() -> None:
    hands, add = creating()
    drop(hands, add, "s")
    assert hands.through == [add]
    assert hands.removes == [("s", A)]
    assert hands.ids() == set()


def test_it_holds_its_span() -> None:
    hands, add = begun()
    assert add.spans == ("s",)
    assert add.state is AddState.RECORDING
    assert hands.held == ("s",)
