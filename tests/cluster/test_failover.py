"""A cluster shrugs off kill -9: whoever dies, the others go on, and no row is lost or doubled."""

from soak.nodes import Cluster
from tests.support.clusters import SOON_S, add_ends, create, level, placed, tables
from tests.support.feeds import Pair
from tests.support.waiting import until


def _filled(ends: Pair) -> None:
    ends.at_source(
        "CREATE TABLE a (id int PRIMARY KEY, v int)",
        "CREATE TABLE b (id int PRIMARY KEY, v int)",
        "INSERT INTO a SELECT n, 0 FROM generate_series(1, 2000) n",
        "INSERT INTO b SELECT n, 0 FROM generate_series(1, 2000) n",
    )


def test_the_owner_is_killed_and_the_others_go_on(nodes: Cluster, ends: Pair) -> None:
    for name in ("one", "two", "three"):
        nodes.start(name)
    client = nodes.nodes["one"].client()
    _filled(ends)
    add_ends(client, ends)
    create(client)
    level(client)
    until(lambda: len(tables(client)) == 2)
    span = tables(client)["public.a"].spans[0].span
    client.feeds.span_split("feed", span, parts=3)
    until(lambda: len(placed(client)) == 4, SOON_S)
    ends.at_source("UPDATE a SET v = 1", "UPDATE b SET v = 1")
    level(client)

    owner = client.feeds.status("feed").owner
    nodes.nodes[owner].kill()
    ends.at_source("UPDATE a SET v = 2 WHERE id % 2 = 0", "DELETE FROM b WHERE id % 3 = 0")
    left = next(node for name, node in nodes.nodes.items() if name != owner)
    client = left.client()
    level(client)
    ends.assert_equal("public.a", "public.b")
    status = client.feeds.status("feed")
    assert status.owner not in {"", owner}
    until(lambda: len(placed(client)) == 4, SOON_S)
    assert owner not in placed(client).values()


def test_a_node_is_drained_and_everything_leaves_it(nodes: Cluster, ends: Pair) -> None:
    one, two = nodes.start("one"), nodes.start("two")
    client = one.client()
    _filled(ends)
    add_ends(client, ends)
    create(client)
    level(client)
    span = tables(client)["public.a"].spans[0].span
    client.feeds.span_move("feed", span, "two")
    until(lambda: placed(client).get(span) == "two", SOON_S)
    client.nodes.drain("two")
    until(lambda: {node.name: node.state.value for node in client.nodes.list()}["two"] == "drained")
    until(lambda: set(placed(client).values()) == {"one"}, SOON_S)  # nodes tell every second
    ends.at_source("UPDATE a SET v = 7")
    level(client)
    ends.assert_equal("public.a", "public.b")
    assert two.stop() == 0
    until(lambda: {node.name: node.state.value for node in client.nodes.list()}["two"] == "down")
