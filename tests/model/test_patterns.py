"""Patterns over names of tables."""

from fnmatch import fnmatchcase

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockgate.model.errors import UsageError
from lockgate.model.patterns import parse_pattern, reserved, selected, split_name, unmatched
from lockgate.model.tables import TableName, parse_table

SHOP = [
    TableName("public", "orders"),
    TableName("public", "Orders"),
    TableName("public", "order_1"),
    TableName("public", "audit"),
    TableName("shop", "orders"),
    TableName("My.Schema", 'a"b;*'),
    TableName("My.Schema", "line\nbreak"),
    TableName("lockgate", "progress"),
    TableName("pg_catalog", "pg_class"),
    TableName("pg_temp_3", "orders"),
    TableName("information_schema", "tables"),
]


def chosen(*patterns: str) -> list[str]:
    return [name.id for name in selected(patterns, SHOP)]


@pytest.mark.parametrize(
    ("patterns", "names"),
    [
        (["public.orders"], ["public.orders"]),
        (["public.*"], ["public.orders", 'public."Orders"', "public.order_1", "public.audit"]),
        (["public.order?"], ["public.orders"]),
        (["public.order*"], ["public.orders", "public.order_1"]),
        (["*.orders"], ["public.orders", "shop.orders"]),
        (["*.*", "!public.*", "!My*.*"], ["shop.orders"]),
        (["*.*", "!public.*", '!"My.Schema".*'], ["shop.orders"]),
        (["!public.audit", "public.a*"], []),
        (["public.[ao]*"], []),
        (['"My.Schema"."a""b;*"'], ['"My.Schema"."a""b;*"']),
        (['"My.Schema".*'], ['"My.Schema"."a""b;*"', '"My.Schema"."line\nbreak"']),
        (['"My.Schema"."a*"'], []),
        (['public."order?"'], []),
        ([" public.orders "], ["public.orders"]),
        ([], []),
    ],
)
def test_what_patterns_choose(patterns: list[str], names: list[str]) -> None:
    assert chosen(*patterns) == names


def test_nothing_of_the_system_or_of_lockgate_is_ever_chosen() -> None:
    for pattern in ("*.*", "*g*.*", "l*.*", "pg_*.*", "?ockgate.progress"):
        assert not [name for name in selected([pattern], SHOP) if reserved(name.schema)]
    assert not any(reserved(schema) for schema in ("page", "lockgate2", "public"))


@pytest.mark.parametrize(
    "text", ["pg_catalog.*", "lockgate.progress", '"lockgate".*', "information_schema.tables"]
)
def test_asking_for_the_systems_tables_by_name_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="never replicated"):
        parse_pattern(text)
    parse_pattern(f"!{text}")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "!",
        "orders",
        "*",
        ".orders",
        "public.",
        "a.b.c",
        'a."b',
        'a."b"c',
        'a""b.c',
        '"".x',
        "a..b",
    ],
)
def test_what_is_no_pattern_is_refused(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_pattern(text)
    assert repr(text) in str(caught.value)
    assert "schema.table" in caught.value.hint


def test_misspelled_patterns_are_found() -> None:
    assert unmatched(["public.*", "publik.*", "!public.nothing"], SHOP) == [
        "publik.*",
        "!public.nothing",
    ]


def test_a_full_name_has_no_wildcards() -> None:
    assert split_name('"a.b".c') == ("a.b", "c")
    assert split_name("a.b*") == ()
    assert split_name('a."b*"') == ("a", "b*")
    assert split_name("a.") == ()


PARTS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1)
NAMES = st.builds(TableName, PARTS, PARTS).filter(lambda name: not reserved(name.schema))


@given(NAMES)
def test_the_text_of_any_name_is_a_pattern_for_it_alone(name: TableName) -> None:
    assert selected([name.id], [name, TableName(name.schema, name.name + "x")]) == [name]
    assert parse_table(name.id) == name
    assert selected(["*.*", f"!{name.id}"], [name]) == []


SIMPLE = st.text("ab*?.", min_size=1, max_size=6).filter(lambda text: "." not in text)


@given(SIMPLE, st.text("ab", min_size=1, max_size=6))
def test_wildcards_mean_what_they_mean_in_a_shell(pattern: str, name: str) -> None:
    found = selected([f"s.{pattern}"], [TableName("s", name)])
    assert bool(found) == fnmatchcase(name, pattern)


@given(st.lists(st.sampled_from(["public.*", "!public.a*", "shop.*", "!*.orders", "*.audit"])))
def test_order_means_nothing(patterns: list[str]) -> None:
    assert chosen(*patterns) == chosen(*reversed(patterns)) == chosen(*sorted(patterns))
