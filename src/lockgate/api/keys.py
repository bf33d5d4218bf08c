"""Who it is that asks: tokens and the link key, against what the service knows of them.

What is shown is digested, and the digest is compared with every known one in constant time; how
long that takes says nothing about which token it was or how much of it was right. The list is read
at most once a second, so a token that was removed elsewhere opens nothing a second later; one that
was added or removed through this node counts from the next request on (`forget`).
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
    link: str
    read_at: float


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
        self._reading = asyncio.Lock()
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

    async def is_link(self, key: str) -> bool:
        """True for the key that nodes show each other."""
        known = await self._now()
        return hmac.compare_digest(known.link, _digest(key))

    def forget(self) -> None:
        """The list has changed. From any thread."""
        self._changes += 1
        self._known = None

    async def _now(self) -> _Known:
        known = self._known
        if known is not None and self._clock() - known.read_at < _LIFETIME_S:
            return known
        async with self._reading:  # one reads, all learn
            known = self._known
            if known is not None and self._clock() - known.read_at < _LIFETIME_S:
                return known
            changes, began = self._changes, self._clock()
            tokens, link = await self._slots.run(self._read)
            known = _Known(tokens, link, began)
            # What was read before a change is not kept after it.
            self._known = known if changes == self._changes else None
            return known

    def _read(self) -> tuple[tuple[AccessToken, ...], str]:
        return tuple(self._service.tokens()), digest_of(self._service.link_key())


def _digest(shown_: str) -> str:
    return hashlib.sha256(shown_.encode("latin-1")).hexdigest()
