"""Each schema change at the source makes the target's catalog and rows equal again (C13)."""

import pytest

from lockgate.model.ddl import DdlKind
from lockgate.model.tables import TableName
from tests.endpoints.postgres.ddl.rig import Rig

SETUP = """
CREATE TYPE mood AS ENUM ('sad', 'ok');
CREATE DOMAIN positive AS integer CHECK (VALUE > 0);
CREATE TABLE item (id integer PRIMARY KEY, name varchar(20) NOT NULL, n integer DEFAULT 7,
    price numeric(8,2), at timestamp, feeling mood, "Odd Näme" text,
    CONSTRAINT named CHECK (name <> ''));
INSERT INTO item SELECT i, 'item ' || i, nullif(i, 3), i * 1.25, timestamp '2024-03-31 02:30' +
    i * interval '1 hour', 'ok', 'ö' FROM generate_series(1, 5) AS i;
CREATE TABLE other (id bigint PRIMARY KEY, x integer);
INSERT INTO other VALUES (1, 1);
CREATE TABLE part (id integer, region text, PRIMARY KEY (id, region)) PARTITION BY LIST (region);
CREATE TABLE part_eu PARTITION OF part FOR VALUES IN ('de', 'fr');
CREATE TABLE part_us PARTITION OF part FOR VALUES IN ('us');
INSERT INTO part VALUES (1, 'de'), (2, 'us');
"""

ALTERS = [
    "ALTER TABLE item ADD COLUMN extra text",
    "ALTER TABLE item ADD COLUMN extra text DEFAULT 'it''s {x} %s' NOT NULL",
    "ALTER TABLE item ADD COLUMN extra integer DEFAULT 5, ADD COLUMN more integer[] DEFAULT '{1}'",
    'ALTER TABLE item ADD COLUMN "Neue Späße" timestamptz DEFAULT now()',
    "ALTER TABLE item ADD COLUMN extra numeric(6,2) DEFAULT 1.5, ALTER COLUMN n TYPE bigint",
    "ALTER TABLE item ADD COLUMN extra mood DEFAULT 'sad' NOT NULL",
    "ALTER TABLE item ADD COLUMN extra positive DEFAULT 4",
    "CREATE DOMAIN four AS integer DEFAULT 4 NOT NULL; ALTER TABLE item ADD COLUMN extra four",
    "CREATE TYPE pair AS (a integer, b text); ALTER TABLE item ADD COLUMN extra pair[]",
    "ALTER TABLE item ADD COLUMN doubled integer GENERATED ALWAYS AS (n * 2) STORED",
    "ALTER TABLE item DROP COLUMN n",
    'ALTER TABLE item DROP COLUMN "Odd Näme", DROP COLUMN price',
    "ALTER TABLE item DROP COLUMN name",
    "DROP TYPE mood CASCADE",
    'ALTER TABLE item RENAME COLUMN n TO "N n"',
    "ALTER TABLE item RENAME COLUMN n TO aside; ALTER TABLE item RENAME COLUMN id TO n;"
    "ALTER TABLE item RENAME COLUMN aside TO id",
    "ALTER TABLE item RENAME COLUMN id TO key",
    "ALTER TABLE item DROP COLUMN n; ALTER TABLE item ADD COLUMN n text DEFAULT 'new'",
    "ALTER TABLE item ALTER COLUMN n TYPE bigint",
    "ALTER TABLE item ALTER COLUMN n TYPE numeric(20,4)",
    "ALTER TABLE item ALTER COLUMN name TYPE varchar(40)",
    "ALTER TABLE item ALTER COLUMN name TYPE text",
    "ALTER TABLE item ALTER COLUMN price TYPE numeric(12,2)",
    "ALTER TABLE item ALTER COLUMN price TYPE integer",
    "ALTER TABLE item ALTER COLUMN id TYPE bigint",
    "ALTER TABLE item ALTER COLUMN n TYPE text",
    "SET TimeZone = 'Europe/Berlin'; ALTER TABLE item ALTER COLUMN at TYPE timestamptz",
    "SET DateStyle = 'German'; ALTER TABLE item ALTER COLUMN at TYPE text",
    "ALTER TABLE item ALTER COLUMN price SET NOT NULL",
    "ALTER TABLE item ALTER COLUMN name DROP NOT NULL",
    "ALTER TABLE item ALTER COLUMN n SET DEFAULT 8, ALTER COLUMN at SET DEFAULT '2020-02-02'",
    "ALTER TABLE item ALTER COLUMN n DROP DEFAULT",
    "ALTER TABLE item DROP CONSTRAINT named",
    "ALTER TABLE item RENAME CONSTRAINT named TO renamed",
    "ALTER TABLE item DROP CONSTRAINT item_pkey, ADD PRIMARY KEY (id, name)",
    "ALTER TABLE item DROP CONSTRAINT item_pkey, ADD CONSTRAINT k PRIMARY KEY (id)",
    "ALTER TYPE mood ADD VALUE 'great'",
    "ALTER TYPE mood ADD VALUE 'dire' BEFORE 'sad'",
    "ALTER TYPE mood ADD VALUE 'meh' AFTER 'sad'",
    "ALTER TYPE mood RENAME VALUE 'ok' TO 'fine'",
    "DO $$ BEGIN ALTER TABLE item ADD COLUMN extra integer DEFAULT 3; END $$",
    "BEGIN; ALTER TABLE item ADD a1 integer; ALTER TABLE item ADD a2 integer DEFAULT 2;"
    "ALTER TABLE item RENAME a1 TO a3; ALTER TABLE item DROP COLUMN n; COMMIT",
    "ALTER TABLE part ADD COLUMN extra integer DEFAULT 9",
    "ALTER TABLE part RENAME COLUMN id TO no",
    "ALTER TABLE part ALTER COLUMN id TYPE bigint",
    "CREATE TABLE part_jp PARTITION OF part FOR VALUES IN ('jp')",
    "CREATE TABLE part_x PARTITION OF part DEFAULT PARTITION BY HASH (id);"
    "CREATE TABLE part_x0 PARTITION OF part_x FOR VALUES WITH (MODULUS 1, REMAINDER 0)",
    "DROP TABLE part_us",
    "ALTER TABLE part_us RENAME TO part_america",
    "CREATE TABLE fresh (LIKE part); ALTER TABLE part ATTACH PARTITION fresh FOR VALUES IN ('at')",
]


@pytest.mark.parametrize("statement", ALTERS)
def test_an_altered_table_is_altered_at_the_target(each: Rig, statement: str) -> None:
    each.begin(SETUP)
    step = each.follow(statement)
    each.assert_equal()
    assert step.ddl(7).kind is DdlKind.ALTER or "fresh" in statement
    assert not [table for table in step.tables if table.was is None]


CREATES = [
    "CREATE TABLE fresh (id integer PRIMARY KEY, x text DEFAULT 'y', UNIQUE (x), CHECK (id > 0))",
    'CREATE TABLE "Frisch ö" ("Id" serial PRIMARY KEY, m mood NOT NULL DEFAULT \'ok\')',
    "CREATE TYPE hue AS ENUM ('r'); CREATE TABLE fresh (id bigint GENERATED BY DEFAULT AS IDENTITY "
    "PRIMARY KEY, h hue[] DEFAULT '{r}', g integer GENERATED ALWAYS AS (3) STORED)",
    "CREATE TABLE fresh (a text, b uuid, PRIMARY KEY (b, a)) PARTITION BY HASH (b);"
    "CREATE TABLE fresh_0 PARTITION OF fresh FOR VALUES WITH (MODULUS 1, REMAINDER 0)",
    "CREATE TABLE fresh AS SELECT 1 AS id LIMIT 0; ALTER TABLE fresh ADD PRIMARY KEY (id)",
    "CREATE TABLE fresh (id integer); ALTER TABLE fresh ADD x text; ALTER TABLE fresh DROP x",
    "CREATE SCHEMA new; CREATE TABLE new.fresh (id integer PRIMARY KEY);"
    "ALTER TABLE new.fresh SET SCHEMA public",
    "DROP TABLE item; CREATE TABLE item (id integer PRIMARY KEY, x text)",
    "ALTER TABLE item RENAME TO item_2",
    "ALTER TABLE item RENAME TO item_old; CREATE TABLE item (id integer PRIMARY KEY)",
    "ALTER TABLE item RENAME TO aside; ALTER TABLE other RENAME TO item;"
    "ALTER TABLE aside RENAME TO other",
    "ALTER TABLE other RENAME TO another; ALTER TABLE item ADD COLUMN x integer; DROP TABLE part",
    "DROP TABLE part",
    "DROP TABLE item, other",
    "CREATE TABLE fresh (id integer PRIMARY KEY); DROP TABLE fresh; DROP TABLE other",
]


@pytest.mark.parametrize("statement", CREATES)
def test_tables_come_and_go_and_change_their_names(each: Rig, statement: str) -> None:
    each.begin(SETUP)
    each.follow(statement)
    each.assert_equal()
    names = {str(plan.target) for plan in each.plans()}
    gone = {"public.item", "public.other", "public.part"} - names
    for name in gone:
        found = each.target.execute("SELECT to_regclass(%s)", (name,)).fetchone()
        assert found == (None,)


def test_tables_that_come_and_go_are_told_apart(follower: Rig) -> None:
    follower.begin(SETUP)
    step = follower.follow(
        "BEGIN; ALTER TABLE item RENAME TO item_2; CREATE TABLE fresh (id integer PRIMARY KEY);"
        "DROP TABLE other; ALTER TABLE part ADD COLUMN x integer; COMMIT"
    )
    ddl = step.ddl(41)
    assert ddl.kind is DdlKind.CREATE
    assert set(ddl.drops) == {"public.item", "public.other"}
    assert set(ddl.tables) == {
        *("public.item", "public.item_2", "public.fresh", "public.other", "public.part"),
    }
    shapes = {table.now: table.shape for table in step.tables if table.shape}
    assert {str(name) for name in shapes} == {"public.item_2", "public.fresh", "public.part"}
    assert [c.name for c in shapes[TableName("public", "part")].columns] == ["id", "region", "x"]


IGNORED = [
    ("CREATE INDEX by_n ON item (n)", "by_n"),
    ("CREATE UNIQUE INDEX CONCURRENTLY one ON item (name)", "one"),
    ("ALTER TABLE item ADD CONSTRAINT small CHECK (n < 1000)", "small"),
    ("ALTER TABLE item ADD UNIQUE (name)", "item_name_key"),
    ("ALTER TABLE item ADD FOREIGN KEY (id) REFERENCES item", "item_id_fkey"),
    ("ALTER TABLE item ALTER COLUMN at SET DEFAULT now()", "now()"),
    ("ALTER DOMAIN positive ADD CONSTRAINT low CHECK (VALUE < 9)", "low"),
    ("ALTER TABLE item ALTER COLUMN n ADD GENERATED ALWAYS AS IDENTITY", "identity"),
]


@pytest.mark.parametrize(("statement", "says"), IGNORED)
def test_what_rows_do_not_depend_on_is_ignored_and_said(
    follower: Rig, statement: str, says: str
) -> None:
    follower.begin(
        SETUP + "ALTER TABLE item ADD COLUMN d positive; UPDATE item SET n = 1 WHERE n IS NULL;"
        "ALTER TABLE item ALTER COLUMN n DROP DEFAULT, ALTER COLUMN n SET NOT NULL"
    )
    step = follower.step(statement)
    assert step is not None
    assert not step.has_effect
    assert [note for note in step.notes if says in note]


QUIET = [
    "COMMENT ON TABLE item IS 'x'",
    "GRANT SELECT ON item TO PUBLIC",
    "ALTER TABLE item SET (fillfactor = 50)",
    "ALTER TABLE item ALTER COLUMN name SET STATISTICS 10",
    "CREATE VIEW v AS SELECT 1",
    "CREATE TEMP TABLE item_tmp (id integer)",
    "CREATE TABLE lockgate.mine (id integer)",
    "CREATE SCHEMA elsewhere; CREATE TABLE elsewhere.t (id integer); DROP TABLE elsewhere.t",
    "CREATE UNLOGGED TABLE scratch (id integer); DROP TABLE scratch",
    "BEGIN; ALTER TABLE item ADD COLUMN gone integer; ROLLBACK",
    "CREATE TRIGGER t AFTER INSERT ON item EXECUTE FUNCTION suppress_redundant_updates_trigger()",
    "VACUUM FULL item",
]


@pytest.mark.parametrize("statement", QUIET)
def test_what_is_nobodys_business_leaves_no_row(follower: Rig, statement: str) -> None:
    follower.begin(SETUP)
    follower.source.execute(statement)
    assert follower.logged() == []


def test_the_target_lets_go_of_what_the_source_lets_go_of(follower: Rig) -> None:
    follower.begin(
        SETUP + "CREATE UNIQUE INDEX one ON item (name); CREATE TABLE child (id integer "
        "PRIMARY KEY, item integer, UNIQUE (item), q positive NOT NULL);"
    )
    follower.target.execute(
        "CREATE UNIQUE INDEX one ON item (name);"
        "ALTER TABLE child ADD CONSTRAINT child_item_key UNIQUE (item)"
    )
    follower.follow(
        "DROP INDEX one; ALTER TABLE child DROP CONSTRAINT child_item_key;"
        "ALTER DOMAIN positive DROP CONSTRAINT positive_check"
    )
    follower.target.execute(
        "INSERT INTO item (id, name) VALUES (98, 'same'), (99, 'same');"
        "INSERT INTO child VALUES (1, 1, -1), (2, 1, -2)"
    )


def test_a_table_dropped_with_what_refers_to_it_goes_at_the_target_too(follower: Rig) -> None:
    refers = "ALTER TABLE other ADD CONSTRAINT up FOREIGN KEY (x) REFERENCES item NOT VALID"
    follower.begin(SETUP)
    follower.step(refers)
    follower.target.execute(refers)
    follower.follow("DROP TABLE item CASCADE")
    follower.assert_equal()
