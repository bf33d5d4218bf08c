"""Where tables are cut: everything is covered once, and chunks are of about one size."""

import psycopg
import pytest
from psycopg import sql

from lockgate.endpoints.postgres.copy.items import CopyTable
from lockgate.endpoints.postgres.copy.plan import plan_edges
from lockgate.endpoints.postgres.copy.statements import copy_out, where_chunk
from lockgate.endpoints.postgres.copy.survey import key_columns
from lockgate.endpoints.postgres.schema.discover import describe, sizes
from lockgate.endpoints.postgres.sink.chunks import Chunk, Edge
from lockgate.model.tables import TableName

T = TableName("public", "t")


def _edges(
    connection: psycopg.Connection, chunk_rows: int = 1000, slots: int = 2
) -> tuple[CopyTable, list[tuple[Edge, Edge]]]:
    definition = describe(connection, [T])[T]
    table = CopyTable(
        T,
        T,
        tuple(column.name for column in definition.columns),
        key=key_columns(definition),
        partitioned=definition.kind == "p",
    )
    size = sizes(connection, [definition])[T]
    return table, plan_edges(connection, table, size, chunk_rows=chunk_rows, slots=slots)


def _counts(
    connection: psycopg.Connection, table: CopyTable, edges: list[tuple[Edge, Edge]]
) -> list[int]:
    """Rows of each chunk, as the copy would read them."""
    found = []
    for number, (low, high) in enumerate(edges):
        statement = copy_out(table, where_chunk(table, Chunk(number, low, high)))
        with connection.cursor() as cursor, cursor.copy(statement) as copy:
            found.append(sum(1 for _ in copy.rows()))
    return found


def _filled(database: str, ddl: str, rows: str) -> psycopg.Connection:
    connection = psycopg.connect(database, autocommit=True)
    connection.execute(ddl)
    connection.execute(sql.SQL("INSERT INTO t {}").format(sql.SQL(rows)))
    connection.execute("ANALYZE t")
    return connection


SHAPES = {
    "dense": ("id int PRIMARY KEY", "SELECT n FROM generate_series(-5000, 4999) n"),
    "holes": ("id int PRIMARY KEY", "SELECT n * n FROM generate_series(1, 10000) n"),
    "composite": (
        "a int, b text, PRIMARY KEY (b, a)",
        "SELECT n, 'b' || n / 100 FROM generate_series(1, 10000) n ORDER BY 2, 1",
    ),
    "backwards": ("id int PRIMARY KEY", "SELECT -n FROM generate_series(1, 10000) n"),
    "times": (
        "id timestamptz PRIMARY KEY",
        "SELECT 'epoch'::timestamptz + n * '1 min'::interval FROM generate_series(1, 10000) n",
    ),
    "keyless": ("v int", "SELECT n FROM generate_series(1, 10000) n"),
    "partitioned": (
        "id int, v int, PRIMARY KEY (id, v)",
        "SELECT n, n % 2 FROM generate_series(1, 10000) n",
    ),
}


@pytest.mark.parametrize("kind", SHAPES)
def test_chunks_cover_every_row_once_and_are_even(database: str, kind: str) -> None:
    columns, rows = SHAPES[kind]
    ddl = f"CREATE TABLE t ({columns}, pad text DEFAULT repeat('x', 100))"
    if kind == "partitioned":
        ddl += " PARTITION BY LIST (v);" + "".join(
            f"CREATE TABLE t{n} PARTITION OF t FOR VALUES IN ({n});" for n in range(2)
        )
    with _filled(database, ddl, rows) as connection:
        table, edges = _edges(connection)
        counts = _counts(connection, table, edges)
    assert sum(counts) == 10_000
    assert 8 <= len(counts) <= 12
    assert max(counts) < 2500
    assert (edges[0][0], edges[-1][1]) == (None, None)


def test_rows_that_come_later_are_in_a_chunk_too(database: str) -> None:
    with _filled(
        database, "CREATE TABLE t (id int PRIMARY KEY)", "SELECT generate_series(1, 5000)"
    ) as c:
        table, edges = _edges(c)
        c.execute("INSERT INTO t SELECT generate_series(-1000, 0)")
        c.execute("INSERT INTO t SELECT generate_series(5001, 9000)")
        assert sum(_counts(c, table, edges)) == 10_001


def test_scattered_rows_make_fewer_chunks(database: str) -> None:
    """Each chunk of random keys reads most of the table's pages."""
    rows = "SELECT gen_random_uuid() FROM generate_series(1, 40000)"
    with _filled(database, "CREATE TABLE t (id uuid PRIMARY KEY)", rows) as connection:
        table, edges = _edges(connection)
        assert len(edges) == 4
        assert len(_edges(connection, slots=8)[1]) == 8
        counts = _counts(connection, table, edges)
        assert sum(counts) == 40_000
        assert max(counts) < 20_000


def test_few_rows_are_one_chunk(database: str) -> None:
    with _filled(database, "CREATE TABLE t (id int PRIMARY KEY)", "SELECT 1") as connection:
        assert _edges(connection)[1] == [(None, None)]


def test_wide_rows_are_cut_by_their_size(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lockgate.endpoints.postgres.copy.plan._CHUNK_BYTES", 1 << 20)
    ddl = "CREATE TABLE t (id int PRIMARY KEY, v text)"
    rows = "SELECT n, repeat(md5(n::text), 50) FROM generate_series(1, 3000) n"
    with _filled(database, ddl, rows) as connection:
        table, edges = _edges(connection, chunk_rows=100_000)
        assert 4 <= len(edges) <= 12
        assert sum(_counts(connection, table, edges)) == 3000


def test_a_table_without_rows_is_one_chunk(database: str) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("CREATE TABLE t (id int PRIMARY KEY)")
        assert _edges(connection)[1] == [(None, None)]


def test_rows_of_tables_that_inherit_are_not_the_parents(database: str) -> None:
    with _filled(database, "CREATE TABLE t (id int PRIMARY KEY)", "SELECT 1") as connection:
        connection.execute("CREATE TABLE child () INHERITS (t); INSERT INTO child VALUES (2)")
        table, edges = _edges(connection)
        assert _counts(connection, table, edges) == [1]


def test_edges_are_values_and_never_sql(database: str) -> None:
    """S4: whatever stands in a key."""
    ddl = 'CREATE TABLE t ("we""ird; --" text PRIMARY KEY)'
    rows = "SELECT n || E'\\'; DROP TABLE t; --\\\\ %s {} \"' FROM generate_series(1, 3000) n"
    with _filled(database, ddl, rows) as connection:
        table, edges = _edges(connection)
        assert len(edges) > 1
        assert sum(_counts(connection, table, edges)) == 3000
