"""Sequences are carried over, beyond every value that was given out, and never back (M11)."""

from collections.abc import Iterator

import psycopg
import pytest

from lockgate.endpoints.postgres.cutover import MoveMark, carry, is_sealed
from lockgate.model.errors import StaleOwner
from lockgate.model.tables import TableName
from tests.endpoints.postgres.cutover.side import ODD

SETUP = f"""
CREATE TABLE t (id serial PRIMARY KEY, no bigint GENERATED ALWAYS AS IDENTITY);
CREATE TABLE "{ODD.replace('"', '""')}" (id bigserial PRIMARY KEY);
"""
TABLES = [TableName("public", "t"), TableName("public", ODD)]


@pytest.fixture
def pair(database: str, database16: str) -> Iterator[tuple[psycopg.Connection, ...]]:
    """Two servers with the same tables; the first has given out some values."""
    with (
        psycopg.connect(database, autocommit=True) as one,
        psycopg.connect(database16, autocommit=True) as other,
    ):
        for connection in (one, other):
            connection.execute(SETUP.encode())
        one.execute("INSERT INTO t SELECT FROM generate_series(1, 7)")
        yield one, other


def test_both_ways_and_again(
    pair: tuple[psycopg.Connection, ...], database: str, database16: str
) -> None:
    one, other = pair
    assert carry(database, database16, TABLES) == {"public.t_id_seq": 7, "public.t_no_seq": 7}
    assert carry(database, database16, TABLES) == {"public.t_id_seq": 7, "public.t_no_seq": 7}
    insert = "INSERT INTO t DEFAULT VALUES RETURNING id, no"
    assert other.execute(insert).fetchone() == (8, 8)
    assert carry(database16, database, TABLES)["public.t_id_seq"] == 8
    assert one.execute(insert).fetchone() == (9, 9)
    # Nothing goes back, whoever carries what he read long ago.
    assert carry(database16, database, TABLES)["public.t_id_seq"] == 9


def test_with_a_mark_it_is_fenced(
    pair: tuple[psycopg.Connection, ...], database: str, database16: str
) -> None:
    mark = MoveMark("m", 1, 4)
    assert carry(database, database16, TABLES, mark=mark)["public.t_id_seq"] == 7
    is_sealed(database16, MoveMark("m", 1, 5))
    pair[0].execute("INSERT INTO t DEFAULT VALUES")
    with pytest.raises(StaleOwner):
        carry(database, database16, TABLES, mark=mark)
    found = pair[1].execute("SELECT last_value FROM t_id_seq").fetchone()
    assert found == (7,)
