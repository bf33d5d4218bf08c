"""Masks in SQL give what the decoder gives: hashes are over the text of the stream."""

import hashlib

import psycopg
import pytest
from psycopg import sql

from lockgate.endpoints.postgres.connect import connect
from lockgate.endpoints.postgres.masks import read_as
from lockgate.model.feed_config import Mask, MaskKind

COLUMN = 'co"l; %s ü'

VALUES = {
    "bool": "true",
    "char(5)": "'ab'",
    '"char"': "'x'",
    "int": "-7",
    "numeric": "1.500",
    "float8": "0.1::float8 + 0.2",
    "text": "E'it''s\\n\\\\ ü 漢 😀'",
    "varchar(9)": "''",
    "bytea": "'\\x00ff'",
    "json": '\'{"b": 1,  "a": 2}\'',
    "jsonb": '\'{"b": 1,  "a": 2}\'',
    "point": "'(1,2)'",
    "int[]": "'{1,NULL,3}'",
    "timestamptz": "'2024-02-03 04:05:06.7+09'",
    "interval": "'1 mon 2 days 03:04:05'",
    "uuid": "'00000000-0000-0000-0000-00000000000A'",
    "money": "'12.34'",
    "bit(3)": "B'101'",
    "int4range": "'[1,4]'",
    "pair": "ROW(NULL, NULL)",
}


@pytest.fixture
def session(database: str) -> psycopg.Connection:
    connection = connect(database, purpose="test", autocommit=True)
    connection.execute("CREATE TYPE pair AS (a int, b text)")
    return connection


def texts(connection: psycopg.Connection, query: sql.Composed) -> list[bytes | None]:
    """The values of a query's one column as the server's output functions write them."""
    result = connection.pgconn.exec_(query.as_bytes(connection))
    assert not result.error_message, result.error_message
    return [result.get_value(row, 0) for row in range(result.ntuples)]


def test_hashes_are_over_the_text_of_the_stream(session: psycopg.Connection) -> None:
    column = sql.Identifier(COLUMN)
    with session:
        for kind, value in VALUES.items():
            session.execute("DROP TABLE IF EXISTS t")
            session.execute(sql.SQL(f"CREATE TABLE t ({{}} {kind})").format(column))
            session.execute(sql.SQL(f"INSERT INTO t VALUES (({value})::{kind}), (NULL)"))
            plain = texts(session, sql.SQL("SELECT {} FROM t").format(column))
            hashed = texts(
                session, sql.SQL("SELECT {} FROM t").format(read_as(COLUMN, Mask(MaskKind.HASH)))
            )
            assert plain[0] is not None
            assert hashed == [hashlib.sha256(plain[0]).hexdigest().encode(), None], kind


def test_other_masks_and_none(session: psycopg.Connection) -> None:
    odd = "it's; -- %s \\ {} ü"
    with session:
        session.execute(sql.SQL("CREATE TABLE t AS SELECT 5 AS {}").format(sql.Identifier(COLUMN)))
        for mask, value in (
            (None, 5),
            (Mask(MaskKind.NULL), None),
            (Mask(MaskKind.FIXED, odd), odd),
        ):
            cursor = session.execute(sql.SQL("SELECT {} FROM t").format(read_as(COLUMN, mask)))
            assert cursor.fetchall() == [(value,)]
            assert cursor.description is not None
            assert cursor.description[0].name == COLUMN
            assert cursor.description[0].type_code == (23 if mask is None else 25)
