"""Everything that can be asked over HTTP, as data: the path, who may, and how it can fail.

One table, so that there is one place to look, and so that tests can walk it:

    access     OPEN < VIEWER < OPERATOR < ADMIN for people; LINK stands apart: other nodes only
    lane       which threads the work is done in (`lanes.py`)
    fails      statuses of the problems that this verb has of its own, beside those that every
               verb of its kind has (`statuses`)

What is not in this table is not there: `guard.py` lets nothing else through, so a handler that
somebody forgets to list is closed, not open.
"""

import enum
import re
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from lockgate.model.tokens import Role

__all__ = ["API", "LINK", "VERBS", "Access", "Lane", "Verb"]

API: Final = "/api/v1"
LINK: Final = "/link/v1"


class Access(enum.Enum):
    """Who may."""

    OPEN = "open"
    VIEWER = "viewer"
    OPERATOR = "operator"
    ADMIN = "admin"
    LINK = "link"
    """Whoever shows the link key, and nobody else: no token opens it, not even an admin's."""

    @property
    def role(self) -> Role | None:
        """The least role that a token needs; None when it is not a question of roles."""
        return None if self in {Access.OPEN, Access.LINK} else Role(self.value)


class Lane(enum.Enum):
    """Kinds of work that must not keep each other waiting."""

    WATCH = "watch"
    """Health and metrics: answer while everything else is stuck."""
    WORK = "work"
    WAIT = "wait"
    """Blocks on purpose, for up to a minute."""
    FOLLOW = "follow"
    """Hangs until a route changes. Applications do that, any number of them, so they may keep only
    each other from it. For a verb of another lane, when it is asked so."""
    LINK = "link"
    """Messages of other nodes: handed over, and done."""
    ASK = "ask"
    """Verbs of other nodes: a core answers them, in seconds. Leases hang on messages, which must
    not wait for that."""


@dataclass(frozen=True)
class Verb:
    """One thing that can be asked."""

    operation: str
    """Its name: the handler's, and the operationId."""
    method: str
    path: str
    """With `{name}` for a part, and `{table:path}` for one that may hold slashes."""
    access: Access
    summary: str
    status: int = 200
    """When it went well."""
    also: tuple[int, ...] = ()
    """Other statuses of going well."""
    fails: tuple[int, ...] = ()
    body: str = ""
    """The type of body it takes; empty: none."""
    lane: Lane = Lane.WORK

    @property
    def tag(self) -> str:
        """What it is about, for the table of contents of the OpenAPI."""
        return self.operation.partition("_")[0]

    @property
    def changes(self) -> bool:
        """False when asking twice or never makes no difference."""
        return self.method != "GET" and self.operation not in {
            "feed_plan",
            "feed_wait",
            "endpoint_test",
            "move_plan",
        }

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """What paths look like that mean this verb."""
        parts = re.split(r"(\{\w+(?::path)?\})", self.path)
        return re.compile("".join(_part(part) for part in parts), re.DOTALL)

    @property
    def statuses(self) -> tuple[int, ...]:
        """Every status that comes with a problem document."""
        found = {414, 429, 500, 503, *self.fails}
        if self.access is not Access.OPEN:
            found |= {401}
        if self.access in {Access.OPERATOR, Access.ADMIN}:
            found |= {403}
        if "{" in self.path:
            found |= {404, 422}
        if self.body:
            found |= {400, 408, 413, 415, 422}
        return tuple(sorted(found))


def _part(part: str) -> str:
    if not part.startswith("{"):
        return re.escape(part)
    return ".+" if part.endswith(":path}") else "[^/]+"


_ASKED: Final = (422,)
"""The query can be wrong."""
_CHANGES: Final = (409, 507)
"""As things stand it cannot be done, or cannot be recorded."""
_ENDPOINT: Final = (409, 424, 507)
"""As things stand, or as an endpoint says, it cannot be done."""
_JSON: Final = "application/json"
_MSGPACK: Final = "application/msgpack"

_O, _V, _P, _A, _L = Access.OPEN, Access.VIEWER, Access.OPERATOR, Access.ADMIN, Access.LINK
_FEED: Final = f"{API}/feeds/{{name}}"
_SPAN: Final = f"{_FEED}/spans/{{span}}"
_LAKE: Final = f"{API}/lakes/{{endpoint}}"
_LAKE_TABLE: Final = f"{_LAKE}/tables/{{table:path}}"
_MOVE: Final = f"{API}/moves/{{name}}"
_DIFF: Final = f"{API}/diffs/{{diff}}"

# fmt: off
VERBS: Final = (
    Verb("health", "GET", "/healthz", _O, "Is the node there?", lane=Lane.WATCH),
    Verb("metrics", "GET", "/metrics", _V, "Figures for Prometheus", lane=Lane.WATCH),
    Verb("openapi", "GET", f"{API}/openapi.json", _V, "This description", lane=Lane.WATCH),

    Verb("endpoint_list", "GET", f"{API}/endpoints", _V, "All endpoints", fails=_ASKED),
    Verb("endpoint_add", "POST", f"{API}/endpoints", _A, "Name a database",
         status=201, also=(200,), fails=_ENDPOINT, body=_JSON),
    Verb("endpoint_show", "GET", f"{API}/endpoints/{{name}}", _V, "One endpoint"),
    Verb("endpoint_remove", "DELETE", f"{API}/endpoints/{{name}}", _A, "Forget an endpoint",
         status=204, fails=_CHANGES),
    Verb("endpoint_test", "POST", f"{API}/endpoints/{{name}}/test", _P,
         "Look at an endpoint as a source and as a target", fails=_ENDPOINT),

    Verb("feed_list", "GET", f"{API}/feeds", _V, "All feeds", fails=_ASKED),
    Verb("feed_create", "POST", f"{API}/feeds", _P, "Create a feed",
         status=201, also=(200,), fails=(404, *_ENDPOINT), body=_JSON),
    Verb("feed_plan", "POST", f"{API}/feeds/plan", _P, "What creating a feed would make",
         fails=(404, *_ENDPOINT), body=_JSON),
    Verb("feed_show", "GET", _FEED, _V, "One feed"),
    Verb("feed_remove", "DELETE", _FEED, _A, "End a feed and remove what was made for it",
         status=204, also=(200, 202), fails=(*_ASKED, *_ENDPOINT)),
    Verb("feed_tables", "GET", f"{_FEED}/tables", _V, "A feed's tables and spans"),
    Verb("feed_pause", "POST", f"{_FEED}/pause", _P, "Stop a feed, to be resumed", fails=_ENDPOINT),
    Verb("feed_resume", "POST", f"{_FEED}/resume", _P, "Let a feed run again", fails=_ENDPOINT),
    Verb("feed_wait", "POST", f"{_FEED}/wait", _V, "Wait until a feed is level",
         fails=_ENDPOINT, body=_JSON, lane=Lane.WAIT),
    Verb("feed_resync", "POST", f"{_FEED}/tables/{{table:path}}/resync", _P,
         "Copy one table anew", fails=_ENDPOINT),
    Verb("span_move", "POST", f"{_SPAN}/move", _P, "Run a span on another node",
         fails=_CHANGES, body=_JSON),
    Verb("span_split", "POST", f"{_SPAN}/split", _P, "Cut a span", fails=_CHANGES, body=_JSON),
    Verb("span_merge", "POST", f"{_FEED}/spans/merge", _P, "Join neighbouring spans",
         fails=_CHANGES, body=_JSON),

    Verb("lake_show", "GET", _LAKE, _V, "One lake: who leads it, and how far that is",
         fails=(409,)),
    Verb("lake_drain", "POST", f"{_LAKE}/drain", _P, "Bring all changes into the stable layers",
         also=(202,), fails=_CHANGES, body=_JSON, lane=Lane.WAIT),
    Verb("lake_step_up", "POST", f"{_LAKE}/step-up", _P, "Lead a lake, whoever leads it now",
         also=(202,), fails=_CHANGES, body=_JSON, lane=Lane.WAIT),
    Verb("lake_step_down", "POST", f"{_LAKE}/step-down", _P, "Lead a lake no longer",
         also=(202,), fails=_CHANGES, body=_JSON, lane=Lane.WAIT),
    Verb("lake_tables", "GET", f"{_LAKE}/tables", _V, "A lake's tables", fails=(409,)),
    Verb("lake_table_show", "GET", _LAKE_TABLE, _V, "One table of a lake", fails=(409,)),
    Verb("lake_table_drain", "POST", f"{_LAKE_TABLE}/drain", _P,
         "Bring a table's changes into its stable layer",
         also=(202,), fails=_CHANGES, body=_JSON, lane=Lane.WAIT),
    Verb("lake_table_drop", "POST", f"{_LAKE_TABLE}/drop", _A, "End a table of a lake",
         also=(202,), fails=_CHANGES, body=_JSON, lane=Lane.WAIT),

    Verb("move_list", "GET", f"{API}/moves", _V, "All moves", fails=_ASKED),
    Verb("move_create", "POST", f"{API}/moves", _P, "Begin to move tables to another database",
         status=201, also=(200,), fails=(404, *_ENDPOINT), body=_JSON),
    Verb("move_plan", "POST", f"{API}/moves/plan", _P, "What creating a move would do",
         fails=(404, *_ENDPOINT), body=_JSON),
    Verb("move_show", "GET", _MOVE, _V, "One move: its steps, and what can be done next"),
    Verb("move_remove", "DELETE", _MOVE, _A, "Forget a move that is over",
         status=204, fails=_CHANGES),
    Verb("move_switch", "POST", f"{_MOVE}/switch", _P, "Have the target take the traffic",
         also=(202,), fails=_ENDPOINT, body=_JSON, lane=Lane.WAIT),
    Verb("move_reverse", "POST", f"{_MOVE}/reverse", _P, "Have the source take the traffic back",
         also=(202,), fails=_ENDPOINT, body=_JSON, lane=Lane.WAIT),
    Verb("move_complete", "POST", f"{_MOVE}/complete", _A,
         "End a move that is switched: rename, drop or keep the source's tables",
         also=(202,), fails=_ENDPOINT, body=_JSON, lane=Lane.WAIT),
    Verb("move_cancel", "POST", f"{_MOVE}/cancel", _A, "End a move that is not switched",
         also=(202,), fails=_ENDPOINT, body=_JSON, lane=Lane.WAIT),
    Verb("move_diff", "POST", f"{_MOVE}/diff", _P, "Compare both sides of a move",
         status=201, also=(200,), fails=_ENDPOINT, body=_JSON),
    Verb("route_list", "GET", f"{API}/routes", _V, "Which endpoint has a table's traffic",
         also=(304,), fails=_ASKED),

    Verb("diff_list", "GET", f"{API}/diffs", _V, "All diffs that are remembered", fails=_ASKED),
    Verb("diff_run", "POST", f"{API}/diffs", _P, "Compare tables of two sides, row by row",
         status=201, also=(200,), fails=(404, *_ENDPOINT), body=_JSON),
    Verb("diff_show", "GET", _DIFF, _V, "One diff: how far it is, and what it found"),
    Verb("diff_resume", "POST", f"{_DIFF}/resume", _P, "Go on with a diff that failed",
         fails=_ENDPOINT),
    Verb("diff_cancel", "POST", f"{_DIFF}/cancel", _P, "Call off a diff that runs",
         fails=_CHANGES),

    Verb("node_list", "GET", f"{API}/nodes", _V, "All nodes", fails=_ASKED),
    Verb("node_drain", "POST", f"{API}/nodes/{{name}}/drain", _P, "Have everything leave a node",
         fails=_CHANGES),
    Verb("history", "GET", f"{API}/history", _V, "Who did what, the newest first", fails=_ASKED),
    Verb("token_list", "GET", f"{API}/tokens", _A, "Who may ask", fails=_ASKED),
    Verb("token_add", "POST", f"{API}/tokens", _A, "Let somebody in",
         status=201, fails=_CHANGES, body=_JSON),
    Verb("token_remove", "DELETE", f"{API}/tokens/{{name}}", _A, "Let somebody in no more",
         status=204, fails=_CHANGES),

    Verb("link_messages", "POST", f"{LINK}/messages", _L, "Messages of another node's core",
         status=204, body=_MSGPACK, lane=Lane.LINK),
    Verb("link_verbs", "POST", f"{LINK}/verbs", _L, "A verb that is this node's to carry out",
         fails=(404, *_ENDPOINT), body=_MSGPACK, lane=Lane.ASK),
)
# fmt: on
