"""Without a log, the stream's description of a table tells what can have led to it, or nothing."""

import psycopg
import pytest

from lockgate.endpoints.postgres.ddl.described import from_shapes, look
from lockgate.endpoints.postgres.ddl.statements import SchemaChangeUnsupported
from lockgate.endpoints.postgres.schema.create import create
from lockgate.endpoints.postgres.schema.discover import describe
from lockgate.model.schema_changes import SchemaStep
from lockgate.model.tables import TableName, TableShape
from tests.endpoints.postgres.ddl.rig import Rig
from tests.endpoints.postgres.ddl.test_following import SETUP

ITEM = TableName("public", "item")


def seen(connection: psycopg.Connection) -> TableShape:
    """The shape as the stream has it: no numbers, no word about null."""
    shape = describe(connection, [ITEM])[ITEM].shape()
    columns = tuple(type(c)(c.name, c.type, c.type_id) for c in shape.columns)
    return TableShape(shape.table, columns, shape.key, shape.identity)


def begin(rig: Rig) -> TableShape:
    rig.source.execute(SETUP)
    create(rig.target, rig.plans())
    rig.copy()
    return seen(rig.source)


def step(rig: Rig, known: TableShape, statement: str) -> SchemaStep | None:
    rig.source.execute(statement)
    return from_shapes(known, seen(rig.source), rig.choose, look(rig.source, ITEM))


SUPPORTED = [
    "ALTER TABLE item ADD COLUMN extra text",
    "ALTER TABLE item ADD COLUMN extra integer DEFAULT 5 NOT NULL",
    "ALTER TABLE item ADD COLUMN extra timestamptz DEFAULT now(), ADD COLUMN more mood",
    "ALTER TABLE item DROP COLUMN n, DROP COLUMN price",
    "ALTER TABLE item ALTER COLUMN n TYPE bigint",
    "ALTER TABLE item ALTER COLUMN name TYPE varchar(30)",
    "ALTER TABLE item ALTER COLUMN name TYPE text",
    "ALTER TABLE item ALTER COLUMN price TYPE numeric(12,2)",
    "ALTER TABLE item ALTER COLUMN n TYPE bigint, DROP COLUMN at",
]


@pytest.mark.parametrize("statement", SUPPORTED)
def test_what_can_have_happened_in_one_way_is_done(follower: Rig, statement: str) -> None:
    known = begin(follower)
    found = step(follower, known, statement)
    assert found is not None
    follower.write(found)
    follower.assert_equal()
    assert found.tables[0].shape == seen(follower.source)


UNSUPPORTED = [
    ("ALTER TABLE item RENAME COLUMN n TO m", "n are gone and m are there"),
    ("ALTER TABLE item DROP COLUMN n, ADD COLUMN price2 text", "a rename, or not"),
    ("ALTER TABLE item ADD COLUMN extra float8 DEFAULT random()", "extra"),
    ("ALTER TABLE item ALTER COLUMN n TYPE text", "was integer"),
    ("ALTER TABLE item ALTER COLUMN price TYPE numeric(12,4)", "was numeric(8,2)"),
    ("ALTER TABLE item ALTER COLUMN name TYPE varchar(19)", "was character varying(20)"),
    ("ALTER TABLE item DROP CONSTRAINT item_pkey, ADD PRIMARY KEY (id, name)", "(id, name)"),
    ("ALTER TABLE item REPLICA IDENTITY NOTHING", "which row"),
]


@pytest.mark.parametrize(("statement", "says"), UNSUPPORTED)
def test_what_can_have_happened_in_two_ways_stops_the_feed(
    follower: Rig, statement: str, says: str
) -> None:
    known = begin(follower)
    found = step(follower, known, statement)
    assert found is not None
    with pytest.raises(SchemaChangeUnsupported) as stopped:
        follower.write(found)
    assert says in stopped.value.what
    assert stopped.value.hint


def test_what_rows_do_not_show_does_not_show(follower: Rig) -> None:
    known = begin(follower)
    assert step(follower, known, "ALTER TABLE item ALTER COLUMN name DROP NOT NULL") is None
    assert step(follower, known, "CREATE INDEX ON item (n)") is None


def test_a_table_that_has_gone_on_since_is_followed_step_by_step(follower: Rig) -> None:
    known = begin(follower)
    follower.source.execute("ALTER TABLE item ADD COLUMN extra text")
    between = seen(follower.source)
    follower.source.execute("ALTER TABLE item DROP COLUMN extra")
    first = from_shapes(known, between, follower.choose, look(follower.source, ITEM))
    assert first is not None
    follower.write(first)
    second = from_shapes(
        between, seen(follower.source), follower.choose, look(follower.source, ITEM)
    )
    assert second is not None
    follower.write(second)
    follower.assert_equal()
