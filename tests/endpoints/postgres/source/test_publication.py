"""A publication holds the tables it is told to, and never one that would harm the source."""

import itertools
from collections.abc import Iterator

import psycopg
import pytest

from lockgate.endpoints.postgres.source import publication
from lockgate.endpoints.postgres.source.errors import (
    FilterRefused,
    NotOurs,
    PublicationLost,
    TableUnpublishable,
)
from lockgate.endpoints.postgres.source.publication import Published
from lockgate.model.tables import TableName

NAME = "lockgate_feed"
UGLY = TableName('odd"schema', "Tä ble;--'%s")
T, U = TableName("public", "t"), TableName("public", "u")


@pytest.fixture
def connection(home: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(home, autocommit=True) as found:
        found.execute("CREATE TABLE t (id int PRIMARY KEY, a int, b text)")
        found.execute("CREATE TABLE u (id int PRIMARY KEY)")
        found.execute('CREATE SCHEMA "odd""schema"')
        found.execute('CREATE TABLE "odd""schema"."Tä ble;--\'%s" (id int PRIMARY KEY)')
        yield found
        publication.drop(found, NAME)
        found.execute('DROP TABLE IF EXISTS t, u, w CASCADE; DROP SCHEMA "odd""schema" CASCADE')


def test_it_holds_its_tables(connection: psycopg.Connection) -> None:
    publication.create(connection, NAME, [Published(T), Published(UGLY)])
    assert publication.read(connection, NAME) == (UGLY, T)


def test_making_it_again_brings_it_up_to_date(connection: psycopg.Connection) -> None:
    publication.create(connection, NAME, [Published(T)])
    publication.create(connection, NAME, [Published(U)])
    assert publication.check(connection, NAME) == (U,)


def test_tables_come_and_go(connection: psycopg.Connection) -> None:
    publication.create(connection, NAME, [])
    for tables in itertools.chain.from_iterable(
        itertools.permutations([(), (T,), (T, U), (U,)], 2)
    ):
        publication.set_tables(connection, NAME, [Published(table) for table in tables])
        assert publication.read(connection, NAME) == tables


def test_it_is_dropped_once(connection: psycopg.Connection) -> None:
    publication.create(connection, NAME, [])
    assert publication.drop(connection, NAME)
    assert not publication.drop(connection, NAME)
    with pytest.raises(PublicationLost, match=NAME):
        publication.check(connection, NAME)
    with pytest.raises(PublicationLost):
        publication.set_tables(connection, NAME, [])


@pytest.mark.parametrize("verb", [publication.create, publication.set_tables])
def test_a_foreign_publication_is_left_alone(connection: psycopg.Connection, verb: object) -> None:
    connection.execute("CREATE PUBLICATION theirs FOR TABLE t")
    with pytest.raises(NotOurs):
        verb(connection, "theirs", [Published(U)])  # type: ignore[operator]
    with pytest.raises(NotOurs):
        publication.drop(connection, "theirs")
    assert publication.read(connection, "theirs") == (T,)
    connection.execute("DROP PUBLICATION theirs")


# --- what would harm ----------------------------------------------------------------------------

UNFIT = [
    "CREATE TABLE w (id int)",
    "CREATE TABLE w (id int PRIMARY KEY); ALTER TABLE w REPLICA IDENTITY NOTHING",
    "CREATE TABLE w (id int) PARTITION BY LIST (id); CREATE TABLE w1 PARTITION OF w DEFAULT",
]


@pytest.mark.parametrize("made", UNFIT)
def test_a_table_without_identity_is_refused_and_stays_writable(
    connection: psycopg.Connection, made: str
) -> None:
    connection.execute(made)
    for verb in (publication.create, publication.set_tables):
        with pytest.raises(TableUnpublishable, match=r"public\.w") as caught:
            verb(connection, NAME, [Published(TableName("public", "w"))])
        assert "REPLICA IDENTITY FULL" in caught.value.hint
        connection.execute("INSERT INTO w VALUES (1)")
        connection.execute("UPDATE w SET id = 2")
        connection.execute("DELETE FROM w")
        publication.drop(connection, NAME)
        publication.create(connection, NAME, [Published(T)])
    assert publication.read(connection, NAME) == (T,)


@pytest.mark.parametrize(
    "identity", ["REPLICA IDENTITY FULL", "REPLICA IDENTITY USING INDEX w_id_key"]
)
def test_any_other_identity_is_as_good(connection: psycopg.Connection, identity: str) -> None:
    connection.execute("CREATE TABLE w (id int NOT NULL UNIQUE)")
    connection.execute(f"ALTER TABLE w {identity}")
    publication.create(connection, NAME, [Published(TableName("public", "w"))])
    connection.execute("INSERT INTO w VALUES (1)")
    connection.execute("UPDATE w SET id = 2")


def test_partitions_come_with_their_table_and_heirs_do_not(
    connection: psycopg.Connection,
) -> None:
    connection.execute(
        "CREATE TABLE w (id int PRIMARY KEY) PARTITION BY LIST (id);"
        "CREATE TABLE w1 PARTITION OF w DEFAULT; CREATE TABLE heir () INHERITS (t)"
    )
    publication.create(connection, NAME, [Published(TableName("public", "w")), Published(T)])
    connection.execute("INSERT INTO heir VALUES (1); UPDATE heir SET a = 2")
    assert publication.read(connection, NAME) == (T, TableName("public", "w"))


# --- row filters --------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["id > 10", "id IN (1, (2)) AND b NOT LIKE '1)%;--'"])
def test_a_filter_over_the_key_is_taken(connection: psycopg.Connection, where: str) -> None:
    connection.execute("ALTER TABLE t DROP CONSTRAINT t_pkey, ADD PRIMARY KEY (id, b)")
    publication.create(connection, NAME, [Published(T, where)])
    connection.execute("INSERT INTO t VALUES (1, 1, '')")
    connection.execute("UPDATE t SET a = 1")
    row = connection.execute("SELECT rowfilter FROM pg_publication_tables").fetchone()
    assert row is not None
    assert "id" in row[0]


def test_a_filter_outside_of_the_key_is_refused(connection: psycopg.Connection) -> None:
    with pytest.raises(FilterRefused, match="'a'"):
        publication.create(connection, NAME, [Published(T, "id > 1 AND a > 1")])
    assert publication.read(connection, NAME) is None
    connection.execute("ALTER TABLE t REPLICA IDENTITY FULL")
    publication.create(connection, NAME, [Published(T, "id > 1 AND a > 1")])


def test_a_filter_that_makes_no_sense_is_the_users_mistake(
    connection: psycopg.Connection,
) -> None:
    for where in ("nothing > 1", "id >", "id", "id > random()", "mine(id)"):
        with pytest.raises(FilterRefused, match="does not take"):
            publication.create(connection, NAME, [Published(T, where)])
        assert publication.read(connection, NAME) is None


def test_before_version_15_there_are_no_filters() -> None:
    assert publication.entry(140009, Published(T)).as_string() == 'ONLY "public"."t"'
    with pytest.raises(FilterRefused, match="PostgreSQL 15"):
        publication.entry(140009, Published(T, "id > 1"))


@pytest.mark.parametrize(
    "where",
    [
        "true), TABLE u WHERE (true",
        "true) --",
        "true); DROP TABLE u; --",
        "true /* ",
        "(id > 1",
        "b = $$)$$",
        "b = 'open",
        ' "id > 1',
        " ",
    ],
)
def test_a_filter_is_one_condition(where: str) -> None:
    with pytest.raises(FilterRefused, match="one condition"):
        publication.entry(180000, Published(T, where))
