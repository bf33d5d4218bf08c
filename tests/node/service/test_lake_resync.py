"""A table of a lake that is lost or damaged: its feed says so, and a resync brings it back.

The others go on meanwhile, and so does the rest of the feed.
"""

import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from lockgate.endpoints.delta.lake import STABLE, Lake
from lockgate.endpoints.postgres.copy.snapshot import Held
from lockgate.model.feed_config import read_config
from lockgate.model.feeds import FeedState
from lockgate.model.secret import Secret
from lockgate.model.server_config import ServerConfig
from lockgate.node.service import NodeService
from lockgate.pipeline import copy_run
from tests.support.feeds import LEVEL_S, Pair
from tests.support.lake_feeds import Shore
from tests.support.waiting import until

DOCS, OTHER = "public.docs", "public.other"
FEED = {
    "name": "feed",
    "source": "shop",
    "target": "lake",
    "tables": ["public.*"],
    "flush_interval_ms": 50,
}
BIG = "(SELECT string_agg(md5(n::text || k), '') FROM generate_series(1, 300) n)"
"""Large enough that an update which leaves it alone does not send it: landing looks it up."""


def directory(incarnation: Path) -> None:
    shutil.rmtree(incarnation.parent)


def stable_layer(incarnation: Path) -> None:
    shutil.rmtree(incarnation / STABLE)


def data_file(incarnation: Path) -> None:
    for path in (incarnation / STABLE).glob("*.parquet"):
        path.write_bytes(path.read_bytes()[:-30])


def log_of_stable(incarnation: Path) -> None:
    (incarnation / STABLE / "_delta_log" / f"{0:020d}.json").write_bytes(b"")


def log_of_ingest(incarnation: Path) -> None:
    for path in incarnation.glob(f"ingest-*/_delta_log/{0:020d}.json"):
        path.write_bytes(b"{")


@pytest.fixture
def shore(pair: Pair, tmp_path: Path) -> Shore:
    shore = Shore(pair.source, tmp_path / "lake", pair.home, pair.spark)
    shore.at_source(
        "CREATE TABLE docs (id int PRIMARY KEY, n int, body text)",
        "ALTER TABLE docs ALTER body SET STORAGE EXTERNAL",
        f"INSERT INTO docs SELECT k, 0, {BIG} FROM generate_series(1, 9) k",
        "CREATE TABLE other (id int PRIMARY KEY, n int)",
        "INSERT INTO other SELECT n, 0 FROM generate_series(1, 9) n",
    )
    return shore


@contextmanager
def served(shore: Shore) -> Iterator[NodeService]:
    """A life of the node."""
    config = ServerConfig(home=str(shore.home), node="one", lease_s=3.0)
    node = NodeService(config, spark=shore.spark)
    node.start("http://127.0.0.1:1")
    try:
        yield node
    finally:
        node.stop()


@contextmanager
def fed(shore: Shore) -> Iterator[NodeService]:
    """Its first one, with both tables in the lake."""
    with served(shore) as node:
        node.add_endpoint("shop", Secret(shore.source), "test")
        node.add_endpoint("lake", Secret(shore.address), "test")
        node.create_feed(read_config(FEED), "test")
        level(node)
        yield node


def level(node: NodeService) -> None:
    assert node.wait_feed("feed", LEVEL_S).level


def trouble(node: NodeService, table: str) -> str:
    """What the feed says of a table."""
    [found] = [one for one in node.feed_tables("feed") if one.table == table]
    return " ".join(span.error for span in found.spans)


def is_there(shore: Shore, table: str) -> bool:
    """Whether the lake has what the source has."""
    return shore.can_be_read(table) and shore.in_lake(table) == shore.at_home(table)


def incarnation(shore: Shore) -> Path:
    return Path(Lake(shore.root).live(DOCS).url)


def brought_back(node: NodeService, shore: Shore) -> None:
    """It is said, the other table goes on, and a resync mends it."""
    shore.at_source("UPDATE docs SET n = n + 1", "UPDATE other SET n = n + 1")
    until(lambda: trouble(node, DOCS), LEVEL_S)
    until(lambda: is_there(shore, OTHER), LEVEL_S)
    node.resync_table("feed", DOCS, "test")
    level(node)
    until(lambda: is_there(shore, DOCS), LEVEL_S)
    until(lambda: not trouble(node, DOCS), LEVEL_S)
    shore.at_source("UPDATE docs SET n = n + 1", "DELETE FROM docs WHERE id = 3")
    level(node)
    shore.assert_equal(DOCS, OTHER)


DAMAGES = [directory, stable_layer, data_file, log_of_stable, log_of_ingest]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_table_that_is_hurt_while_its_feed_runs_is_brought_back(
    shore: Shore, damage: Callable[[Path], None]
) -> None:
    with fed(shore) as node:
        damage(incarnation(shore))
        brought_back(node, shore)


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_table_that_was_hurt_before_its_node_started_is_brought_back(
    shore: Shore, damage: Callable[[Path], None]
) -> None:
    with fed(shore):
        pass
    damage(incarnation(shore))
    with served(shore) as node:
        brought_back(node, shore)


def test_a_schema_change_of_a_lost_table_waits_for_its_resync_and_fails_no_feed(
    shore: Shore,
) -> None:
    with fed(shore) as node:
        directory(incarnation(shore))
        shore.at_source("ALTER TABLE docs ADD COLUMN extra int")
        shore.at_source("UPDATE other SET n = n + 1")
        until(lambda: node.feed("feed").error, LEVEL_S)
        assert node.feed("feed").state is FeedState.WARNING
        until(lambda: is_there(shore, OTHER), LEVEL_S)
        node.resync_table("feed", DOCS, "test")
        level(node)
        shore.at_source("UPDATE docs SET extra = id")
        level(node)
        shore.assert_equal(DOCS, OTHER)


def test_a_table_that_is_lost_while_it_is_copied_is_brought_back(
    shore: Shore, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = copy_run.held_snapshot
    lost: list[int] = []

    def lose(*given: Any) -> AbstractContextManager[Held]:
        if not lost:
            lake = Lake(shore.root)
            lost.append(max(lake.incarnations(DOCS)))
            shutil.rmtree(lake.place(DOCS, lost[0]).url)
        return held(*given)

    with fed(shore) as node:
        monkeypatch.setattr(copy_run, "held_snapshot", lose)
        node.resync_table("feed", DOCS, "test")
        until(lambda: trouble(node, DOCS), LEVEL_S)
        node.resync_table("feed", DOCS, "test")
        level(node)
        shore.at_source("UPDATE docs SET n = n + 1")
        level(node)
        shore.assert_equal(DOCS, OTHER)
        assert int(incarnation(shore).name) > lost[0]


@pytest.mark.parametrize("damage", [directory, data_file, log_of_ingest])
def test_a_table_that_is_lost_and_then_dropped_at_the_source_holds_up_nothing(
    shore: Shore, damage: Callable[[Path], None]
) -> None:
    """There is nothing that a resync could copy."""
    with fed(shore) as node:
        damage(incarnation(shore))
        shore.at_source("UPDATE docs SET n = n + 1")
        until(lambda: trouble(node, DOCS), LEVEL_S)
        shore.at_source("DROP TABLE docs")
        shore.at_source("ALTER TABLE other ADD COLUMN extra int")
        shore.at_source("UPDATE other SET extra = id")
        level(node)
        shore.assert_equal(OTHER)
        assert Lake(shore.root).living(DOCS) is None
        assert [one.table for one in node.feed_tables("feed")] == [OTHER]
