"""The rules that core, node and simulator share: who may take a lake, who may record a wish."""

from lockgate.model.lake import (
    NOBODY,
    Leadership,
    Wish,
    WishRecord,
    accepted,
    begun,
    released,
    taken,
)


def test_a_lake_that_nobody_led_is_taken_under_epoch_1() -> None:
    assert taken(NOBODY, "a", 1, 1, over=0) == Leadership(1, "a", 1, 1)


def test_a_lake_is_taken_from_the_leader_that_was_there_when_it_was_wished_for() -> None:
    assert taken(Leadership(4, "b", 2, 1), "a", 1, 1, over=4) == Leadership(5, "a", 1, 1)


def test_a_wish_is_void_once_another_home_has_taken_the_lake_after_it() -> None:
    assert taken(Leadership(5, "b", 2, 1), "a", 1, 1, over=4) is None


def test_a_wish_is_void_also_when_that_home_has_given_the_lake_up_again() -> None:
    assert taken(Leadership(5), "a", 1, 1, over=4) is None


def test_asked_twice_a_lake_is_taken_once() -> None:
    held = Leadership(5, "a", 1, 3)
    assert taken(held, "a", 1, 3, over=4) == held


def test_a_successor_raises_the_epoch_of_its_own_home() -> None:
    assert taken(Leadership(5, "a", 1, 3), "a", 2, 1, over=4) == Leadership(6, "a", 2, 1)


def test_a_former_keeper_does_not_take_the_lake_from_its_successor() -> None:
    assert taken(Leadership(6, "a", 2, 1), "a", 1, 3, over=9) is None


def test_a_released_lake_keeps_its_epoch_and_has_no_home() -> None:
    assert released(Leadership(5, "a", 1, 1), "a", 5) == Leadership(5)


def test_a_lake_that_is_anothers_by_now_is_not_released() -> None:
    held = Leadership(6, "b", 1, 1)
    assert released(held, "a", 5) == held


def test_a_new_keeper_makes_the_record_its_own_and_keeps_the_wish() -> None:
    held = WishRecord(Wish.LEAD, over=3, keeper=4, serial=9)
    assert begun(held) == WishRecord(Wish.LEAD, over=3, keeper=5, serial=0)


def test_a_former_keepers_record_is_refused_before_its_successor_recorded_anything() -> None:
    late = WishRecord(Wish.FOLLOW, keeper=4, serial=10)
    assert accepted(begun(WishRecord(Wish.LEAD, keeper=4, serial=9)), late) is False


def test_a_record_that_arrives_after_a_later_one_changes_nothing() -> None:
    later = WishRecord(Wish.FOLLOW, keeper=4, serial=2)
    assert accepted(later, WishRecord(Wish.LEAD, keeper=4, serial=1)) is None


def test_a_record_may_be_written_again() -> None:
    record = WishRecord(Wish.LEAD, keeper=4, serial=1)
    assert accepted(record, record) is True
