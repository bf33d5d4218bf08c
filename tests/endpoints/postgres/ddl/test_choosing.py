"""Schema changes under other names at the target, with columns left out or masked."""

import hashlib

import pytest

from lockgate.endpoints.postgres.schema.discover import describe
from lockgate.model.feed_config import FixedMask
from lockgate.model.schema_changes import AddColumn
from lockgate.model.tables import TableName
from tests.endpoints.postgres.ddl.rig import Rig, config
from tests.endpoints.postgres.ddl.test_following import SETUP


def columns(rig: Rig, name: TableName) -> dict[str, str]:
    """Names and types of a table's columns at the target."""
    found = describe(rig.target, [name])
    return {column.name: column.type for column in found[name].columns}


# --- other names --------------------------------------------------------------------------------

RENAME = {"public": "shop", "public.item": '"The Shop"."Item"'}
ITEM = TableName("The Shop", "Item")


@pytest.mark.parametrize(
    "statement",
    [
        "ALTER TABLE item ADD COLUMN extra integer DEFAULT 5",
        "ALTER TABLE item RENAME COLUMN n TO m",
        "ALTER TABLE item ALTER COLUMN n TYPE bigint",
        "ALTER TABLE item DROP COLUMN n",
        "ALTER TABLE item ALTER COLUMN name DROP NOT NULL, ALTER COLUMN price SET NOT NULL",
    ],
)
def test_a_routed_table_is_altered_where_it_is(follower: Rig, statement: str) -> None:
    follower.config = config(rename=RENAME)
    follower.begin(SETUP)
    follower.follow(statement)
    here = {c.name: c.type for p in follower.plans() if p.target == ITEM for c in p.columns}
    assert columns(follower, ITEM) == here
    source = TableName("public", "item")
    assert follower.rows(follower.target, ITEM) == follower.rows(follower.source, source)


def test_keys_constraints_and_partitions_follow_under_routed_names(follower: Rig) -> None:
    follower.config = config(rename={"public.part": "shop.whole", **RENAME})
    follower.begin(SETUP + "ALTER TABLE item ADD CONSTRAINT item_u UNIQUE (name, id);")
    follower.target.execute('ALTER TABLE "The Shop"."Item" ADD CONSTRAINT "Item_u" UNIQUE (name)')
    follower.follow(
        "ALTER TABLE item DROP CONSTRAINT item_u, DROP CONSTRAINT item_pkey, "
        "ADD PRIMARY KEY (name, id); CREATE TABLE part_jp PARTITION OF part FOR VALUES IN ('jp');"
        "DROP TABLE part_us; ALTER TABLE part_eu RENAME TO part_europe"
    )
    whole = TableName("shop", "whole")
    found = describe(follower.target, [ITEM, whole])
    assert found[ITEM].key == ("name", "id")
    assert {c.name for c in found[ITEM].constraints} == {"Item_pkey", "named"}
    assert {str(p.table) for p in found[whole].partitions} == {
        *("shop.whole_jp", "shop.whole_europe"),
    }


def test_a_rename_at_the_source_follows_the_routes(follower: Rig) -> None:
    follower.config = config(rename=RENAME)
    follower.begin(SETUP)
    follower.follow("ALTER TABLE other RENAME TO another; ALTER TABLE item RENAME TO thing")
    names = [TableName("shop", "another"), TableName("shop", "thing")]
    assert list(describe(follower.target, [*names, ITEM])) == names
    assert len(follower.rows(follower.target, names[1])) == 5


def test_a_new_table_is_made_where_its_schema_goes(follower: Rig) -> None:
    follower.config = config(rename=RENAME)
    follower.begin(SETUP)
    follower.follow("CREATE TABLE fresh (id serial PRIMARY KEY, m mood)")
    assert columns(follower, TableName("shop", "fresh")) == {"id": "integer", "m": "public.mood"}
    follower.target.execute("INSERT INTO shop.fresh DEFAULT VALUES")


# --- left out -----------------------------------------------------------------------------------


def test_columns_that_are_left_out_stay_out(follower: Rig) -> None:
    follower.config = config(leave_out=("public.*.secret*", "public.item.price"))
    follower.begin(SETUP)
    item = TableName("public", "item")
    follower.source.execute(
        "ALTER TABLE item ADD COLUMN secret text DEFAULT random()::text, ADD COLUMN extra integer;"
        "ALTER TABLE item ALTER COLUMN price TYPE numeric(20,2), ALTER COLUMN price SET NOT NULL"
    )
    step = follower.follow()
    assert [str(c) for c in step.tables[0].changes] == [str(AddColumn("extra"))]
    assert step.tables[0].shape is not None
    names = [column.name for column in step.tables[0].shape.columns]
    assert names == ["id", "name", "n", "at", "feeling", "Odd Näme", "extra"]
    assert list(columns(follower, item)) == names
    step_two = follower.step("ALTER TABLE item DROP COLUMN secret")
    assert step_two is None or not step_two.has_effect


def test_a_column_renamed_out_of_sight_goes_and_back_is_unsupported(follower: Rig) -> None:
    follower.config = config(leave_out=("public.*.secret",))
    follower.begin(SETUP)
    follower.follow("ALTER TABLE item RENAME COLUMN n TO secret")
    assert "n" not in columns(follower, TableName("public", "item"))
    step = follower.step("ALTER TABLE item RENAME COLUMN secret TO n")
    assert step is not None
    assert step.unsupported is not None
    assert "left out" in step.unsupported[1].why


# --- masked -------------------------------------------------------------------------------------


def test_new_columns_behind_masks_hold_what_the_mask_makes_of_them(follower: Rig) -> None:
    follower.config = config(
        masks={
            "public.item.hidden": "hash",
            "public.item.z": "null",
            "public.item.f": FixedMask("everybody"),
        }
    )
    follower.begin(SETUP)
    follower.follow(
        "ALTER TABLE item ADD COLUMN hidden integer DEFAULT 5 NOT NULL, "
        "ADD COLUMN z integer DEFAULT 6 NOT NULL, ADD COLUMN f mood DEFAULT 'ok' NOT NULL"
    )
    found = columns(follower, TableName("public", "item"))
    assert {name: found[name] for name in ("hidden", "z", "f")} == {
        "hidden": "text",
        "z": "integer",
        "f": "text",
    }
    rows = follower.target.execute("SELECT DISTINCT hidden, z, f FROM item").fetchall()
    assert rows == [(hashlib.sha256(b"5").hexdigest(), None, "everybody")]
