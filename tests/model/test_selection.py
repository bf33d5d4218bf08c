"""What a feed takes of tables, and what it refuses to hide."""

from typing import Any

import pytest

from lockgate.model.errors import UsageError
from lockgate.model.feed_config import FeedConfig, Mask, MaskKind, read_config
from lockgate.model.selection import check_selection, plan_for, sources_of, target_of
from lockgate.model.tables import Column, TableName, TableShape

USERS = TableName("public", "users")
ODD = TableName('sch"; DROP', "Täble.x")


def config(**more: Any) -> FeedConfig:
    return read_config(
        {"name": "f", "source": "s", "target": "t", "tables": ["*.*", "!public.audit"]} | more
    )


def shape(table: TableName, *columns: str, key: tuple[str, ...] = ("id",)) -> TableShape:
    return TableShape(table, tuple(Column(name, "text") for name in ("id", *columns)), key)


SHAPES = [
    shape(USERS, "name", "email", "ssn"),
    shape(TableName("public", "orders"), "note"),
    shape(TableName("public", "audit"), "what"),
    shape(TableName("shop", "orders"), "note"),
    shape(ODD, 'co"l'),
    shape(TableName("lockgate", "progress")),
]


def checked(*, major: int = 18, **more: Any) -> list[TableName]:
    return [plan.table for plan in check_selection(config(**more), SHAPES, server_major=major)]


# --- where rows come from -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("more", "sources"),
    [
        ({}, {"public.users"}),
        ({"tables": ["public.orders"]}, set()),
        ({"tables": ["*.*", "!public.u*"]}, set()),
        ({"rename": {"public.users": "public.people"}}, set()),
        ({"rename": {"shop.people": "public.users"}}, {"public.users", "shop.people"}),
        ({"rename": {"shop": "public", "shop.users": "shop.x"}}, {"public.users"}),
        ({"rename": {"public": "copy", "shop": "public"}}, {"shop.users"}),
    ],
)
def test_a_feed_leads_to_a_table_from_whatever_would_go_there(
    more: dict[str, Any], sources: set[str]
) -> None:
    assert {each.id for each in sources_of(config(**more), USERS)} == sources


# --- one table ----------------------------------------------------------------------------------


def test_a_table_that_is_not_chosen_has_no_plan() -> None:
    assert plan_for(config(), TableName("public", "audit"), ["id"], ["id"]) is None
    assert plan_for(config(), TableName("lockgate", "progress"), ["id"], ["id"]) is None


def test_a_plan_says_what_travels() -> None:
    plan = plan_for(
        config(
            leave_out=["public.*.ssn"],
            masks={"public.users.email": "hash", "*.*.na?e": {"fixed": "x"}},
            rows={"public.users": "id > 7"},
            rename={"public": "copy"},
        ),
        USERS,
        ["id", "name", "email", "ssn"],
        ["id"],
    )
    assert plan is not None
    assert plan.columns == ("id", "name", "email")
    assert plan.left_out == {"ssn"}
    assert plan.masks == {"email": Mask(MaskKind.HASH), "name": Mask(MaskKind.FIXED, "x")}
    assert plan.row_filter == "id > 7"
    assert plan.target == TableName("copy", "users")
    assert [column.name for column in plan.shape(SHAPES[0]).columns] == ["id", "name", "email"]
    assert plan.shape(SHAPES[0]).key == ("id",)


@pytest.mark.parametrize(
    "hide",
    [
        {"leave_out": ["public.users.id"]},
        {"leave_out": ["*.*.i?"]},
        {"masks": {"public.users.id": "null"}},
        {"masks": {"public.users.id": {"fixed": "1"}}},
        {"masks": {"public.users.id": "hash"}},
    ],
)
def test_no_column_of_the_key_is_hidden_in_any_way(hide: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="identifies rows") as caught:
        plan_for(config(**hide), USERS, ["id", "name"], ["id"])
    assert caught.value.object == "public.users.id"
    assert plan_for(config(**hide), USERS, ["id", "name"], ["name"]) is not None


def test_a_table_without_a_key_may_hide_any_column() -> None:
    assert plan_for(config(leave_out=["public.users.id"]), USERS, ["id", "name"], []) is not None


@pytest.mark.parametrize(
    "twice",
    [
        {"leave_out": ["public.*.ssn"], "masks": {"public.users.ssn": "null"}},
        {"masks": {"public.*.ssn": "hash", "public.users.ssn": "null"}},
    ],
)
def test_a_column_is_hidden_in_one_way(twice: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="two ways") as caught:
        plan_for(config(**twice), USERS, ["id", "ssn"], ["id"])
    assert caught.value.object == "public.users.ssn"


def test_two_patterns_with_the_same_mask_agree() -> None:
    masks = {"public.*.ssn": "null", "public.users.*n": "null"}
    plan = plan_for(config(masks=masks), USERS, ["id", "ssn"], ["id"])
    assert plan is not None
    assert plan.masks == {"ssn": Mask(MaskKind.NULL)}


def test_a_table_has_one_row_filter() -> None:
    rows = {"public.*": "a = 1", "public.users": "b = 2"}
    with pytest.raises(UsageError, match="two row filters"):
        plan_for(config(rows=rows), USERS, ["id"], ["id"])


def test_something_of_a_table_must_travel() -> None:
    with pytest.raises(UsageError, match="every column"):
        plan_for(config(leave_out=["public.users.*"]), USERS, ["a", "b"], [])


def test_odd_names_are_matched_and_named_whole() -> None:
    text = '"sch""; DROP"."Täble.x"."co""l"'
    plan = plan_for(config(leave_out=[text]), ODD, ["id", 'co"l'], ["id"])
    assert plan is not None
    assert plan.columns == ("id",)
    with pytest.raises(UsageError) as caught:
        plan_for(config(leave_out=[text]), ODD, ["id", 'co"l'], ['co"l'])
    assert caught.value.object == text


# --- where tables go ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("table", "target"),
    [
        (USERS, TableName("copy", "users")),
        (TableName("public", "orders"), TableName("sales", "Orders")),
        (TableName("shop", "orders"), TableName("shop", "orders")),
        (ODD, TableName("a.b", "c")),
    ],
)
def test_a_table_goes_where_its_rename_says(table: TableName, target: TableName) -> None:
    rename = {
        "public": "copy",
        "public.orders": 'sales."Orders"',
        '"sch""; DROP"."Täble.x"': '"a.b".c',
    }
    assert target_of(config(rename=rename), table) == target


# --- all tables ---------------------------------------------------------------------------------


def test_all_that_is_chosen_has_a_plan() -> None:
    names = ["public.users", "public.orders", "shop.orders", ODD.id]
    assert [table.id for table in checked()] == names


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"tables": ["public.*", "publik.*"]}, "no table matches publik"),
        ({"tables": ["lock*.*"]}, "no table matches"),
        ({"tables": ["public.audit", "!public.aud*"]}, "no table is left"),
        ({"leave_out": ["public.users.snn"]}, "no chosen table has a column public.users.snn"),
        ({"leave_out": ["public.audit.what"]}, "no chosen table has a column"),
        ({"masks": {"publik.users.ssn": "null"}}, "no chosen table has a column"),
        ({"rows": {"public.nothing": "true"}}, "no chosen table is called"),
        ({"rename": {"publik": "copy"}}, "nothing that is chosen is called publik"),
        ({"rename": {"public.audit": "a.b"}}, "nothing that is chosen"),
        ({"rename": {"public": "shop"}}, "would both be shop.orders"),
        ({"rename": {"public.users": "public.orders"}}, "would both be public.orders"),
        ({"masks": {"*.*.id": "hash"}}, "identifies rows"),
    ],
)
def test_what_cannot_be_is_refused(more: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words) as caught:
        checked(**more)
    assert caught.value.hint
    assert caught.value.object


def test_two_tables_may_change_places() -> None:
    rename = {"public.orders": "shop.orders", "shop.orders": "public.orders"}
    assert TableName("shop", "orders") in checked(rename=rename)


def test_a_pattern_that_leaves_out_nothing_is_no_mistake() -> None:
    assert checked(tables=["*.*", "!*.tmp_*"])


def test_row_filters_need_a_server_that_has_them() -> None:
    rows = {"public.users": "id > 7"}
    assert USERS in checked(rows=rows, major=15)
    with pytest.raises(UsageError, match="PostgreSQL 14 cannot filter rows"):
        checked(rows=rows, major=14)
