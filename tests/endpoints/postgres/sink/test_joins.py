"""Staged rows find the target's through its key, unless they are most of it."""

import psycopg
import pytest

from lockgate.endpoints.postgres.sink.joins import joined
from lockgate.endpoints.postgres.sink.target import inspect
from lockgate.model.tables import TableName
from tests.endpoints.postgres.sink.place import Place, Places

ROWS = 200_000


@pytest.fixture
def place(places: Places) -> Place:
    place = places()
    place.admin.execute("INSERT INTO t (id, u) SELECT n, n FROM generate_series(1, %s) n", (ROWS,))
    place.admin.execute("ANALYZE t")
    place.admin.execute("CREATE TEMP TABLE s AS SELECT id AS k FROM t WHERE id % 10 = 0")
    return place


def plan(connection: psycopg.Connection) -> str:
    found = connection.execute("EXPLAIN DELETE FROM t USING s WHERE t.id = s.k").fetchall()
    return "\n".join(row[0] for row in found)


@pytest.mark.parametrize(
    ("size", "ordered", "by_index"),
    [
        (20_000, True, True),
        (20_000, False, True),
        (50_000, True, True),
        (50_000, False, False),
        (ROWS, True, False),
        (10, True, False),
    ],
)
def test_the_key_is_used_for_some_rows_and_not_for_most(
    place: Place, size: int, ordered: bool, by_index: bool
) -> None:
    with place.admin.transaction():
        assert "Hash Join" in plan(place.admin)
        with joined(place.admin, size, ROWS, ordered=ordered):
            assert ("Index Scan" in plan(place.admin)) is by_index
        assert "Hash Join" in plan(place.admin)


def test_the_targets_size_is_about_right(place: Place) -> None:
    found = inspect(place.admin, place.target, place.shape)
    assert 0.9 * ROWS < found.rows < 1.1 * ROWS
    place.admin.execute("CREATE TABLE parted (LIKE t) PARTITION BY RANGE (id)")
    parted = TableName(place.target.schema, "parted")
    assert inspect(place.admin, parted, place.shape).rows == 0
