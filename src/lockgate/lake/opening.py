"""Finding a table in a lake, and what a reader sees of it.

Nothing is asked but the lake's own files. Where several homes bring changes for a table, or several
feeds of a home one after the other, each has an ingest of its own, and any of them that holds the
moment asked for gives the same answer: the one that has come furthest is asked first.
"""

import contextlib
import datetime as dt
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TypeVar

import pyarrow as pa

from lockgate.endpoints.delta.fenced import FencedTable
from lockgate.endpoints.delta.homes import opened
from lockgate.endpoints.delta.lake import STABLE, Lake
from lockgate.endpoints.delta.layered import LayeredTable, Snapshot
from lockgate.endpoints.delta.place import Place
from lockgate.endpoints.delta.travel import (
    PositionGone,
    check_level,
    landed_by,
    snapshot_at,
)
from lockgate.endpoints.delta.url import LakeUrl, is_lake
from lockgate.lake.moments import AsOf, moment
from lockgate.model.errors import NotFound, ObjectMissing, UsageError
from lockgate.model.positions import Position
from lockgate.model.secret import Secret

__all__ = [
    "Options",
    "asked",
    "at_moment",
    "homes_of",
    "latest",
    "looked_up",
    "only",
    "place_of",
    "readable",
    "whole",
]

Options = Mapping[str, str | Secret]
T = TypeVar("T")


def place_of(path: str, options: Options | None = None) -> Place:
    """The lake at a path, a URL, or an endpoint's address (`delta:…`); `options` are what its store
    wants to know (see `Place`)."""
    url = str(path).rstrip("/") or "/"
    settings: dict[str, Secret] = {}
    if is_lake(url):
        place = LakeUrl.parse(url).place()
        url, settings = place.url, dict(place.settings)
    if "://" not in url:
        # Tasks may run in another directory.
        url = os.path.abspath(url)  # noqa: PTH100 - a path that need not be there
    for name, value in (options or {}).items():
        settings[name] = value if isinstance(value, Secret) else Secret(str(value))
    return Place(url, url, settings)


@contextmanager
def whole(lake: Lake, table: str) -> Iterator[None]:
    """Files that are missing inside are an error, unless the table was dropped: then it is gone."""
    try:
        yield
    except ObjectMissing:
        lake.live(table)
        raise


def homes_of(root: Place, table: str) -> list[LayeredTable]:
    """The table with each ingest that there is, the one that has come furthest first."""
    lake = Lake(root)
    with whole(lake, table):
        place = readable(lake, table)
        found = opened(place, lake.homes(place))
        # Of one that has come later, stable must have all that was before it.
        found = [one for one in found if one.begins <= one.stable.look().position]
        found.sort(key=lambda one: one.ingest.look().position, reverse=True)
    if not found:
        raise NotFound(
            "nobody has brought changes for this table yet",
            object_=place.label,
            hint="its feed makes it; see `lockgate feed status`",
        )
    return found


def readable(lake: Lake, table: str) -> Place:
    """Its newest incarnation. While that is being copied, the one before it, if it still lives."""
    newest = lake.live(table)
    for incarnation in reversed(lake.incarnations(table)):
        place = lake.place(table, incarnation)
        with contextlib.suppress(NotFound, ObjectMissing):
            marks = FencedTable.open(place.child(STABLE)).look()
            if marks.settled and not marks.dead:
                return place
    return newest


def looked_up(root: Place, table: str, as_of: AsOf | None = None) -> tuple[LayeredTable, Snapshot]:
    """What a reader sees of the table, now or at a moment, and the home whose ingest it is."""
    with whole(Lake(root), table):
        homes = homes_of(root, table)
        if as_of is None:
            seen = homes[0].snapshot()
            check_level(seen, seen.position, homes[0].label)
            return homes[0], seen
        position = at_moment(homes, moment(as_of))
        return asked(homes, lambda one: (one, snapshot_at(one, position)))


def asked(homes: list[LayeredTable], question: Callable[[LayeredTable], T]) -> T:
    """The answer of the first home that holds it."""
    gone: list[PositionGone] = []
    for home in homes:
        try:
            return question(home)
        except PositionGone as error:
            gone.append(error)
    raise min(gone, key=lambda error: error.earliest)


def only(rows: pa.Schema, columns: Sequence[str], table: str) -> pa.Schema:
    """These columns of a row, in this order."""
    unknown = [name for name in columns if name not in rows.names]
    if unknown:
        raise UsageError(
            f"the table has no column {unknown[0]!r}",
            object_=table,
            hint=f"it has {', '.join(rows.names)}",
        )
    return pa.schema([rows.field(name) for name in columns])


def latest(homes: list[LayeredTable]) -> Position:
    """How far the table has come."""
    return homes[0].snapshot().position


def at_moment(homes: list[LayeredTable], when: Position | dt.datetime) -> Position:
    """The position; of a time, how far the table had come for who read it then."""
    if not isinstance(when, dt.datetime):
        return when
    time_ms = int(when.timestamp() * 1000)
    found = [at for home in homes if (at := landed_by(home, time_ms)) is not None]
    if not found:
        raise NotFound(
            f"the table was not there yet at {when.isoformat()}, or that is forgotten",
            object_=homes[0].label,
            hint="ask for a later time, or for a position",
        )
    return max(found)
