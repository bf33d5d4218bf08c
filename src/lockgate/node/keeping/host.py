"""One keeper, on a thread of its own: events in, instructions out.

People's requests have names. Asked once more under the same name, a request is not made twice: the
one who asks waits on, or hears the answer again.
"""

import contextlib
import queue
import threading
import time
from collections.abc import Callable, Sequence
from typing import Final, Generic, TypeVar

from lockgate.model.ids import Millis
from lockgate.node.telemetry.lines import Lines

__all__ = ["KeeperHost", "monotonic_ms"]

ANSWERS_MAX: Final = 1_000
"""Answers that are kept for whoever asks again."""

Event = TypeVar("Event")
Instruction = TypeVar("Instruction")
Answer = TypeVar("Answer")


def monotonic_ms() -> Millis:
    """A clock that goes on evenly."""
    return int(time.monotonic() * 1000)


class KeeperHost(Generic[Event, Instruction, Answer]):
    """Runs one keeper from its start to its end. Each kind of keeper has a class below this one,
    which says what its answers are and what people are let see."""

    def __init__(
        self,
        name: str,
        handle: Callable[[Millis, Event], Sequence[Instruction | Answer]],
        *,
        answers: type[Answer],
        tick: Event,
        over: Event,
        carry_out: Callable[[Instruction], None],
        lines: Lines,
        tick_s: float,
        now_ms: Callable[[], Millis] = monotonic_ms,
    ) -> None:
        """`carry_out` begins an instruction and does not wait for it. `tick` comes from time to
        time, `over` when the keeper is to end."""
        self._handle_event = handle
        self._answers = answers
        self._tick = tick
        self._over = over
        self._carry_out = carry_out
        self._lines = lines
        self._tick_s = tick_s
        self._now_ms = now_ms
        self._inbox: queue.SimpleQueue[Event | None] = queue.SimpleQueue()
        self._asked: dict[str, Answer | None] = {}
        self._answered = threading.Condition()
        self._broke = False
        self._ticked_s = time.monotonic()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def post(self, event: Event) -> None:
        """From any thread."""
        self._inbox.put(event)

    def end(self) -> None:
        """The keeper is over: whoever waits for it is told so."""
        self._inbox.put(self._over)
        self._inbox.put(None)

    def join(self, timeout_s: float) -> None:
        self._thread.join(timeout_s)

    @property
    def broken(self) -> bool:
        """True when it ended by itself, or because a later keeper was there; has that one gone
        since, and it is still to be kept here, another has to begin."""
        return not self._thread.is_alive() or self.ended

    @property
    def broke(self) -> bool:
        """True when it ended by a bug."""
        return self._broke

    @property
    def ended(self) -> bool:
        """The keeper says of itself that it is over."""
        raise NotImplementedError

    def request_of(self, answer: Answer) -> str:
        """To which request it is the answer."""
        raise NotImplementedError

    def settled(self, answers: Sequence[Answer]) -> None:
        """After each event, before anybody hears the answers."""

    def idle(self) -> None:
        """After each event, when the answers are told."""

    def asked(self, request: str, event: Event, timeout_s: float) -> Answer | None:
        """The answer to a request; None when there is none yet: ask again under the same name."""
        with self._answered:
            if request not in self._asked:
                self._asked[request] = None
                self._inbox.put(event)
            self._answered.wait_for(lambda: self._asked.get(request) is not None, timeout_s)
            return self._asked.get(request)

    # --- the thread -------------------------------------------------------------------------------

    def _run(self) -> None:
        while True:
            event = self._next()
            if event is None:
                return
            try:
                self._handle(event)
                self.idle()
            except Exception:
                self._lines.bug("a keeper broke", next="it begins anew")
                self._broke = True
                return

    def _next(self) -> Event | None:
        """Time goes on for a keeper that always has something to hear as well."""
        left_s = self._ticked_s + self._tick_s - time.monotonic()
        if left_s > 0:
            with contextlib.suppress(queue.Empty):
                return self._inbox.get(timeout=left_s)
        self._ticked_s = time.monotonic()
        return self._tick

    def _handle(self, event: Event) -> None:
        answers: list[Answer] = []
        for instruction in self._handle_event(self._now_ms(), event):
            if isinstance(instruction, self._answers):
                answers.append(instruction)
            else:
                self._carry_out(instruction)  # type: ignore[arg-type]
        self.settled(answers)
        for answer in answers:
            self._answer(answer)

    def _answer(self, answer: Answer) -> None:
        with self._answered:
            self._asked[self.request_of(answer)] = answer
            while len(self._asked) > ANSWERS_MAX:
                self._asked.pop(next(iter(self._asked)))
            self._answered.notify_all()
