"""Who it is that asks: tokens and the link key, against what the service knows of them.

What is shown is digested, and the digest is compared with every known one in constant time; how
long that takes says nothing about which token it was or how much of it was right. The list is read
at most once a second, so a token that was removed elsewhere opens nothing a second later; one that
was added or removed through this node counts from the next request on (`forget`).

Who asks while the list is being read waits for that reading and shares what comes of it, a failure
too: a metastore that hangs is asked once, not once by each of those who wait. The link key needs no
metastore at all: the node has had it since its start, and other nodes' messages come in as long as
the process lives.
"""

import asyncio
import hashlib
import hmac
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from lockgate.api.lanes import Slots
from lockgate.api.ports import Service
from lockgate.model.tokens import AccessToken, digest_of

__all__ = ["Keys", "shown"]

_LIFETIME_S: Final = 1.0
_BEARER: Final = re.compile(r"bearer +([\x21-\x7e]{1,512})", re.IGNORECASE)


@dataclass(frozen=True)
class _Known:
    tokens: tuple[AccessToken, ...]
    read_at: float


@dataclass(frozen=True)
class _Reading:
    task: asyncio.Task[_Known]
    changes: int
    """How often the list had changed when it began."""


def shown(headers: list[tuple[bytes, bytes]]) -> str:
    """What the Authorization header shows; empty when there is none, or more than one."""
    found = [value for name, value in headers if name == b"authorization"]
    match = _BEARER.fullmatch(found[0].decode("latin-1")) if len(found) == 1 else None
    return match[1] if match else ""


class Keys:
    """The service's tokens, as of less than a second ago."""

    def __init__(self, service: Service, clock: Callable[[], float] = time.monotonic) -> None:
        self._service = service
        self._clock = clock
        self._known: _Known | None = None
        self._changes = 0
        self._reading: _Reading | None = None
        self._slots = Slots("keys", running_max=2, queued_max=1)

    async def asker(self, token: str) -> AccessToken | None:
        """Whose token it is; None when it is nobody's."""
        known = await self._now()
        digest = _digest(token)
        found: AccessToken | None = None
        for candidate in known.tokens:  # all of them, whatever was found
            if hmac.compare_digest(candidate.digest, digest):
                found = candidate
        return found

    def is_link(self, key: str) -> bool:
        """True for the key that nodes show each other."""
        return hmac.compare_digest(digest_of(self._service.link_key()), _digest(key))

    def forget(self) -> None:
        """The list has changed. From any thread."""
        self._changes += 1
        self._known = None

    async def _now(self) -> _Known:
        known = self._known
        if known is not None and self._clock() - known.read_at < _LIFETIME_S:
            return known
        reading = self._reading
        # A reading that began before a change is not for those who ask after it.
        if reading is None or reading.task.done() or reading.changes != self._changes:
            changes = self._changes
            reading = _Reading(asyncio.create_task(self._read(changes)), changes)
            reading.task.add_done_callback(_heard)
            self._reading = reading
        return await asyncio.shield(reading.task)  # it is not only mine to give up

    async def _read(self, changes: int) -> _Known:
        began = self._clock()
        tokens = await self._slots.run(lambda: tuple(self._service.tokens()))
        known = _Known(tokens, began)
        self._known = known
        if changes != self._changes:  # asked after it was kept: `forget` may come in between
            self._known = None
        return known


def _heard(task: asyncio.Task[_Known]) -> None:
    """Whoever waited may have given up, and then nobody else asks what became of it."""
    if not task.cancelled():
        task.exception()


def _digest(shown_: str) -> str:
    return hashlib.sha256(shown_.encode("latin-1")).hexdigest()
