"""A lake: a directory of tables, and in each a directory per incarnation, never used twice.

    <lake>/<schema.table>/<incarnation>/stable
                                       /ingest-<home>

The newest incarnation is the table. When that one is dead there is no table, until the next is
made; what a zombie still does to an old one happens where nobody looks any more.
"""

import re
from typing import Final

from pyarrow import fs

from lockgate.endpoints.delta.faults import faults
from lockgate.endpoints.delta.fenced import FencedTable
from lockgate.endpoints.delta.place import Place
from lockgate.model.errors import NotFound
from lockgate.model.ids import TableId

__all__ = ["INGEST", "STABLE", "Lake"]

STABLE: Final = "stable"
INGEST: Final = "ingest-"
_UNSAFE: Final = re.compile(rb"[^A-Za-z0-9._-]")
_ESCAPED: Final = re.compile(rb"~([0-9a-f]{2})")


class Lake:
    """One lake."""

    def __init__(self, place: Place) -> None:
        self._place = place

    def tables(self) -> list[TableId]:
        """All that ever were and have not been deleted, dead ones too."""
        return sorted(_named(name) for name in _folders(self._place))

    def incarnations(self, table: TableId) -> list[int]:
        """Their numbers, in order."""
        names = _folders(self._of(table))
        return sorted(int(name) for name in names if name.isdecimal())

    def place(self, table: TableId, incarnation: int) -> Place:
        return self._of(table).child(str(incarnation))

    def live(self, table: TableId) -> Place:
        """Where the table is. NotFound when there is none, or it was dropped."""
        found = self.incarnations(table)
        if found:
            place = self.place(table, found[-1])
            if not FencedTable.open(place.child(STABLE)).look().dead:
                return place
        raise NotFound(
            "there is no such table in the lake",
            object_=f"{self._place.label}/{table}",
            hint="`lockgate lake list` shows the tables that there are",
        )

    def homes(self, place: Place) -> list[str]:
        """Whose ingest there is for an incarnation."""
        return sorted(n.removeprefix(INGEST) for n in _folders(place) if n.startswith(INGEST))

    def _of(self, table: TableId) -> Place:
        return self._place.child(_folder(table))


def _folder(table: TableId) -> str:
    """A name that file systems, URLs and Spark all leave alone: `~` and hex for other bytes."""
    escaped = _UNSAFE.sub(lambda found: b"~%02x" % found.group()[0], table.encode())
    return escaped.decode("ascii")


def _named(folder: str) -> TableId:
    plain = _ESCAPED.sub(lambda found: bytes([int(found[1], 16)]), folder.encode())
    return plain.decode("utf-8", "replace")


def _folders(place: Place) -> list[str]:
    """The names of what lies in a directory; none when there is no such directory."""
    with faults("list", place):
        files, base = place.filesystem()
        found = files.get_file_info(fs.FileSelector(base, allow_not_found=True))
    return [
        info.base_name
        for info in found
        if info.type is fs.FileType.Directory and not info.base_name.startswith("_")
    ]
