"""Ways that break for longer than the lease, under writes; `make matrix` breaks them for longer."""

from typing import NamedTuple

import pytest

from soak.matrix.faults import FEED, Fault, hurt, require_well
from soak.matrix.proxied import ProxiedWorld
from soak.matrix.world import FEEDS, LEASE_S, World

HOLD_S = 2 * LEASE_S


class _Owners(NamedTuple):
    """Who lives, and under which epochs the feeds are owned."""

    lives: dict[str, int]
    epochs: dict[str, int]

    @classmethod
    def of(cls, world: World) -> "_Owners":
        epochs = {feed: world.view(feed).record.epoch for feed in FEEDS}
        return cls(world.truth.lives(), epochs)

    def require_same(self, world: World) -> None:
        """Nobody lost a feed, unless its node lost its lease: on a machine that is too busy."""
        now = _Owners.of(world)
        assert now.lives != self.lives or now.epochs == self.epochs


@pytest.mark.parametrize("kind", ["cut off", "deaf", "slow"])
def test_nobody_reaches_the_owner_for_a_while(proxied: ProxiedWorld, kind: str) -> None:
    """Its lease runs: nobody else becomes the owner so soon, and it goes on as one."""
    owners = _Owners.of(proxied.world)
    hurt(proxied, Fault("link", kind), HOLD_S)
    require_well(proxied.world)
    owners.require_same(proxied.world)


@pytest.mark.parametrize("kind", ["cut off", "mute"])
def test_an_owner_that_does_not_reach_the_metastore_makes_way(
    proxied: ProxiedWorld, kind: str
) -> None:
    """It cannot renew: it stops by itself, others take over, and it comes back as a new life."""
    world = proxied.world
    owner = world.view(FEED).owner
    life, epoch = world.truth.lives()[owner], world.view(FEED).record.epoch
    node = world.cluster.nodes[owner]
    said = len(node.said())
    hurt(proxied, Fault("metastore", kind), 2 * HOLD_S)
    world.until(lambda: world.truth.lives().get(owner, 0) > life, world.truth.lives)
    assert world.view(FEED).record.epoch > epoch
    assert "the lease is lost, and all work here was stopped" in node.said()[said:]
    require_well(world)


@pytest.mark.parametrize("fault", [Fault("source", "deaf"), Fault("source", "cut off")], ids=str)
def test_the_source_is_not_reached_for_a_while(proxied: ProxiedWorld, fault: Fault) -> None:
    """Nobody loses a feed over it: it waits, and goes on under the owner it has."""
    owners = _Owners.of(proxied.world)
    hurt(proxied, fault, HOLD_S)
    require_well(proxied.world)
    owners.require_same(proxied.world)


@pytest.mark.parametrize("fault", [Fault("target", "mute"), Fault("target", "cut off")], ids=str)
def test_the_target_is_not_reached_for_a_while(proxied: ProxiedWorld, fault: Fault) -> None:
    """Whatever landed without an answer is not done twice, and nobody loses a feed over it."""
    owners = _Owners.of(proxied.world)
    hurt(proxied, fault, HOLD_S)
    require_well(proxied.world)
    owners.require_same(proxied.world)
