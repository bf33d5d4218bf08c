"""The line of a key is found however TOML lets people write it."""

import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockgate.model.toml_lines import line_of, lines_of

DOCUMENT = '''\
# a comment with = and [brackets]
name = "shop"
tables = [
    "public.*",  # all of them
    "!public.audit_*",
    'literal',
]
text = """
name = "not here"
"""
when = 1979-05-27 07:32:00
share = 1.5
[masks]
"public.users.email" = "hash"
"public.users.name" = { fixed = "somebody # not a comment", more = [1, 2] }

[spark.settings]
spark.executor.memory = "4g"
[[parts]]
size = 1
[[parts]]
size = 2
'''


@pytest.mark.parametrize(
    ("key", "line"),
    [
        ("name", 2),
        ("tables", 3),
        ("tables[0]", 4),
        ("tables[1]", 5),
        ("tables[2]", 6),
        ("text", 8),
        ("when", 11),
        ("share", 12),
        ("masks", 13),
        ('masks."public.users.email"', 14),
        ('masks."public.users.name".fixed', 15),
        ('masks."public.users.name".more[1]', 15),
        ("spark", 17),
        ("spark.settings.spark.executor.memory", 18),
        ("parts[1]", 21),
        ("parts[1].size", 22),
    ],
)
def test_a_key_is_found(key: str, line: int) -> None:
    assert line_of(DOCUMENT, key) == line


def test_a_missing_key_is_looked_for_in_the_table_around_it() -> None:
    assert line_of(DOCUMENT, "masks.nobody") == 13


def test_a_key_that_is_nowhere_has_no_line() -> None:
    assert line_of(DOCUMENT, "copy") is None


def paths(value: Any, at: tuple[str | int, ...] = ()) -> set[tuple[str | int, ...]]:
    """Every path of a document as `tomllib` reads it."""
    inner: Any = value.items() if isinstance(value, dict) else ()
    inner = enumerate(value) if isinstance(value, list) else inner
    return {at, *(path for key, child in inner for path in paths(child, (*at, key)))}


def test_it_finds_what_tomllib_reads_and_nothing_else() -> None:
    assert set(lines_of(DOCUMENT)) == paths(tomllib.loads(DOCUMENT)) - {()}


@given(st.text(alphabet="ab=.,[]{}\"'#\n\\ 1"))
def test_any_text_is_walked_to_its_end(text: str) -> None:
    lines = lines_of(text)
    assert all(1 <= line <= text.count("\n") + 1 for line in lines.values())
