"""A lake: a directory of tables, and in each a directory per incarnation, never used twice.

    <lake>/<schema.table>/<incarnation>/stable
                                       /ingest-<home>-<birth>
                                       /work            files of drains under way
                                       /_pins           what readers hold fast

An ingest is of one feed of one home, by the feed's birth; the tokens and positions of two cannot be
compared. Those of feeds from before that, or without a birth, are a home's: `ingest-<home>`.

The newest incarnation is the table. When that one is dead there is no table, until the next is
made; what a zombie still does to an old one happens where nobody looks any more.
"""

import base64
import contextlib
import re
from typing import Final

from pyarrow import fs

from lockgate.endpoints.delta.faults import FileCorrupt, faults
from lockgate.endpoints.delta.fenced import FencedTable, TableDead
from lockgate.endpoints.delta.graves import bury, is_buried
from lockgate.endpoints.delta.place import Place
from lockgate.model.errors import LockgateError, NotFound, ObjectMissing, UsageError
from lockgate.model.ids import TableId

__all__ = [
    "AWAITS_COPY",
    "INGEST",
    "STABLE",
    "WORK",
    "Lake",
    "end",
    "has_rows",
    "home_of",
    "homes_of",
    "ingest_of",
    "is_dead",
]

STABLE: Final = "stable"
INGEST: Final = "ingest-"
WORK: Final = "work"
AWAITS_COPY: Final = "lockgate.awaits_copy"
"""In the notes of a stable table that is made before its rows are copied."""
_UNSAFE: Final = re.compile(rb"^_|[^A-Za-z0-9._-]")
"""What begins with `_` is hidden, from Spark and here (`_folders`); with a dot, no name does."""
_ESCAPED: Final = re.compile(rb"~([0-9a-f]{2})")
_LONG: Final = "~~"
"""Before a name whose escapes would be too long: all of it is in base 32 then."""
_FOLDER_MAX: Final = 255
"""What file systems take."""


class Lake:
    """One lake."""

    def __init__(self, place: Place) -> None:
        self._place = place

    def tables(self) -> list[TableId]:
        """All that ever were and have not been deleted, dead ones too. A directory of another name
        than any table's is somebody else's, as `lost+found`, which may not be listed."""
        names = _folders(self._place)
        ours = (name for name in names if not _UNSAFE.search(name.replace("~", "").encode()))
        return sorted(map(_named, ours))

    def incarnations(self, table: TableId) -> list[int]:
        """Their numbers, in order."""
        names = _folders(self._of(table))
        return sorted(int(name) for name in names if name.isdecimal())

    def place(self, table: TableId, incarnation: int) -> Place:
        return self._of(table).child(str(incarnation))

    def newest(self, table: TableId) -> int | None:
        """The incarnation that is the table, or was when it was dropped; None: nothing is left.

        One that awaits its first copy is not it yet: its predecessor is, until it has rows.
        """
        for incarnation in reversed(self.incarnations(table)):
            place = self.place(table, incarnation)
            if not is_buried(place) and has_rows(place):
                return incarnation
        return None

    def live(self, table: TableId) -> Place:
        """Where the table is. NotFound when there is none, or it was dropped."""
        incarnation = self.living(table)
        if incarnation is not None:
            return self.place(table, incarnation)
        raise NotFound(
            "there is no such table in the lake",
            object_=f"{self._place.label}/{table}",
            hint="`lockgate lake list` shows the tables that there are",
        )

    def living(self, table: TableId) -> int | None:
        """The incarnation that is the table; None: there is none, or it was dropped.

        One that was found and is dead may have ended meanwhile because its successor has got its
        rows: there is no table only where a second look finds the same.
        """
        newest: int | None = self.newest(table)
        before: int | None = -1
        while newest != before:
            if newest is not None:
                stable = self.place(table, newest).child(STABLE)
                with contextlib.suppress(TableDead):  # its files are going
                    if not FencedTable.open(stable).look().dead:
                        return newest
            newest, before = self.newest(table), newest
        return None

    def end(self, table: TableId, incarnation: int) -> None:
        """Let nobody read or write it any more, whoever owns it.

        Into a log that is damaged nothing can be written, nor that the table is dead: its grave
        says so, and its files stay as long as those of any that died. NotFound: there is none."""
        place = self.place(table, incarnation)
        try:
            FencedTable.open(place.child(STABLE)).kill_whoever()
            said = end(place)
        except (FileCorrupt, ObjectMissing):
            said = False
        if not said:
            bury(place, going=False)

    def homes(self, place: Place) -> list[str]:
        """Whose ingests there are for an incarnation: see `ingest_of`."""
        return homes_of(place)

    def _of(self, table: TableId) -> Place:
        return self._place.child(_folder(table))


def has_rows(place: Place) -> bool:
    """Whether an incarnation is, or was, what its table's name means: it awaits no first copy."""
    try:
        stable = FencedTable.open(place.child(STABLE))
        return AWAITS_COPY not in stable.notes or stable.look().settled > 0
    except (NotFound, TableDead):  # being made, or its files are going
        return False


def is_dead(place: Place) -> bool:
    """Whether an incarnation was dropped, as far as anybody can tell: where its stable is damaged,
    its grave alone does."""
    if is_buried(place):
        return True
    with contextlib.suppress(LockgateError):
        return FencedTable.open(place.child(STABLE)).look().dead
    return False


def ingest_of(home: str, birth: int) -> str:
    """Whose an ingest is, as its directory says it: a feed's of a home, by its birth."""
    return f"{home}-{birth}" if birth else home


def home_of(ingest: str) -> str:
    """The home of the feed whose ingest that is."""
    home, _, birth = ingest.rpartition("-")
    return home if home and birth.isdecimal() else ingest


def homes_of(incarnation: Place) -> list[str]:
    """Whose ingests there are for it: see `ingest_of`."""
    found = _folders(incarnation)
    return sorted(name.removeprefix(INGEST) for name in found if name.startswith(INGEST))


def end(incarnation: Place) -> bool:
    """Kill the ingests of an incarnation whose stable is dead. Told again, it goes on.

    False when the log of one is damaged: nothing can be written there, nor that it is dead. It
    keeps none of the others alive, and its files go with the rest.
    """
    said = True
    for home in homes_of(incarnation):
        try:
            FencedTable.open(incarnation.child(f"{INGEST}{home}")).kill_whoever()
        except (NotFound, TableDead):
            pass  # not made yet: whoever makes it finds stable dead. Or its files are going already
        except (FileCorrupt, ObjectMissing):
            said = False
    return said


def _folder(table: TableId) -> str:
    """A name that file systems, URLs and Spark all leave alone: `~` and hex for other bytes."""
    escaped = _UNSAFE.sub(lambda found: b"~%02x" % found.group()[0], table.encode()).decode("ascii")
    if len(escaped) > _FOLDER_MAX:
        escaped = _LONG + base64.b32encode(table.encode()).decode("ascii").rstrip("=").lower()
    if len(escaped) > _FOLDER_MAX:
        raise UsageError(
            "the table's name is too long for a directory of a lake",
            object_=table,
            hint="leave the table out, or have it in the lake under a shorter name",
        )
    return escaped


def _named(folder: str) -> TableId:
    if folder.startswith(_LONG):
        digits = folder.removeprefix(_LONG).upper()
        with contextlib.suppress(ValueError):  # somebody else's directory
            return base64.b32decode(digits + "=" * (-len(digits) % 8)).decode()
    plain = _ESCAPED.sub(lambda found: bytes([int(found[1], 16)]), folder.encode())
    return plain.decode("utf-8", "replace")


def _folders(place: Place) -> list[str]:
    """The names of what lies in a directory; none when there is no such directory."""
    with faults("list", place):
        found = place.listed()
    return [
        info.base_name
        for info in found
        if info.type is fs.FileType.Directory and not info.base_name.startswith("_")
    ]
