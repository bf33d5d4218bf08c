"""A table as homes have it, whose feeds may have brought changes for it one after the other.

Each feed has an ingest of its own, which begins where that feed began. A home shows and drains from
that of which stable has all that was before it, and of those from the furthest.
"""

import contextlib
from collections.abc import Iterable

from lockgate.endpoints.delta.lake import home_of, homes_of
from lockgate.endpoints.delta.layered import LayeredTable
from lockgate.endpoints.delta.place import Place
from lockgate.model.errors import NotFound

__all__ = ["furthest", "ingests_of", "of_home", "opened"]


def ingests_of(incarnation: Place, home: str) -> tuple[str, ...]:
    """Those of the home's feeds."""
    return tuple(ingest for ingest in homes_of(incarnation) if home_of(ingest) == home)


def opened(incarnation: Place, ingests: Iterable[str]) -> list[LayeredTable]:
    """The table with each of them that is made: a directory may be there before."""
    tables = []
    for ingest in ingests:
        with contextlib.suppress(NotFound):
            tables.append(LayeredTable.open(incarnation, ingest))
    return tables


def of_home(incarnation: Place, home: str) -> LayeredTable:
    """The table as the home has it. NotFound when it has brought nothing for it."""
    tables = opened(incarnation, ingests_of(incarnation, home))
    return furthest(tables) if tables else LayeredTable.open(incarnation, home)


def furthest(tables: list[LayeredTable]) -> LayeredTable:
    """The one of them to drain from."""
    if len(tables) == 1:
        return tables[0]
    drained = tables[0].stable.look().position
    return max(tables, key=lambda one: (one.begins <= drained, one.ingest.look().position))
