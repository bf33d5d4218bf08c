"""Ways that break for a while, under writes.

    whose way      link        others to the owner of a feed     metastore   that owner to it
                   everybody   all nodes to all others           source, target

A fault that is over must leave no trace: everything converges by itself, rows are equal, and in
between two owners never both advanced a span.
"""

import time
from collections.abc import Callable
from typing import Final, NamedTuple

import msgspec

from lockgate.model.errors import LockgateError
from soak.matrix.proxied import ProxiedWorld
from soak.matrix.world import Unhealthy, World
from soak.proxy import FaultProxy, Way

__all__ = ["FEED", "Fault", "FaultOutcome", "endure", "faults", "hurt", "require_well", "ways"]

FEED: Final = "left"
"""Whose owner is hurt."""


def _cut_off(proxy: FaultProxy) -> None:
    proxy.refuse()
    proxy.cut()


FAULTS: Final[dict[str, Callable[[FaultProxy], None]]] = {
    "cut off": _cut_off,
    "deaf": lambda proxy: proxy.lose(Way.TO_SERVER),
    "mute": lambda proxy: proxy.lose(Way.TO_CLIENT),
    "silent": lambda proxy: proxy.fall_silent(),
    "slow": lambda proxy: proxy.delay(0.2),
}
"""Connections end and none is made; what is said to the server vanishes; what it answers vanishes;
both wait, and arrive late; every piece comes a little late."""

WAYS: Final = ("link", "everybody", "metastore", "source", "target")


class Fault(NamedTuple):
    """What happens, and where."""

    way: str
    kind: str

    def __str__(self) -> str:
        return f"{self.way} {self.kind}"


class FaultOutcome(msgspec.Struct, frozen=True):
    """What came of one."""

    fault: Fault
    passed: bool
    seconds: float = 0.0
    why: str = ""


def faults() -> list[Fault]:
    """All of them."""
    return [Fault(way, kind) for way in WAYS for kind in FAULTS]


def ways(proxied: ProxiedWorld, way: str) -> list[FaultProxy]:
    """The proxies that stand on it."""
    owner = proxied.world.view(FEED).owner
    return {
        "link": [proxied.links[owner]],
        "everybody": list(proxied.links.values()),
        "metastore": [proxied.metastore[owner]],
        "source": [proxied.source],
        "target": [proxied.target],
    }[way]


def hurt(proxied: ProxiedWorld, fault: Fault, hold_s: float) -> None:
    """Let it be so for a while, then heal."""
    proxies = ways(proxied, fault.way)
    for proxy in proxies:
        FAULTS[fault.kind](proxy)
    over = time.monotonic() + hold_s
    while time.monotonic() < over:  # the fault's own time: nothing has to come about in it
        time.sleep(0.05)
    for proxy in proxies:
        proxy.heal()


def require_well(world: World) -> None:
    """Everything converges, rows are equal, and nothing was seen that must not be."""
    world.converge()
    world.require_equal()
    world.require_watched()


def endure(proxied: ProxiedWorld, fault: Fault, hold_s: float) -> FaultOutcome:
    """One fault, and what came of it."""
    began = time.monotonic()
    try:
        proxied.world.converge()
        hurt(proxied, fault, hold_s)
        require_well(proxied.world)
    except (Unhealthy, LockgateError) as why:
        proxied.heal()
        return FaultOutcome(fault, False, time.monotonic() - began, str(why))
    return FaultOutcome(fault, True, time.monotonic() - began)
