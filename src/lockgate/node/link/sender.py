"""The thread that brings one peer its messages.

    ┌► wait for messages ──► where is the peer? ──► take a batch ──► POST ──► sent
    │        │ idle                │ nowhere              │ failed: counted, not repeated
    │        ▼                     ▼                      ▼
    │      end             pause, twice as long each time, short again after a success
    └──────────────────────────────┘

A batch that failed may have arrived, and the core repeats what had no effect, so the link does
not. The thread ends when nobody has anything for the peer, and is started again by a message.

A peer that stays away is told of once, and once again when it is back: with what was lost.
"""

import contextlib
import logging
import threading
from collections.abc import Callable
from typing import Final

from lockgate.model.errors import LockgateError
from lockgate.model.ids import NodeId
from lockgate.node.link.client import LinkClient
from lockgate.node.link.counters import Counters
from lockgate.node.link.outbox import Outbox, Taken
from lockgate.node.link.settings import LinkSettings
from lockgate.node.link.wire import MESSAGES_PATH, encode_told

__all__ = ["Sender"]

_log = logging.getLogger("lockgate.link")

_REASONS_MAX: Final = 5
"""Different reasons that are told of while a peer stays away."""


class Sender:
    """Everything this node has for one peer."""

    def __init__(
        self,
        node: NodeId,
        peer: NodeId,
        addresses: Callable[[NodeId], str | None],
        client: LinkClient,
        counters: Counters,
        settings: LinkSettings,
    ) -> None:
        self._node = node
        self._peer = peer
        self._addresses = addresses
        self._client = client
        self._counters = counters
        self._settings = settings
        self._outbox = Outbox(settings)
        self._closing = threading.Event()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._pause_s = settings.backoff_s
        self._reasons: set[str] = set()
        """Why the peer stayed away, as far as it was told of; empty while it is there."""
        self._lost = 0
        self._dropping = False

    @property
    def running(self) -> bool:
        """Whether the peer has a thread at the moment."""
        with self._lock:
            return self._thread is not None

    def put(self, message: bytes) -> None:
        """Have an encoded message brought to the peer. Returns at once."""
        with self._lock:
            dropped = self._outbox.put(message)
            if self._thread is None and not self._closing.is_set():
                self._start()
        if dropped:
            self._counters.add(self._peer, dropped=dropped)

    def close(self) -> threading.Thread | None:
        """Begin to end; the thread that is still to be waited for, if there is one."""
        with self._lock:
            self._closing.set()
            if forgotten := self._outbox.close():
                self._counters.add(self._peer, dropped=forgotten)
            return self._thread

    def _start(self) -> None:
        thread = threading.Thread(target=self._run, name=f"link to {self._peer}", daemon=True)
        # No thread to be had: the message waits, and the next one tries again.
        with contextlib.suppress(RuntimeError):
            thread.start()
            self._thread = thread

    def _run(self) -> None:
        while not self._closing.is_set():
            if self._outbox.wait(self._settings.idle_s):
                self._bring()
            elif self._signed_off():
                return

    def _signed_off(self) -> bool:
        """End the thread, unless a message came in just now: it counts on this thread."""
        with self._lock:
            if self._closing.is_set() or not self._outbox.wait(0):
                self._thread = None
                return True
            return False

    def _bring(self) -> None:
        count = 0
        try:
            address = self._addresses(self._peer)
            if address is None:
                self._nowhere()
                return
            taken = self._outbox.take()
            count = len(taken.messages)
            self._tell_of_drops(taken)
            if count:
                body = encode_told(self._node, self._peer, taken.messages)
                timeout_s = self._settings.answer_s
                self._client.post(self._peer, address, MESSAGES_PATH, body, timeout_s)
                self._sent(count)
        except LockgateError as error:
            self._failed(count, str(error), error.hint)
        except Exception as error:  # a bug of ours must not cut the peer off for good
            self._failed(count, type(error).__name__, "this is a bug in Lockgate", error)

    def _sent(self, count: int) -> None:
        self._counters.add(self._peer, sent=count)
        self._pause_s = self._settings.backoff_s
        if self._reasons:
            _log.info(
                "node %s is reached again; %d messages to it were lost", self._peer, self._lost
            )
            self._reasons.clear()
        self._lost = 0

    def _failed(self, count: int, why: str, hint: str, bug: Exception | None = None) -> None:
        self._counters.add(self._peer, failed=count)
        self._lost += count
        self._away(why, hint, bug)

    def _nowhere(self) -> None:
        """Keep the messages until the peer has an address, but not for a node that has left."""
        if self._outbox.quiet_s() < self._settings.idle_s:
            self._away("the metastore has no address of it", "see that the node runs")
            return
        gone = self._outbox.take()
        forgotten = len(gone.messages) + self._outbox.clear()
        self._counters.add(self._peer, dropped=forgotten)
        self._lost += forgotten

    def _away(self, why: str, hint: str, bug: Exception | None = None) -> None:
        if self._closing.is_set():
            return
        if why not in self._reasons and len(self._reasons) < _REASONS_MAX:
            self._reasons.add(why)
            _log.warning("node %s is not reached: %s; %s", self._peer, why, hint, exc_info=bug)
        self._closing.wait(self._pause_s)
        self._pause_s = min(2 * self._pause_s, self._settings.backoff_max_s)

    def _tell_of_drops(self, taken: Taken) -> None:
        """One line per burst; the counters have the rest."""
        self._lost += taken.dropped
        if taken.dropped and not self._dropping:
            if taken.oversize:
                _log.error(
                    "a message of %d bytes to node %s is more than a node takes, and is dropped",
                    taken.oversize,
                    self._peer,
                )
            else:
                _log.warning(
                    "more waits for node %s than is kept: the oldest go, %d messages so far",
                    self._peer,
                    taken.dropped,
                )
        self._dropping = taken.dropped > 0
