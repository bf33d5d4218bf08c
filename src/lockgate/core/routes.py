"""Which method of the node takes which event. Every event that there is has a route."""

from collections.abc import Mapping

from lockgate.model.batch import (
    Joined,
    JoinFailed,
    Landed,
    LeaseLost,
    Loaded,
    LoadFailed,
    NotLanded,
    Refused,
    Renewed,
    RenewFailed,
    Unknown,
)
from lockgate.model.events import (
    CreateFeed,
    DispatcherAdvanced,
    DispatcherBlocked,
    DispatcherFailed,
    DispatcherHeat,
    DispatcherHeld,
    DispatcherRefused,
    DispatcherStarted,
    DispatcherStopped,
    DrainNode,
    MergeSpans,
    MoveMaintainer,
    MoveSpan,
    PauseFeed,
    RemoveFeed,
    ResumeFeed,
    SinkClosed,
    SinkCloseFailed,
    SplitSpan,
    Tick,
)
from lockgate.model.messages import (
    Bootstrap,
    BootstrapReply,
    Close,
    CloseReply,
    Heartbeat,
    HeartbeatReply,
    NodeReport,
    Requests,
    Stale,
    StartMaintainer,
    StopMaintainer,
)

ROUTES: Mapping[type, str] = {
    Tick: "_on_tick",
    **dict.fromkeys((Joined, JoinFailed, Renewed, RenewFailed, LeaseLost), "_on_lease"),
    **dict.fromkeys((Landed, Refused, NotLanded, Unknown), "_on_commit_answer"),
    Loaded: "_on_loaded",
    LoadFailed: "_on_store",
    StartMaintainer: "_on_start_maintainer",
    StopMaintainer: "_on_stop_maintainer",
    NodeReport: "_on_node_report",
    **dict.fromkeys((BootstrapReply, Heartbeat, CloseReply, Stale), "_on_reply"),
    **dict.fromkeys((Bootstrap, Requests, HeartbeatReply, Close), "_on_request"),
    **dict.fromkeys(
        (
            DispatcherStarted,
            DispatcherRefused,
            DispatcherStopped,
            DispatcherHeld,
            DispatcherAdvanced,
            DispatcherBlocked,
            DispatcherHeat,
            DispatcherFailed,
        ),
        "_on_dispatcher",
    ),
    **dict.fromkeys((SinkClosed, SinkCloseFailed), "_on_sink"),
    **dict.fromkeys(
        (CreateFeed, PauseFeed, ResumeFeed, RemoveFeed, MoveMaintainer, DrainNode),
        "_on_feed_verb",
    ),
    **dict.fromkeys((MoveSpan, SplitSpan, MergeSpans), "_on_span_verb"),
}
