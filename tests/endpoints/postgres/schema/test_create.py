"""Tables made at the target are those of the source, catalog against catalog."""

import psycopg
import pytest

from lockgate.endpoints.postgres.schema.compose import TablePlan
from lockgate.endpoints.postgres.schema.create import create
from lockgate.endpoints.postgres.schema.deferred import deferred, outstanding, run
from lockgate.endpoints.postgres.schema.discover import discover, tables
from lockgate.endpoints.postgres.schema.errors import (
    TableDiffers,
    TableNotEmpty,
    TypeDiffers,
    TypeMissing,
)
from lockgate.model.errors import MissingPrivilege
from lockgate.model.tables import TableName
from tests.support.catalogs import definition_of, picture

Pair = tuple[psycopg.Connection, psycopg.Connection]

TYPES = """
CREATE SCHEMA app;
CREATE TYPE app.mood AS ENUM ('sad', 'it''s ok', 'Glück 🎉');
CREATE DOMAIN app.positive AS numeric(12,3) CHECK (VALUE > 0);
CREATE DOMAIN app.code AS text COLLATE "C" DEFAULT 'x' NOT NULL CHECK (length(VALUE) < 9);
CREATE DOMAIN app.narrow AS app.positive CHECK (VALUE < 100);
CREATE TYPE app.pair AS (x integer, "Y y" app.mood[], z text COLLATE "C");
CREATE TYPE app.nested AS (p app.pair, n app.narrow);
CREATE TYPE app.span AS RANGE (SUBTYPE = text, COLLATION = "C");
CREATE TABLE app.everything (
    id bigint GENERATED ALWAYS AS IDENTITY (START 7 INCREMENT 3) PRIMARY KEY,
    small smallint, whole integer, big bigint, number numeric, price numeric(10,2),
    odd numeric(5,-2), single real, double double precision, cash money,
    words text, short varchar(40), shorter varchar, fixed char(5), one "char", called name,
    bytes bytea, yes boolean, day date, noon time, noon3 time(3), noontz timetz,
    at timestamp, at3 timestamp(3), attz timestamptz(2), wait interval, days interval day to hour,
    uid uuid, doc json, docb jsonb, path jsonpath, mark xml,
    ints integer[], grid text[][], shorts varchar(7)[], moods app.mood[], pairs app.pair[],
    feeling app.mood DEFAULT 'sad', amount app.positive, code app.code, deep app.narrow,
    pair app.pair, nested app.nested,
    ir int4range, nr numrange, tr tstzrange, dr daterange, mr int4multirange, own app.span,
    owns app.span_multirange,
    ip inet, net cidr, mac macaddr, mac8 macaddr8,
    bits bit(9), manybits bit varying(11), anybits bit varying,
    tsv tsvector, tsq tsquery, pt point, ln line, seg lseg, bx box, pth path, poly polygon,
    circ circle, o oid, reg regclass, lsn pg_lsn, snap pg_snapshot, x xid, x8 xid8,
    doubled integer GENERATED ALWAYS AS (whole * 2) STORED,
    stamped timestamptz DEFAULT now() NOT NULL,
    label text COLLATE "C" DEFAULT 'it''s {x} %s' NOT NULL
);
"""


def made(
    pair: Pair, *, routes: dict[TableName, TableName] | None = None, after: bool = True
) -> list[TablePlan]:
    """All tables of the source made at the target, with what comes after the copy."""
    source, target = pair
    definitions = discover(source, tables(source))
    plans = [TablePlan(d, (routes or {}).get(n, n)) for n, d in definitions.items()]
    create(target, plans)
    if after:
        todo, _ = deferred(plans, foreign_keys=True)
        for each in outstanding(target, todo):
            run(target, each)
    return plans


def assert_equal(pair: Pair, plans: list[TablePlan]) -> None:
    """The catalogs say the same of every table that kept its name, but for identities."""
    source, target = pair
    assert plans
    for plan in plans:
        here = picture(definition_of(source, plan.source.table))
        for column in here["columns"]:
            column["identity"] = column["identity"] and "d"
        assert picture(definition_of(target, plan.target)) == here


def test_every_type_arrives_as_it_is(pair: Pair) -> None:
    pair[0].execute(TYPES)
    assert_equal(pair, made(pair))


def test_indexes_and_constraints_arrive_as_they_are(pair: Pair) -> None:
    pair[0].execute(
        """
        CREATE SCHEMA s; CREATE SCHEMA "S";
        CREATE TABLE s.customer (id serial PRIMARY KEY, email text UNIQUE, region text,
            CONSTRAINT "has @" CHECK (email LIKE '%@%'), UNIQUE (region, id) INCLUDE (email));
        CREATE TABLE "S"."Order" (
            customer int REFERENCES s.customer ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED,
            no int, during tsrange, note text, parent_customer int, parent_no int,
            PRIMARY KEY (no, customer),
            EXCLUDE USING gist (during WITH &&) WHERE (note IS NOT NULL),
            UNIQUE (note, no) DEFERRABLE,
            CONSTRAINT "Up" FOREIGN KEY (parent_no, parent_customer)
                REFERENCES "S"."Order" MATCH FULL ON UPDATE SET NULL);
        CREATE INDEX "by USING x" ON "S"."Order" USING btree (lower(note) DESC NULLS LAST, no)
            INCLUDE (customer) WITH (fillfactor = 70) WHERE no > 5;
        CREATE UNIQUE INDEX ON "S"."Order" ((no + 1)) NULLS NOT DISTINCT;
        CREATE INDEX ON s.customer USING hash (email);
        CREATE INDEX ON s.customer USING gin (to_tsvector('english', email));
        CREATE INDEX ON s.customer USING brin (id);
        """
    )
    assert_equal(pair, made(pair))


def test_constraints_not_valid_at_the_source_come_after_the_copy_as_such(pair: Pair) -> None:
    pair[0].execute(
        """
        CREATE TABLE a (id int PRIMARY KEY, n int);
        INSERT INTO a VALUES (1, -1);
        ALTER TABLE a ADD CONSTRAINT up CHECK (n > 0) NOT VALID;
        ALTER TABLE a ADD CONSTRAINT self FOREIGN KEY (n) REFERENCES a NOT VALID;
        """
    )
    plans = made(pair, after=False)
    pair[1].execute("INSERT INTO a VALUES (1, -1)")
    todo, _ = deferred(plans, foreign_keys=True)
    for each in outstanding(pair[1], todo):
        run(pair[1], each)
    assert_equal(pair, plans)


NAMES = [
    "Mixed Case",
    'quo"te',
    "dot.ted",
    "select",
    "näme mit Ümläuten",
    "表" * 21,
    "x" * 63,
    "{curly} %s",
    "it's",
    "🎉",
]


@pytest.mark.parametrize("name", NAMES)
def test_names_of_every_kind_arrive_as_they_are(
    source: psycopg.Connection, target: psycopg.Connection, name: str
) -> None:
    ident = psycopg.sql.Identifier(name)
    source.execute(
        psycopg.sql.SQL(
            "CREATE SCHEMA {n}; CREATE TYPE {n}.{t} AS ENUM ('a'); "
            "CREATE TABLE {n}.{n} ({n} serial PRIMARY KEY, t {n}.{t}, "
            "CONSTRAINT {c} CHECK ({n} > 0)); CREATE INDEX {c} ON {n}.{n} (t, {n})"
        ).format(
            n=ident,
            t=psycopg.sql.Identifier(name[:20] + "t"),
            c=psycopg.sql.Identifier(name[:20] + "c"),
        )
    )
    assert_equal((source, target), made((source, target)))


def test_partitions_of_every_kind_arrive_as_they_are(pair: Pair) -> None:
    pair[0].execute(
        """
        CREATE TABLE sale (id int, at date, region text, PRIMARY KEY (id, at, region))
            PARTITION BY RANGE (at);
        CREATE TABLE sale_old PARTITION OF sale FOR VALUES FROM (MINVALUE) TO ('2020-01-01');
        CREATE TABLE sale_2020 PARTITION OF sale FOR VALUES FROM ('2020-01-01') TO ('2021-01-01')
            PARTITION BY LIST (region);
        CREATE TABLE sale_2020_eu PARTITION OF sale_2020 FOR VALUES IN ('de', 'fr')
            PARTITION BY HASH (id);
        CREATE TABLE sale_2020_eu0 PARTITION OF sale_2020_eu
            FOR VALUES WITH (MODULUS 2, REMAINDER 0);
        CREATE TABLE sale_2020_eu1 PARTITION OF sale_2020_eu
            FOR VALUES WITH (MODULUS 2, REMAINDER 1);
        CREATE TABLE sale_2020_rest PARTITION OF sale_2020 DEFAULT;
        CREATE INDEX sale_region ON sale (region);
        CREATE TABLE byexpr (id int, name text) PARTITION BY LIST (lower(name));
        CREATE SCHEMA elsewhere;
        CREATE TABLE elsewhere.byexpr_a PARTITION OF byexpr FOR VALUES IN ('a', NULL);
        """
    )
    plans = made(pair)
    assert {str(plan.source.table) for plan in plans} == {"public.sale", "public.byexpr"}
    assert_equal(pair, plans)


def test_generated_columns_are_virtual_where_that_exists(
    source: psycopg.Connection, target: psycopg.Connection
) -> None:
    source.execute(
        "CREATE TABLE g (id int PRIMARY KEY, v int GENERATED ALWAYS AS (id + 1) VIRTUAL)"
    )
    made((source, target))
    column = definition_of(target, TableName("public", "g")).columns[1]
    assert (column.generated, column.default) == ("s", "(id + 1)")


def test_routed_tables_take_their_indexes_sequences_and_partitions_along(pair: Pair) -> None:
    source, target = pair
    source.execute(
        """
        CREATE SCHEMA a; CREATE SCHEMA b;
        CREATE TABLE a.item (id serial PRIMARY KEY, x int);
        CREATE TABLE b.item (id serial PRIMARY KEY, x int REFERENCES a.item);
        CREATE INDEX by_x ON a.item (x); CREATE INDEX by_x ON b.item (x);
        CREATE TABLE a.part (id int PRIMARY KEY) PARTITION BY RANGE (id);
        CREATE TABLE a.part_1 PARTITION OF a.part FOR VALUES FROM (1) TO (9);
        """
    )
    routes = {
        TableName("a", "item"): TableName("x", "a_item"),
        TableName("b", "item"): TableName("x", "b_item"),
        TableName("a", "part"): TableName("x", "whole"),
    }
    made(pair, routes=routes)
    found = target.execute(
        "SELECT relname FROM pg_class WHERE relnamespace = 'x'::regnamespace ORDER BY 1"
    )
    assert [row[0] for row in found] == [
        *("a_item", "a_item_by_x", "a_item_id_seq", "a_item_pkey"),
        *("b_item", "b_item_by_x", "b_item_id_seq", "b_item_pkey"),
        *("whole", "whole_1", "whole_1_pkey", "whole_pkey"),
    ]
    keys = definition_of(target, TableName("x", "b_item")).constraints
    assert [key.references for key in keys if key.kind == "f"] == [("x", "a_item")]


def test_left_out_columns_take_what_stands_on_them_along(
    source: psycopg.Connection, target: psycopg.Connection
) -> None:
    source.execute(
        "CREATE TYPE hidden AS ENUM ('a'); CREATE TABLE t (id int PRIMARY KEY, a int, b int, "
        "h hidden, CHECK (a > b), UNIQUE (b), CHECK (a > 0)); CREATE INDEX ON t (a) WHERE b > 0"
    )
    name = TableName("public", "t")
    plan = TablePlan(discover(source, [name])[name], name, frozenset({"b", "h"}))
    done = create(target, [plan])
    todo, notes = deferred([plan], foreign_keys=True)
    found = definition_of(target, name)
    assert [column.name for column in found.columns] == ["id", "a"]
    assert [c.definition for c in found.constraints] == ["CHECK ((a > 0))", "PRIMARY KEY (id)"]
    assert not found.types
    assert todo == []
    assert {note.object for note in [*done.notes, *notes]} == {
        *("public.t.t_check", "public.t.t_b_key", "public.t.t_a_idx"),
    }


def test_rows_that_the_log_has_whole_are_so_at_the_target_too(pair: Pair) -> None:
    """Without it no feed could begin there, as the one back of a move does."""
    source, target = pair
    source.execute(
        """
        CREATE TABLE heap (n int); ALTER TABLE heap REPLICA IDENTITY FULL;
        CREATE TABLE chosen (n int NOT NULL UNIQUE);
        ALTER TABLE chosen REPLICA IDENTITY USING INDEX chosen_n_key;
        CREATE TABLE keyed (n int PRIMARY KEY);
        CREATE TABLE parts (n int) PARTITION BY LIST (n);
        CREATE TABLE part PARTITION OF parts DEFAULT;
        ALTER TABLE part REPLICA IDENTITY FULL; ALTER TABLE parts REPLICA IDENTITY FULL;
        """
    )
    made(pair)
    names = ["heap", "chosen", "keyed", "parts", "part"]
    found = target.execute(
        "SELECT relname::text, relreplident::text FROM pg_class WHERE relname = ANY (%s)", (names,)
    )
    assert dict(found.fetchall()) == {**dict.fromkeys(names, "f"), "keyed": "d"}


def test_what_is_there_and_equal_is_kept(pair: Pair) -> None:
    source, target = pair
    source.execute(TYPES)
    definitions = discover(source, tables(source))
    plans = [TablePlan(d, n) for n, d in definitions.items()]
    assert create(target, plans).made == [plan.target for plan in plans]
    again = create(target, plans)
    assert (again.made, again.kept) == ([], [plan.target for plan in plans])


@pytest.mark.parametrize(
    ("there", "says"),
    [
        ("CREATE TABLE t (id int PRIMARY KEY, a text)", "no column b"),
        ("CREATE TABLE t (id int PRIMARY KEY, a varchar(9), b int)", "character varying(9)"),
        ("CREATE TABLE t (id int, a text, b int)", "unique index over the key (id)"),
        ("CREATE TABLE t (id int PRIMARY KEY, a text NOT NULL, b int)", "must not be null there"),
        ("CREATE TABLE t (id int PRIMARY KEY, a text, b int, c int NOT NULL)", "column c"),
        (
            "CREATE TABLE t (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, a text, b int)",
            "could not be updated",
        ),
        (
            "CREATE TABLE t (id int PRIMARY KEY, a text, b int GENERATED ALWAYS AS (id) STORED)",
            "generated on one side only",
        ),
    ],
)
def test_a_table_that_could_not_take_the_rows_is_refused(
    source: psycopg.Connection, target: psycopg.Connection, there: str, says: str
) -> None:
    source.execute(
        "CREATE TABLE other (id int); CREATE TABLE t (id int PRIMARY KEY, a text, b int)"
    )
    target.execute(there)
    plans = [TablePlan(d, n) for n, d in discover(source, tables(source)).items()]
    with pytest.raises(TableDiffers) as refused:
        create(target, plans)
    assert says in refused.value.what
    assert refused.value.object == "public.t"
    assert [str(name) for name in tables(target)] == ["public.t"]


def test_an_identity_takes_the_values_of_an_identity_however_it_is_generated(
    source: psycopg.Connection, target: psycopg.Connection
) -> None:
    """As when a move goes back to where its tables came from."""
    source.execute("CREATE TABLE t (id int GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY)")
    target.execute("CREATE TABLE t (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY)")
    plans = [TablePlan(d, n) for n, d in discover(source, tables(source)).items()]
    done = create(target, plans)
    assert done.made == []
    assert [note.code for note in done.notes] == ["identity-always"]


def test_a_looser_table_is_taken_and_its_differences_are_said(
    source: psycopg.Connection, target: psycopg.Connection
) -> None:
    source.execute("CREATE TABLE t (id int PRIMARY KEY, a text NOT NULL CHECK (a <> ''))")
    target.execute(
        "CREATE TABLE t (extra int, id int PRIMARY KEY, a text, UNIQUE (extra), CHECK (id > 3))"
    )
    plans = [TablePlan(d, n) for n, d in discover(source, tables(source)).items()]
    done = create(target, plans)
    assert {note.code for note in done.notes} == {
        *("column-extra", "not-null-missing", "unique-extra"),
        *("constraint-extra", "constraint-missing"),
    }


def test_a_table_with_rows_is_refused_unless_they_are_expected(
    source: psycopg.Connection, target: psycopg.Connection
) -> None:
    for connection in (source, target):
        connection.execute("CREATE TABLE t (id int PRIMARY KEY)")
    target.execute("INSERT INTO t VALUES (1)")
    plans = [TablePlan(d, n) for n, d in discover(source, tables(source)).items()]
    with pytest.raises(TableNotEmpty):
        create(target, plans)
    assert create(target, plans, must_be_empty=False).kept == [TableName("public", "t")]


def test_a_differing_type_is_refused_by_its_differences(
    source: psycopg.Connection, target: psycopg.Connection
) -> None:
    source.execute("CREATE TYPE m AS ENUM ('a', 'b'); CREATE TABLE t (id int PRIMARY KEY, m m)")
    target.execute("CREATE TYPE m AS ENUM ('a', 'c')")
    plans = [TablePlan(d, n) for n, d in discover(source, tables(source)).items()]
    with pytest.raises(TypeDiffers, match="labels b are missing"):
        create(target, plans)
    assert tables(target) == []


def test_a_row_type_of_a_table_is_asked_for(
    source: psycopg.Connection, target: psycopg.Connection
) -> None:
    source.execute("CREATE TABLE a (x int); CREATE TABLE b (id int PRIMARY KEY, a a)")
    name = TableName("public", "b")
    with pytest.raises(TypeMissing, match=r"row type .*public\.a"):
        create(target, [TablePlan(discover(source, [name])[name], name)])


def test_what_the_target_cannot_have_is_left_out_and_said(
    source: psycopg.Connection, target: psycopg.Connection
) -> None:
    source.execute(
        """
        CREATE SCHEMA f;
        CREATE FUNCTION f.one(int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT 1';
        CREATE COLLATION f.other (LOCALE = 'C');
        CREATE TABLE t (id int PRIMARY KEY DEFAULT f.one(2), a int DEFAULT 5,
            CONSTRAINT c CHECK (f.one(a) = 1), CONSTRAINT d CHECK (a > 0), s text COLLATE f.other);
        """
    )
    plans = [TablePlan(d, n) for n, d in discover(source, tables(source)).items()]
    done = create(target, plans)
    found = definition_of(target, TableName("public", "t"))
    assert [column.default for column in found.columns] == [None, "5", None]
    assert [c.name for c in found.constraints] == ["d", "t_pkey"]
    assert [(note.code, note.object) for note in done.notes] == [
        ("collation-missing", "public.t.s"),
        ("default-left-out", "public.t.id"),
        ("check-left-out", "public.t.c"),
    ]


def test_a_missing_privilege_is_named(
    source: psycopg.Connection, target: psycopg.Connection
) -> None:
    source.execute("CREATE SCHEMA s; CREATE TABLE s.t (id int PRIMARY KEY)")
    plans = [TablePlan(d, n) for n, d in discover(source, tables(source)).items()]
    target.execute("DROP ROLE IF EXISTS nobody; CREATE ROLE nobody")
    try:
        target.execute("SET ROLE nobody")
        with pytest.raises(MissingPrivilege, match="permission denied for database"):
            create(target, plans)
    finally:
        target.execute("RESET ROLE; DROP ROLE nobody")


def test_all_or_nothing_inside_a_transaction_of_the_caller(
    source: psycopg.Connection, target: psycopg.Connection
) -> None:
    source.execute("CREATE TABLE a (id int PRIMARY KEY); CREATE TABLE b (id int PRIMARY KEY)")
    plans = [TablePlan(d, n) for n, d in discover(source, tables(source)).items()]
    with target.transaction(force_rollback=True):
        assert len(create(target, plans).made) == 2
    assert tables(target) == []
