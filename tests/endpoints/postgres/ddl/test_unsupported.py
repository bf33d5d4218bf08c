"""What cannot be carried over stops the feed and names the statement, never more and never less."""

import pytest

from lockgate.endpoints.postgres.ddl.statements import SchemaChangeUnsupported, compose_step
from lockgate.endpoints.postgres.ddl.texts import is_constant, says_using
from tests.endpoints.postgres.ddl.rig import FEED, Rig
from tests.endpoints.postgres.ddl.test_following import SETUP

UNSUPPORTED = [
    ("ALTER TABLE item ADD COLUMN extra float8 DEFAULT random()", "extra"),
    ("ALTER TABLE item ADD COLUMN extra serial", "extra"),
    ("ALTER TABLE item ADD COLUMN extra integer GENERATED ALWAYS AS IDENTITY", "extra"),
    ("ALTER TABLE item ADD COLUMN extra timestamptz DEFAULT now(), ALTER n TYPE bigint", "extra"),
    ("ALTER TABLE item ALTER COLUMN n TYPE bigint USING n + 1", "by an expression"),
    ("ALTER TABLE item ALTER COLUMN n TYPE integer USING n + 1", "by an expression"),
    ("ALTER TABLE item ALTER COLUMN name TYPE integer USING length(name)", "by an expression"),
    ("SELECT widen()", "by an expression"),
    ("ALTER TABLE item DROP CONSTRAINT item_pkey", "identified by (id)"),
    ("ALTER TABLE item REPLICA IDENTITY NOTHING", "which row"),
    ("ALTER TABLE item SET SCHEMA hidden", "hidden.item"),
    ("ALTER TABLE hidden.full_ SET SCHEMA public", "may have rows"),
    ("CREATE TABLE filled AS SELECT 1 AS id", "may have rows"),
    ("SELECT 1 AS id INTO filled", "may have rows"),
    ("ALTER TABLE part DETACH PARTITION part_us", "part_us"),
    ("ALTER TABLE part ATTACH PARTITION hidden.at FOR VALUES IN ('at')", "hidden.at"),
    ("ALTER TYPE mood RENAME TO temper", "temper"),
    ("ALTER TYPE pair ADD ATTRIBUTE c integer", "pair"),
    ("ALTER TABLE gen ALTER COLUMN g SET EXPRESSION AS (id * 3)", "expression"),
]

MORE = (
    SETUP
    + """
    CREATE SCHEMA hidden;
    CREATE TABLE hidden.full_ (id integer PRIMARY KEY);
    INSERT INTO hidden.full_ VALUES (1);
    CREATE TABLE hidden.at (LIKE part);
    INSERT INTO hidden.at VALUES (1, 'at');
    CREATE TYPE pair AS (a integer, b text);
    CREATE TABLE pairs (id integer PRIMARY KEY, p pair);
    CREATE TABLE gen (id integer PRIMARY KEY, g integer GENERATED ALWAYS AS (id * 2) STORED);
    CREATE FUNCTION widen() RETURNS void LANGUAGE plpgsql AS
        'BEGIN ALTER TABLE item ALTER COLUMN n TYPE bigint; END';
"""
)


@pytest.mark.parametrize(("statement", "says"), UNSUPPORTED)
def test_it_stops_with_the_statement(follower: Rig, statement: str, says: str) -> None:
    follower.begin(MORE)
    step = follower.step(statement)
    assert step is not None
    assert step.has_effect
    with pytest.raises(SchemaChangeUnsupported) as stopped:
        compose_step(step, follower.choose, feed=FEED, facts=follower.facts)
    assert says in stopped.value.what
    assert statement in stopped.value.object
    assert stopped.value.hint


EMPTY = [
    "ALTER TABLE bare ADD COLUMN extra float8 DEFAULT 1.5 * random()",
    "ALTER TABLE bare ADD COLUMN extra serial",
    "ALTER TABLE bare ALTER COLUMN x TYPE integer USING length(x)",
    "CREATE TABLE copied AS SELECT 1 AS id WHERE false",
    "ALTER TABLE hidden.empty_ SET SCHEMA public",
    "ALTER TABLE part ATTACH PARTITION hidden.empty_at FOR VALUES IN ('at')",
]


@pytest.mark.parametrize("statement", EMPTY)
def test_where_there_are_no_rows_nothing_is_lost(follower: Rig, statement: str) -> None:
    follower.begin(
        SETUP + "CREATE TABLE bare (id integer PRIMARY KEY, x text); CREATE SCHEMA hidden;"
        "CREATE TABLE hidden.empty_ (id integer PRIMARY KEY); CREATE TABLE hidden.empty_at "
        "(LIKE part)"
    )
    follower.follow(statement)
    follower.assert_equal()


def test_a_key_that_would_be_hidden_stops_the_feed(follower: Rig) -> None:
    follower.config = type(follower.config)(
        name=FEED,
        source=follower.config.source,
        target=follower.config.target,
        tables=follower.config.tables,
        masks={"public.item.name": "hash"},
    )
    follower.begin(SETUP)
    step = follower.step("ALTER TABLE item DROP CONSTRAINT item_pkey, ADD PRIMARY KEY (name)")
    assert step is not None
    assert step.unsupported is not None
    assert "identifies rows" in step.unsupported[1].why


@pytest.mark.parametrize(
    ("expression", "constant"),
    [
        ("5", True),
        ("'-5'::integer", True),
        ("(- 5)", True),
        ("1.5e10", True),
        ("'it''s'::character varying(20)", True),
        ("'{1,2}'::integer[]", True),
        ("NULL::timestamp without time zone", True),
        ('\'a\'::"My Schema"."Mood"', True),
        ("true", True),
        ("now()", False),
        ("'now'::text::timestamp with time zone", False),
        ("('now'::text)::date", False),
        ("nextval('x'::regclass)", False),
        ("(5 + 1)", False),
        ("CURRENT_TIMESTAMP", False),
        ("'a'::text || 'b'::text", False),
    ],
)
def test_constants_are_told_from_expressions(expression: str, constant: bool) -> None:
    assert is_constant(expression) is constant


@pytest.mark.parametrize(
    ("statement", "using"),
    [
        ("ALTER TABLE a ALTER b TYPE int", False),
        ("alter table a alter b set data type int\nusing b::int", True),
        ('ALTER TABLE a ALTER "using" TYPE int', False),
        ("ALTER TABLE a ALTER b TYPE int -- USING x", False),
        ("/* ALTER TABLE x TYPE y USING z */ SELECT f()", None),
        ("SELECT 'ALTER TABLE a'", None),
        ("CREATE INDEX ON a USING gin (x); ALTER TABLE a ALTER b TYPE int", False),
        ("DO $$ BEGIN ALTER TABLE a ALTER b TYPE int USING b + 1; END $$", True),
        ("CALL migrate()", None),
    ],
)
def test_expressions_are_seen_in_what_users_wrote(statement: str, using: bool | None) -> None:
    assert says_using(statement) is using
