"""remove: nothing of a span that is no more runs on the node (O2)."""

import pytest

from lockgate.core.operators.remove import Remove
from lockgate.model.ids import Token
from lockgate.model.records import RecordKey
from lockgate.model.requests import Remove as RemoveRequest
from lockgate.model.statuses import Stage
from tests.core.operators.hands import A, B, FakeHands, lost, seen, tick


def begun() -> tuple[FakeHands, Remove]:
    hands = FakeHands()
    remove = Remove("op", hands, hands.seq + 1, "s", A)
    hands.begin(remove)
    return hands, remove


def test_the_node_is_asked_under_a_new_token() -> None:
    hands, remove = begun()
    assert hands.asked(RemoveRequest) == [(A, RemoveRequest("s", remove.removal.token))]
    assert remove.removal.token == Token(3, 101, 1)


def test_nobody_is_asked_before_what_makes_the_span_go_is_durable() -> None:
    hands = FakeHands()
    hands.record(deletes=(RecordKey("span", "s"),))
    remove = Remove("op", hands, hands.seq + 1, "s", A)
    hands.begin(remove)
    assert hands.asks == []
    hands.land()
    hands.land()
    assert len(hands.asked(RemoveRequest)) == 1


def test_it_is_asked_for_again_until_it_is_seen() -> None:
    hands, remove = begun()
    hands.asked(RemoveRequest)
    tick(remove)
    assert len(hands.asked(RemoveRequest)) == 1


def test_o2_a_missing_dispatcher_is_as_good_as_a_removed_one() -> None:
    hands, remove = begun()
    seen(remove, A, "s", remove.removal.token, Stage.GONE)
    assert hands.through == [remove]


def test_gone_under_a_later_token_counts_too() -> None:
    hands, remove = begun()
    seen(remove, A, "s", Token(3, 500, 1), Stage.GONE)
    assert hands.through == [remove]


def test_gone_up_to_an_older_token_does_not_count() -> None:
    hands, remove = begun()
    seen(remove, A, "s", Token(3, 100, 1), Stage.GONE)
    assert hands.through == []


@pytest.mark.parametrize("stage", [stage for stage in Stage if stage is not Stage.GONE])
def test_anything_but_gone_is_not_enough(stage: Stage) -> None:
    hands, remove = begun()
    seen(remove, A, "s", remove.removal.token, stage)
    assert hands.through == []


def test_another_node_does_not_count() -> None:
    hands, remove = begun()
    seen(remove, B, "s", remove.removal.token, Stage.GONE)
    assert hands.through == []


def test_a_node_that_is_lost_has_nothing_to_remove() -> None:
    hands, remove = begun()
    lost(remove, A)
    assert hands.through == [remove]


def test_another_node_that_is_lost_is_no_concern() -> None:
    hands, remove = begun()
    lost(remove, B)
    assert hands.through == []
