"""What waits for a peer: bounded, in order, and what has to go is the oldest and is counted."""

import threading

from lockgate.node.link.outbox import Outbox
from lockgate.node.link.settings import LinkSettings


def _outbox(**limits: int) -> Outbox:
    return Outbox(LinkSettings(**limits))


def test_messages_come_out_in_the_order_they_went_in() -> None:
    outbox = _outbox()
    for message in (b"1", b"2", b"3"):
        outbox.put(message)
    assert outbox.take().messages == [b"1", b"2", b"3"]


def test_the_oldest_goes_when_there_are_too_many() -> None:
    outbox = _outbox(waiting_max=2)
    assert [outbox.put(message) for message in (b"1", b"2", b"3")] == [0, 0, 1]
    taken = outbox.take()
    assert (taken.messages, taken.dropped) == ([b"2", b"3"], 1)


def test_the_oldest_go_when_there_are_too_many_bytes() -> None:
    outbox = _outbox(waiting_bytes_max=10)
    outbox.put(b"1" * 4)
    outbox.put(b"2" * 4)
    assert outbox.put(b"3" * 9) == 2
    assert outbox.take().messages == [b"3" * 9]


def test_room_that_was_made_is_room_again() -> None:
    outbox = _outbox(waiting_bytes_max=10)
    for _ in range(3):
        assert [outbox.put(b"1" * 5), outbox.put(b"2" * 5)] == [0, 0]
        assert len(outbox.take().messages) == 2


def test_the_newest_is_kept_even_if_it_is_larger_than_the_room() -> None:
    outbox = _outbox(waiting_bytes_max=2)
    outbox.put(b"old")
    outbox.put(b"new")
    assert outbox.take().messages == [b"new"]


def test_a_message_that_no_peer_would_take_costs_no_other_its_place() -> None:
    outbox = _outbox(message_bytes_max=5)
    outbox.put(b"small")
    assert outbox.put(b"larger") == 1
    taken = outbox.take()
    assert (taken.messages, taken.dropped, taken.oversize) == ([b"small"], 1, 6)


def test_a_batch_has_a_limit() -> None:
    outbox = _outbox(batch_bytes_max=5)
    for message in (b"11", b"22", b"33", b"4444444", b"5"):
        outbox.put(message)
    batches = [outbox.take().messages for _ in range(4)]
    assert batches == [[b"11", b"22"], [b"33"], [b"4444444"], [b"5"]]


def test_drops_are_told_once() -> None:
    outbox = _outbox(waiting_max=1)
    outbox.put(b"1")
    outbox.put(b"2")
    assert [outbox.take().dropped, outbox.take().dropped] == [1, 0]


def test_a_message_wakes_who_waits() -> None:
    outbox = _outbox()
    woken: list[bool] = []
    waiter = threading.Thread(target=lambda: woken.append(outbox.wait(30)))
    waiter.start()
    outbox.put(b"1")
    waiter.join(10)
    assert woken == [True]


def test_the_end_wakes_who_waits() -> None:
    outbox = _outbox()
    woken: list[bool] = []
    waiter = threading.Thread(target=lambda: woken.append(outbox.wait(30)))
    waiter.start()
    outbox.close()
    waiter.join(10)
    assert woken == [False]


def test_the_closed_one_takes_nothing_and_forgets_what_it_has() -> None:
    outbox = _outbox()
    outbox.put(b"1")
    assert outbox.close() == 1
    assert outbox.put(b"2") == 1
    assert outbox.take().messages == []
