"""The node that works on a diff is killed in the middle of it, and another goes on (D4).

By the commands that people type, against real servers: the one that was waiting hears of the end
from the node that it asked, whoever has worked on it.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from lockgate.endpoints.postgres.embedded import EmbeddedPostgres
from lockgate.model.diffs import DiffDocument, DiffState
from soak.connect import ConnectServer
from soak.failpoints import ENV, LAUNCHER, FailPoint, FailPoints
from soak.nodes import Cluster, NodeServer
from tests.support.clusters import add_ends, create, level
from tests.support.databases import fresh_database
from tests.support.feeds import Pair
from tests.support.waiting import until

COMMAND = Path(sys.executable).with_name("lockgate")
COMMAND_S = 240.0
SOON_S = 120.0
DIFF = "0123456789"
TABLES = ("items", "orders", "users")


def typed(node: NodeServer, *words: str) -> tuple[int, Any]:
    """Runs `lockgate …`; its exit code, and its document."""
    done = subprocess.run(
        [COMMAND, *words, "--url", node.url, "--home", node.home, "--json"],
        capture_output=True,
        text=True,
        timeout=COMMAND_S,
        check=False,
    )
    try:
        return done.returncode, json.loads(done.stdout)
    except ValueError:
        raise AssertionError(f"{words}: {done.stdout}\n{done.stderr}\n{node.said()}") from None


def begin(node: NodeServer, **order: object) -> None:
    """A diff of this name, without waiting for it."""
    body = {"id": DIFF, **order}
    node.client()._transport.post("/api/v1/diffs", DiffDocument, body, safe=True)


def test_another_node_goes_on_with_what_is_left(
    pg16: EmbeddedPostgres,
    pg18: EmbeddedPostgres,
    connect: ConnectServer,
    tmp_path: Path,
) -> None:
    points = FailPoints(tmp_path / "points")
    with (
        fresh_database(pg16) as source,
        fresh_database(pg18) as target,
        fresh_database(pg18) as metastore,
        Cluster(tmp_path, metastore, connect.url, lease_s=2.0, launcher=LAUNCHER) as cluster,
    ):
        pair = Pair(source, target, tmp_path)
        for table in TABLES:
            pair.at_source(
                f"CREATE TABLE {table} (id int PRIMARY KEY, v text)",
                f"INSERT INTO {table} SELECT n, 'v' || n FROM generate_series(1, 500) n",
            )
        one = cluster.start("one", env={ENV: str(tmp_path / "points")})
        client = one.client()
        add_ends(client, pair)
        create(client)
        level(client)
        pair.at_target("DELETE FROM items WHERE id = 7", "UPDATE users SET v = '' WHERE id = 8")

        points.arm(FailPoint(DIFF, "diff", "range", "after"))
        begin(one, feed="feed")
        until(points.frozen, SOON_S)
        before = client.diffs.show(DIFF)
        assert (before.state, before.node) == (DiffState.RUNNING, "one")
        done = {each.table: each for each in before.tables if each.rows}
        assert 0 < len(done) < len(TABLES)

        two = cluster.start("two", env={ENV: str(tmp_path / "none")})
        one.kill()
        found = two.client().diffs.wait(DIFF, SOON_S)
        assert (found.state, found.node, found.equal) == (DiffState.FINISHED, "two", False)
        after = {each.table: each for each in found.tables}
        assert {name: after[name] for name in done} == done, "what was done was done again"
        assert {each.table: (each.rows, each.missing, each.different) for each in found.tables} == {
            "public.items": (500, 1, 0),
            "public.orders": (500, 0, 0),
            "public.users": (500, 0, 1),
        }
        assert len({each.position for each in found.tables}) == 2

        code, shown = typed(two, "diff", "show", DIFF)
        assert (code, shown["equal"], len(shown["notes"])) == (1, False, 1)
        pair.at_target(
            "INSERT INTO items VALUES (7, 'v7')", "UPDATE users SET v = 'v8' WHERE id = 8"
        )
        code, shown = typed(two, "diff", "run", "--feed", "feed", "--tables", "*.users", "*.items")
        assert (code, shown["equal"], len(shown["tables"])) == (0, True, 2)
        code, _ = typed(two, "diff", "run", "--from", "shop", "--to", "copy", "--tables", "x.y")
        assert code == 2
