"""Which tables of a lake a diff without a feed is about, when the lake is the side that is right.

A database is asked by `choose` of feeds; a lake is no source of feeds, and is asked here. It keeps
what was dropped for a while, so only tables that live are taken.
"""

import contextlib
from collections.abc import Iterator, Sequence

from lockgate.endpoints.delta.lake import Lake
from lockgate.endpoints.delta.url import LakeUrl
from lockgate.model.errors import NotFound, UsageError
from lockgate.model.patterns import selected, unmatched
from lockgate.model.selection import TableSelection
from lockgate.model.tables import TableName, parse_table
from lockgate.pipeline.lake_diff_sides import LakeSide

__all__ = ["chosen_in_lake"]


def chosen_in_lake(url: LakeUrl, patterns: Sequence[str]) -> list[TableSelection]:
    """All columns of the tables that the patterns choose. UsageError when they choose none."""
    lake = Lake(url.place())
    names = [name for name in selected(patterns, _names(lake)) if _lives(lake, name)]
    if idle := [text for text in unmatched(patterns, names) if not text.startswith("!")]:
        raise UsageError(
            f"no table of the lake matches {', '.join(idle)}",
            object_="tables",
            hint="`lockgate lake list` shows those that it has",
        )
    if not names:
        raise UsageError(
            "no table is left of the selection", object_="tables", hint="see the patterns with !"
        )
    return [TableSelection(name, name, _columns(url, name)) for name in names]


def _names(lake: Lake) -> Iterator[TableName]:
    for table in lake.tables():
        with contextlib.suppress(ValueError):  # a directory of somebody else's
            yield parse_table(table)


def _lives(lake: Lake, name: TableName) -> bool:
    try:
        lake.live(name.id)
    except NotFound:
        return False
    return True


def _columns(url: LakeUrl, name: TableName) -> tuple[str, ...]:
    """None of a table that cannot be read yet: why, is said of that table, and not of all."""
    try:
        return tuple(LakeSide(url, name).schema.names)
    except NotFound:
        return ()
