"""A drain that runs on Spark meets a kill of its node, or a drop of its table (L4).

The node is a process of its own, and so is the Spark: what a killed node had there goes on.
"""

import contextlib
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lockgate.endpoints.delta.fenced import FencedTable
from lockgate.endpoints.delta.files import live_files
from lockgate.endpoints.delta.lake import STABLE, WORK, Lake
from lockgate.endpoints.delta.layered import LayeredTable
from lockgate.endpoints.delta.vacuum import vacuum
from lockgate.endpoints.postgres.embedded import EmbeddedPostgres
from lockgate.model.errors import NotFound
from lockgate.model.lake_documents import LakeOutcome, LakeTableDocument
from soak.connect import ConnectServer
from soak.failpoints import ENV, LAUNCHER, FailPoint, FailPoints
from soak.nodes import Cluster, NodeServer
from tests.support.clusters import level
from tests.support.databases import fresh_database
from tests.support.feeds import Pair
from tests.support.lake_feeds import Shore
from tests.support.lake_files import bytes_named, data_files
from tests.support.typed import COMMAND, typed
from tests.support.waiting import until

ROWS = 20_000
SOON_S = 120.0
BIG, OTHER = "public.big", "public.other"
IN_DRAIN = FailPoint(BIG, "drain", "rewrite", "after")


class Held:
    """A node that can be held in a drain, and its feed of two tables into a lake."""

    def __init__(self, nodes: Cluster, shore: Shore, points: FailPoints, folder: Path) -> None:
        self._nodes = nodes
        self._env = {ENV: str(folder)}
        self.shore, self.points = shore, points
        self.node = self.start("one")

    def start(self, name: str) -> NodeServer:
        return self._nodes.start(name, env=self._env)

    def level(self) -> None:
        level(self.node.client())

    def shown(self, table: str) -> LakeTableDocument:
        return self.node.client().lakes.status("lake", table)

    @contextlib.contextmanager
    def draining(self, *until_so: Callable[[], object]) -> Iterator[None]:
        """Somebody has asked for a drain, and it has come so far."""
        words = ["lake", "drain", "lake", BIG, "--url", self.node.url, "--home", self.node.home]
        asked = subprocess.Popen(
            [COMMAND, *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            for condition in until_so:
                until(condition, SOON_S)
            yield
        finally:
            self.points.go()
            asked.kill()
            asked.wait()

    def is_draining(self) -> bool:
        return self.shown(BIG).state == "draining"


@pytest.fixture
def held(
    ends: Pair, pg18: EmbeddedPostgres, connect: ConnectServer, tmp_path: Path
) -> Iterator[Held]:
    folder = tmp_path / "points"
    shore = Shore(ends.source, tmp_path / "lake", ends.home, None)
    shore.at_source(
        "CREATE TABLE big (id int PRIMARY KEY, v text)",
        f"INSERT INTO big SELECT n, md5(n::text) FROM generate_series(1, {ROWS}) n",
        "CREATE TABLE other (id int PRIMARY KEY)",
        "INSERT INTO other VALUES (1)",
    )
    with (
        fresh_database(pg18) as metastore,
        Cluster(tmp_path, metastore, connect.url, lease_s=2.0, launcher=LAUNCHER) as nodes,
    ):
        held = Held(nodes, shore, FailPoints(folder), folder)
        client = held.node.client()
        client.endpoints.add("shop", shore.source)
        client.endpoints.add("lake", shore.address)
        client.feeds.create(
            "feed", source="shop", target="lake", tables=["public.*"], flush_interval_ms=50
        )
        held.level()
        until(lambda: client.lakes.show("lake").role == "leader", SOON_S)
        shore.at_source("UPDATE big SET v = v || '+' WHERE id % 10 < 3")
        shore.at_source("DELETE FROM big WHERE id % 10 = 4", "INSERT INTO big VALUES (-1, 'late')")
        held.points.arm(IN_DRAIN)
        yield held


def unnamed(table: LayeredTable) -> set[str]:
    """Files of stable that no commit names."""
    table.stable.look()
    lying = data_files(table.stable.place.url)
    return lying - {file.path for file in live_files(table.stable.handle)}


@pytest.mark.parametrize("when", ["its files are written", "its tasks write"])
def test_killed_in_a_drain_nothing_is_lost_or_doubled_or_left_behind(held: Held, when: str) -> None:
    """Where its tasks write they go on, and end beside those of the successor."""
    held.level()
    shore = held.shore
    table = shore.table(BIG)
    before, upto = table.stable.look().position, table.ingest.look().position
    if when == "its tasks write":
        held.points.clear()
        with held.draining(lambda: unnamed(table)):
            held.node.kill()
        held.node = held.start("two")
    else:
        with held.draining(held.points.frozen, held.is_draining):
            assert unnamed(table)
            held.node.kill()
            assert table.stable.look().position == before, "and no commit names what is written"
        held.points.clear()
        held.node.start()

    until(lambda: table.stable.look().position >= upto, SOON_S, every_s=0.1)
    shore.assert_equal(BIG, OTHER)
    shore.at_source("INSERT INTO big VALUES (-2, 'later')", "INSERT INTO other VALUES (2)")
    held.level()
    assert held.node.client().lakes.drain("lake").verdict == "done"
    shore.assert_equal(BIG, OTHER)

    table = shore.table(BIG)
    until(lambda: held.shown(BIG).size_bytes == bytes_named(table), SOON_S, every_s=0.1)
    assert held.node.stop() == 0
    until(lambda: _is_swept(table), SOON_S, every_s=0.1)
    shore.assert_equal(BIG, OTHER)


def _is_swept(table: LayeredTable) -> bool:
    """Whether nothing lies about once it is vacuumed. A task that outlived its node may still
    write: then not yet."""
    vacuum(table.place, 0.0, 0.0)
    table.ingest.look()
    ingest = {file.path for file in live_files(table.ingest.handle)}
    left = unnamed(table) | (data_files(table.ingest.place.url) - ingest)
    return not left and not list(Path(table.place.url, WORK).glob("*"))


def test_a_drop_that_meets_a_drain_is_busy_or_waits_for_its_end(held: Held) -> None:
    held.level()
    shore, run, client = held.shore, typed(held.node), held.node.client()
    lake = Lake(shore.root)
    table = shore.table(BIG)
    before, upto = table.stable.look().version, table.ingest.look().position
    drop = ("lake", "drop", "lake", BIG, "--force")
    told: list[LakeOutcome] = []
    waiting = threading.Thread(
        target=lambda: told.append(client.lakes.drop("lake", BIG, force=True, wait_s=SOON_S))
    )
    with held.draining(held.points.frozen, held.is_draining):
        code, refused = run(*drop)
        assert (code, refused["error"]["code"]) == (1, "busy"), refused
        assert held.is_draining()
        shore.assert_equal(BIG, OTHER)
        assert table.stable.look().version == before
        waiting.start()
        # At its deadline one that waits is busy after all.
        code, refused = run(*drop, "--wait", "1")
        assert (code, refused["error"]["code"]) == (1, "busy"), refused
        assert waiting.is_alive()
        assert (table.stable.look().version, table.stable.look().dead) == (before, False)
    waiting.join(SOON_S)
    assert [one.verdict for one in told] == ["done"]
    ended = FencedTable.open(table.place.child(STABLE)).look()
    assert (ended.dead, ended.position) == (True, upto), "the drain has ended, and then the table"

    incarnations = lake.incarnations(BIG)
    shore.at_source("INSERT INTO big VALUES (-3, 'late')", "INSERT INTO other VALUES (3)")
    held.level()
    held.node.kill()
    held.node.start()
    shore.at_source("INSERT INTO big VALUES (-4, 'later')", "INSERT INTO other VALUES (4)")
    held.level()
    until(lambda: held.node.client().lakes.show("lake").role == "leader", SOON_S, every_s=0.1)
    assert held.node.client().lakes.drain("lake").verdict == "done"
    shore.assert_equal(OTHER)
    assert held.shown(BIG).state == "dead"
    assert lake.incarnations(BIG) == incarnations
    with pytest.raises(NotFound):
        lake.live(BIG)
