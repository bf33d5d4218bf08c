"""Sequences at the target go on beyond every value that the source gave out (C7, M11)."""

import psycopg
import pytest

from lockgate.endpoints.postgres.schema.compose import TablePlan
from lockgate.endpoints.postgres.schema.create import create
from lockgate.endpoints.postgres.schema.discover import discover, tables
from lockgate.endpoints.postgres.schema.sequences import read_sequences, set_sequences
from lockgate.model.errors import MissingPrivilege, ObjectMissing
from lockgate.model.tables import TableName

SETUP = """
CREATE SEQUENCE shared START 100 INCREMENT 10;
CREATE TABLE t (
    id serial PRIMARY KEY,
    always bigint GENERATED ALWAYS AS IDENTITY (START 50),
    mine int DEFAULT nextval('shared'),
    text_ text DEFAULT 'x' || nextval('shared'),
    down int DEFAULT 0);
CREATE SEQUENCE downwards INCREMENT -1 OWNED BY t.down;
ALTER TABLE t ALTER COLUMN down SET DEFAULT nextval('downwards');
CREATE TABLE untouched (id serial PRIMARY KEY);
"""


def made(source: psycopg.Connection, target: psycopg.Connection) -> list[TablePlan]:
    plans = [TablePlan(d, n) for n, d in discover(source, tables(source)).items()]
    create(target, plans)
    return plans


def carry(
    source: psycopg.Connection, target: psycopg.Connection, plans: list[TablePlan]
) -> dict[TableName, int]:
    states = read_sequences(source, [plan.source for plan in plans])
    return set_sequences(target, states, plans)


INSERT = "INSERT INTO t (id) SELECT nextval('t_id_seq') FROM generate_series(1, 7)"


def test_the_next_values_are_new(source: psycopg.Connection, target: psycopg.Connection) -> None:
    source.execute(SETUP)
    plans = made(source, target)
    source.execute(INSERT)
    done = carry(source, target, plans)
    assert {str(name): value for name, value in done.items()} == {
        "public.t_id_seq": 7,
        "public.t_always_seq": 56,
        "public.shared": 230,
        "public.downwards": -7,
    }
    query = "INSERT INTO t DEFAULT VALUES RETURNING id, always, mine, text_, down"
    here, there = source.execute(query).fetchone(), target.execute(query).fetchone()
    assert there == here == (8, 57, 240, "x250", -8)
    assert target.execute("INSERT INTO untouched DEFAULT VALUES RETURNING id").fetchone() == (1,)


def test_setting_again_changes_nothing_and_never_goes_back(
    source: psycopg.Connection, target: psycopg.Connection
) -> None:
    source.execute(SETUP)
    plans = made(source, target)
    source.execute(INSERT)
    carry(source, target, plans)
    target.execute("SELECT nextval('t_id_seq'), nextval('downwards')")
    done = carry(source, target, plans)
    assert done[TableName("public", "t_id_seq")] == 8
    assert done[TableName("public", "downwards")] == -8


def test_values_kept_in_advance_by_sessions_are_not_given_out_again(
    source: psycopg.Connection, target: psycopg.Connection
) -> None:
    source.execute("CREATE TABLE t (id serial PRIMARY KEY); ALTER SEQUENCE t_id_seq CACHE 20")
    plans = made(source, target)
    source.execute("INSERT INTO t DEFAULT VALUES")
    carry(source, target, plans)
    kept = source.execute("INSERT INTO t DEFAULT VALUES RETURNING id").fetchone()
    next_ = target.execute("INSERT INTO t DEFAULT VALUES RETURNING id").fetchone()
    assert kept == (2,)
    assert next_ == (21,)


def test_values_written_by_hand_are_passed(
    source: psycopg.Connection, target: psycopg.Connection
) -> None:
    source.execute("CREATE TABLE t (id serial PRIMARY KEY)")
    plans = made(source, target)
    for connection in (source, target):
        connection.execute("INSERT INTO t VALUES (500)")
    carry(source, target, plans)
    assert target.execute("INSERT INTO t DEFAULT VALUES RETURNING id").fetchone() == (501,)


@pytest.mark.parametrize(
    ("how", "next_"),
    [
        ("ALTER SEQUENCE t_id_seq RESTART WITH 200001", 200_001),
        ("SELECT setval('t_id_seq', 4712, false)", 4712),
        ("SELECT setval('t_id_seq', 4711)", 4712),
        ("SELECT 1", 1),
    ],
)
def test_one_that_is_set_to_begin_elsewhere_begins_there(
    source: psycopg.Connection, target: psycopg.Connection, how: str, next_: int
) -> None:
    source.execute("CREATE TABLE t (id serial)")  # no index tells which values are in the rows
    plans = made(source, target)
    for connection in (source, target):
        connection.execute("INSERT INTO t VALUES (4711)")
    source.execute(how.encode())
    carry(source, target, plans)
    carry(source, target, plans)
    assert target.execute("INSERT INTO t DEFAULT VALUES RETURNING id").fetchone() == (next_,)


def test_one_that_begins_elsewhere_downwards_is_followed(
    source: psycopg.Connection, target: psycopg.Connection
) -> None:
    source.execute("CREATE TABLE t (id serial); ALTER SEQUENCE t_id_seq INCREMENT -1 MINVALUE -9")
    plans = made(source, target)
    source.execute("ALTER SEQUENCE t_id_seq RESTART WITH -3")
    carry(source, target, plans)
    assert target.execute("INSERT INTO t DEFAULT VALUES RETURNING id").fetchone() == (-3,)


def test_one_that_was_set_back_does_not_go_back_at_the_target(
    source: psycopg.Connection, target: psycopg.Connection
) -> None:
    source.execute("CREATE TABLE t (id serial PRIMARY KEY)")
    plans = made(source, target)
    target.execute("SELECT setval('t_id_seq', 7)")
    source.execute("ALTER SEQUENCE t_id_seq RESTART WITH 7")
    carry(source, target, plans)
    assert target.execute("INSERT INTO t DEFAULT VALUES RETURNING id").fetchone() == (8,)


def test_one_that_begins_anew_at_its_end_is_taken_as_it_is(
    source: psycopg.Connection, target: psycopg.Connection
) -> None:
    source.execute("CREATE TABLE t (id serial PRIMARY KEY)")
    source.execute("ALTER SEQUENCE t_id_seq MAXVALUE 9 CYCLE")
    plans = made(source, target)
    for connection in (source, target):
        connection.execute("INSERT INTO t SELECT generate_series(4, 9)")
    source.execute("SELECT setval('t_id_seq', 9); SELECT nextval('t_id_seq')")
    target.execute("SELECT setval('t_id_seq', 8)")
    assert carry(source, target, plans) == {TableName("public", "t_id_seq"): 1}
    assert target.execute("INSERT INTO t DEFAULT VALUES RETURNING id").fetchone() == (2,)


def test_to_be_used_is_enough_for_one_that_was_called(
    source: psycopg.Connection, target: psycopg.Connection
) -> None:
    source.execute("CREATE TABLE t (id serial); INSERT INTO t DEFAULT VALUES")
    plans = made(source, target)
    source.execute("DROP ROLE IF EXISTS user_; CREATE ROLE user_")
    source.execute("GRANT USAGE ON SEQUENCE t_id_seq TO user_; SET ROLE user_")
    try:
        assert carry(source, target, plans) == {TableName("public", "t_id_seq"): 1}
        source.execute("RESET ROLE; ALTER SEQUENCE t_id_seq RESTART; SET ROLE user_")
        with pytest.raises(MissingPrivilege, match="may not be read"):
            carry(source, target, plans)
    finally:
        source.execute("RESET ROLE; DROP OWNED BY user_; DROP ROLE user_")


def test_a_routed_tables_own_sequence_is_found(
    source: psycopg.Connection, target: psycopg.Connection
) -> None:
    source.execute("CREATE TABLE t (id serial PRIMARY KEY); INSERT INTO t DEFAULT VALUES")
    name = TableName("public", "t")
    plan = TablePlan(discover(source, [name])[name], TableName("Else where", "T 2"))
    create(target, [plan])
    assert carry(source, target, [plan]) == {TableName("Else where", "T 2_id_seq"): 1}
    query = 'INSERT INTO "Else where"."T 2" DEFAULT VALUES RETURNING id'
    assert target.execute(query).fetchone() == (2,)


def test_a_sequence_that_may_not_be_read_is_named(
    source: psycopg.Connection, target: psycopg.Connection
) -> None:
    source.execute(SETUP)
    plans = made(source, target)
    source.execute("DROP ROLE IF EXISTS reader; CREATE ROLE reader; SET ROLE reader")
    try:
        with pytest.raises(MissingPrivilege, match="sequence may not be read") as refused:
            carry(source, target, plans)
        assert "GRANT SELECT ON SEQUENCE" in refused.value.hint
    finally:
        source.execute("RESET ROLE; DROP ROLE reader")


def test_a_sequence_that_is_not_there_is_named(
    source: psycopg.Connection, target: psycopg.Connection
) -> None:
    source.execute("CREATE TABLE t (id serial PRIMARY KEY); INSERT INTO t DEFAULT VALUES")
    target.execute("CREATE TABLE t (id int PRIMARY KEY)")
    plans = made(source, target)
    with pytest.raises(ObjectMissing, match=r"public\.t_id_seq"):
        carry(source, target, plans)
