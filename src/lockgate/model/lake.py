"""Lakes, as the core knows them: who leads, what tables there are, and what can be done to them.

A *home* is one installation of Lockgate; several may share a lake. One leads: it alone writes the
stable layer, under a token of the lake's epoch. A home's *keeper* decides for it; keepers follow
each other, and each has a number that is higher than those before it.

An incarnation of a table is a table of its own. Its number is the position at which it was born,
so of two that bear one name the one with the higher number is the newer.
"""

import enum

import msgspec

from lockgate.model.ids import NO_TOKEN, Epoch, TableId, Token
from lockgate.model.positions import ORIGIN, Position
from lockgate.model.value import Value

__all__ = [
    "NOBODY",
    "Figures",
    "HomeId",
    "LakeRole",
    "LakeSettings",
    "LakeTrouble",
    "Leadership",
    "TableKey",
    "TableSeen",
    "Wish",
    "WishRecord",
    "WorkKind",
    "WorkNumber",
    "WorkOutcome",
    "accepted",
    "begun",
    "released",
    "taken",
]

HomeId = str
KeeperNumber = int
WorkNumber = int
TableKey = tuple[TableId, int]
"""A table's name and its incarnation."""


class LakeRole(enum.Enum):
    """What a home is to a lake, as people see it."""

    FOLLOWER = "follower"
    STEPPING_UP = "stepping-up"
    LEADER = "leader"
    STEPPING_DOWN = "stepping-down"


class LakeTrouble(Value, frozen=True):
    """Why something could not be done, and what helps."""

    what: str
    hint: str = ""


# --- who leads -----------------------------------------------------------------------------------


class Leadership(Value, frozen=True):
    """What `_lockgate/leader` says: the lake's epoch, and who took it."""

    epoch: Epoch
    home: HomeId = ""
    """Empty: who led has given it up, or nobody ever led."""
    keeper: KeeperNumber = 0
    attempt: int = 0


NOBODY = Leadership(0)


def taken(
    held: Leadership, home: HomeId, keeper: KeeperNumber, attempt: int, over: Epoch
) -> Leadership | None:
    """What the lake's leader becomes when a keeper asks for it; None when it is refused.

    `over` is the epoch that the home wanted to follow upon when it wished to lead. Has another
    home taken the lake since, then that wish is void: a keeper that starts again, or a question
    that was late, must not take the lake from a leader whom somebody chose after it. Asked twice,
    it is taken once: the outcome of the first may not be known.
    """
    mine = held.home == home
    if mine and held.keeper > keeper:
        return None
    if mine and (held.keeper, held.attempt) == (keeper, attempt):
        return held
    if mine or held.epoch <= over:
        return Leadership(held.epoch + 1, home, keeper, attempt)
    return None


def released(held: Leadership, home: HomeId, epoch: Epoch) -> Leadership:
    """What the lake's leader becomes when it is given up; the same when it is another's by now."""
    return Leadership(held.epoch) if (held.home, held.epoch) == (home, epoch) else held


# --- what a home wants, durable in its metastore --------------------------------------------------


class Wish(enum.Enum):
    """What a home is to be to a lake."""

    FOLLOW = "follow"
    LEAD = "lead"
    LEAVE = "leave"
    """Lead no longer. A successor that finds this puts it to an end as it was asked."""


class WishRecord(Value, frozen=True):
    """A wish, and who may replace it: the newest keeper, in the order of its serials."""

    wish: Wish = Wish.FOLLOW
    over: Epoch = 0
    """The lake's epoch when it was wished to lead: see `taken`."""
    flush: bool = False
    keeper: KeeperNumber = 0
    serial: int = 0


def begun(held: WishRecord) -> WishRecord:
    """What a record becomes, durably, before a new keeper goes on from it.

    From then on it is the new keeper's: what the one before still has on its way is refused.
    """
    return msgspec.structs.replace(held, keeper=held.keeper + 1, serial=0)


def accepted(held: WishRecord, new: WishRecord) -> bool | None:
    """Whether a record may be written over another. None: it is the older one of the same keeper,
    whose answer nobody waits for."""
    if held.keeper > new.keeper:
        return False
    return None if (held.keeper, held.serial) > (new.keeper, new.serial) else True


# --- what is known of tables ----------------------------------------------------------------------


class Figures(Value, frozen=True):
    """How much there is of a table, as of one look."""

    ingest_rows: int = 0
    """Changes that are not drained, in the ingest that this home would drain from."""
    ingest_bytes: int = 0
    ingest_segments: int = 0
    ingest_to: Position = ORIGIN
    oldest_ms: int = 0
    """The age of the oldest of them."""
    drained_to: Position = ORIGIN
    stable_rows: int = 0
    stable_bytes: int = 0
    stable_files: int = 0
    small_files: int = 0
    """Stable files that a compaction would put together."""
    stable_version: int = 0
    size_bytes: int = 0
    """Of all files of stable and of this home's ingests: those of changes that are drained and not
    pruned yet, too."""

    def drained(self, to: Position) -> "Figures":
        """The same when all changes that are known of are in stable, up to this position."""
        return msgspec.structs.replace(
            self,
            ingest_rows=0,
            ingest_bytes=0,
            ingest_segments=0,
            oldest_ms=0,
            drained_to=max(to, self.drained_to),
            ingest_to=max(to, self.ingest_to),
        )

    def compacted(self) -> "Figures":
        """The same when no file is small."""
        return msgspec.structs.replace(self, small_files=0)


class TableSeen(Value, frozen=True):
    """One incarnation of one table, as a survey found it."""

    table: TableId
    incarnation: int
    dead: bool = False
    dead_ms: int = 0
    """How long it has been dead."""
    token: Token = NO_TOKEN
    """Whose the stable layer is; NO_TOKEN when there is none yet."""
    figures: Figures = Figures()
    trouble: LakeTrouble | None = None
    """It is there and could not be looked at. Its figures say nothing then."""
    awaits: bool = False
    """Its rows are still to come, or never came: its name means the one before it."""
    dropped: bool = False
    """It was killed by a drop of its name, which then goes on to what it was to replace: who comes
    after a keeper that was lost in between ends that."""

    @property
    def key(self) -> TableKey:
        return self.table, self.incarnation


# --- what is done to them -------------------------------------------------------------------------


class WorkKind(enum.Enum):
    """At most one piece of work is under way for an incarnation."""

    CLAIM = "claim"
    """Make the token the stable table's own; make that table where there is only ingest."""
    DRAIN = "drain"
    """Bring everything into stable that ingest holds when the work begins."""
    COMPACT = "compact"
    VACUUM = "vacuum"
    KILL = "kill"
    """Mark it dead: the last commit there is."""
    DELETE = "delete"
    """Remove the files of a dead incarnation, and its directory at last. Can be resumed."""


class WorkOutcome(enum.Enum):
    """How a piece of work ended."""

    DONE = "done"
    NOTHING = "nothing"
    """There was nothing to do."""
    DEAD = "dead"
    """The table is dead; it was skipped. A kill ends so when the table was dead before."""
    STALE = "stale"
    """The fence refused: a newer leader has claimed the table."""
    HELD = "held"
    """Readers hold what was to be deleted: later."""
    FAILED = "failed"
    """It had no effect, and never will have."""
    UNKNOWN = "unknown"
    """It may have had an effect, or may have it later."""


# --- settings -------------------------------------------------------------------------------------


class LakeSettings(Value, frozen=True):
    """How a lake is looked after. Times are about liveness: no safety rests on them."""

    workers: int = 2
    """Drains, compactions, vacuums and deletions at a time."""
    claimers: int = 8
    """Claims at a time: each is one small commit."""
    drain_rows: int = 500_000
    drain_bytes: int = 256 * 1024 * 1024
    drain_ms: int = 5 * 60_000
    """Changes are in stable after about this long, however few they are."""
    drain_share: float = 0.1
    """Ingest's rows against stable's, from which on reading costs noticeably more."""
    share_rows_min: int = 10_000
    """Fewer changes than this cost a reader nothing worth a rewrite."""
    compact_files: int = 32
    vacuum_ms: int = 6 * 3_600_000
    retention_ms: int = 24 * 3_600_000
    """Files of a dead table are kept for so long, for readers that have it open."""
    held_ms: int = 60_000
    """Files that readers hold are looked at again after this."""
    survey_ms: int = 10_000
    survey_wait_ms: int = 120_000
    """A survey that was not answered for so long is asked for again."""
    retry_ms: int = 1_000
    backoff_ms_min: int = 5_000
    backoff_ms_max: int = 10 * 60_000
