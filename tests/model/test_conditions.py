"""Row filters: one condition each, which stays inside its parentheses."""

import pytest

from lockgate.model.conditions import not_one_condition


@pytest.mark.parametrize(
    "text",
    [
        "region = 'eu'",
        "(a > 1 OR b IN (1, 2)) AND c[1] = 3",
        "name = 'it''s; -- no comment /* none */ )'",
        r"name = E'it\'s )' AND x",
        '"odd; col)--" IS NOT NULL',
        "body = $$ ) ; -- $$ AND x = $tag$ $$ ) $tag$",
        "typee'x' IS NOT NULL",
        "price - -1 > 0",
        "ü = 'ä' AND a$b > 1",
        r"path = 'C:\'",
        "ts > '2024-01-01'::timestamptz",
    ],
)
def test_conditions(text: str) -> None:
    assert not not_one_condition(text)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "empty"),
        (" \n", "empty"),
        ("a\0", "zero byte"),
        ("true); DROP TABLE users; --", "closes a )"),
        ("true) UNION (SELECT 1", "closes a )"),
        ("true), TABLE secret WHERE (true", "closes a )"),
        ("true; DROP TABLE users", "semicolon"),
        ("true -- and more", "comment"),
        ("true /* and more", "comment"),
        ("(true", "( is not closed"),
        ("(a]", "closes a ]"),
        ("a = 'x", "' is not closed"),
        ('"a', '" is not closed'),
        ("a = $$ x", "$ is not closed"),
        ("a = $x$ $y$ )", "$ is not closed"),
        (r"a = '\') OR (true'", "closes a )"),
        (r"a = E'\\') OR (true", "closes a )"),
        (r"typeE'\' ) OR (true", "closes a )"),
    ],
)
def test_what_is_more_or_less_than_a_condition(text: str, why: str) -> None:
    assert why in not_one_condition(text)
