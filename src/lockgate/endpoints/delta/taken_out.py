"""What the commits of a layer took out, without reading each of them again and again.

    <layer>/_lockgate_log/taken-out-<first>-<last>      of many commits in a row: those that took
                                                        files out, and which

A vacuum asks for the commits of a whole week, and a busy ingest has a million of them. A commit
never changes, so what many of them took out is noted together once it was read, and from then on
the note is read and not the commits. Notes hold no times: those of the commits are told by the
log, as it is listed each time. A note that is torn is as good as none.
"""

import re
from collections.abc import Iterable
from typing import Final

import msgspec

from lockgate.endpoints.delta.commits import Commits
from lockgate.endpoints.delta.log_archive import ARCHIVE
from lockgate.endpoints.delta.place import Place
from lockgate.endpoints.delta.small_files import read_small, write_small
from lockgate.endpoints.delta.store_time import delete_all, files_in

__all__ = ["NOTED", "taken_out"]

NOTED: Final = 1_000
"""So many commits in a row are noted together: fewer are read as fast as their note."""
_NAME: Final = re.compile(r"taken-out-(\d{20})-(\d{20})")

_Note = dict[int, tuple[str, ...]]
"""Data files, by the version that took them out."""


def taken_out(layer: Place, versions: Iterable[int]) -> set[str]:
    """The data files that these commits took out, which are the newest of the log.

    Notes of older commits go, because nobody asks for them any more.
    """
    wanted = sorted(versions)
    if not wanted:
        return set()
    out: set[str] = set()
    unread = set(wanted)
    for name, first, last in _notes(layer):
        if last < wanted[0]:
            delete_all(layer.child(ARCHIVE), [name])
        elif (note := _read(layer, name)) is not None:
            unread.difference_update(range(first, last + 1))
            out |= {path for version in note if version >= wanted[0] for path in note[version]}
    left = sorted(unread)
    for at in range(0, len(left), NOTED):
        some = left[at : at + NOTED]
        # With a memory of its own for each piece: all of a week would be a gigabyte.
        found = [one for one in Commits(layer).many(some) if one is not None]
        note = {one.version: one.removed for one in found if one.removed}
        out |= {path for paths in note.values() for path in paths}
        if len(found) == NOTED and some[-1] - some[0] == NOTED - 1:
            name = f"taken-out-{some[0]:020d}-{some[-1]:020d}"
            write_small(layer.child(ARCHIVE), name, msgspec.json.encode(note))
    return out


def _notes(layer: Place) -> list[tuple[str, int, int]]:
    found = (_NAME.fullmatch(one.name) for one in files_in(layer.child(ARCHIVE)))
    return [(match[0], int(match[1]), int(match[2])) for match in found if match]


def _read(layer: Place, name: str) -> _Note | None:
    try:
        return msgspec.json.decode(read_small(layer.child(ARCHIVE), name), type=_Note)
    except msgspec.DecodeError:
        return None
