"""A lane has so many threads, a queue of a length, and gives a slot back when a thread ends."""

import asyncio
import threading

import pytest

from lockgate.api.lanes import Busy, Slots
from lockgate.model.errors import Transient


def test_a_call_returns_and_raises_as_it_would_have() -> None:
    async def run() -> None:
        slots = Slots("test", 1, 1)
        assert await slots.run(lambda: 3) == 3
        with pytest.raises(ZeroDivisionError):
            await slots.run(lambda: 1 // 0)
        assert slots.running == 0

    asyncio.run(run())


def test_a_queue_moves_up_and_a_full_one_refuses() -> None:
    async def run() -> None:
        slots = Slots("test", 1, 1)
        go = threading.Event()
        first = asyncio.ensure_future(slots.run(go.wait))
        second = asyncio.ensure_future(slots.run(lambda: "second"))
        await asyncio.sleep(0)
        with pytest.raises(Busy):
            await slots.run(lambda: "third")
        go.set()
        assert (await first, await second, slots.running) == (True, "second", 0)

    asyncio.run(run())


def test_a_slot_is_busy_until_its_thread_has_ended_whoever_gave_up() -> None:
    async def run() -> None:
        slots = Slots("test", 1, 0)
        go = threading.Event()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(slots.run(go.wait), 0.05)
        assert slots.running == 1
        with pytest.raises(Busy):
            await slots.run(lambda: None)
        go.set()
        async with asyncio.timeout(10):
            while slots.running:
                await asyncio.sleep(0.001)
        assert await slots.run(lambda: "free") == "free"

    asyncio.run(run())


def test_who_gives_up_in_the_queue_leaves_no_slot_behind() -> None:
    async def run() -> None:
        slots = Slots("test", 1, 5)
        go = threading.Event()
        first = asyncio.ensure_future(slots.run(go.wait))
        await asyncio.sleep(0)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(slots.run(lambda: None), 0.05)
        # And who gives up in the very moment in which the slot is handed over.
        unlucky = asyncio.ensure_future(slots.run(lambda: None))
        await asyncio.sleep(0)
        go.set()
        await first
        unlucky.cancel()
        await asyncio.wait([unlucky])
        async with asyncio.timeout(10):
            while slots.running:
                await asyncio.sleep(0.001)
        assert await slots.run(lambda: "free") == "free"

    asyncio.run(run())


def test_a_thread_that_cannot_be_started_leaves_its_slot_to_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def no_thread(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    async def run() -> None:
        slots = Slots("test", 1, 0)
        with monkeypatch.context() as poor:
            poor.setattr(threading.Thread, "start", no_thread)
            with pytest.raises(Busy):
                await slots.run(lambda: None)
        assert await slots.run(lambda: "free") == "free"

    asyncio.run(run())


def test_a_closed_lane_lets_everybody_go() -> None:
    async def run() -> None:
        slots = Slots("test", 1, 5)
        go = threading.Event()
        waiting = [asyncio.ensure_future(slots.run(go.wait)) for _ in range(3)]
        await asyncio.sleep(0)
        slots.close()
        for wait in waiting:
            with pytest.raises(Transient, match="the node stops"):
                await wait
        with pytest.raises(Transient):
            await slots.run(lambda: None)
        go.set()

    asyncio.run(run())
