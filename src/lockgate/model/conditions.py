"""A row filter is one condition, and stays one wherever it is put.

Filters are SQL that people wrote, and they go into statements as text: `WHERE (…)`. The server
parses what is inside; here it is only made sure that inside is where it stays. A text that
closes a parenthesis it did not open, ends the statement or begins a comment is refused, also by
who may run any SQL there: it is a mistake, and a filter is checked before it is ever run.
"""

import re
from typing import Final

__all__ = ["not_one_condition"]

_TOKEN: Final = re.compile(
    r"""
      (?P<text> [eE]'(?:[^'\\]|\\.|'')*' | '(?:[^']|'')*' | "(?:[^"]|"")+"
              | \$(?P<tag>(?:[^\W\d]\w*)?)\$.*?\$(?P=tag)\$ )
    | (?P<word> [^\W\d][\w$]* | \d[\w.]* )
    | (?P<comment> -- | /\* )
    | (?P<open> [(\[] )
    | (?P<close> [)\]] )
    | (?P<end> ; )
    | (?P<quote> ['"$] )
    | (?P<other> . )
    """,
    re.VERBOSE | re.DOTALL,
)
_PAIRS: Final = {")": "(", "]": "["}


def not_one_condition(text: str) -> str:
    """Why the text cannot be put into parentheses as one condition; empty when it can."""
    if not text.strip():
        return "it is empty"
    if "\0" in text:
        return "it holds a zero byte"
    opened: list[str] = []
    for match in _TOKEN.finditer(text):
        kind, token = match.lastgroup, match.group()
        if kind == "comment":
            return "it holds a comment"
        if kind == "end":
            return "it holds a semicolon"
        if kind == "quote":
            return f"a {token} is not closed"
        if kind == "open":
            opened.append(token)
        elif kind == "close" and (not opened or opened.pop() != _PAIRS[token]):
            return f"it closes a {token} that it did not open"
    return f"a {opened[-1]} is not closed" if opened else ""
