"""What is made after the copy: all of it, once, also after a kill, and said when left out."""

from dataclasses import replace

import psycopg
import pytest
from psycopg import sql

from lockgate.endpoints.postgres.schema.compose import TablePlan
from lockgate.endpoints.postgres.schema.create import create
from lockgate.endpoints.postgres.schema.deferred import (
    Deferred,
    DeferredKind,
    deferred,
    may_switch_triggers_off,
    outstanding,
    run,
)
from lockgate.endpoints.postgres.schema.discover import discover, tables
from lockgate.model.errors import DataRefused
from lockgate.model.feed_config import Mask, MaskKind
from lockgate.model.tables import TableName
from tests.support.catalogs import definition_of

SETUP = """
CREATE TABLE parent (id int PRIMARY KEY, code text UNIQUE, other int);
CREATE TABLE child (id int PRIMARY KEY, parent int REFERENCES parent, x int, EXCLUDE (x WITH =));
CREATE INDEX by_x ON child (x); CREATE UNIQUE INDEX one ON child (x, id) WHERE x > 0;
"""


@pytest.fixture
def plans(source: psycopg.Connection, target: psycopg.Connection) -> list[TablePlan]:
    """Both tables, made at the target without their keys."""
    source.execute(SETUP)
    found = discover(source, tables(source))
    made = [TablePlan(d, n, with_key=False) for n, d in found.items()]
    create(target, made)
    return made


def todo(plans: list[TablePlan]) -> list[Deferred]:
    return deferred(plans, foreign_keys=True)[0]


def test_they_come_in_stages(plans: list[TablePlan]) -> None:
    found = [(each.kind, each.name) for each in todo(plans)]
    assert found == [
        (DeferredKind.KEY, "child_pkey"),
        (DeferredKind.KEY, "parent_pkey"),
        (DeferredKind.INDEX, "by_x"),
        (DeferredKind.INDEX, "one"),
        (DeferredKind.UNIQUE, "parent_code_key"),
        (DeferredKind.EXCLUSION, "child_x_excl"),
        (DeferredKind.FOREIGN_KEY, "child_parent_fkey"),
        (DeferredKind.VALIDATE, "child_parent_fkey"),
    ]
    stages = [each.kind.stage for each in todo(plans)]
    assert stages == sorted(stages)


def test_a_killed_run_goes_on_with_the_rest(
    plans: list[TablePlan], target: psycopg.Connection
) -> None:
    everything = todo(plans)
    for done in range(len(everything) + 1):
        left = outstanding(target, everything)
        assert [each.name for each in left] == [each.name for each in everything[done:]]
        if left:
            run(target, left[0])
    assert outstanding(target, todo(plans)) == []


def test_what_is_there_under_another_name_is_not_made_twice(
    plans: list[TablePlan], target: psycopg.Connection
) -> None:
    target.execute(
        "CREATE INDEX mine ON child (x); ALTER TABLE parent ADD CONSTRAINT also UNIQUE (code)"
    )
    names = {each.name for each in outstanding(target, todo(plans))}
    assert names.isdisjoint({"by_x", "parent_code_key"})


def test_a_taken_name_is_stepped_aside(plans: list[TablePlan], target: psycopg.Connection) -> None:
    target.execute("CREATE TABLE by_x (id int)")
    (index,) = [each for each in outstanding(target, todo(plans)) if each.text.endswith("(x)")]
    assert index.name.startswith("by_x_")
    run(target, index)
    assert index.name not in {each.name for each in outstanding(target, todo(plans))}


def test_rows_that_break_a_key_are_said(plans: list[TablePlan], target: psycopg.Connection) -> None:
    target.execute("INSERT INTO parent VALUES (1, 'same', 1), (2, 'same', 1)")
    (unique,) = [each for each in todo(plans) if each.kind is DeferredKind.UNIQUE]
    with pytest.raises(DataRefused, match="parent_code_key"):
        run(target, unique)


def test_foreign_keys_are_listed_where_the_role_may_not_pass_them_by(
    plans: list[TablePlan], target: psycopg.Connection
) -> None:
    assert may_switch_triggers_off(target) is True
    target.execute("DROP ROLE IF EXISTS applier; CREATE ROLE applier; SET ROLE applier")
    try:
        assert may_switch_triggers_off(target) is False
    finally:
        target.execute("RESET ROLE; DROP ROLE applier")
    made, notes = deferred(plans, foreign_keys=False)
    assert DeferredKind.FOREIGN_KEY not in {each.kind for each in made}
    assert [note.object for note in notes] == ["public.child.child_parent_fkey"]


def test_a_foreign_key_to_a_table_that_stays_behind_is_left_out(plans: list[TablePlan]) -> None:
    alone = [plan for plan in plans if plan.target.name == "child"]
    made, notes = deferred(alone, foreign_keys=True)
    assert DeferredKind.FOREIGN_KEY not in {each.kind for each in made}
    assert "public.parent" in notes[0].what


def test_a_foreign_key_points_at_the_table_where_it_lies(plans: list[TablePlan]) -> None:
    other = TableName("other", "parent")
    moved = [replace(p, target=other) if p.target.name == "parent" else p for p in plans]
    key = next(each for each in todo(moved) if each.kind is DeferredKind.FOREIGN_KEY)
    assert '"other"."parent"(id)' in key.statement.as_string(None)


@pytest.mark.parametrize(
    ("table", "identifying"),
    [
        ("id int PRIMARY KEY, v int UNIQUE", {"t_pkey"}),
        ("id int NOT NULL UNIQUE, v int", {"t_id_key"}),
        ("id int, v int NOT NULL", {"mine"}),
        ("id int, v int", set()),
    ],
)
def test_what_tells_rows_apart_is_known(
    source: psycopg.Connection, table: str, identifying: set[str]
) -> None:
    source.execute(f"CREATE TABLE t ({table}); CREATE UNIQUE INDEX mine ON t (v)")  # type: ignore[call-overload]
    if "PRIMARY" not in table:
        source.execute("ALTER TABLE t REPLICA IDENTITY FULL")
    name = TableName("public", "t")
    plan = TablePlan(discover(source, [name])[name], name, with_key=False)
    assert {each.name for each in todo([plan]) if each.identifies} == identifying


def test_partitioned_tables_get_theirs_on_every_partition(
    source: psycopg.Connection, target: psycopg.Connection
) -> None:
    source.execute(
        """
        CREATE TABLE parent (id int PRIMARY KEY);
        CREATE TABLE parts (id int, at int REFERENCES parent, PRIMARY KEY (id, at))
            PARTITION BY RANGE (at);
        CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM (1) TO (9);
        CREATE INDEX by_at ON parts (at);
        """
    )
    plans = [TablePlan(d, n, with_key=False) for n, d in discover(source, tables(source)).items()]
    create(target, plans)
    for each in outstanding(target, todo(plans)):
        run(target, each)
    assert outstanding(target, todo(plans)) == []
    leaf = definition_of(target, TableName("public", "parts_1"))
    assert {index.key for index in leaf.indexes} == {("id", "at"), ("at",)}


def test_masked_columns_are_text_or_nothing_at_the_target(
    source: psycopg.Connection, target: psycopg.Connection
) -> None:
    source.execute(
        "CREATE TYPE m AS ENUM ('a'); CREATE TABLE t (id int PRIMARY KEY, h int NOT NULL UNIQUE "
        "DEFAULT 3 CHECK (h > 0), f m NOT NULL, n numeric(3,1) NOT NULL, u int UNIQUE)"
    )
    name = TableName("public", "t")
    masks = {
        "h": Mask(MaskKind.HASH),
        "f": Mask(MaskKind.FIXED, "x"),
        "n": Mask(MaskKind.NULL),
    }
    plan = TablePlan(discover(source, [name])[name], name, masks=masks)
    create(target, [plan])
    for each in outstanding(target, todo([plan])):
        run(target, each)
    target.execute(
        sql.SQL("INSERT INTO t VALUES (1, {}, 'x', NULL, 3)").format(sql.Literal("ab" * 32))
    )
    found = definition_of(target, name)
    assert [(c.type, c.not_null, c.default) for c in found.columns] == [
        ("integer", True, None),
        ("text", True, None),
        ("text", True, None),
        ("numeric(3,1)", False, None),
        ("integer", False, None),
    ]
    assert [c.name for c in found.constraints] == ["t_pkey", "t_u_key"]
    assert create(target, [plan], must_be_empty=False).kept == [name]
