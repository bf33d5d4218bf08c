"""Whose the rows of a lake's table are: noted with the table from its first commit on.

Positions of two sources say nothing about each other. Whose number is higher would be the table,
and the other's rows would be deleted as replaced; or both would land in one. So whoever brings rows
of another source is refused, at the commit that makes the table or before he takes part in it. A
table of before there were such notes gets them from the first feed that claims a span of it.
"""

from collections.abc import Mapping
from typing import Final

from lockgate.endpoints.delta.fenced import FencedTable
from lockgate.endpoints.delta.lake import home_of
from lockgate.model.errors import Conflict
from lockgate.model.value import Value

__all__ = ["MAKER", "SOURCE", "UNKNOWN", "Origin", "taken"]

SOURCE: Final = "lockgate.source"
MAKER: Final = "lockgate.maker"
"""In the notes of stable. Of a table from before: who was the first to note it."""
_HINT: Final = (
    "drop the one that is there (`lockgate lake drop`), and `lockgate feed resume` where the feed "
    "has failed; or make one of the two feeds anew, with another name for its table (`rename`)"
)

Notes = Mapping[str, str | None]


class Origin(Value, frozen=True):
    """Where the rows of a feed's tables are from."""

    source: str = ""
    """The log that its positions are of; empty: not known."""
    maker: str = ""
    """The feed, as its ingests say it (`lake.ingest_of`)."""
    alone: bool = False
    """The table is a new one: another feed of the same home is not to have made it."""

    def notes(self) -> dict[str, str]:
        """What a table says that the feed makes."""
        found = {SOURCE: self.source, MAKER: self.maker}
        return {name: value for name, value in found.items() if value}

    def is_foreign(self, notes: Notes) -> bool:
        """Whether a table's rows are of another source. One that does not say may be ours."""
        noted = notes.get(SOURCE)
        return bool(noted and self.source and noted != self.source)

    def is_rival(self, notes: Notes) -> bool:
        """Whether another feed of the same home has made a table."""
        maker = notes.get(MAKER)
        return bool(maker) and maker != self.maker and home_of(str(maker)) == home_of(self.maker)

    def check(self, notes: Notes, label: str) -> None:
        """Conflict where the rows of this table are not to be ours."""
        if self.is_foreign(notes):
            raise taken("the table in the lake is of another source", label)
        if self.alone and self.is_rival(notes):
            raise taken("another feed of this installation has made the table in the lake", label)

    def note(self, stable: FencedTable) -> None:
        """Have a table say it that does not yet, whoever owns it."""
        known = stable.notes
        missing = {name: value for name, value in self.notes().items() if name not in known}
        if missing:
            stable.note(None, missing)


UNKNOWN: Final = Origin()


def taken(what: str, label: str) -> Conflict:
    """Why a table cannot be a feed's."""
    return Conflict(what, object_=label, hint=_HINT, operation="take part in a table")
