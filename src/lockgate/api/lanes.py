"""Threads for work that blocks, in lanes that do not keep each other waiting.

The service blocks: it asks databases. Its calls run in threads while the event loop stays free:

    ask ──► slot free? ──yes──► thread runs the call ──► answer
              │ no                    ▲        │
              ▼                       │        └─ the slot is free when the *thread* has ended,
            queue, up to a length ────┘           not when somebody lost patience
              │ full
              ▼
            refused at once (Busy)

A thread cannot be interrupted. Whoever gives up waiting gets an answer, and the thread goes on in
its slot: so a database that hangs can fill one lane, and never more threads than the lane has.
Threads are daemons, made per call: nothing is left over when the server is idle, and a call that
hangs does not keep the process from ending.
"""

import asyncio
import contextlib
import contextvars
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

from lockgate.model.errors import Transient

__all__ = ["Busy", "Slots"]

T = TypeVar("T")


class Busy(Exception):
    """There is no slot and no room to wait for one, or no thread to be had."""


class Slots:
    """One lane. All methods but the calls themselves belong to the event loop's thread."""

    def __init__(self, name: str, running_max: int, queued_max: int) -> None:
        self.name = name
        self._running_max = running_max
        self._queued_max = queued_max
        self._running = 0
        self._queue: deque[asyncio.Future[None]] = deque()
        self._answers: set[asyncio.Future[Any]] = set()
        self._closed = False

    @property
    def running(self) -> int:
        """Threads at work."""
        return self._running

    async def run(self, call: Callable[[], T]) -> T:
        """What the call returns or raises; Busy when it could not even queue."""
        if self._closed:
            raise _stopping()
        await self._slot()
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[T] = loop.create_future()
        context = contextvars.copy_context()

        def ended(result: T | None, error: BaseException | None) -> None:
            self._free()
            self._answers.discard(answer)
            if answer.done():
                return
            if error is not None:
                answer.set_exception(error)
            else:
                answer.set_result(result)  # type: ignore[arg-type]

        def work() -> None:
            result: T | None = None
            failed: BaseException | None = None
            try:
                result = context.run(call)
            except BaseException as error:
                failed = error
            with contextlib.suppress(RuntimeError):  # the loop is over: nobody wants the answer
                loop.call_soon_threadsafe(ended, result, failed)

        try:
            threading.Thread(target=work, name=f"api-{self.name}", daemon=True).start()
        except RuntimeError as error:  # the machine has no thread left; it will have some again
            self._free()
            raise Busy(self.name) from error
        self._answers.add(answer)
        return await answer

    def close(self) -> None:
        """Let everybody go who waits in this lane; nobody comes in any more."""
        self._closed = True
        for waiter in (*self._queue, *self._answers):
            if not waiter.done():
                waiter.set_exception(_stopping())

    async def _slot(self) -> None:
        if self._running < self._running_max:
            self._running += 1
            return
        if len(self._queue) >= self._queued_max:
            raise Busy(self.name)
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queue.append(turn)
        try:
            await turn  # whoever frees a slot hands it on: it stays counted
        except BaseException:
            if turn in self._queue:
                self._queue.remove(turn)
            elif turn.done() and not turn.cancelled() and turn.exception() is None:
                self._free()  # it was ours already
            raise

    def _free(self) -> None:
        while self._queue:
            turn = self._queue.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self._running -= 1


def _stopping() -> Transient:
    return Transient(
        "the node stops", object_="", hint="ask another node, or again when it is back"
    )
