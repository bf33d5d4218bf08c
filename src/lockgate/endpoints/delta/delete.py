"""The end of a dead incarnation: its files are deleted, and its directory is gone.

    dead   stable's log says so, or its grave where that is damaged, for as long as the retention;
           no reader holds it fast
    buried its grave says that it is going, outside of its directory and for ever
    gone   work and pins, then every ingest, then stable: its data, and its log, oldest first

Killed anywhere, the next one goes on from what it finds. What is left in between is never taken for
a live table, because the grave was there first, nor for none that one could be made of.
"""

import contextlib
from pathlib import Path
from typing import Final

from pyarrow import fs

from lockgate.endpoints.delta.faults import faults
from lockgate.endpoints.delta.fenced import FencedTable, TableDead
from lockgate.endpoints.delta.graves import bury, is_buried, is_gone, rests_since_s
from lockgate.endpoints.delta.lake import STABLE, Lake, end, has_rows
from lockgate.endpoints.delta.log_files import LogFiles
from lockgate.endpoints.delta.pins import live_pins
from lockgate.endpoints.delta.place import Place
from lockgate.endpoints.delta.store_time import store_now_s
from lockgate.endpoints.delta.vacuum import RETENTION_S
from lockgate.model.errors import Conflict, NotFound
from lockgate.model.ids import TableId
from lockgate.model.value import Value

__all__ = ["Deletion", "delete"]

_LOG: Final = f"{STABLE}/_delta_log/"


class Deletion(Value, frozen=True):
    """What became of it."""

    files: int = 0
    bytes: int = 0
    waits_for: str = ""
    """Why it was not done yet; empty when nothing is left."""


def delete(
    lake: Lake, table: TableId, incarnation: int, retention_s: float = RETENTION_S
) -> Deletion:
    """Delete an incarnation that is dead, and has been for so long. Conflict when it is alive."""
    place = lake.place(table, incarnation)
    if is_gone(place):
        return Deletion()
    if not is_buried(place):
        waits_for = _judge(place, retention_s)
        if waits_for:
            return Deletion(waits_for=waits_for)
        _end_older(lake, table, incarnation)
        bury(place)
    elif (since_s := rests_since_s(place)) is not None:
        if waits_for := _waits(place, since_s, store_now_s(place), retention_s):
            return Deletion(waits_for=waits_for)
        bury(place)
    # Once more after the burial: who pins later finds the grave.
    if waits_for := _held(place):
        return Deletion(waits_for=waits_for)
    return _remove(place)


def _judge(place: Place, retention_s: float) -> str:
    stable = place.child(STABLE)
    if not FencedTable.open(stable).look().dead:
        raise Conflict(
            "the table is not dropped",
            object_=place.label,
            hint="drop it first: `lockgate lake drop`",
            operation="delete",
        )
    end(place)
    now_s = store_now_s(place)
    return _waits(place, LogFiles.of(stable, now_s).changed_s(), now_s, retention_s)


def _waits(place: Place, since_s: float, now_s: float, retention_s: float) -> str:
    left_s = since_s + retention_s - now_s
    return f"its retention, for {left_s:.0f} s" if left_s > 0 else _held(place)


def _end_older(lake: Lake, table: TableId, incarnation: int) -> None:
    """What this one replaced, or was dropped with, does not become the table again when this one is
    gone."""
    place = lake.place(table, incarnation)
    if not (has_rows(place) or FencedTable.open(place.child(STABLE)).look().dropped):
        return  # it never replaced anything
    for older in lake.incarnations(table):
        if older < incarnation and not is_buried(lake.place(table, older)):
            with contextlib.suppress(NotFound, TableDead):  # never made, or going
                lake.end(table, older)


def _held(place: Place) -> str:
    pins = live_pins(place, store_now_s(place))
    return f"readers: {', '.join(sorted({pin.who for pin in pins}))}" if pins else ""


def _remove(place: Place) -> Deletion:
    with faults("delete", place):
        files, base = place.filesystem()
        found = place.listed(recursive=True)
        below = {info.path[len(base) :].lstrip("/"): info for info in found}
        names = [name for name, info in below.items() if info.type is fs.FileType.File]
        for name in sorted(names, key=_order):
            _remove_file(files, f"{base}/{name}")
        with contextlib.suppress(FileNotFoundError):
            files.delete_dir(base)
        if isinstance(files, fs.LocalFileSystem):
            # The table's own directory, unless somebody is making the next incarnation in it.
            with contextlib.suppress(OSError):
                Path(base).parent.rmdir()
    return Deletion(len(names), sum(below[name].size or 0 for name in names))


def _remove_file(files: fs.FileSystem, path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        files.delete_file(path)


def _order(name: str) -> tuple[bool, bool, bool, str]:
    """Stable last, of it the log, of that the commits: the newest says that it is dead."""
    return (
        name.startswith(f"{STABLE}/"),
        name.startswith(_LOG),
        name.startswith(_LOG) and name.endswith(".json"),
        name,
    )
