"""The catalog may be ahead of the stream's description: then it is believed only where it must
be right."""

import pytest

from lockgate.endpoints.postgres.ddl.described import from_shapes, look, numbered
from lockgate.endpoints.postgres.ddl.statements import SchemaChangeUnsupported
from lockgate.endpoints.postgres.schema.create import create
from lockgate.endpoints.postgres.schema.discover import describe
from lockgate.model.schema_changes import SchemaStep
from lockgate.model.tables import TableName, TableShape
from tests.endpoints.postgres.ddl.rig import Rig

T = TableName("public", "t")
SETUP = """
    CREATE TABLE t (id integer PRIMARY KEY, a integer, b integer);
    INSERT INTO t VALUES (1, 10, 20);
"""


def whole(rig: Rig) -> TableShape:
    """With numbers, as the feed begins with it."""
    return describe(rig.source, [T])[T].shape()


def streamed(rig: Rig) -> TableShape:
    """As the stream describes it: no numbers."""
    shape = whole(rig)
    columns = tuple(type(c)(c.name, c.type, c.type_id) for c in shape.columns)
    return TableShape(shape.table, columns, shape.key, shape.identity)


def begin(rig: Rig) -> TableShape:
    rig.source.execute(SETUP)
    create(rig.target, rig.plans())
    rig.copy()
    return whole(rig)


def step(rig: Rig, known: TableShape, described: TableShape) -> tuple[SchemaStep, TableShape]:
    seen = look(rig.source, T)
    now = numbered(known, described, seen, rig.choose)
    found = from_shapes(known, now, rig.choose, seen)
    assert found is not None
    return found, now


RENAMES = [
    "ALTER TABLE t DROP a; ALTER TABLE t RENAME b TO a",
    "ALTER TABLE t RENAME a TO x; ALTER TABLE t RENAME b TO a; ALTER TABLE t RENAME x TO b",
    "ALTER TABLE t RENAME a TO c; ALTER TABLE t ADD a integer",
    "ALTER TABLE t DROP a; ALTER TABLE t ADD a integer",
    "ALTER TABLE t DROP b; ALTER TABLE t ADD b integer, ADD c integer",
]


@pytest.mark.parametrize("statements", RENAMES)
def test_a_name_that_means_another_column_is_not_taken_for_the_old_one(
    follower: Rig, statements: str
) -> None:
    known = begin(follower)
    follower.source.execute(statements)
    found, _ = step(follower, known, streamed(follower))
    with pytest.raises(SchemaChangeUnsupported, match="names of others"):
        follower.write(found)


def test_numbers_that_were_learnt_serve_the_next_time(follower: Rig) -> None:
    known = begin(follower)
    follower.source.execute("ALTER TABLE t ADD c integer")
    found, known = step(follower, known, streamed(follower))
    follower.write(found)
    assert [column.number for column in known.columns] == [1, 2, 3, 4]
    follower.source.execute("ALTER TABLE t DROP b; ALTER TABLE t RENAME c TO b")
    found, _ = step(follower, known, streamed(follower))
    with pytest.raises(SchemaChangeUnsupported, match=r"names of others \(b\)"):
        follower.write(found)


def test_a_default_that_came_later_says_nothing_about_old_rows(follower: Rig) -> None:
    known = begin(follower)
    follower.source.execute("ALTER TABLE t ADD c integer; ALTER TABLE t ALTER c SET DEFAULT 5")
    found, _ = step(follower, known, streamed(follower))
    with pytest.raises(SchemaChangeUnsupported, match="the new column c"):
        follower.write(found)


def test_a_column_of_another_type_by_now_says_nothing_about_old_rows(follower: Rig) -> None:
    known = begin(follower)
    follower.source.execute("ALTER TABLE t ADD c integer DEFAULT 5")
    described = streamed(follower)
    follower.source.execute("ALTER TABLE t ALTER c TYPE bigint")
    found, _ = step(follower, known, described)
    with pytest.raises(SchemaChangeUnsupported, match="the new column c"):
        follower.write(found)


def test_null_that_is_forbidden_by_now_was_not_then(follower: Rig) -> None:
    known = begin(follower)
    follower.source.execute("ALTER TABLE t ADD c integer; UPDATE t SET c = 1")
    described = streamed(follower)
    follower.source.execute("ALTER TABLE t ALTER c SET NOT NULL")
    found, _ = step(follower, known, described)
    follower.write(found)
    assert follower.target.execute("SELECT * FROM t").fetchall() == [(1, 10, 20, None)]


def test_a_rewritten_table_with_a_default_for_every_row_is_followed(follower: Rig) -> None:
    known = begin(follower)
    follower.source.execute("ALTER TABLE t ADD c integer NOT NULL DEFAULT 5")
    follower.source.execute("VACUUM FULL t")
    found, _ = step(follower, known, streamed(follower))
    follower.write(found)
    follower.assert_equal()


def test_a_table_of_another_name_is_not_followed(follower: Rig) -> None:
    known = begin(follower)
    other = TableShape(TableName("hidden", "u"), known.columns, known.key)
    found = from_shapes(known, other, follower.choose, look(follower.source, other.table))
    assert found is not None
    assert found.ddl(7).tables == ("public.t",)
    with pytest.raises(SchemaChangeUnsupported, match=r"hidden\.u"):
        follower.write(found)
