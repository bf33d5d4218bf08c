"""The maintainer's table: what each phase does with each event.

Everything that decides which method of the maintainer runs lives here.
"""

from lockgate.core.machine import Table, do, ignore, table
from lockgate.model.batch import Landed, Loaded, LoadFailed, NotLanded, Refused, Unknown
from lockgate.model.events import (
    SINK_EVENTS,
    SPAN_VERBS,
    MembersSeen,
    MergeSpans,
    MoveSpan,
    SetGoal,
    SinkClosed,
    SplitSpan,
    Tick,
)
from lockgate.model.messages import BootstrapReply, CloseReply, Heartbeat, Stale
from lockgate.model.statuses import Phase

ANSWERS: tuple[type, ...] = (Landed, NotLanded, Unknown)
REPORTS: tuple[type, ...] = (BootstrapReply, Heartbeat, CloseReply)
VERBS = SPAN_VERBS
SINK = SINK_EVENTS
BULKY: dict[type, str] = {Loaded: "records", BootstrapReply: "statuses", Heartbeat: "statuses"}

EVENTS = (
    Tick,
    MembersSeen,
    SetGoal,
    Loaded,
    LoadFailed,
    Refused,
    *ANSWERS,
    *REPORTS,
    Stale,
    *SINK,
    *VERBS,
)
TABLE: Table = table(
    Phase,
    EVENTS,
    {
        Phase.LOADING: {
            Tick: do("_load"),
            Loaded: do("_take_intent"),
            SetGoal: do("_note_goal"),
            **dict.fromkeys(REPORTS, ignore("nobody was asked yet")),
            **dict.fromkeys(VERBS, do("_not_yet")),
        },
        Phase.BOOTSTRAPPING: {
            Tick: do("_tick_bootstrapping"),
            SetGoal: do("_new_goal"),
            BootstrapReply: do("_bootstrap_reply"),
            Heartbeat: do("_heartbeat"),
            CloseReply: ignore("nothing was closed"),
            **dict.fromkeys(VERBS, do("_not_yet")),
        },
        Phase.RUNNING: {
            Tick: do("_tick_running"),
            SetGoal: do("_new_goal"),
            BootstrapReply: do("_bootstrap_reply"),
            Heartbeat: do("_heartbeat"),
            CloseReply: ignore("nothing was closed"),
            MoveSpan: do("_wish_move"),
            SplitSpan: do("_wish_split"),
            MergeSpans: do("_wish_merge"),
        },
        Phase.CLOSING: {
            Stale: do("_stale_closing"),
            Tick: do("_tick_closing"),
            SetGoal: do("_note_goal"),
            BootstrapReply: ignore("it is told to close"),
            Heartbeat: ignore("it is told to close"),
            CloseReply: do("_close_reply"),
            **dict.fromkeys(VERBS, do("_not_yet")),
        },
        Phase.REVOKING: {
            Stale: do("_stale_closing"),
            Tick: do("_revoke"),
            SetGoal: do("_note_goal"),
            **dict.fromkeys(REPORTS, ignore("every node has closed")),
            SinkClosed: do("_revoked"),
            **dict.fromkeys(VERBS, do("_not_yet")),
        },
        Phase.FORGETTING: {
            Stale: do("_stale_closing"),
            Tick: ignore("the writer repeats"),
            SetGoal: ignore("removing is not taken back"),
            **dict.fromkeys(REPORTS, ignore("every node has closed")),
            **dict.fromkeys(VERBS, do("_not_yet")),
        },
        Phase.ENDED: {
            Tick: ignore("it is over"),
            MembersSeen: ignore("it is over"),
            SetGoal: ignore("a new owner will be told"),
            Loaded: ignore("it is over"),
            Refused: ignore("it is over"),
            **dict.fromkeys(ANSWERS, do("_answered")),
            **dict.fromkeys(REPORTS, ignore("it is over")),
            Stale: ignore("it is over"),
            **dict.fromkeys(VERBS, do("_not_yet")),
        },
    },
    everywhere={
        MembersSeen: do("_members"),
        Loaded: ignore("a repeated answer"),
        LoadFailed: ignore("the next tick asks again"),
        Refused: do("_end_refused"),
        **dict.fromkeys(ANSWERS, do("_answered")),
        Stale: do("_stale"),
        **dict.fromkeys(SINK, ignore("the next tick asks again, if it is still wanted")),
    },
)
