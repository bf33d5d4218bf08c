"""Binary where both sides mean the same bytes, text everywhere else."""

import psycopg
import pytest

from lockgate.endpoints.postgres.copy.formats import binary_forms, same_forms
from lockgate.model.tables import TableName

T = TableName("public", "t")

_TYPES = """
CREATE TYPE mood AS ENUM ('sad', 'glad');
CREATE DOMAIN small AS int CHECK (VALUE < 10);
CREATE TYPE pair AS (a int, b mood);
CREATE TYPE spread AS RANGE (subtype = float8);
CREATE TYPE lasting AS RANGE (subtype = interval);
CREATE DOMAIN pause AS interval;
"""


def _same(here: str, there: str, column: str, other: str | None = None) -> bool:
    found = []
    for url, kind in ((here, column), (there, other or column)):
        with psycopg.connect(url, autocommit=True) as connection:
            if not connection.execute("SELECT FROM pg_type WHERE typname = 'mood'").fetchall():
                connection.execute(_TYPES)
            connection.execute("DROP TABLE IF EXISTS t")
            connection.execute(f"CREATE TABLE t (c {kind})".encode())
            found.append(binary_forms(connection, [T])[T])
    return same_forms(found[0], found[1], ["c"])


@pytest.mark.parametrize(
    "kind",
    [
        "int",
        "numeric(10,2)",
        "varchar(10)[]",
        "timestamptz",
        "jsonb",
        "inet",
        "tsvector",
        "mood",
        "mood[]",
        "small",
        "pair",
        "pair[]",
        "spread",
        "int4multirange",
        "money",
        "bit varying(5)",
    ],
)
def test_binary(database: str, database16: str, kind: str) -> None:
    assert _same(database, database16, kind)


@pytest.mark.parametrize(
    "kind", ["regclass", "regtype[]", "xml", "aclitem", "oidvector", "int2vector"]
)
def test_text(database: str, database16: str, kind: str) -> None:
    assert not _same(database, database16, kind)


@pytest.mark.parametrize(
    ("here", "there"), [("int", "bigint"), ("text", "varchar"), ("int", "int[]"), ("mood", "text")]
)
def test_text_where_types_differ(database: str, database16: str, here: str, there: str) -> None:
    assert not _same(database, database16, here, there)


def test_a_domain_is_what_it_is_over(database: str, database16: str) -> None:
    assert _same(database, database16, "small", "int")


@pytest.mark.parametrize("kind", ["interval", "interval(3)[]", "lasting", "pause"])
def test_an_interval_is_text_for_a_server_that_knows_no_infinite_ones(
    database: str, database16: str, kind: str
) -> None:
    assert not _same(database, database16, kind)
    assert _same(database16, database, kind)
    assert _same(database, database, kind)


def test_a_length_makes_no_difference(database: str, database16: str) -> None:
    assert _same(database, database16, "varchar(5)", "varchar(50)")


def test_a_masked_column_travels_as_text(database: str) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("CREATE TABLE t (c xml, d int)")
        connection.execute("CREATE TABLE u (c text, d int)")
        forms = binary_forms(connection, [T, TableName("public", "u")])
    here, there = forms.values()
    assert same_forms(here, there, ["c", "d"], ["c"])
    assert not same_forms(here, there, ["c", "d"])


def test_a_column_that_the_target_lacks_is_not_the_same(database: str) -> None:
    assert not same_forms({"c": "x"}, {}, ["c"])
