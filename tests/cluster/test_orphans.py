"""F11: what a killed node's Spark tasks are about does not land after somebody else has claimed."""

from pathlib import Path

from soak.matrix.world import FEEDS, World
from tests.support.bad_days import held
from tests.support.feeds import Pair
from tests.support.runners import Waiter, waiting

FEED = "left"
TABLE = FEEDS[FEED][1]


def test_a_task_that_outlives_its_node_commits_nothing(world: World, tmp_path: Path) -> None:
    """It waits inside its transaction when its node dies, and another node claims its span."""
    pair = Pair(world.source, world.target, tmp_path)
    [span] = world.view(FEED).of_table(TABLE)
    assert span.node is not None
    node = world.cluster.nodes[span.node.node]
    with held(pair.target, TABLE):
        world.until(lambda: waiting(pair, TABLE), world.problems)
        node.kill()
        orphans: set[Waiter] = set()
        [before] = [row for row in world.view(FEED).sink if row.span == span.id]

        def claimed() -> bool:
            seen = waiting(pair, TABLE)
            [row] = [row for row in world.view(FEED).sink if row.span == span.id]
            assert row.position == before.position
            if row.token == before.token:
                orphans.update(seen)
            return row.token > before.token

        world.until(claimed, world.problems)
        assert orphans  # they outlived their node, inside their transactions, behind the lock
        world.until(lambda: not waiting(pair, TABLE) & orphans, lambda: waiting(pair, TABLE))
    node.start()
    world.converge()
    world.require_equal()
    world.require_watched()
