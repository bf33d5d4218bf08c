"""Lakes and their tables as people and scripts see them.

Plain frozen dataclasses, as all documents of the HTTP interface are (`documents.py`).
"""

from dataclasses import dataclass

__all__ = ["UNDER_WAY", "LakeDocument", "LakeOutcome", "LakeSummary", "LakeTableDocument"]

UNDER_WAY = "under-way"
"""The verdict on what is not over yet."""


@dataclass(frozen=True)
class LakeTableDocument:
    """One table of a lake: its newest incarnation, or one that is dead and not deleted yet."""

    table: str
    role: str
    epoch: int
    stable_version: int
    stable_rows: int
    ingest_segments: int
    ingest_rows: int
    drained_to: str
    size_bytes: int
    state: str
    """`live`, `draining` or `dead`."""
    incarnation: int
    error: str = ""
    next_steps: tuple[str, ...] = ()


@dataclass(frozen=True)
class LakeSummary:
    """One lake without its tables, of which there may be many thousands: who waits for a step-up
    looks at this again and again."""

    lake: str
    role: str
    stage: str
    epoch: int
    leader: str
    """The installation that leads it; empty when none does."""
    tables: int
    done: int = 0
    total: int = 0
    """Of a step-up or a flush: tables that are through, of how many."""
    seen_s: float = 0.0
    """How old this is."""
    next_steps: tuple[str, ...] = ()
    error: str = ""
    """Why it could not be looked at. It is tried again."""


@dataclass(frozen=True)
class LakeDocument:
    """One lake, as this installation sees it."""

    lake: str
    role: str
    stage: str
    epoch: int
    leader: str
    """The installation that leads it; empty when none does."""
    tables: tuple[LakeTableDocument, ...]
    done: int = 0
    total: int = 0
    """Of a step-up or a flush: tables that are through, of how many."""
    seen_s: float = 0.0
    """How old this is."""
    next_steps: tuple[str, ...] = ()
    error: str = ""
    """Why it could not be looked at. It is tried again."""

    @property
    def summary(self) -> LakeSummary:
        """The same without its tables."""
        return LakeSummary(
            self.lake,
            self.role,
            self.stage,
            self.epoch,
            self.leader,
            len(self.tables),
            self.done,
            self.total,
            self.seen_s,
            self.next_steps,
            self.error,
        )


@dataclass(frozen=True)
class LakeOutcome:
    """What came of something that was asked of a lake."""

    request: str
    """To ask on by, while it is under way."""
    verdict: str
    """`done`, `nothing-to-do`, `superseded`, or `under-way`."""
    what: str = ""
    hint: str = ""
    failed: tuple[str, ...] = ()
    """Tables for which it did not work, and why."""
