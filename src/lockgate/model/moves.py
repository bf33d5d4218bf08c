"""Moves, as the core knows them: what is durable about one, and the steps that it is made of.

A move has two sides, *source* and *target*, and one feed at a time: from the side that has the
traffic to the other. A *flip* (switch or reverse) turns that round. Its point of no return is the
*seal*: one transaction at the side that gives the traffic away, which makes its guard permanent if
that has not run out. Until then the guard ends by itself, whoever is alive; from then on the flip
can only go forward.

A command is a list of steps. A step is recorded before it acts and when it has acted; it can be
done again by a successor, and up to the seal it can be undone.
"""

import enum
from typing import Any, Final

import msgspec

from lockgate.model.ids import FeedId, Millis, TableId
from lockgate.model.positions import Position
from lockgate.model.value import Value

__all__ = [
    "CHECK_MS",
    "Command",
    "Disposal",
    "MoveFacts",
    "MoveId",
    "MoveOrder",
    "MoveRecord",
    "MoveRequest",
    "MoveSettings",
    "MoveState",
    "MoveTrouble",
    "MoveVerdict",
    "Side",
    "Step",
    "StepRecord",
    "StepState",
    "accepted",
    "begun",
]

MoveId = str

CHECK_MS: Final = 20_000
"""For looking at both sides before a flip, beside the time that its feed may be behind."""


class Side(enum.Enum):
    """Of a move, as it was created; what has the traffic changes with each flip."""

    SOURCE = "source"
    TARGET = "target"

    @property
    def other(self) -> "Side":
        return Side.TARGET if self is Side.SOURCE else Side.SOURCE


class Command(enum.Enum):
    """What people ask of a move."""

    CREATE = "create"
    SWITCH = "switch"
    REVERSE = "reverse"
    """A switch from target to source."""
    COMPLETE = "complete"
    CANCEL = "cancel"


class Disposal(enum.Enum):
    """What becomes of the tables that are left: the source's of a complete, the target's of a
    cancel."""

    RENAME = "rename"
    DROP = "drop"
    KEEP = "keep"


class MoveState(enum.Enum):
    """As people see it. COPYING and RUNNING differ by what the feed says of its copy."""

    COPYING = "copying"
    RUNNING = "running"
    SWITCHING = "switching"
    SWITCHED = "switched"
    REVERSING = "reversing"
    COMPLETING = "completing"
    COMPLETED = "completed"
    CANCELLING = "cancelling"
    CANCELLED = "cancelled"
    ERROR = "error"
    """A step cannot succeed until somebody acts. The same command again goes on."""


class Step(enum.Enum):
    """Everything that is ever done for a move. `giving` is the side that has the traffic when the
    command begins, `taking` the other."""

    # create
    CHECK_CREATE = "check-create"
    """Refuse what cannot be moved. Changes nothing."""
    FORWARD = "forward"
    """Have the feed from source to target, with the copy; its tables at the target are made."""
    GUARD = "guard"
    """Nobody but Lockgate writes to the target's tables."""

    # switch and reverse
    CHECK = "check"
    """Lag, states, privileges, sequences, hooks. Changes nothing."""
    HOOK_BEFORE = "hook-before"
    """Have whoever routes the traffic hold it. Undone: have it go on as before."""
    BLOCK = "block"
    """Guard the giving side, until a deadline by its own clock; wait for who writes there. Undone:
    no guard. Fact: `blocked_at`, a position behind everything that was written."""
    CATCH_UP = "catch-up"
    """Wait until the taking side has everything up to `blocked_at`."""
    FREEZE = "freeze"
    """Stop the feed, its tokens void at the sink. Undone: let it go on."""
    SEQUENCES = "sequences"
    """Set the taking side's sequences beyond the giving side's."""
    WAY_BACK = "way-back"
    """Have the feed from taking to giving side, without a copy, from where the taking side is now.
    Undone: remove it. Fact: `back_from`."""
    SEAL = "seal"
    """The point of no return: make the guard permanent, unless its deadline is over or the tables
    were changed behind `blocked_at`. Its outcome is a fact at the giving side: asked again, it
    says the same."""
    FLIP = "flip"
    """Nothing but the record, in which traffic and routes change hands."""
    OPEN = "open"
    """Take the guard of the taking side away."""
    HOOK_AFTER = "hook-after"
    """Have whoever routes the traffic send it to the taking side."""
    RETIRE = "retire"
    """Remove the feed that was frozen."""

    # complete
    CHECK_COMPLETE = "check-complete"
    RUN_OUT = "run-out"
    """Have the feed run exactly to a position, stop it there, its tokens void. Fact: `as_of`."""
    END_FEED = "end-feed"
    """Remove the feed: nobody can apply at its sink any more, whatever woke up."""
    DISPOSE = "dispose"
    """Rename, drop or keep the source's tables."""
    CLEAN = "clean"
    """Guards, rows and schemas of the move, at both sides."""

    # cancel; its feed ends by END_FEED, its leftovers by CLEAN
    CHECK_CANCEL = "check-cancel"
    STOP = "stop"
    """Stop the feed, its tokens void: nobody applies any more."""
    DROP_COPIES = "drop-copies"
    """Drop the target's tables that the move has made, unless they are to be kept."""


class StepState(enum.Enum):
    """`pending → running → done`, and back: `undoing → undone`."""

    PENDING = "pending"
    RUNNING = "running"
    DONE = "done"
    UNDOING = "undoing"
    UNDONE = "undone"


class StepRecord(Value, frozen=True):
    """One step of the command that is under way, or was the last one. Times are the metastore's."""

    step: Step
    state: StepState = StepState.PENDING
    started_ms: Millis = 0
    ended_ms: Millis = 0
    detail: str = ""

    def changed(self, **fields: Any) -> "StepRecord":
        """The same step with some fields anew."""
        return msgspec.structs.replace(self, **fields)


class MoveTrouble(Value, frozen=True):
    """Why something could not be done, and what helps."""

    what: str
    hint: str = ""


class MoveVerdict(enum.Enum):
    """What came of a command."""

    BEGUN = "begun"
    """It is recorded, and goes on by itself."""
    NOTHING = "nothing-to-do"
    """It is so already."""
    BUSY = "busy"
    """Another command is under way. Nothing was changed."""
    REFUSED = "refused"
    DONE = "done"
    """Of a dry run: its steps are in `steps`. Of a command: every step is done."""
    ROLLED_BACK = "rolled-back"
    """Of a flip: it failed before the seal, and everything is as it was."""
    UNKNOWN = "outcome-unknown"


class MoveRequest(Value, frozen=True):
    """Somebody's request for a command, and what came of it."""

    name: str
    verdict: MoveVerdict = MoveVerdict.BEGUN
    """BEGUN while the command is under way."""
    why: MoveTrouble = MoveTrouble("")


class MoveOrder(Value, frozen=True):
    """A command, as it was asked for."""

    command: Command
    timeout_ms: Millis = 30_000
    """Of a flip: how long writers may be blocked before it is put back."""
    max_lag_ms: Millis = 10_000
    """Of a flip: refused when the feed is further behind."""
    disposal: Disposal = Disposal.RENAME
    """Of a complete: what becomes of the source's tables. Of a cancel: DROP or KEEP."""
    lost: Side | None = None
    """Of a complete or a cancel: the side without the traffic, which is gone for ever. Nothing is
    waited for there, and nothing is done to its tables."""

    @property
    def check_ms(self) -> Millis:
        """How long the check of a flip may take. It holds nobody up: so it has time for the lag
        that people allow and for servers that are slow, however short the flip is to be."""
        return max(self.timeout_ms, self.max_lag_ms + CHECK_MS)


class MoveFacts(Value, frozen=True):
    """What steps found out, and later steps go by."""

    flips: int = 0
    """How often traffic has changed hands. Feeds are named by it: each flip has one of its own."""
    feed: FeedId = ""
    """The feed that runs, from the side that has the traffic."""
    frozen: FeedId = ""
    """The feed that was frozen by the last flip and is not removed yet."""
    blocked_at: Position = 0
    back_from: Position = 0
    as_of: Position = 0
    made: tuple[TableId, ...] | None = None
    """Of a cancel: what a set-up that was broken off has made at the target, and nobody has filled.
    None: the feed was set up, and every table that was not there before is its copy."""
    sealed: bool = False
    """Of the flip that is under way."""
    unfinished: bool = False
    """Of a cancel: it has taken the place of a create, which nobody goes on with any more."""
    route_version: int = 0
    left: tuple[str, ...] = ()
    """What is left at a side that was given up, for people."""

    def changed(self, **fields: Any) -> "MoveFacts":
        """The same facts but for some."""
        return msgspec.structs.replace(self, **fields)


class MoveRecord(Value, frozen=True):
    """All that is durable. Written by the newest keeper only, in the order of its serials."""

    move: MoveId
    keeper: int = 0
    """Who works for the move is numbered: its epoch. Checked here and at both sides."""
    serial: int = 0
    traffic: Side = Side.SOURCE
    order: MoveOrder = MoveOrder(Command.CREATE)
    """The command that is under way, or was the last one."""
    ended: bool = False
    """The command is over: every step done, or all undone."""
    steps: tuple[StepRecord, ...] = ()
    facts: MoveFacts = MoveFacts()
    trouble: MoveTrouble | None = None
    """Why the last attempt failed, or is not getting on."""
    stuck: bool = False
    """It waits for somebody to act."""
    requests: tuple[MoveRequest, ...] = ()
    """The last ones that a command was begun for, or that joined one (`core.move.requests`)."""

    def changed(self, **fields: Any) -> "MoveRecord":
        """The same move with some fields anew."""
        return msgspec.structs.replace(self, **fields)

    @property
    def undoing(self) -> bool:
        return any(one.state in (StepState.UNDOING, StepState.UNDONE) for one in self.steps)


class MoveSettings(Value, frozen=True):
    """How a move is looked after. Times are about liveness: no safety rests on them."""

    retry_ms: int = 500
    """A record that is not known to be durable is written again after this."""
    backoff_ms_min: int = 200
    """A step that failed is tried again after this, then after twice as long, and so on."""
    backoff_ms_max: int = 15_000
    backoff_ms_held_up: int = 1_000
    """The longest wait while people's writes are held up."""


def begun(held: MoveRecord) -> MoveRecord:
    """What a record becomes, durably, before a new keeper goes on from it: from then on what the
    one before still has on its way is refused."""
    return msgspec.structs.replace(held, keeper=held.keeper + 1, serial=0)


def accepted(held: MoveRecord, new: MoveRecord) -> bool | None:
    """Whether a record may be written over another. None: it is the older one of the same keeper,
    whose answer nobody waits for."""
    if held.keeper > new.keeper:
        return False
    return None if (held.keeper, held.serial) > (new.keeper, new.serial) else True
