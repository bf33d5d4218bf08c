"""One answer of each verb as an example: for the OpenAPI, and for whoever writes a client."""

from dataclasses import replace
from typing import Any, Final

from lockgate.api.pages import Page
from lockgate.api.routes.people import NewToken, TokenShown
from lockgate.model.diffs import (
    DiffColumn,
    DiffDocument,
    DiffProgress,
    DiffSample,
    DiffState,
    DiffSummary,
    DiffTable,
    RowKind,
)
from lockgate.model.documents import (
    Endpoint,
    EndpointReport,
    Health,
    HistoryEntry,
    NodeState,
    NodeStatus,
    Waited,
)
from lockgate.model.feed_status import (
    CopyProgress,
    FeedPlan,
    FeedSpan,
    FeedStatus,
    FeedTable,
    FindingDocument,
    PlannedTable,
)
from lockgate.model.feeds import FeedState
from lockgate.model.lake_documents import LakeOutcome, LakeSummary, LakeTableDocument
from lockgate.model.move_status import (
    MoveFeed,
    MoveOutcome,
    MoveStatus,
    MoveStep,
    PlannedStep,
    Route,
    Routes,
)
from lockgate.model.moves import MoveState
from lockgate.model.tokens import Role

__all__ = ["EXAMPLES", "PLAIN"]

_ENDPOINT: Final = Endpoint(
    "shop", "postgres://app:${env:SHOP_PW}@db.example/shop", "postgres", ("shop",)
)
_FINDING: Final = FindingDocument("ok", "wal-level", "wal_level is logical", "db.example:5432/shop")
_FEED: Final = FeedStatus(
    name="shop",
    state=FeedState.NORMAL,
    epoch=3,
    owner="lg1",
    resolved="0/16B3748",
    checkpoint="0/16B3700",
    lag_s=0.4,
    tables=12,
    spans=16,
    copy=CopyProgress(1_000_000, 1_000_000, 100.0, 0.0),
    rows_applied=48_211,
    next_steps=("lockgate feed wait shop",),
    source="shop",
    target="copy",
)
_LEFT: Final = replace(
    _FEED,
    state=FeedState.STOPPED,
    error="the server does not answer (db.example:5432/shop)",
    next_steps=("is it running?", "lockgate feed status shop"),
    notes=("it is being removed",),
)
_SPAN: Final = FeedSpan("s7", "public.orders", "", "80", "lg1", "running", "0/16B3700")
_TABLE: Final = FeedTable("public.orders", "public.orders", (_SPAN,), "running", "0/16B3700")
_PLANNED: Final = PlannedTable(
    "public.orders", "public.orders", ("id", "total"), (), (), ("id",), "", 1_000_000, False
)
_LAKE: Final = LakeSummary("lake", "leader", "leader", 3, "7d4f0a91c2b8e653", 12, seen_s=0.6)
_LAKE_TABLE: Final = LakeTableDocument(
    table="public.orders",
    role="leader",
    epoch=3,
    stable_version=41,
    stable_rows=1_000_000,
    ingest_segments=4,
    ingest_rows=2_112,
    drained_to="0/16B3700",
    size_bytes=41_204_310,
    state="live",
    incarnation=23_803_648,
    next_steps=("to have stable level: lockgate lake drain lake public.orders",),
)
_OUTCOME: Final = LakeOutcome("5f0c2a9d1e7b4a36", "done")
_MOVE: Final = MoveStatus(
    name="shop",
    state=MoveState.RUNNING,
    step="",
    steps=(
        MoveStep("check-create", "done", "2026-03-01T09:30:00.120Z", "2026-03-01T09:30:00.410Z"),
        MoveStep("forward", "done", "2026-03-01T09:30:00.420Z", "2026-03-01T09:30:03.700Z"),
        MoveStep("guard", "done", "2026-03-01T09:30:03.710Z", "2026-03-01T09:30:03.790Z"),
    ),
    traffic="source",
    lag_s=0.4,
    copy=CopyProgress(1_000_000, 1_000_000, 100.0, 0.0),
    forward=MoveFeed("shop--0", "normal", 0.4, "0/16B3700"),
    reverse=None,
    as_of="",
    next_steps=("lockgate move diff shop", "lockgate move switch shop --dry-run"),
    command="create",
    source="old",
    target="new",
    tables=("public.items", "public.orders"),
)
_SWITCHED: Final = MoveOutcome(
    "5f0c2a9d1e7b4a36",
    "done",
    status=replace(
        _MOVE,
        state=MoveState.SWITCHED,
        steps=(MoveStep("flip", "done", "2026-03-01T10:02:11.050Z", "2026-03-01T10:02:11.060Z"),),
        traffic="target",
        forward=None,
        reverse=MoveFeed("shop--1", "normal", 0.3, "0/2A4410"),
        next_steps=("lockgate move complete shop --rename", "lockgate move reverse shop"),
        command="switch",
    ),
)
_PLANNED_MOVE: Final = MoveOutcome(
    "",
    "done",
    dry=True,
    steps=(PlannedStep("forward", "make the feed shop--0, and copy 2 tables"),),
    findings=(_FINDING,),
)
_ROUTES: Final = Routes(7, (Route("public.orders", "new", "shop", 7),))
_DIFF: Final = DiffDocument(
    id="5f0c2a9d1e",
    state=DiffState.FINISHED,
    equal=False,
    source="old",
    target="new",
    tables=(
        DiffTable(
            table="public.orders",
            rows=1_000_000,
            equal=False,
            missing=0,
            extra=0,
            different=1,
            samples=(
                DiffSample(
                    RowKind.DIFFERENT, {"id": "4711"}, (DiffColumn("total", "12.50", "12.00"),)
                ),
            ),
            position="0/16B3748",
        ),
    ),
    position="0/16B3748",
    seconds=3.41,
    rows_per_s=293_255.1,
    progress=DiffProgress(1_000_000, 1_000_000, 100.0, 0.0),
    feed="shop--0",
    move="shop",
    node="lg1",
    started="2026-03-01T10:00:00.250Z",
    next_steps=("lockgate move diff shop",),
)
_DIFF_SUMMARY: Final = DiffSummary(
    id="5f0c2a9d1e",
    state=DiffState.FINISHED,
    equal=False,
    source="old",
    target="new",
    tables=1,
    rows=1_000_000,
    unequal=1,
    seconds=3.41,
    feed="shop--0",
    move="shop",
    node="lg1",
    started="2026-03-01T10:00:00.250Z",
)
_NODE: Final = NodeStatus("lg1", NodeState.UP, 4, "https://lg1.example:8642", True, 2, 16)
_ENTRY: Final = HistoryEntry(
    118, "2026-03-01T09:30:00Z", "ci", "feed create", "shop", "12 tables", "done"
)

EXAMPLES: Final[dict[str, Any]] = {
    "health": Health("ok", "lg1", "0.1.0"),
    "endpoint_list": Page(items=(_ENDPOINT,)),
    "endpoint_add": _ENDPOINT,
    "endpoint_show": _ENDPOINT,
    "endpoint_test": EndpointReport("shop", (_FINDING,), (_FINDING,), True, True),
    "feed_list": Page(items=(_FEED,)),
    "feed_plan": FeedPlan("shop", (_PLANNED,), ("a replication slot lockgate_shop",), (_FINDING,)),
    "feed_tables": Page(items=(_TABLE,)),
    "feed_wait": Waited(True, "0/16B3748", "0/16B3748", 0.7),
    **dict.fromkeys(
        ("feed_create", "feed_show", "feed_pause", "feed_resume", "feed_resync"), _FEED
    ),
    "feed_remove": _LEFT,
    **dict.fromkeys(("span_move", "span_split", "span_merge"), _FEED),
    "lake_show": _LAKE,
    "lake_tables": Page(items=(_LAKE_TABLE,)),
    "lake_table_show": _LAKE_TABLE,
    **dict.fromkeys(
        (
            *("lake_drain", "lake_step_up", "lake_step_down"),
            *("lake_table_drain", "lake_table_drop"),
        ),
        _OUTCOME,
    ),
    "move_list": Page(items=(_MOVE,)),
    "move_create": _MOVE,
    "move_plan": _PLANNED_MOVE,
    "move_show": _MOVE,
    **dict.fromkeys(("move_switch", "move_reverse", "move_complete", "move_cancel"), _SWITCHED),
    "route_list": _ROUTES,
    "diff_list": Page(items=(_DIFF_SUMMARY,)),
    **dict.fromkeys(("diff_run", "diff_show", "diff_resume", "diff_cancel", "move_diff"), _DIFF),
    "node_list": Page(items=(_NODE,)),
    "node_drain": _NODE,
    "history": Page(items=(_ENTRY,), next="118"),
    "token_list": Page(items=(TokenShown("ci", Role.OPERATOR),)),
    "token_add": NewToken("ci", Role.OPERATOR, "the token itself, shown this once"),
}
"""What handlers return, by verb."""

PLAIN: Final[dict[str, tuple[str, Any]]] = {
    "metrics": ("text/plain", 'lockgate_feed_lag_seconds{feed="shop"} 0.4\n'),
    "openapi": ("application/json", {"openapi": "3.1.0"}),
}
"""Answers that are no documents: their media type, and an example."""
