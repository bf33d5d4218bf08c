"""Which method of the node takes which event. Every event that there is has a route."""

from collections.abc import Mapping

from lockgate.model.batch import Landed, Loaded, LoadFailed, NotLanded, Refused, Unknown
from lockgate.model.events import (
    DISPATCHER_EVENTS,
    FEED_VERBS,
    LEASE_EVENTS,
    SINK_EVENTS,
    SPAN_VERBS,
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
    **dict.fromkeys(LEASE_EVENTS, "_on_lease"),
    **dict.fromkeys((Landed, Refused, NotLanded, Unknown), "_on_commit_answer"),
    Loaded: "_on_loaded",
    LoadFailed: "_on_store",
    StartMaintainer: "_on_start_maintainer",
    StopMaintainer: "_on_stop_maintainer",
    NodeReport: "_on_node_report",
    **dict.fromkeys((BootstrapReply, Heartbeat, CloseReply, Stale), "_on_reply"),
    **dict.fromkeys((Bootstrap, Requests, HeartbeatReply, Close), "_on_request"),
    **dict.fromkeys(DISPATCHER_EVENTS, "_on_dispatcher"),
    **dict.fromkeys(SINK_EVENTS, "_on_sink"),
    **dict.fromkeys(FEED_VERBS, "_on_feed_verb"),
    **dict.fromkeys(SPAN_VERBS, "_on_span_verb"),
}
