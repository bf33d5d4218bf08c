"""How much of anything: bodies, time, connections, and how often somebody may ask.

Rates are token buckets. A key (a token's name, an address) has `burst` asks at once and gets
`per_s` of them back every second. There is room for so many keys and no more: the one that was
silent longest is forgotten first, and forgetting it can only be to its advantage.
"""

import ipaddress
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["Limits", "Rate", "Rates", "network_of"]

_MIB = 2**20


@dataclass(frozen=True)
class Rate:
    """So many a second, and so many at once."""

    per_s: float
    burst: int


@dataclass(frozen=True)
class Limits:
    """What a server takes on. The defaults suit a cluster that people and scripts look at."""

    body_bytes_max: int = 1 * _MIB
    link_bytes_max: int = 64 * _MIB
    target_bytes_max: int = 8 * 1024
    """Of path and query."""
    header_bytes_max: int = 32 * 1024
    header_s: float = 10.0
    """A connection that has not said what it wants by then is closed."""
    body_s: float = 20.0
    request_s: float = 120.0
    """Asking several databases takes its time; beyond this something is stuck."""
    wait_s_max: float = 60.0
    connections_max: int = 1000
    in_flight_max: int = 256
    """Requests that are being read or answered; each may hold a whole body."""
    link_in_flight_max: int = 32
    """Of other nodes' messages, and as many of their verbs."""
    workers: int = 32
    waiters: int = 64
    followers: int = 256
    """Who hangs on a change of routes."""
    per_token: Rate = Rate(per_s=100.0, burst=200)
    per_address: Rate = Rate(per_s=50.0, burst=200)
    """Of what needs no token."""
    failed_logins: Rate = Rate(per_s=0.5, burst=20)
    """From one address."""


class Rates:
    """Buckets under keys. For one thread."""

    def __init__(
        self, rate: Rate, *, keys_max: int = 4096, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._rate = rate
        self._keys_max = keys_max
        self._clock = clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, key: str) -> float:
        """0.0 when the key may; else the seconds after which it may ask again."""
        now = self._clock()
        left, seen = self._buckets.pop(key, (float(self._rate.burst), now))
        left = min(self._rate.burst, left + (now - seen) * self._rate.per_s)
        allowed = left >= 1.0
        self._buckets[key] = (left - 1.0 if allowed else left, now)
        while len(self._buckets) > self._keys_max:
            self._buckets.popitem(last=False)
        return 0.0 if allowed else (1.0 - left) / self._rate.per_s

    def __len__(self) -> int:
        return len(self._buckets)


def network_of(address: str) -> str:
    """Whom to count an address for: one of IPv4 for itself, one of IPv6 for its /64, since
    whoever has one of those has all of them."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv6Address):
        if parsed.ipv4_mapped is not None:
            return str(parsed.ipv4_mapped)
        return str(ipaddress.ip_network((parsed, 64), strict=False))
    return str(parsed)
