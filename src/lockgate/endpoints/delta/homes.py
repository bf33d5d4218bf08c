"""A table as homes have it, whose feeds may have brought changes for it one after the other.

Each feed has an ingest of its own, which begins where that feed began. A home shows and drains from
that of which stable has all that was before it, and of those from the furthest.

**One of them may be damaged**, a removed feed's, or another home's. It is left out where somebody
else has what it is known to have had: stable, or an ingest that follows on stable. What is shown is
then exactly what that one has, up to its own position. Where nobody has as much, the damage is
raised, whoever asks: the table would go back without a word, and a drain that left changes be would
be called done.
"""

import re
from collections.abc import Iterable
from contextlib import suppress
from typing import Final

from lockgate.endpoints.delta.faults import FileCorrupt
from lockgate.endpoints.delta.lake import INGEST, home_of, homes_of
from lockgate.endpoints.delta.layered import LayeredTable
from lockgate.endpoints.delta.log_archive import LOG
from lockgate.endpoints.delta.marks import marks_in
from lockgate.endpoints.delta.place import Place
from lockgate.endpoints.delta.store_time import files_in
from lockgate.model.errors import LockgateError, NotFound, ObjectMissing
from lockgate.model.positions import Position

__all__ = ["furthest", "ingests_of", "of_home", "opened"]

_COMMIT: Final = re.compile(r"(\d{20})\.json")


def ingests_of(incarnation: Place, home: str) -> tuple[str, ...]:
    """Those of the home's feeds."""
    return tuple(ingest for ingest in homes_of(incarnation) if home_of(ingest) == home)


def opened(incarnation: Place, ingests: Iterable[str]) -> list[LayeredTable]:
    """The table with each of them that is made: a directory may be there before. One that is
    damaged is raised, or left out: see above."""
    whole: list[LayeredTable] = []
    damaged: list[tuple[str, LockgateError]] = []
    for ingest in ingests:
        try:
            with suppress(NotFound):
                whole.append(_whole(incarnation, ingest))
        except (FileCorrupt, ObjectMissing) as error:
            damaged.append((ingest, error))
    for ingest, why in damaged:
        if not _have_all_of(whole, incarnation.child(f"{INGEST}{ingest}")):
            raise why
    return whole


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


# --- damage ---------------------------------------------------------------------------------------


def _whole(incarnation: Place, ingest: str) -> LayeredTable:
    table = LayeredTable.open(incarnation, ingest)
    marks = table.ingest.look()
    if not marks.dead:
        table.ingest.refuse_lost(marks)
    return table


def _have_all_of(tables: list[LayeredTable], ingest: Place) -> bool:
    """Whether stable, or one of the tables that follows on it, has what an ingest is known to have.

    Its newest commit that can be read says how far it came by then. What lies behind that one has
    brought it further, nobody knows how far: there, who has as much is not enough. Who has more
    goes on, and the damaged one does not."""
    if not tables:
        return False
    drained = tables[0].stable.look().position
    found = [one.ingest.look().position for one in tables if one.begins <= drained]
    said = _said(ingest)
    if not found or said is None:
        return False
    known, is_newest = said
    have = max(drained, *found)
    return have > known or (have == known and is_newest)


def _said(ingest: Place) -> tuple[Position, bool] | None:
    """How far the newest of its commits that can be read says that it is, and whether none is newer
    than that. None: none can be read."""
    names = [_COMMIT.fullmatch(file.name) for file in files_in(ingest.child(LOG))]
    versions = sorted((int(name[1]) for name in names if name), reverse=True)
    for version in versions:
        marks = marks_in(ingest, version)
        if marks is not None:
            return marks.position, version == versions[0]
    return None
