"""Owners that were killed or paused, and yet go on (F11, F12).

What a killed node's Spark tasks are about does not land after somebody else has claimed; and a node
that was stopped for longer than its lease writes nothing when it goes on.
"""

from pathlib import Path

from lockgate.endpoints.postgres.sink.advance import Advance
from lockgate.endpoints.postgres.sink.fence import PostgresSink
from lockgate.model.floors import Refusal
from lockgate.model.records import SpanRecord
from lockgate.model.spans import WHOLE
from soak.matrix.world import FEEDS, World
from tests.support.bad_days import held
from tests.support.feeds import Pair
from tests.support.runners import Waiter, waiting

OTHER_POSITION = 2**62


def _epochs(world: World) -> dict[str, int]:
    return {feed: world.view(feed).record.epoch for feed in FEEDS}


def _run_on(world: World, feed: str, node: str) -> SpanRecord:
    """Have a span of the feed on that node, and wait until it works there."""
    span = world.view(feed).of_table(FEEDS[feed][0])[0].id
    world.move(feed, span, node)
    return world.view(feed).spans[span]


def _pause_until_taken_over(world: World, name: str) -> None:
    world.cluster.nodes[name].pause()
    world.until(lambda: world.settled_without(name), world.problems)


def _goes_on_as_somebody_new(world: World, name: str, held: dict[str, SpanRecord]) -> None:
    """It says that it stopped, joins anew, gets work again; and what it held is worth nothing."""
    node = world.cluster.nodes[name]
    said = len(node.said())
    node.go_on()
    lives = {span.node.incarnation for span in held.values() if span.node is not None}
    world.until(lambda: world.truth.lives().get(name, 0) > max(lives), world.truth.lives)
    assert "the lease is lost, and all work here was stopped" in node.said()[said:]
    world.converge()
    with PostgresSink(world.target) as sink:
        for feed, span in held.items():
            asked = Advance(span.id, span.token, ((WHOLE, 0),), OTHER_POSITION)
            assert sink.advance(feed, [asked])[span.id] is Refusal.NEWER
    for feed in FEEDS:
        _run_on(world, feed, name)
    world.require_equal()
    world.require_watched()


def test_an_owner_that_was_paused_writes_nothing_afterwards(world: World) -> None:
    owner = world.view("left").owner
    held = {"left": _run_on(world, "left", owner)}
    epochs = _epochs(world)
    _pause_until_taken_over(world, owner)
    assert world.view("left").owner != owner
    assert _epochs(world)["left"] > epochs["left"]
    _goes_on_as_somebody_new(world, owner, held)


def test_dispatchers_that_were_paused_write_nothing_afterwards(world: World) -> None:
    owners = {world.view(feed).owner for feed in FEEDS}
    name = next(name for name in world.cluster.nodes if name not in owners)
    held = {feed: _run_on(world, feed, name) for feed in FEEDS}
    _pause_until_taken_over(world, name)
    _goes_on_as_somebody_new(world, name, held)


def test_a_task_that_outlives_its_node_commits_nothing(world: World, tmp_path: Path) -> None:
    """It waits inside its transaction when its node dies, and another node claims its span."""
    table = FEEDS["left"][1]
    pair = Pair(world.source, world.target, tmp_path)
    [span] = world.view("left").of_table(table)
    assert span.node is not None
    node = world.cluster.nodes[span.node.node]
    with held(pair.target, table):
        world.until(lambda: waiting(pair, table), world.problems)
        node.kill()
        orphans: set[Waiter] = set()
        [before] = [row for row in world.view("left").sink if row.span == span.id]

        def claimed() -> bool:
            seen = waiting(pair, table)
            [row] = [row for row in world.view("left").sink if row.span == span.id]
            assert row.position == before.position
            if row.token == before.token:
                orphans.update(seen)
            return row.token > before.token

        world.until(claimed, world.problems)
        assert orphans  # they outlived their node, inside their transactions, behind the lock
        world.until(lambda: not waiting(pair, table) & orphans, lambda: waiting(pair, table))
    node.start()
    world.converge()
    world.require_equal()
    world.require_watched()
