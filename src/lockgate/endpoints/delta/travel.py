"""A layered table at a position of the source's log, as long as its layers still hold it.

    position  ──►  the newest version of stable that was drained no further
                   + the changes of ingest from there up to the position

What is pruned from ingest, or rewritten in stable, stays on disk until it is vacuumed. Which files
those were, Delta's log tells (`commits`). So the answer for a position is the same before a drain,
during it and after it, and it is either exact or refused, never something near it.

A home that lags behind may have pruned changes the moment they came: they were in stable already.
Therefore ingest is not looked up at one version: all files that came in the stretch of the log are
what it has had, whenever it let go of them.
"""

from collections.abc import Iterable
from typing import Final

import msgspec
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from pyarrow import fs

from lockgate.endpoints.delta.changes import POSITION, may_follow
from lockgate.endpoints.delta.commits import Commits
from lockgate.endpoints.delta.death import layer_faults
from lockgate.endpoints.delta.files import DataFile, live_files
from lockgate.endpoints.delta.layered import LayeredTable, Snapshot
from lockgate.endpoints.delta.place import Place
from lockgate.model.errors import Terminal, Transient
from lockgate.model.positions import Position

__all__ = [
    "NotLevel",
    "PositionAhead",
    "PositionGone",
    "VersionGone",
    "check_level",
    "earliest",
    "landed_by",
    "snapshot_at",
    "snapshot_of",
    "stretch",
]

_OLDEST: Final = -(2**63)


class PositionGone(Terminal):
    """The layers do not hold the table as it was there. `earliest` is from where on they do."""

    code = "position-gone"

    def __init__(self, position: Position, earliest: Position, label: str) -> None:
        super().__init__(
            f"the table as of position {position} is not held any more",
            object_=label,
            hint=f"it can be read from position {earliest} on",
            operation="read",
        )
        self.position = position
        self.earliest = earliest


class VersionGone(Terminal):
    """The stable table has no such version, or not any more."""

    code = "version-gone"


class PositionAhead(Transient):
    """The table has not come so far yet."""

    code = "position-ahead"


class NotLevel(Transient):
    """The table's first copy does not hold one moment of the source yet."""

    code = "not-level"


def snapshot_at(table: LayeredTable, position: Position) -> Snapshot:
    """The table as it was at the position."""
    return stretch(table, position, position)


def stretch(table: LayeredTable, after: Position, upto: Position) -> Snapshot:
    """The table as it was at `after`, and all changes from there up to `upto`.

    Of the answer, `drained` is at most `after`, and `position` is `upto`.
    """
    seen = table.snapshot()
    if upto > seen.position:
        raise PositionAhead(
            f"the table has come to position {seen.position}, not to {upto}",
            object_=table.label,
            hint="read it later, or without a position",
            operation="read",
        )
    check_level(seen, after, table.label)
    if after >= seen.drained:
        ingest = _within(seen.ingest, seen.drained, upto)
        return msgspec.structs.replace(seen, ingest=ingest, position=upto)
    found = _older(table, seen, after, upto)
    if found is None:
        raise PositionGone(after, earliest(table), table.label)
    return found


def check_level(seen: Snapshot, position: Position, label: str) -> None:
    """NotLevel where the rows of the first copy are not one moment of the source yet."""
    if not seen.settled:
        what, hint = "the table's first copy has not landed yet", "read it when it has"
    elif position < seen.settled:
        what = f"the first copy is of one moment from position {seen.settled} on, not at {position}"
        hint = f"read it at {seen.settled} or later; see `lockgate feed status` for how far it is"
    else:
        return
    raise NotLevel(what, object_=label, hint=hint, operation="read")


def snapshot_of(table: LayeredTable, version: int) -> tuple[Snapshot, DeltaTable]:
    """The stable table alone at one of its versions; and the handle that tells its schema."""
    table.stable.refuse_lost(table.stable.look())
    handle = _version(_stable(table), version)
    files = live_files(handle) if handle else []
    if handle is None or not _there(_stable(table), {file.path for file in files}):
        newest = table.stable.look().version
        raise VersionGone(
            f"stable has no version {version}, or not any more",
            object_=table.label,
            hint=f"its newest is {newest}; older ones stay until they are vacuumed",
            operation="read",
        )
    position = Commits(_stable(table)).position(version) or 0
    return Snapshot(tuple(files), (), version, position, position), handle


def landed_by(table: LayeredTable, time_ms: int) -> Position | None:
    """How far the table had come for who read it then, by the clocks of those who committed.

    None: it was not there, or that is forgotten.
    """
    found = []
    for layer, place in ((table.stable, _stable(table)), (table.ingest, _ingest(table))):
        commits = Commits(place)

        def old(version: int, commits: Commits = commits) -> bool | None:
            commit = commits.get(version)
            return None if commit is None else commit.time_ms <= time_ms

        version = commits.newest(layer.look().version, old)
        position = None if version is None else commits.position(version)
        if position is not None:
            found.append(position)
    return max(found, default=None)


def earliest(table: LayeredTable) -> Position:
    """From which position on every one can be read."""
    seen = table.snapshot()
    drained = _readable(table, seen)
    lost = _lost(table, min(drained))
    found = min((position for position in drained if position >= lost), default=lost)
    return max(found, seen.settled)


# --- back in the log ------------------------------------------------------------------------------


def _older(table: LayeredTable, seen: Snapshot, after: Position, upto: Position) -> Snapshot | None:
    """The stretch from a version of stable that is not the newest. None: something is gone."""
    commits = Commits(_stable(table))
    version = _reached(commits, seen.stable_version, after)
    handle = None if version is None else _version(_stable(table), version)
    drained = None if version is None else commits.position(version)
    if version is None or handle is None or drained is None:
        return None
    stable = live_files(handle)
    ingest = _landed(table, drained, upto) if upto > drained else ()
    if ingest is None:
        return None
    here = {file.path for file in (*seen.stable, *seen.ingest)}
    for place, files in ((_stable(table), stable), (_ingest(table), ingest)):
        if not _there(place, {file.path for file in files} - here):
            return None
    return msgspec.structs.replace(
        seen,
        stable=tuple(stable),
        ingest=ingest,
        stable_version=version,
        drained=drained,
        position=upto,
    )


def _landed(table: LayeredTable, after: Position, upto: Position) -> tuple[DataFile, ...] | None:
    """The files of ingest with changes in (after, upto], also those pruned by now."""
    commits = Commits(_ingest(table))
    marks = table.ingest.look()
    if marks.position < upto:
        return None  # another home was quicker, and has drained; this one has not got so far
    first = _reached(commits, marks.version, after)
    last = _reached(commits, marks.version, upto)
    if first is None or last is None:
        return None
    if commits.position(last) != upto:
        last += 1
    files: list[DataFile] = []
    for commit in commits.many(range(first + 1, last + 1)):
        if commit is None:
            return None
        files += commit.added
    return _within(files, after, upto)


def _reached(commits: Commits, newest: int, position: Position) -> int | None:
    """The newest version that had landed no more than the position."""

    def old(version: int) -> bool | None:
        at = commits.position(version)
        return None if at is None else at <= position

    return commits.newest(newest, old)


def _within(files: Iterable[DataFile], after: Position, upto: Position) -> tuple[DataFile, ...]:
    return tuple(
        file for file in files if may_follow(file, after) and file.low.get(POSITION, upto) <= upto
    )


def _version(place: Place, version: int) -> DeltaTable | None:
    with layer_faults("read", place):
        try:
            return DeltaTable(place.url, version=version, storage_options=place.options)
        except (DeltaError, OverflowError):
            return None


# --- from where on --------------------------------------------------------------------------------


def _readable(table: LayeredTable, seen: Snapshot) -> list[Position]:
    """The positions of stable's versions, from the newest back to the last that is whole."""
    place = _stable(table)
    commits = Commits(place)
    here = _names(place)
    found = [seen.drained]
    for version in range(seen.stable_version - 1, -1, -1):
        later = commits.get(version + 1)
        if later is None or not here.issuperset(later.removed):
            break
        position = commits.position(version)
        if position is None or _version(place, version) is None:
            break
        found.append(position)
    return found


def _lost(table: LayeredTable, after: Position) -> Position:
    """The position of the last change behind `after` that ingest does not have any more."""
    place = _ingest(table)
    commits = Commits(place)
    here = _names(place)
    version = table.ingest.look().version
    while (commit := commits.get(version)) is not None:
        landed = commit.position or 0
        gone: list[Position] = [
            file.high.get(POSITION, landed) for file in commit.added if file.path not in here
        ]
        if gone:
            return max(gone)
        if commit.position is not None and commit.position <= after:
            return _OLDEST
        version -= 1
    # What came before the oldest commit that is known is nobody's to say.
    return commits.position(version + 1) or _OLDEST


# --- files ----------------------------------------------------------------------------------------


def _there(place: Place, paths: set[str]) -> bool:
    """True when all of the files are on disk."""
    if not paths:
        return True
    with layer_faults("read", place):
        files, base = place.filesystem()
        found = files.get_file_info([f"{base}/{path}" for path in sorted(paths)])
    return all(info.type is fs.FileType.File for info in found)


def _names(place: Place) -> set[str]:
    with layer_faults("list", place):
        return {info.base_name for info in place.listed()}


def _stable(table: LayeredTable) -> Place:
    return table.place.child("stable")


def _ingest(table: LayeredTable) -> Place:
    return table.place.child(f"ingest-{table.home}")
