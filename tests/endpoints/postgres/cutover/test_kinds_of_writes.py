"""Every way to write to a table meets its guard, whatever the session is like."""

import threading
from collections.abc import Callable

import psycopg
import pytest
from psycopg import sql

from lockgate.endpoints.postgres.cutover import block, guard, open_tables, unblock
from lockgate.endpoints.postgres.ddl.closing import closed_like_its_table
from lockgate.model.tables import TableName
from tests.endpoints.postgres.cutover.side import ODD, Side
from tests.support.waiting import until


def close(side: Side, *more: TableName) -> None:
    guard(side.url, side.mark, [*side.tables, *more], at="shop")


def refused(side: Side, statement: str, *tables: TableName, **by: psycopg.Connection) -> None:
    with pytest.raises(psycopg.Error) as error:
        side.do(statement, *tables, **by)
    assert error.value.sqlstate == "LK003", error.value


STATEMENTS = [
    "INSERT INTO {} (note) VALUES ('x')",
    "INSERT INTO {} (id) VALUES (1) ON CONFLICT DO NOTHING",
    "INSERT INTO {} (id) VALUES (1) ON CONFLICT (id) DO UPDATE SET note = 'x'",
    "UPDATE {} SET note = 'x'",
    "UPDATE {} SET note = 'x' WHERE false",
    "DELETE FROM {}",
    "TRUNCATE {}",
    "WITH gone AS (DELETE FROM {} RETURNING *) SELECT count(*) FROM gone",
    "MERGE INTO {} t USING (VALUES (1)) v(id) ON t.id = v.id WHEN MATCHED THEN DELETE",
]


@pytest.mark.parametrize("statement", STATEMENTS, ids=lambda text: text[:24].strip())
def test_statements(here: Side, statement: str) -> None:
    here.do("INSERT INTO {} (id) VALUES (1)", here.orders)
    close(here)
    refused(here, statement, here.orders)
    assert here.count() == 1


def test_the_message_says_where_the_table_is(here: Side) -> None:
    close(here)
    with pytest.raises(psycopg.Error) as error:
        here.insert(here.tables[1])
    said = error.value.diag.message_primary
    assert said == f"LOCKGATE: table {here.tables[1]} is not open here yet: it is at shop"
    assert error.value.diag.message_hint == "write to it there"


def test_copy(here: Side) -> None:
    close(here)
    statement = sql.SQL("COPY {} (note) FROM STDIN").format(
        sql.Identifier(here.schema, here.orders.name)
    )
    with (
        pytest.raises(psycopg.Error) as error,
        here.admin.cursor().copy(statement) as copy,
    ):
        copy.write("x\n")
    assert error.value.sqlstate == "LK003"


def test_a_view(here: Side) -> None:
    view = here.name("view")
    here.do("CREATE VIEW {} AS SELECT * FROM {}", view, here.orders)
    close(here)
    refused(here, "UPDATE {} SET note = 'x'", view)


def test_rows_that_a_foreign_key_would_change(here: Side) -> None:
    parent, child = here.name("parent"), here.name("child")
    here.do("CREATE TABLE {} (id int PRIMARY KEY)", parent)
    here.do(
        "CREATE TABLE {} (id int REFERENCES {} ON DELETE CASCADE ON UPDATE CASCADE)", child, parent
    )
    here.do("INSERT INTO {} VALUES (1); INSERT INTO {} VALUES (1)", parent, child)
    guard(here.url, here.mark, [child], at="shop")
    refused(here, "DELETE FROM {}", parent)
    refused(here, "UPDATE {} SET id = 2", parent)
    refused(here, "TRUNCATE {} CASCADE", parent)
    here.do("INSERT INTO {} VALUES (2)", parent)


def test_sessions_that_play_a_replica(here: Side) -> None:
    close(here)
    with here.person(autocommit=True) as person:
        person.execute("SET session_replication_role = replica")
        refused(here, "INSERT INTO {} (note) VALUES ('x')", here.orders, by=person)
        refused(here, "TRUNCATE {}", here.orders, by=person)


def test_a_transaction_whose_snapshot_is_older(side: Side) -> None:
    with side.person() as person:
        person.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        person.execute("SELECT count(*) FROM pg_class")
        block(side.url, side.mark, side.tables, moved_to="x", deadline_s=60.0, patience_s=9.0)
        with pytest.raises(psycopg.Error, match="is moving"):
            side.insert(by=person)
        person.rollback()
        person.execute("SELECT count(*) FROM pg_class")
        unblock(side.url, side.mark, side.tables)
        side.insert(by=person)


def test_statements_that_were_planned_before(side: Side) -> None:
    with side.person(autocommit=True) as person:
        person.prepare_threshold = 0
        for _ in range(8):  # the server keeps one plan for all from the sixth on
            side.insert(by=person)
        block(side.url, side.mark, side.tables, moved_to="x", deadline_s=60.0, patience_s=9.0)
        with pytest.raises(psycopg.Error, match="is moving"):
            side.insert(by=person)
        unblock(side.url, side.mark, side.tables)
        side.insert(by=person)
        assert side.count() == 9


@pytest.fixture
def parts(here: Side) -> Callable[[str], TableName]:
    """A table with partitions, one of which is partitioned itself."""
    root = here.name("parts")
    here.do("CREATE TABLE {} (id int PRIMARY KEY) PARTITION BY RANGE (id)", root)
    here.do("CREATE TABLE {} PARTITION OF {} FOR VALUES FROM (0) TO (10)", here.name("low"), root)
    high = here.name("High")
    here.do(
        "CREATE TABLE {} PARTITION OF {} FOR VALUES FROM (10) TO (20) PARTITION BY RANGE (id)",
        high,
        root,
    )
    here.do("CREATE TABLE {} PARTITION OF {} DEFAULT", here.name("rest"), high)
    here.tables = [root]
    return here.name


def test_partitions_by_their_own_names(here: Side, parts: Callable[[str], TableName]) -> None:
    close(here)
    for name, value in (("parts", 1), ("low", 1), ("High", 11), ("rest", 11)):
        with pytest.raises(psycopg.Error) as error:
            here.do(f"INSERT INTO {{}} VALUES ({value})", parts(name))
        # Whatever part of it: people know the table.
        assert str(error.value.diag.message_primary).startswith(f"LOCKGATE: table {here.orders} ")
    refused(here, "TRUNCATE {}", parts("rest"))


def test_a_partition_that_was_made_later_is_guarded_when_asked_again(
    here: Side, parts: Callable[[str], TableName]
) -> None:
    close(here)
    here.do(
        "CREATE TABLE {} PARTITION OF {} FOR VALUES FROM (20) TO (30)", parts("new"), here.orders
    )
    here.do("INSERT INTO {} VALUES (20)", parts("new"))
    refused(here, "INSERT INTO {} VALUES (21)", here.orders)
    close(here)
    refused(here, "INSERT INTO {} VALUES (21)", parts("new"))


def test_a_partition_that_comes_while_guards_are_put_up_has_one(
    here: Side, parts: Callable[[str], TableName]
) -> None:
    new = parts("new")
    with here.person() as maker:
        made = "CREATE TABLE {} PARTITION OF {} FOR VALUES FROM (20) TO (30)"
        here.do(made, new, here.orders, by=maker)
        closer = threading.Thread(target=close, args=(here,), daemon=True)
        closer.start()
        waits = "SELECT pid FROM pg_locks WHERE NOT granted AND relation = to_regclass(%s)"
        table = (here.orders.id,)
        until(lambda: here.admin.execute(waits, table).fetchone() is not None, 20.0)
        maker.commit()
        closer.join(20.0)
    refused(here, "INSERT INTO {} VALUES (21)", new)


@pytest.fixture
def oddly(side: Side) -> TableName:
    """A closed table of an odd name, with partitions."""
    side.do("DROP TABLE {}", side.name(ODD))
    side.tables = [side.name(ODD)]
    side.do("CREATE TABLE {} (id int) PARTITION BY LIST (id)", side.orders)
    close(side)
    return side.orders


def test_a_partition_that_a_feed_makes_is_closed_like_its_table(
    side: Side, oddly: TableName
) -> None:
    whole, below = side.name("Ü ON x FOR EACH"), side.name("be'low\\000")
    for made, parent, kind in (
        (whole, oddly, "FOR VALUES IN (1) PARTITION BY LIST (id)"),
        (below, whole, "DEFAULT"),
    ):
        side.do(f"CREATE TABLE {{}} PARTITION OF {{}} {kind}", made, parent)
        for _ in range(2):
            side.admin.execute(closed_like_its_table(made))
    assert {enabled for _, enabled in side.guards()} == {"A"}
    messages = set()
    for each in (oddly, whole, below):
        with pytest.raises(psycopg.Error) as error:
            side.do("INSERT INTO {} VALUES (1)", each)
        assert error.value.sqlstate == "LK003"
        messages.add(error.value.diag.message_primary)
    assert messages == {f"LOCKGATE: table {oddly} is not open here yet: it is at shop"}


def test_a_partition_of_a_table_that_takes_writes_takes_them_too(
    side: Side, oddly: TableName
) -> None:
    with side.person() as reader:  # in whose way no trigger is dropped
        side.do("SELECT FROM {}", oddly, by=reader)
        open_tables(side.url, side.mark, side.tables)
        assert side.guards()
        reader.rollback()
        made = side.name("made")
        side.do("CREATE TABLE {} PARTITION OF {} DEFAULT", made, oddly)
        side.admin.execute(closed_like_its_table(made))
    side.do("INSERT INTO {} VALUES (1)", made)
    assert [name for name, _ in side.guards()] == [oddly.name]


def test_a_table_that_is_no_partition_is_left_alone(side: Side, oddly: TableName) -> None:
    other = side.name("other")
    side.do("CREATE TABLE {} (id int)", other)
    side.admin.execute(closed_like_its_table(other))
    side.admin.execute(closed_like_its_table(side.name("nowhere")))
    side.do("INSERT INTO {} VALUES (1)", other)
    assert [name for name, _ in side.guards()] == [oddly.name]
