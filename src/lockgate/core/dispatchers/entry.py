"""One span at one node: what was asked, and what the executor has made of it.

    (none) ──Create──► NOTED ──recorded──► STARTING ──started──► WORKING ◄──Release── HELD
       │                                      │                  │     └──Hold──► HOLDING ──┘
       └──Prepare─► NOTED ──recorded──► PREPARED ──Create──►     │
                                              │                  │
    Remove, a newer Create, Close, from everywhere:
                                 ──► STOPPING ──stopped──► ERASING ──erased──► (none)

FENCED (the sink refused its token) and FAILED dispatchers have ended, but stay here until a
Remove clears what stands in their name: a report may be lost, so they are told again and again.

The node says that a span is gone only from (none): after the executor stopped it and its
journal record is deleted. Earlier would let another node start beside a running one.
"""

import enum

from lockgate.core.machine import Cell, Table, do, ignore, table
from lockgate.model.ddl import Ddl
from lockgate.model.events import (
    DISPATCHER_EVENTS,
    DispatcherAdvanced,
    DispatcherBlocked,
    DispatcherFailed,
    DispatcherHeat,
    DispatcherHeld,
    DispatcherRefused,
    DispatcherStarted,
    DispatcherStopped,
)
from lockgate.model.feeds import Trouble
from lockgate.model.ids import FeedId, OperatorId, Token
from lockgate.model.positions import ORIGIN, Position
from lockgate.model.records import JournalRecord
from lockgate.model.requests import Create, Hold, Pass, Prepare, Release, Remove, Write
from lockgate.model.spans import SpanSpec
from lockgate.model.statuses import DispatcherStatus, Heat, Stage


class EntryState(enum.Enum):
    """See the module's diagram."""

    NOTED = "noted"
    PREPARED = "prepared"
    STARTING = "starting"
    WORKING = "working"
    HOLDING = "holding"
    HELD = "held"
    STOPPING = "stopping"
    ERASING = "erasing"
    FENCED = "fenced"
    FAILED = "failed"


STAGE_OF = {
    EntryState.PREPARED: Stage.PREPARING,
    EntryState.STARTING: Stage.STARTING,
    EntryState.WORKING: Stage.WORKING,
    EntryState.HOLDING: Stage.WORKING,
    EntryState.HELD: Stage.HELD,
    EntryState.STOPPING: Stage.STOPPING,
    EntryState.ERASING: Stage.STOPPING,
    EntryState.FENCED: Stage.FENCED,
    EntryState.FAILED: Stage.FAILED,
}
"""What is told of each state. NOTED is not told: it is not durable yet."""


class Entry:
    """The state of one span here. Changed by its desk alone."""

    __slots__ = (
        "barrier",
        "ddl",
        "heat",
        "next",
        "operator",
        "points",
        "position",
        "prepared",
        "request",
        "spec",
        "state",
        "stop_token",
        "token",
        "trouble",
    )

    def __init__(self, request: Create | Prepare) -> None:
        self.state = EntryState.NOTED
        self.request = request
        self.spec: SpanSpec = request.spec
        self.token: Token = request.token
        self.prepared = isinstance(request, Prepare)
        self.operator: OperatorId = request.operator if isinstance(request, Prepare) else ""
        self.stop_token: Token = request.token
        """Highest token that wants this entry gone."""
        self.next: Create | Prepare | None = None
        """What takes this entry's place once it is gone."""
        self.position: Position = ORIGIN
        self.barrier: Position = ORIGIN
        self.ddl: Ddl | None = None
        self.heat = Heat.NORMAL
        self.points: tuple[bytes, ...] = ()
        self.trouble: Trouble | None = None

    def status(self) -> DispatcherStatus:
        """What may be told of it."""
        return DispatcherStatus(
            self.spec.id,
            self.token,
            STAGE_OF[self.state],
            self.position,
            self.barrier,
            self.ddl,
            self.operator,
            self.heat,
            self.points,
            self.trouble,
        )

    def record(self, feed: FeedId) -> JournalRecord:
        """What must be durable before the executor is asked anything."""
        return JournalRecord(feed, self.spec, self.token, self.prepared, self.operator)


EVENTS = (
    Create,
    Prepare,
    Remove,
    Hold,
    Release,
    Write,
    Pass,
    *DISPATCHER_EVENTS,
)

_NOT_RUNNING: dict[type, Cell] = {
    Hold: ignore("nothing runs that could be held"),
    Release: ignore("nothing is held"),
    Write: ignore("the dispatcher does not run"),
    Pass: ignore("the dispatcher does not run"),
    **dict.fromkeys(DISPATCHER_EVENTS, ignore("late news of a dispatcher that ended")),
}
_REPLACED: dict[type, Cell] = {
    Create: do("replace"),
    Prepare: do("replace"),
}
_RUNNING: dict[type, Cell] = {
    **_REPLACED,
    Remove: do("stop"),
    DispatcherStarted: ignore("it is known to run"),
    DispatcherRefused: do("fenced"),
    DispatcherStopped: ignore("nobody asked it to stop; its end is told as refused or failed"),
    DispatcherHeld: ignore("it was released meanwhile"),
    DispatcherAdvanced: do("advanced"),
    DispatcherBlocked: do("blocked"),
    DispatcherHeat: do("heated"),
    DispatcherFailed: do("failed"),
    Write: do("write"),
    Pass: do("go_past"),
    Hold: ignore("another merge holds it, or this one does already"),
    Release: ignore("nothing is held"),
}

TABLE: Table = table(
    EntryState,
    EVENTS,
    {
        EntryState.NOTED: {**_NOT_RUNNING, **_REPLACED, Remove: do("erase")},
        EntryState.PREPARED: {
            **_NOT_RUNNING,
            Create: do("replace_or_begin"),
            Prepare: do("replace"),
            Remove: do("erase"),
        },
        EntryState.STARTING: {
            **_RUNNING,
            DispatcherStarted: do("started"),
            Hold: ignore("it has not claimed its row; the merge asks again"),
            Write: ignore("it has not claimed its row; the barrier asks again"),
            Pass: ignore("it has not claimed its row; it reads where it stands"),
        },
        EntryState.WORKING: {**_RUNNING, Hold: do("hold")},
        EntryState.HOLDING: {**_RUNNING, DispatcherHeld: do("held"), Release: do("release")},
        EntryState.HELD: {**_RUNNING, Release: do("release")},
        EntryState.STOPPING: {
            **_NOT_RUNNING,
            **_REPLACED,
            Remove: do("want_gone"),
            DispatcherStopped: do("stopped"),
            DispatcherAdvanced: do("advanced"),
        },
        EntryState.ERASING: {**_NOT_RUNNING, **_REPLACED, Remove: do("want_gone")},
        EntryState.FENCED: {**_NOT_RUNNING, **_REPLACED, Remove: do("erase")},
        EntryState.FAILED: {**_NOT_RUNNING, **_REPLACED, Remove: do("erase")},
    },
)
