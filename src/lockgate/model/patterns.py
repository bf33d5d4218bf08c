"""Patterns over names: `public.*`, `shop.order_?`, `!public.audit`, `"My Schema".*`.

    *   any characters, also none        !pattern   leaves out what the pattern matches
    ?   one character                    "…"        as it stands: no * and no ? in it

A name is chosen when at least one pattern takes it and none leaves it out; their order means
nothing, so a list can be sorted or joined with another. Names are compared as the database has
them: nothing is folded to lower case, `public.Orders` is the table that is called "Orders".

Some schemas are nobody's data, and no pattern ever matches in them, however wide it is: the
system's own, and `lockgate`, whose rows would replicate the replication.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from lockgate.model.errors import UsageError
from lockgate.model.tables import TableName

__all__ = ["Pattern", "parse_pattern", "reserved", "selected", "split_name", "unmatched"]

_HINTS: Final = {
    1: "write schema, quoted where it holds dots",
    2: "write schema.table, with * and ? where any characters may stand, and ! to leave out",
    3: "write schema.table.column, with * and ? where any characters may stand",
}
_PART: Final = re.compile(r'"(?P<quoted>(?:[^"]|"")+)"|(?P<plain>[^."]+)')
_RESERVED: Final = frozenset({"information_schema", "lockgate"})


def reserved(schema: str) -> bool:
    """True for schemas that are never replicated: the system's, temporary ones, Lockgate's."""
    return schema.startswith("pg_") or schema in _RESERVED


@dataclass(frozen=True)
class Pattern:
    """One pattern, over names of a fixed number of parts."""

    text: str
    leaves_out: bool
    parts: tuple[re.Pattern[str], ...]

    def matches(self, *names: str) -> bool:
        """True when every part matches, and the schema is one that may be."""
        return not reserved(names[0]) and all(
            part.fullmatch(name) for part, name in zip(self.parts, names, strict=True)
        )


@lru_cache(maxsize=4096)
def parse_pattern(text: str, parts: int = 2) -> Pattern:
    """The pattern that a text stands for; UsageError when it is none or can match nothing."""
    leaves_out = parts == 2 and text.strip().startswith("!")
    found = _parts(text.strip().removeprefix("!") if leaves_out else text.strip())
    if len(found) != parts:
        raise UsageError(f"not a pattern: {text!r}", object_="", hint=_HINTS[parts])
    schema, wild = found[0]
    if reserved(schema) and not wild and not leaves_out:
        raise UsageError(
            f"the schema {schema} is never replicated",
            object_="",
            hint="it is the system's or Lockgate's own; leave the pattern away",
        )
    return Pattern(text.strip(), leaves_out, tuple(_compiled(*part) for part in found))


def split_name(text: str) -> tuple[str, ...]:
    """The parts of a full name, quotes undone; empty when it is none, or holds * or ?."""
    found = _parts(text.strip())
    return () if any(wild for _, wild in found) else tuple(part for part, _ in found)


def selected(patterns: Iterable[str], names: Iterable[TableName]) -> list[TableName]:
    """The names that the patterns choose, in the order they came."""
    takes, leaves = _sides(patterns)
    return [
        name
        for name in names
        if any(pattern.matches(name.schema, name.name) for pattern in takes)
        and not any(pattern.matches(name.schema, name.name) for pattern in leaves)
    ]


def unmatched(patterns: Iterable[str], names: Iterable[TableName]) -> list[str]:
    """The patterns that match none of the names: most often a misspelling."""
    known = list(names)
    return [
        pattern.text
        for side in _sides(patterns)
        for pattern in side
        if not any(pattern.matches(name.schema, name.name) for name in known)
    ]


def _sides(patterns: Iterable[str]) -> tuple[list[Pattern], list[Pattern]]:
    parsed = [parse_pattern(text) for text in patterns]
    return (
        [pattern for pattern in parsed if not pattern.leaves_out],
        [pattern for pattern in parsed if pattern.leaves_out],
    )


def _parts(text: str) -> list[tuple[str, bool]]:
    """Every part, and whether it has wildcards; empty when the text cannot be read."""
    found: list[tuple[str, bool]] = []
    at = 0
    while match := _PART.match(text, at):
        plain = match["plain"]
        part = plain if plain is not None else match["quoted"].replace('""', '"')
        found.append((part, plain is not None and ("*" in plain or "?" in plain)))
        at = match.end()
        if at == len(text):
            return found
        if text[at] != ".":
            break
        at += 1
    return []


def _compiled(part: str, wild: bool) -> re.Pattern[str]:
    if not wild:
        return re.compile(re.escape(part))
    wildcards = {"*": ".*", "?": "."}
    return re.compile("".join(wildcards.get(c) or re.escape(c) for c in part), re.DOTALL)
