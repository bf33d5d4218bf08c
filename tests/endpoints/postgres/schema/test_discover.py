"""Discovery says what is there, in few questions, however many tables there are."""

import threading

import psycopg
import pytest
from psycopg.pq import TransactionStatus

from lockgate.endpoints.postgres.schema.discover import (
    describe,
    discover,
    findings,
    hold_still,
    sizes,
    tables,
)
from lockgate.model.errors import EndpointBusy, ObjectMissing, UsageError
from lockgate.model.tables import Column, Identity, TableName, TableShape
from tests.support.catalogs import definition_of, queries
from tests.support.waiting import until


def shape(connection: psycopg.Connection, create: str) -> TableShape:
    """The shape of the table t that the statements make."""
    connection.execute(create)
    return definition_of(connection, TableName("public", "t")).shape()


def test_the_shape_has_what_travels(source: psycopg.Connection) -> None:
    found = shape(
        source,
        "CREATE DOMAIN small AS smallint; CREATE TABLE t (a small, gone int, b varchar(5)[], "
        "g int GENERATED ALWAYS AS (a * 2) STORED, v int GENERATED ALWAYS AS (1) VIRTUAL, "
        "id bigint PRIMARY KEY); ALTER TABLE t DROP COLUMN gone",
    )
    assert found == TableShape(
        TableName("public", "t"),
        (
            Column("a", "public.small", 21, True, 1),
            Column("b", "character varying(5)[]", 1015, True, 3),
            Column("id", "bigint", 20, False, 6),
        ),
        ("id",),
        Identity.KEY,
    )


@pytest.mark.parametrize(
    ("create", "key", "identity"),
    [
        ("CREATE TABLE t (a int, b int, PRIMARY KEY (b, a))", ("b", "a"), Identity.KEY),
        ("CREATE TABLE t (a int)", (), Identity.NOTHING),
        ("CREATE TABLE t (a int PRIMARY KEY DEFERRABLE)", (), Identity.NOTHING),
        ("CREATE TABLE t (a int UNIQUE)", (), Identity.NOTHING),
        ("CREATE TABLE t (a int); ALTER TABLE t REPLICA IDENTITY FULL", (), Identity.FULL),
        (
            "CREATE TABLE t (a int PRIMARY KEY); ALTER TABLE t REPLICA IDENTITY FULL",
            ("a",),
            Identity.FULL,
        ),
        (
            "CREATE TABLE t (a int, b int NOT NULL UNIQUE); ALTER TABLE t REPLICA IDENTITY FULL",
            ("b",),
            Identity.FULL,
        ),
        (
            "CREATE TABLE t (a int PRIMARY KEY, b int NOT NULL); CREATE UNIQUE INDEX i ON t (b);"
            "ALTER TABLE t REPLICA IDENTITY USING INDEX i",
            ("b",),
            Identity.KEY,
        ),
        (
            "CREATE TABLE t (a int PRIMARY KEY); ALTER TABLE t REPLICA IDENTITY NOTHING",
            (),
            Identity.NOTHING,
        ),
        (
            "CREATE TABLE t (a int PRIMARY KEY) PARTITION BY RANGE (a); CREATE TABLE t1 PARTITION "
            "OF t FOR VALUES FROM (1) TO (2); ALTER TABLE t1 REPLICA IDENTITY NOTHING",
            ("a",),
            Identity.NOTHING,
        ),
    ],
)
def test_the_key_is_what_the_source_identifies_rows_by(
    source: psycopg.Connection, create: str, key: tuple[str, ...], identity: Identity
) -> None:
    found = shape(source, create)
    if identity is not Identity.NOTHING:
        assert found.key == key
    assert found.identity is identity


def test_only_tables_that_could_be_chosen_are_listed(source: psycopg.Connection) -> None:
    source.execute(
        """
        CREATE TABLE plain (id int); CREATE UNLOGGED TABLE unlogged (id int);
        CREATE TEMP TABLE temporary (id int); CREATE VIEW v AS SELECT 1 AS x;
        CREATE MATERIALIZED VIEW m AS SELECT 1 AS x; CREATE SEQUENCE s;
        CREATE TABLE parts (id int) PARTITION BY RANGE (id);
        CREATE TABLE part PARTITION OF parts DEFAULT;
        CREATE TABLE child () INHERITS (plain);
        CREATE SCHEMA lockgate; CREATE TABLE lockgate.progress (id int);
        CREATE SCHEMA "Other"; CREATE TABLE "Other".plain (id int);
        """
    )
    assert [str(name) for name in tables(source)] == [
        *('"Other".plain', "public.child", "public.parts", "public.plain", "public.unlogged"),
    ]


def test_a_missing_table_is_named(source: psycopg.Connection) -> None:
    with pytest.raises(ObjectMissing, match=r"no such table \(public\.nope"):
        discover(source, [TableName("public", "nope")])


@pytest.mark.parametrize(
    "change",
    [
        "DROP INDEX name",
        "DROP TABLE t",
        "ALTER INDEX name RENAME TO second",
        "ALTER TABLE other RENAME TO third",
    ],
)
def test_a_table_that_changes_in_the_middle_of_a_look_is_never_half_of_each(
    source: psycopg.Connection, database: str, change: str
) -> None:
    """Of an older snapshot, the catalog's rows are of before and what its functions say of now."""
    source.execute(
        "CREATE TABLE other (id int PRIMARY KEY);"
        "CREATE TABLE t (id int PRIMARY KEY, n int REFERENCES other); CREATE INDEX name ON t (n)"
    )
    name = TableName("public", "t")
    with psycopg.connect(database) as late:
        late.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        late.execute("SELECT 1")
        source.execute(change)
        with pytest.raises(EndpointBusy, match="looked at"):
            describe(late, [name])
        assert late.info.transaction_status is TransactionStatus.INTRANS
    left = [] if change == "DROP TABLE t" else [name]
    assert [each.table for each in describe(source, [name]).values()] == left


def test_a_partition_is_no_table_of_its_own(source: psycopg.Connection) -> None:
    source.execute(
        "CREATE TABLE parts (id int) PARTITION BY RANGE (id);"
        "CREATE TABLE mid PARTITION OF parts DEFAULT PARTITION BY LIST (id);"
        "CREATE TABLE leaf PARTITION OF mid DEFAULT"
    )
    with pytest.raises(UsageError) as refused:
        discover(source, [TableName("public", "leaf")])
    assert "public.parts" in refused.value.hint


def test_what_is_in_the_way_of_a_table_is_found(source: psycopg.Connection) -> None:
    source.execute(
        """
        CREATE UNLOGGED TABLE unlogged (id int PRIMARY KEY);
        CREATE TABLE keyless (id int);
        CREATE TABLE fine (id int PRIMARY KEY);
        CREATE TABLE secured (id int PRIMARY KEY); ALTER TABLE secured ENABLE ROW LEVEL SECURITY;
        CREATE TABLE child () INHERITS (fine); ALTER TABLE child REPLICA IDENTITY FULL;
        CREATE TABLE uneven (id int) PARTITION BY RANGE (id);
        CREATE TABLE uneven_1 PARTITION OF uneven DEFAULT;
        ALTER TABLE ONLY uneven REPLICA IDENTITY FULL; ALTER TABLE uneven_1 ADD PRIMARY KEY (id);
        CREATE TABLE silent (id int PRIMARY KEY) PARTITION BY RANGE (id);
        CREATE TABLE silent_1 PARTITION OF silent DEFAULT;
        ALTER TABLE silent_1 REPLICA IDENTITY NOTHING;
        """
    )
    found = {
        str(name): {(note.code, note.blocking) for note in findings(definition)}
        for name, definition in discover(source, tables(source)).items()
    }
    assert found == {
        "public.unlogged": {("unlogged", True)},
        "public.keyless": {("no-identity", True)},
        "public.fine": {("inheritance", False)},
        "public.secured": {("row-security", False)},
        "public.child": {("inheritance", False)},
        "public.uneven": {("identity-differs", True)},
        "public.silent": {("no-identity", True)},
    }


def test_thousands_of_tables_take_a_handful_of_queries(source: psycopg.Connection) -> None:
    source.execute(
        "DO $$ BEGIN FOR i IN 1..2000 LOOP EXECUTE format('CREATE TABLE many_%s (id bigint PRIMARY "
        "KEY, name text DEFAULT %L NOT NULL, n numeric(9,2) CHECK (n > 0))', i, 'x');"
        "IF i %% 500 = 0 THEN COMMIT; END IF; END LOOP; END $$".replace("%%", "%")
    )
    with queries(source) as sent:
        names = tables(source)
        found = discover(source, names)
        known = sizes(source, found.values())
    assert len(found) == len(known) == 2000
    assert all(len(each.columns) == 3 and each.key == ("id",) for each in found.values())
    assert len(sent) < 10


def test_sizes_are_near_the_truth_with_and_without_statistics(
    source: psycopg.Connection,
) -> None:
    source.execute(
        """
        CREATE TABLE empty (id int);
        CREATE TABLE plain (id int, x text);
        INSERT INTO plain SELECT i, 'x' || i FROM generate_series(1, 10000) AS i;
        CREATE TABLE parts (id int) PARTITION BY HASH (id);
        CREATE TABLE parts_0 PARTITION OF parts FOR VALUES WITH (MODULUS 2, REMAINDER 0);
        CREATE TABLE parts_1 PARTITION OF parts FOR VALUES WITH (MODULUS 2, REMAINDER 1);
        INSERT INTO parts SELECT i FROM generate_series(1, 10000) AS i;
        """
    )
    for statement in ("SELECT 1", "ANALYZE"):
        source.execute(statement)
        found = sizes(source, discover(source, tables(source)).values())
        rows = {name.name: size.rows for name, size in found.items()}
        assert rows["empty"] == 0
        assert 3_000 < rows["plain"] < 30_000
        assert 3_000 < rows["parts"] < 30_000
        assert found[TableName("public", "plain")].bytes > 300_000
    assert rows["plain"] == rows["parts"] == 10_000


def test_held_tables_are_written_to_and_not_altered(
    source: psycopg.Connection, database: str
) -> None:
    source.execute("CREATE TABLE t (id int); CREATE TABLE u (id int)")
    names = [TableName("public", "t"), TableName("public", "u")]
    with psycopg.connect(database, autocommit=True) as other:
        with hold_still(source, names):
            other.execute("INSERT INTO t VALUES (1)")
            row = source.execute("SELECT pg_current_xact_id_if_assigned()").fetchone()
            assert row == (None,)
            late = threading.Thread(target=other.execute, args=("ALTER TABLE u ADD x int",))
            late.start()
            until(lambda: _waits(database))
            assert late.is_alive()
        late.join(10)
        assert not late.is_alive()
        other.execute("BEGIN; LOCK TABLE t")
        with pytest.raises(EndpointBusy), hold_still(source, names, timeout_ms=50):
            pass
        other.execute("ROLLBACK")


def _waits(database: str) -> bool:
    with psycopg.connect(database) as look:
        row = look.execute("SELECT count(*) FROM pg_locks WHERE NOT granted").fetchone()
        return bool(row and row[0])
