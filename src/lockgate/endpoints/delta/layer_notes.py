"""What is noted with the layers of a table, beside its rows, in the metadata of Delta.

    stable   its key, whether it awaits its first copy, and under which snapshots that was read
    ingest   from where on it has changes, and which columns the source has dropped, and where

With it goes what Delta itself is told to do with a layer.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from lockgate.endpoints.delta.fenced import FencedTable
from lockgate.endpoints.delta.lake import AWAITS_COPY
from lockgate.model.ids import Token
from lockgate.model.positions import Position

__all__ = [
    "KEPT",
    "OF_INGEST",
    "STATISTICS",
    "begins_at",
    "columns_dropped",
    "first_dropped",
    "key_of",
    "new_ingest",
    "new_stable",
    "note_dropped",
    "note_snapshots",
    "snapshots_of",
]

_KEY: Final = "lockgate.key"
_BEGINS: Final = "lockgate.begins"
_DROPPED: Final = "lockgate.dropped"
_SNAPSHOTS: Final = "lockgate.snapshots"

STATISTICS: Final = {"delta.dataSkippingNumIndexedCols": "-1"}
"""Of all columns: unless told, Delta gives those of the first 32, and the key may be another."""
KEPT: Final = {"delta.enableExpiredLogCleanup": "false", **STATISTICS}
"""Who may still want an older state is our vacuum's to say: it knows of pins, and clocks."""
OF_INGEST: Final = {"delta.deletedFileRetentionDuration": "interval 1 hours", **STATISTICS}
"""Checkpoints name what was taken out for so long. Of ingest that is soon more than what is there,
and our vacuum does not ask them."""


def new_stable(key: list[str], *, awaits_copy: bool) -> dict[str, str]:
    """With which stable is made."""
    notes = {_KEY: msgspec.json.encode(key).decode(), **KEPT}
    if awaits_copy:
        notes[AWAITS_COPY] = "true"
    return notes


def new_ingest(begins: Position) -> dict[str, str]:
    """With which a home's ingest is made."""
    return {_BEGINS: str(begins), **KEPT, **OF_INGEST}


# --- of stable ------------------------------------------------------------------------------------


def key_of(stable: FencedTable) -> list[str]:
    """The columns of the key."""
    return msgspec.json.decode(stable.notes.get(_KEY) or "[]", type=list[str])


def snapshots_of(stable: FencedTable) -> tuple[str, ...]:
    """Under which its first copy was read; none: nobody has noted any."""
    return msgspec.json.decode(stable.notes.get(_SNAPSHOTS) or "[]", type=tuple[str, ...])


def note_snapshots(stable: FencedTable, token: Token, snapshots: Sequence[str]) -> None:
    """Its first copy was read under these."""
    stable.note(token, {_SNAPSHOTS: msgspec.json.encode(snapshots).decode()})


# --- of ingest ------------------------------------------------------------------------------------


def begins_at(ingest: FencedTable) -> Position | None:
    """From where on it has changes. None: it is older than this note."""
    noted = ingest.notes.get(_BEGINS)
    return int(noted) if noted else None


def columns_dropped(ingest: FencedTable) -> dict[str, Position]:
    """The columns that the source has dropped, and where first."""
    return msgspec.json.decode(ingest.notes.get(_DROPPED) or "{}", type=dict[str, Position])


def note_dropped(ingest: FencedTable, columns: Mapping[str, Position], token: Token | None) -> None:
    """The source has dropped these, there. Told again: nothing."""
    known = columns_dropped(ingest)
    both = first_dropped(known, columns)
    if both != known:
        ingest.note(token, {_DROPPED: msgspec.json.encode(both).decode()})


def first_dropped(
    known: Mapping[str, Position], more: Mapping[str, Position]
) -> dict[str, Position]:
    """Of both, where each was dropped first."""
    out = dict(known)
    for name, position in more.items():
        out[name] = min(position, out.get(name, position))
    return out
