"""Ways that break, under writes: between nodes, to the metastore, to source and target.

Each fault stays for longer than the lease, then heals. Afterwards everything converges by itself
and rows are equal; all the while no token and no position at the target goes back.
"""

import time
from collections.abc import Callable

import pytest

from soak.matrix.world import FEEDS, LEASE_S, World
from tests.support.clusters import FaultyWorld
from tests.support.proxy import FaultProxy, Way

Fault = Callable[[FaultProxy], None]


def cut_off(proxy: FaultProxy) -> None:
    """Connections end, and no new ones are made."""
    proxy.refuse()
    proxy.cut()


def deaf(proxy: FaultProxy) -> None:
    """What is said to the server vanishes."""
    proxy.lose(Way.TO_SERVER)


def mute(proxy: FaultProxy) -> None:
    """The server hears everything, and its answers vanish."""
    proxy.lose(Way.TO_CLIENT)


def slow(proxy: FaultProxy) -> None:
    """Everything comes late, in every piece."""
    proxy.delay(0.2)


def _for_longer_than_the_lease(proxy: FaultProxy, fault: Fault) -> None:
    fault(proxy)
    over = time.monotonic() + 2 * LEASE_S
    while time.monotonic() < over:  # the fault's own time: nothing has to come about in it
        time.sleep(0.05)


def _is_well(world: World) -> None:
    world.converge()
    world.require_equal()
    world.require_watched()


@pytest.mark.parametrize("fault", [cut_off, deaf, slow])
def test_nobody_reaches_the_owner_for_a_while(faulty: FaultyWorld, fault: Fault) -> None:
    """Its lease runs, so it stays the owner, or is followed by another: never both."""
    world = faulty.world
    proxy = faulty.links[world.view("left").owner]
    _for_longer_than_the_lease(proxy, fault)
    proxy.heal()
    _is_well(world)


@pytest.mark.parametrize("fault", [cut_off, mute])
def test_the_owner_does_not_reach_the_metastore(faulty: FaultyWorld, fault: Fault) -> None:
    """It cannot renew: it stops by itself, others take over, and it comes back as a new life."""
    world = faulty.world
    owner = world.view("left").owner
    life, epoch = world.truth.lives()[owner], world.view("left").record.epoch
    proxy = faulty.metastore[owner]
    fault(proxy)
    world.until(lambda: world.settled_without(owner), world.problems)
    assert world.view("left").record.epoch > epoch
    proxy.heal()
    world.until(lambda: world.truth.lives().get(owner, 0) > life, world.truth.lives)
    _is_well(world)


@pytest.mark.parametrize("fault", [cut_off, deaf, mute])
@pytest.mark.parametrize("end", ["source", "target"])
def test_an_end_is_not_reached_for_a_while(faulty: FaultyWorld, end: str, fault: Fault) -> None:
    """Nobody loses a feed over it: it waits, and goes on under the owner it has."""
    world = faulty.world
    epochs = {feed: world.view(feed).record.epoch for feed in FEEDS}
    proxy: FaultProxy = getattr(faulty, end)
    _for_longer_than_the_lease(proxy, fault)
    proxy.heal()
    _is_well(world)
    assert {feed: world.view(feed).record.epoch for feed in FEEDS} == epochs
