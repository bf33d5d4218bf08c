"""One answer of each verb as an example: for the OpenAPI, and for whoever writes a client."""

from dataclasses import replace
from typing import Any, Final

from lockgate.api.pages import Page
from lockgate.api.routes.people import NewToken, TokenShown
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
