"""F12: a node that was stopped for longer than its lease writes nothing when it goes on."""

from soak.matrix.world import FEEDS, World
from tests.support.clusters import FaultyWorld


def _epochs(world: World) -> dict[str, int]:
    return {feed: world.view(feed).record.epoch for feed in FEEDS}


def _run_on(world: World, feed: str, node: str) -> None:
    """Have work of the feed on that node, so that there is something to go on with."""
    world.move(feed, world.view(feed).of_table(FEEDS[feed][0])[0].id, node)


def _pause_until_taken_over(world: World, name: str) -> int:
    """Stop the node until the others have all that it had; which life of it that was."""
    life = world.truth.lives()[name]
    world.cluster.nodes[name].pause()
    world.until(lambda: world.settled_without(name), world.problems)
    return life


def _goes_on_as_somebody_new(world: World, name: str, life: int) -> None:
    node = world.cluster.nodes[name]
    said = len(node.said())
    node.go_on()
    world.until(lambda: world.truth.lives().get(name, 0) > life, world.truth.lives)
    world.until(lambda: "lease" in node.said()[said:], lambda: node.said()[said:])
    for feed in FEEDS:
        _run_on(world, feed, name)
    world.require_equal()
    world.require_watched()


def test_an_owner_that_was_paused_writes_nothing_afterwards(faulty: FaultyWorld) -> None:
    world = faulty.world
    owner = world.view("left").owner
    _run_on(world, "left", owner)
    epochs = _epochs(world)
    life = _pause_until_taken_over(world, owner)
    assert world.view("left").owner != owner
    assert _epochs(world)["left"] > epochs["left"]
    _goes_on_as_somebody_new(world, owner, life)


def test_dispatchers_that_were_paused_write_nothing_afterwards(faulty: FaultyWorld) -> None:
    world = faulty.world
    name = next(
        name
        for name in world.cluster.nodes
        if name not in {world.view(feed).owner for feed in FEEDS}
    )
    for feed in FEEDS:
        _run_on(world, feed, name)
    epochs = _epochs(world)
    life = _pause_until_taken_over(world, name)
    assert _epochs(world) == epochs
    _goes_on_as_somebody_new(world, name, life)
