"""One of each: every message, request and verb that travels, with every field filled in."""

from typing import Final

from lockgate.model import messages as m
from lockgate.model import requests as r
from lockgate.model.ddl import Ddl, DdlKind
from lockgate.model.events import (
    CreateFeed,
    DrainNode,
    MergeSpans,
    MoveMaintainer,
    MoveSpan,
    PauseFeed,
    RemoveFeed,
    ResumeFeed,
    SplitSpan,
)
from lockgate.model.feeds import FeedSpec, Goal, Outcome, Trouble
from lockgate.model.ids import SEQ_MAX, NodeRef, Token
from lockgate.model.lake_events import DropTable
from lockgate.model.move_events import MoveCommand
from lockgate.model.moves import Command, MoveOrder
from lockgate.model.spans import Birth, KeyRange, Lineage, SpanSpec
from lockgate.model.statuses import DispatcherStatus, Heat, MaintainerStatus, Phase, Stage
from lockgate.node.link.wire import AskLake, AskMove, ResyncSpan, Verb

_REF: Final = NodeRef("a", 3)
_TOKEN: Final = Token(7, SEQ_MAX, 3)
_SPAN: Final = SpanSpec("7-1", "público.ça", KeyRange(b"\x00\xff", b"\xfe"))
_FEED_SPEC: Final = FeedSpec(start=2**63 - 1, tables=("a.b", "c.d"), until=2**63)
_DDL: Final = Ddl(
    9, DdlKind.ALTER, ("a.b",), True, "ALTER TABLE …", ("a.b",), (("a.b", "a.c"), ("x", "y"))
)
_TROUBLE: Final = Trouble("the target is full", True, "7-1")

REQUESTS: Final[tuple[r.Request, ...]] = (
    r.Create(_SPAN, _TOKEN, Lineage(("1", "2"), (_SPAN,)), Birth(5, (_SPAN, _SPAN))),
    r.Create(SpanSpec("s", "t"), _TOKEN),
    r.Remove("7-1", _TOKEN),
    r.Prepare(_SPAN, _TOKEN, "o1"),
    r.Hold("7-1", _TOKEN, "o1"),
    r.Release("7-1", _TOKEN, "o1"),
    r.Write("trigger", _TOKEN, _DDL, (_SPAN,)),
    r.Pass("7-1", _TOKEN, 10),
)

STATUSES: Final = (
    DispatcherStatus(
        "7-1", _TOKEN, Stage.HELD, 10, 11, _DDL, "o1", Heat.HOT, (b"\x01", b"\x80"), _TROUBLE
    ),
    DispatcherStatus("7-2", _TOKEN, Stage.GONE),
)

MESSAGES: Final[tuple[m.Message, ...]] = (
    m.StartMaintainer(4, _REF, "orders", 7, Goal.RUN, _FEED_SPEC),
    m.StopMaintainer(4, "orders", 7),
    m.NodeReport(
        _REF,
        4,
        100,
        (
            MaintainerStatus("orders", 7, Phase.CLOSING, 10, 2, 1, True, _TROUBLE, Outcome.STOPPED),
            MaintainerStatus("bills", 8, Phase.LOADING),
        ),
        12,
        True,
    ),
    m.Bootstrap("orders", 7, _REF),
    m.BootstrapReply("orders", 7, _REF, STATUSES),
    m.Requests("orders", 7, _REF, 3, REQUESTS),
    m.Heartbeat("orders", 7, _REF, 101, True, STATUSES),
    m.HeartbeatReply("orders", 7, _REF, 3, 55),
    m.Close("orders", 7, _REF, 3),
    m.CloseReply("orders", 7, _REF),
    m.Stale("orders", 7, _REF, 8),
)

VERBS: Final[tuple[Verb, ...]] = (
    CreateFeed("r1", "orders", _FEED_SPEC),
    PauseFeed("r2", "orders"),
    ResumeFeed("r3", "orders"),
    RemoveFeed("r4", "orders"),
    MoveMaintainer("r5", "orders", "b"),
    DrainNode("r6", "b"),
    MoveSpan("r7", "orders", "7-1", "b"),
    SplitSpan("r8", "orders", "7-1", (b"\x01", b"\x80")),
    MergeSpans("r9", "orders", ("7-1", "7-2")),
    ResyncSpan("r10", "orders", "7-1"),
    AskLake("r11", "lake", DropTable("r11", "public.orders", 7, 30_000)),
    AskMove("r12", "orders", MoveCommand("r12", MoveOrder(Command.SWITCH), dry=True)),
)


def beat(number: int) -> m.HeartbeatReply:
    """A small message that says which one it is."""
    return m.HeartbeatReply("orders", 7, _REF, 3, number)


def numbers(got: list[m.Message]) -> list[int]:
    """Which ones came."""
    return [one.settled for one in got if isinstance(one, m.HeartbeatReply)]
