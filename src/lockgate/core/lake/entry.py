"""One incarnation of one table, as a keeper knows it.

    LIVE ──kill begins──► KILLING ──it is dead──► DEAD ──its files are gone──► GONE
      ▲                      │                     ▲ ▲                           │
      └── it had no effect ──┘                     │ └── some are there again ───┘
      └───────────── a survey or a fence says so ──┘

Dead is final: no survey, however late, and no end of any work makes it anything but DEAD or GONE.
KILLING stays until it is certain what became of the kill.
"""

import enum
from typing import NamedTuple

from lockgate.core.lake.asks import Ask
from lockgate.model.ids import NO_TOKEN, Millis, TableId, Token
from lockgate.model.lake import (
    Figures,
    LakeTrouble,
    TableKey,
    TableSeen,
    WorkKind,
    WorkNumber,
)

__all__ = ["Drop", "Entry", "Failure", "Job", "Life"]


class Life(enum.Enum):
    """See the module's diagram."""

    LIVE = "live"
    KILLING = "killing"
    DEAD = "dead"
    GONE = "gone"


class Failure(NamedTuple):
    """A kind of work that does not get done, and when it is tried again."""

    attempts: int
    retry_at: Millis
    trouble: LakeTrouble


class Drop(NamedTuple):
    """A person who waits for the table's end."""

    request: str
    deadline: Millis | None
    """None: what it waits for is short, or has begun."""
    heirs: tuple["Entry", ...] = ()
    """What would be the table after it: they end first."""


class Job:
    """A piece of work: first it waits, then it is the active one of its table."""

    __slots__ = ("asks", "dropped", "entry", "kind", "number", "token")

    def __init__(self, entry: "Entry", kind: WorkKind) -> None:
        self.entry = entry
        self.kind = kind
        self.asks: list[Ask] = []
        self.number: WorkNumber = 0
        self.token = NO_TOKEN
        self.dropped = False


class Entry:
    """What is known of it, what is done to it, and who waits for that."""

    __slots__ = (
        "active",
        "awaits",
        "changed",
        "dead_at",
        "dropped",
        "drops",
        "failures",
        "figures",
        "in_doubt",
        "incarnation",
        "kill_again_at",
        "life",
        "oldest_at",
        "seen_by",
        "sight",
        "table",
        "token",
        "vacuumed_at",
    )

    def __init__(self, table: TableId, incarnation: int, now: Millis) -> None:
        self.table = table
        self.incarnation = incarnation
        self.life = Life.LIVE
        self.awaits: bool | None = None
        """Begun anew, it has no rows of its own yet: what it is to replace is the table. None while
        nobody could look at it; and that it has rows is not taken back while it lives."""
        self.dead_at: Millis = 0
        self.dropped = False
        """It died by a drop of its name, which was to go on to older ones."""
        self.token: Token = NO_TOKEN
        """Under which this keeper claimed it, or a survey found it."""
        self.figures = Figures()
        self.oldest_at: Millis | None = None
        """When the oldest change came that is not drained."""
        self.vacuumed_at = now
        self.sight: LakeTrouble | None = None
        """Why the last survey could not look at it."""
        self.seen_by = 0
        """The survey that its figures, or that trouble, are of."""
        self.changed = 0
        """Surveys up to this number were begun before its last change: they do not know of it."""
        self.active: Job | None = None
        """The lock: whoever has it is the only one that works on the table."""
        self.drops: list[Drop] = []
        self.in_doubt = False
        """A kill may have landed, or may still land."""
        self.kill_again_at: Millis | None = None
        self.failures: dict[WorkKind, Failure] = {}

    @property
    def key(self) -> TableKey:
        return self.table, self.incarnation

    @property
    def is_dead(self) -> bool:
        return self.life in {Life.DEAD, Life.GONE}

    @property
    def idle(self) -> bool:
        """Nobody works on it and nobody waits for its end."""
        return self.active is None and not self.drops and self.life is not Life.KILLING

    def undrained(self, look: int) -> bool:
        """It may have changes that are not in stable, as of survey `look` or a later one.

        Figures of before that tell nothing: who could not look, or began to before work on it
        ended, has not seen what has landed since. Nor is a kill under way one that lands."""
        told = self.sight is None and self.seen_by >= look
        return not self.is_dead and (
            not told or self.figures.ingest_rows > 0 or WorkKind.DRAIN in self.failures
        )

    @property
    def trouble(self) -> LakeTrouble | None:
        """What people are to know of it."""
        failed = next((failure.trouble for failure in self.failures.values()), None)
        return failed or self.sight

    def die(self, now: Millis, ago_ms: int = 0) -> None:
        """It is known to be dead. That may be known already."""
        if not self.is_dead:
            self.life = Life.DEAD
            if self.awaits:
                self.awaits = None  # it may have got its rows before it died: the next look tells
            self.dead_at = now - ago_ms
            self.kill_again_at = None
            self.failures.clear()

    def see(self, now: Millis, asked_at: Millis, number: int, seen: TableSeen) -> None:
        """Take what survey `number` found, as far as the survey can know better."""
        if seen.dead:
            self.awaits = seen.awaits
            if self.life is Life.GONE and number > self.changed:
                self.life = Life.DEAD  # somebody who slept has made a directory of it once more
            self.die(now, seen.dead_ms)
        elif not self.is_dead and number > self.changed:
            self.seen_by = number
            self.sight = seen.trouble
            if seen.trouble is None:
                self.awaits = seen.awaits and self.awaits is not False
                self.token = seen.token
                self.figures = seen.figures
                waits = seen.figures.ingest_rows > 0
                self.oldest_at = asked_at - seen.figures.oldest_ms if waits else None

    def fail(self, now: Millis, kind: WorkKind, trouble: LakeTrouble, wait_ms: int) -> None:
        """That kind of work did not get done; it is tried again after a while."""
        before = self.failures.get(kind)
        attempts = before.attempts + 1 if before is not None else 1
        self.failures[kind] = Failure(attempts, now + wait_ms, trouble)

    def rests(self, now: Millis, kind: WorkKind) -> bool:
        """That kind of work failed and is not to be tried yet."""
        failure = self.failures.get(kind)
        return failure is not None and now < failure.retry_at
