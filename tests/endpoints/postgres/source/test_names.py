"""The names of a feed's objects are legal, unique, and one per feed."""

import re
from collections.abc import Callable

import pytest

from lockgate.endpoints.postgres.source.names import (
    publication_name,
    slot_name,
    temporary_slot_name,
)

FEEDS = ["orders", "Orders", "orders 2", "a" * 200, "ü", "", "lockgate'; DROP", "x-y", "x_y"]


@pytest.mark.parametrize("name", [slot_name, publication_name])
def test_feeds_that_have_one_name_one_after_the_other_share_nothing(
    name: Callable[[str, str, int], str],
) -> None:
    assert len({name("orders", "here", birth) for birth in range(100)}) == 100
    assert len(name("a" * 200, "here", 10**9)) <= 63


@pytest.mark.parametrize("feed", FEEDS)
def test_a_slot_may_be_called_so(feed: str) -> None:
    assert re.fullmatch(r"[a-z0-9_]{1,63}", slot_name(feed))
    assert re.fullmatch(r"[a-z0-9_]{1,63}", temporary_slot_name(slot_name(feed), 4_000_000))


def test_two_feeds_have_two_names() -> None:
    assert len({slot_name(feed) for feed in FEEDS}) == len(FEEDS)


def test_slot_and_publication_have_two_names() -> None:
    assert publication_name("orders") != slot_name("orders")


def test_two_installations_have_two_names() -> None:
    assert slot_name("orders", "here") != slot_name("orders", "there")


def test_the_feed_can_be_read_off() -> None:
    assert slot_name("Orders 2").startswith("lockgate_orders_2_")


def test_a_long_name_keeps_its_session_apart() -> None:
    slot = slot_name("a" * 200)
    assert temporary_slot_name(slot, 1) != temporary_slot_name(slot, 2)
