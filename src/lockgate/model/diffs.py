"""Diffs: what is asked for, what is kept of each, and how people and scripts see it.

    DiffOrder ──► DiffRecord: running ──┬── finished    every range of every table was compared
                     ▲   │              └── failed      why; resumed, it goes on with the rest
                     └───┴── its node died: another takes it up, under a higher attempt

A diff that nobody works on yet is running, too: it waits for a node that has room for it.

A table is compared range by range, and what came of a range is kept as soon as it is known
(`RangeOutcome`). Whoever takes a diff up compares the ranges that are left. They are then of
another position than the others, so every range says at which it was compared.

Records are `Value`s; what people see are plain dataclasses, as all documents of the HTTP interface
(`documents.py`).
"""

import enum
from dataclasses import dataclass

from lockgate.model.ids import NodeRef
from lockgate.model.value import Value

__all__ = [
    "SAMPLES_MAX",
    "DiffColumn",
    "DiffDocument",
    "DiffOrder",
    "DiffProgress",
    "DiffRecord",
    "DiffSample",
    "DiffState",
    "DiffSummary",
    "DiffTable",
    "DiffTrouble",
    "RangeOutcome",
    "RowKind",
    "TableRecord",
]

SAMPLES_MAX = 20
"""Rows that are shown of a table that differs."""


class DiffState(enum.Enum):
    """How far a diff is."""

    RUNNING = "running"
    FINISHED = "finished"
    FAILED = "failed"


class RowKind(enum.Enum):
    """What is wrong with a row of the target."""

    MISSING = "missing"
    """The source has it, the target has not."""
    EXTRA = "extra"
    """The target has it, the source has not."""
    DIFFERENT = "different"
    """Both have its key, with other values."""


@dataclass(frozen=True)
class DiffColumn:
    """A column's value on both sides, as text; None is NULL, or that there is no such row."""

    name: str
    source: str | None
    target: str | None


@dataclass(frozen=True)
class DiffSample:
    """One row that differs."""

    kind: RowKind
    key: dict[str, str | None]
    """By column; empty for a table without a key."""
    columns: tuple[DiffColumn, ...]
    """Those that differ; of a row that only one side has, all."""


class DiffOrder(Value, frozen=True, kw_only=True):
    """What is to be compared. Endpoints are named as people name them, or are URLs."""

    source: str
    target: str
    """With a feed both are only for people to see: the feed has its own."""
    tables: tuple[str, ...]
    """Patterns of `patterns.py`, over the source's tables; none: all of the feed's."""
    feed: str = ""
    """The feed between the two, for a comparison at one position while people write."""
    move: str = ""
    """The move that the feed belongs to."""
    repair: bool = False
    """Make the target's rows equal to the source's."""


class DiffTrouble(Value, frozen=True):
    """Why a diff, or a table of it, was not brought to its end."""

    code: str
    what: str
    object: str = ""
    hint: str = ""


class TableRecord(Value, frozen=True):
    """A table that takes part: how it is cut, fixed once, so that ranges mean the same for ever."""

    table: str
    """Its name at the source, `TableName.id`."""
    target: str
    key: tuple[str, ...] = ()
    edges: tuple[tuple[str, ...], ...] = ()
    """Between its ranges, as texts of the key."""
    hashed: int = 0
    """Greater than 0: it is cut by the key's hash, into so many ranges, and not by edges."""
    columns: tuple[str, ...] = ()
    rows_estimate: int = 0
    lacks: tuple[str, ...] = ()
    """Columns of the source that the target has not: the table is not equal."""
    notes: tuple[str, ...] = ()
    trouble: DiffTrouble | None = None
    """It could not be compared at all."""

    @property
    def ranges(self) -> int:
        """How many there are."""
        if self.trouble is not None:
            return 0
        return self.hashed or len(self.edges) + 1


class RangeOutcome(Value, frozen=True):
    """What came of one range of one table."""

    table: str
    no: int
    rows: int
    """At the source."""
    missing: int = 0
    extra: int = 0
    different: int = 0
    samples: tuple[DiffSample, ...] = ()
    position: str = ""
    """At which both sides were looked at; empty without a feed."""
    repaired: int = 0
    """Rows that were written or deleted at the target."""
    left: int = 0
    """Rows that still differ after a repair."""
    reason: str = ""
    """Why they do, in the target's words; empty where nobody knows."""

    @property
    def differing(self) -> int:
        """Rows that were found not to be equal."""
        return self.missing + self.extra + self.different

    def unequal(self, repair: bool) -> int:
        """Rows that are not equal now: with a repair, those that it has left."""
        return self.left if repair else self.differing


class DiffRecord(Value, frozen=True, kw_only=True):
    """A diff as the metastore keeps it, without its ranges."""

    id: str
    order: DiffOrder
    who: str = ""
    state: DiffState = DiffState.RUNNING
    runner: NodeRef | None = None
    """The node that works on it, in one life."""
    attempt: int = 1
    """Raised whenever somebody takes it up: who has a lower one writes nothing more."""
    seed: int = 0
    """Of the hashes: another for every diff, so that no two rows collide in all of them."""
    lake: bool = False
    """A lake takes part: nothing can be repaired."""
    tables: tuple[TableRecord, ...] = ()
    """Empty until it is planned."""
    started_ms: int = 0
    seconds: float = 0.0
    """Spent on it, up to `seen_ms`."""
    seen_ms: int = 0
    """When whoever works on it last wrote something, by the metastore's clock."""
    trouble: DiffTrouble | None = None
    failed: tuple[tuple[str, DiffTrouble], ...] = ()
    """Tables that were planned, and could not be compared to their end."""
    rows: int = 0
    """Compared in all; this and the next two are known when it is over."""
    unequal: int = 0
    equal: bool | None = None


# --- as people see them ---------------------------------------------------------------------------


@dataclass(frozen=True)
class DiffProgress:
    """Rows that are compared, of about how many."""

    rows_done: int
    rows_total: int
    percent: float
    eta_s: float | None


@dataclass(frozen=True)
class DiffTable:
    """One table of a diff."""

    table: str
    rows: int
    """At the source, of the ranges that are compared."""
    equal: bool | None
    """None while nobody can know."""
    missing: int
    extra: int
    different: int
    samples: tuple[DiffSample, ...] = ()
    position: str = ""
    """At which the last of it was compared."""
    target: str = ""
    """Its name there, where that is another."""
    repaired: int = 0
    notes: tuple[str, ...] = ()
    error: str = ""


@dataclass(frozen=True)
class DiffDocument:
    """A diff: how far it is, and what it found."""

    id: str
    state: DiffState
    equal: bool | None
    """None while it runs, or when it failed before it found a difference."""
    source: str
    target: str
    tables: tuple[DiffTable, ...]
    position: str
    """The last one at which both sides were looked at; empty without a feed."""
    seconds: float
    rows_per_s: float
    progress: DiffProgress
    feed: str = ""
    move: str = ""
    repair: bool = False
    node: str = ""
    """Which works on it, or did last; empty while it waits for one that has room."""
    started: str = ""
    error: str = ""
    notes: tuple[str, ...] = ()
    next_steps: tuple[str, ...] = ()


@dataclass(frozen=True)
class DiffSummary:
    """A diff in a list of them."""

    id: str
    state: DiffState
    equal: bool | None
    source: str
    target: str
    tables: int
    rows: int
    """Compared so far."""
    unequal: int
    """Of those, how many are not equal."""
    seconds: float
    feed: str = ""
    move: str = ""
    repair: bool = False
    node: str = ""
    started: str = ""
    error: str = ""
