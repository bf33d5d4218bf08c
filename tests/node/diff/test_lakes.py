"""Diffs with lakes on a real node (D1, D2, D6): by a feed, by two endpoints, what is refused."""

from pathlib import Path

import msgspec
import psycopg
import pytest
from psycopg import sql

from lockgate.model.diffs import DiffColumn, DiffOrder, DiffState, RowKind
from lockgate.model.errors import UsageError
from lockgate.model.feed_config import read_config
from lockgate.model.secret import Secret
from lockgate.node.service import NodeService
from lockgate.node.service.diff_documents import UNALIGNED
from lockgate.pipeline.lake_diff import LakeNotRepaired
from tests.node.diff.conftest import BY_FEED, run
from tests.support.feeds import LEVEL_S, Pair

TO_LAKE = DiffOrder(source="shop", target="lake", tables=("public.*",))
FROM_LAKE = DiffOrder(source="lake", target="shop", tables=("public.*",))


@pytest.fixture
def fed(service: NodeService, tmp_path: Path) -> NodeService:
    """A feed has brought both tables into a lake."""
    service.add_endpoint("lake", Secret(f"delta:{tmp_path / 'lake'}"), "test")
    document = {
        "name": "feed",
        "source": "shop",
        "target": "lake",
        "tables": ["public.*"],
        "flush_interval_ms": 50,
    }
    service.create_feed(read_config(document), "test")
    assert service.wait_feed("feed", LEVEL_S).level
    return service


def behind_the_feeds_back(pair: Pair, statement: str) -> None:
    """Change rows at the source while its publication tells of inserts only: the lake does not
    hear of it."""
    with psycopg.connect(pair.source) as connection:
        row = connection.execute("SELECT pubname FROM pg_publication").fetchone()
        assert row is not None
        alter = sql.SQL("ALTER PUBLICATION {} SET (publish = {})")
        name = sql.Identifier(row[0])
        connection.execute(alter.format(name, sql.Literal("insert")))
        connection.execute(statement)
        connection.execute(alter.format(name, sql.Literal("insert, update, delete, truncate")))


def test_a_feeds_lake_is_compared_at_one_position(fed: NodeService, pair: Pair) -> None:
    diff = run(fed, BY_FEED)
    assert (diff.state, diff.error, diff.equal) == (DiffState.FINISHED, "", True)
    assert (diff.source, diff.target, diff.notes) == ("shop", "lake", ())
    assert {each.table: each.rows for each in diff.tables} == {
        "public.orders": 2000,
        "public.users": 100,
    }
    assert {each.position for each in diff.tables} == {diff.position}
    assert "/" in diff.position

    behind_the_feeds_back(pair, "UPDATE users SET name = 'new' WHERE id = 50")
    diff = run(fed, BY_FEED)
    assert (diff.state, diff.equal) == (DiffState.FINISHED, False)
    orders, users = diff.tables
    assert orders.equal
    [sample] = users.samples
    assert (sample.kind, sample.key) == (RowKind.DIFFERENT, {"id": "50"})
    assert sample.columns == (DiffColumn("name", "new", "user 50"),)
    assert diff.next_steps == ("lockgate feed resync feed public.users",)


def test_a_lake_and_a_database_without_a_feed_either_way_round(
    fed: NodeService, pair: Pair
) -> None:
    # The first change has both tables past their first copies, whatever else brings them there.
    pair.at_source(
        "UPDATE orders SET note = '' WHERE id = 1", "UPDATE users SET name = NULL WHERE id = 1"
    )
    assert fed.wait_feed("feed", LEVEL_S).level
    fed.pause_feed("feed", "test")
    pair.at_source("DELETE FROM orders WHERE id = 7", "CREATE TABLE more (id int PRIMARY KEY)")
    there = run(fed, TO_LAKE)
    assert (there.state, there.equal, there.notes) == (DiffState.FAILED, False, (UNALIGNED,))
    found = {each.table: each for each in there.tables}
    assert (found["public.orders"].extra, found["public.users"].equal) == (1, True)
    assert "no such table in the lake" in found["public.more"].error
    back = run(fed, FROM_LAKE)
    assert (back.state, back.position) == (DiffState.FINISHED, "")
    assert {each.table: (each.missing, each.rows) for each in back.tables} == {
        "public.orders": (1, 2000),
        "public.users": (0, 100),
    }


def test_what_cannot_be_with_a_lake_is_refused_before_it_is_recorded(fed: NodeService) -> None:
    for order in (BY_FEED, TO_LAKE, FROM_LAKE):
        with pytest.raises(LakeNotRepaired) as refused:
            fed.diffs.run(msgspec.structs.replace(order, repair=True), "test")
        assert "lockgate feed resync" in refused.value.hint
    with pytest.raises(UsageError, match="no table of the lake matches"):
        fed.diffs.run(DiffOrder(source="lake", target="shop", tables=("public.none",)), "test")
    assert fed.diffs.all() == []
