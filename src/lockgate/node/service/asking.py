"""Verbs for this node's own core, and their answers.

The core answers every verb, sooner or later, by the request's name. Whoever asked waits here; an
answer that nobody waits for any more is let go: what it tells is in the records.
"""

import queue
import secrets
import threading
from collections.abc import Callable

from lockgate.model.events import Event, FeedVerb, SpanVerb
from lockgate.model.instructions import Answer

__all__ = ["Asking", "CoreVerb", "new_request"]

CoreVerb = FeedVerb | SpanVerb


def new_request() -> str:
    """A name for a request that no other has, on any node."""
    return secrets.token_hex(8)


class Asking:
    """Those who wait for an answer of the core."""

    def __init__(self) -> None:
        self._waiting: dict[str, queue.SimpleQueue[Answer]] = {}
        self._lock = threading.Lock()

    def answered(self, answer: Answer) -> None:
        """From the core's thread."""
        with self._lock:
            waiting = self._waiting.get(answer.request)
        if waiting is not None:
            waiting.put(answer)

    def ask(self, post: Callable[[Event], None], verb: CoreVerb, timeout_s: float) -> Answer | None:
        """The core's answer to the verb. None when none came in time: the core has it all the same,
        and what becomes of it is not known."""
        mine: queue.SimpleQueue[Answer] = queue.SimpleQueue()
        with self._lock:
            self._waiting[verb.request] = mine
        try:
            post(verb)
            return mine.get(timeout=timeout_s)
        except queue.Empty:
            return None
        finally:
            with self._lock:
                self._waiting.pop(verb.request, None)
