"""The ledger of an application: which change was acknowledged, where and when.

It is outside of both databases. A *key* is one row that one writer owns, and each change of it has
a version of its own: inserted, updated, deleted, inserted again. A change is in the ledger when its
commit was acknowledged. Whether one is there whose answer was lost, only the databases know
(`unknown`): its key is left alone from then on, and may be as it was before or as it was to be.
"""

import enum
from typing import NamedTuple

__all__ = ["Acknowledged", "Change", "Kind", "Ledger", "Refused"]


class Kind(enum.Enum):
    """What is done to a key."""

    INSERT = "insert"
    """Also of a key that was deleted."""
    UPDATE = "update"
    DELETE = "delete"


class Change(NamedTuple):
    """What a writer wants a key to be."""

    key: str
    version: int
    kind: Kind

    @property
    def note(self) -> str:
        """What the row says after it: no two changes have the same."""
        return f"{self.key} {self.version}"

    @property
    def state(self) -> str | None:
        """What is found of the key after it; None: no row."""
        return None if self.kind is Kind.DELETE else self.note


class Refused(NamedTuple):
    """A guard did not let a writer in. Times are seconds since 1970."""

    began: float
    at: float
    side: str
    code: str


class Acknowledged(NamedTuple):
    """A change that is there."""

    change: Change
    side: str
    began: float
    ended: float
    refused: int
    """How often it was refused before."""


class Ledger:
    """What the writers of a table were told."""

    def __init__(self) -> None:
        self.changes: list[Acknowledged] = []
        self.refusals: list[Refused] = []
        self.unknown: list[Change] = []
        self.wrong: list[str] = []
        """What a writer saw itself: a row that was not as it was acknowledged."""
        self.bugs: list[str] = []
        """Errors that no guard has raised."""

    @property
    def problems(self) -> list[str]:
        """What nobody should meet where no database is restarted."""
        lost = [f"nobody knows of {one.kind.value} {one.note}" for one in self.unknown]
        return [*self.bugs, *self.wrong, *lost]

    def waits_s(self) -> list[float]:
        """How long changes took that were refused first."""
        return [one.ended - one.began for one in self.changes if one.refused]
