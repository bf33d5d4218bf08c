"""What can be read off SQL texts: is a default a constant, did a change of type say how.

Nothing here parses SQL. Where a text does not say for certain, the answer is the cautious one.
"""

import re
from typing import Final

__all__ = ["is_constant", "says_using"]

# As the server deparses constants: 'text'::type, numbers, true, false, NULL, all maybe cast,
# maybe in brackets.
_TYPE: Final = r'::[A-Za-z_"][\w "$.,()]*(?:\[\])*'
_CONSTANT: Final = re.compile(
    rf"""\(* \s* (?: '(?:[^']|'')*' | -?\s*\d+(?:\.\d+)?(?:[eE][+-]?\d+)? | true | false | NULL )
         \s* \)* (?:{_TYPE}\)*)* """,
    re.VERBOSE,
)
_MOVING: Final = re.compile(
    r"^\(*\s*'\s*(?:now|today|tomorrow|yesterday|allballs)\b", re.IGNORECASE
)
"""Constants that are none before they are cast."""


def is_constant(expression: str) -> bool:
    """True when the deparsed expression has the same value wherever and whenever."""
    return (
        _CONSTANT.fullmatch(expression.strip()) is not None
        and _MOVING.match(expression.strip()) is None
    )


_NOISE: Final = re.compile(
    r"""  --[^\n]* | /\*.*?\*/ | '(?:[^']|'')*' | "(?:[^"]|"")*" """, re.VERBOSE | re.DOTALL
)
_ALTERS: Final = re.compile(r"\balter\s+table\b", re.IGNORECASE)
_USING: Final = re.compile(r"\btype\b.*\busing\b", re.IGNORECASE | re.DOTALL)


def says_using(statement: str) -> bool | None:
    """Whether an ALTER TABLE in the text turns values by an expression; None: not to be seen.

    What the server tells is what the client sent: several statements, or a call of a function
    that holds the one in question. Bodies in dollar quotes are looked into.
    """
    bare = _NOISE.sub(" ", statement)
    parts = [part for part in bare.split(";") if _ALTERS.search(part)]
    if not parts:
        return None
    return any(_USING.search(part[_ALTERS.search(part).start() :]) for part in parts)  # type: ignore[union-attr]
