"""A whole service in memory: what the HTTP interface, the client and the commands are tested with.

It keeps the promises of `api.ports.Service` and behaves plausibly: four tables at every source,
one span per table until somebody splits it, a feed that is level as long as it runs, a history of
every change. What tests steer:

    failures["feed"] = error    `feed()` raises it from now on
    calls                       every call, as (verb, who)
    held_up["shop"] = "away"    the feed's removal does not end, and this is why
    arrived                     bodies that came over the link
    add_node("b")               another node, to move spans to
    lag("shop")                 the feed stays behind, so that waits last; `level` ends it
    lakes                       endpoints whose URL begins with delta: (`fake_lakes.py`)
    moves                       tables on their way elsewhere (`fake_moves.py`)
    diffs                       both sides compared (`fake_diffs.py`)
"""

import dataclasses
import itertools
import re
import secrets
import threading
import time
from collections.abc import Sequence
from typing import Final

from lockgate.model.documents import (
    Endpoint,
    EndpointReport,
    Health,
    HistoryEntry,
    NodeState,
    NodeStatus,
    Waited,
)
from lockgate.model.errors import Conflict, NotFound, UsageError
from lockgate.model.feed_config import FeedConfig
from lockgate.model.feed_status import (
    FeedPlan,
    FeedStatus,
    FeedTable,
    FindingDocument,
    PlannedTable,
)
from lockgate.model.feeds import FeedState
from lockgate.model.patterns import selected
from lockgate.model.secret import Secret
from lockgate.model.tables import TableName
from lockgate.model.tokens import AccessToken, Role, digest_of
from tests.support.fake_diffs import FakeDiffs
from tests.support.fake_feed import POSITION, FakeFeed, shown
from tests.support.fake_history import FakeHistory
from tests.support.fake_lakes import FakeLakes
from tests.support.fake_moves import FakeMoves

CATALOG: Final = (
    TableName("public", "items"),
    TableName("public", "orders"),
    TableName("public", "users"),
    TableName("sales", "invoices"),
)
"""The tables of every source."""

_NAME: Final = re.compile(r"[a-z][a-z0-9_-]{0,39}")


class FakeService:
    """An `api.ports.Service` with a viewer's, an operator's and an admin's token from the start."""

    def __init__(self, name: str = "a") -> None:
        self.name = name
        self.failures: dict[str, BaseException] = {}
        self.calls: list[tuple[str, str]] = []
        self.arrived: list[bytes] = []
        self.held_up: dict[str, str] = {}
        self.waiting = 0
        """How many are inside `wait_feed` now."""
        self._moved = threading.Condition(threading.RLock())
        self._endpoints: dict[str, Secret] = {}
        self._feeds: dict[str, FakeFeed] = {}
        self._nodes: dict[str, NodeStatus] = {}
        self._history = FakeHistory()
        self._note = self._history.note
        self._tokens: dict[str, AccessToken] = {}
        self._link_key = Secret(secrets.token_urlsafe(32))
        self._numbers = itertools.count(1)
        self.keys = {role: self.add_token(role.value, role, "lockgate") for role in Role}
        """A token of each role, named after it."""
        self.lakes = FakeLakes(
            self._call, lambda name: self._endpoint(name).url, self._users, self._note
        )
        self.moves = FakeMoves(self._call, self._matching, self._note)
        self.diffs = FakeDiffs(self._call, self._matching, self.config, self.moves.one, self._note)
        self.add_node(name, coordinator=True)
        self.calls.clear()

    # --- for tests ------------------------------------------------------------------------------

    def add_node(self, name: str, *, coordinator: bool = False) -> None:
        """Another process of the cluster."""
        address = f"http://127.0.0.1:{8642 + len(self._nodes)}"
        self._nodes[name] = NodeStatus(name, NodeState.UP, 1, address, coordinator, 0, 0)

    def remove_node(self, name: str) -> None:
        """As if it had never been."""
        del self._nodes[name]

    def config(self, name: str) -> FeedConfig:
        """What a feed was made of."""
        return self._feed(name).config

    def lag(self, name: str) -> None:
        """From now on something is committed at the source that is not applied."""
        with self._moved:
            self._feeds[name].level = False

    def level(self, name: str) -> None:
        """Everything is applied; whoever waits for it is told."""
        with self._moved:
            self._feeds[name].level = True
            self._moved.notify_all()

    # --- endpoints ------------------------------------------------------------------------------

    def health(self) -> Health:
        """Always there."""
        return Health("ok", self.name, "0.0")

    def endpoints(self) -> list[Endpoint]:
        """All, by name."""
        with self._call("endpoints"):
            return [self._endpoint(name) for name in sorted(self._endpoints)]

    def endpoint(self, name: str) -> Endpoint:
        """One of them."""
        with self._call("endpoint"):
            return self._endpoint(name)

    def add_endpoint(self, name: str, url: Secret, who: str) -> Endpoint:
        """A new one, or a new URL for one that nothing uses."""
        with self._call("add_endpoint", who):
            _check_name(name)
            if not url.reveal().startswith(("postgres://", "delta:")):
                raise UsageError(
                    "not an address of a database", object_="url", hint="write postgres://…"
                )
            known = self._endpoints.get(name)
            if known is not None and known != url and self._users(name):
                raise Conflict("a feed uses the endpoint", object_=name, hint="remove the feed")
            if known != url:
                self._endpoints[name] = url
                self._note(who, "endpoint add", name)
            return self._endpoint(name)

    def test_endpoint(self, name: str) -> EndpointReport:
        """Well in every respect but one."""
        with self._call("test_endpoint"):
            self._endpoint(name)
            fine = FindingDocument("ok", "reachable", "the server answers", name)
            slow = FindingDocument("warning", "fsync", "fsync is off", name, "turn it on")
            return EndpointReport(name, (fine, slow), (fine,), True, True)

    def remove_endpoint(self, name: str, who: str) -> None:
        """Forget one that nothing uses."""
        with self._call("remove_endpoint", who):
            self._endpoint(name)
            if self._users(name):
                raise Conflict("a feed uses the endpoint", object_=name, hint="remove the feed")
            del self._endpoints[name]
            self._note(who, "endpoint remove", name)

    # --- feeds ----------------------------------------------------------------------------------

    def feeds(self) -> list[FeedStatus]:
        """All, by name."""
        with self._call("feeds"):
            return [self._status(name) for name in sorted(self._feeds)]

    def feed(self, name: str) -> FeedStatus:
        """One of them."""
        with self._call("feed"):
            return self._status(name)

    def feed_tables(self, name: str) -> list[FeedTable]:
        """Its tables with their spans."""
        with self._call("feed_tables"):
            return self._feed(name).tables()

    def plan_feed(self, config: FeedConfig) -> FeedPlan:
        """What would be made."""
        with self._call("plan_feed"):
            tables = tuple(
                PlannedTable(t, t, ("id", "what"), (), (), ("id",), config.rows.get(t, ""), 9, True)
                for t in self._chosen(config)
            )
            found = FindingDocument("ok", "wal-level", "wal_level is logical", config.name)
            return FeedPlan(config.name, tables, (f"slot lockgate_{config.name}",), (found,))

    def create_feed(self, config: FeedConfig, who: str) -> FeedStatus:
        """A new one; the same again is no error."""
        with self._call("create_feed", who):
            known = self._feeds.get(config.name)
            if known is not None and known.config != config:
                raise Conflict(
                    "there is another feed of this name",
                    object_=config.name,
                    hint="choose another name, or remove the feed",
                )
            if known is None:
                tables = self._chosen(config)
                self._feeds[config.name] = FakeFeed(config, tables, self.name, self._numbers)
                self._note(who, "feed create", config.name)
            return self._status(config.name)

    def pause_feed(self, name: str, who: str) -> FeedStatus:
        """Stop it."""
        with self._call("pause_feed", who):
            self._feed(name).state = FeedState.STOPPED
            self._note(who, "feed pause", name)
            return self._status(name)

    def resume_feed(self, name: str, who: str) -> FeedStatus:
        """Let it run."""
        with self._call("resume_feed", who):
            self._feed(name).state = FeedState.NORMAL
            self._note(who, "feed resume", name)
            return self._status(name)

    def remove_feed(self, name: str, who: str, force: bool = False) -> FeedStatus | None:
        """End it, or begin to."""
        with self._call("remove_feed", who):
            self._feed(name)
            if name in self.held_up and force:
                behind = {"state": FeedState.REMOVED, "notes": ("left behind, a slot",)}
                status = dataclasses.replace(self._status(name), **behind)
                del self._feeds[name]
                return status
            if name in self.held_up:
                removing = {"state": FeedState.STOPPED, "notes": ("it is being removed",)}
                return dataclasses.replace(self._status(name), error=self.held_up[name], **removing)
            del self._feeds[name]
            self._note(who, "feed remove", name)
            self._moved.notify_all()
            return None

    def wait_feed(self, name: str, timeout_s: float, position: str = "") -> Waited:
        """Until it is level."""
        with self._call("wait_feed"):
            began = time.monotonic()
            self._feed(name)
            self.waiting += 1
            try:
                level = self._moved.wait_for(lambda: self._feed(name).level, timeout_s)
            finally:
                self.waiting -= 1
            reached = POSITION if level else "0/0"
            return Waited(level, position or POSITION, reached, time.monotonic() - began)

    def resync_table(self, name: str, table: str, who: str) -> FeedStatus:
        """Copy one table anew."""
        with self._call("resync_table", who):
            if table not in self._feed(name):
                raise NotFound("there is no such table", object_=table, hint="see its tables")
            self._note(who, "feed resync", name, table)
            return self._status(name)

    def move_span(self, name: str, span: str, node: str, who: str) -> FeedStatus:
        """Run it elsewhere."""
        with self._call("move_span", who):
            feed = self._feed(name)
            if self._node(node).state is not NodeState.UP:
                raise Conflict("the node takes nothing on", object_=node, hint="choose another")
            feed.move(span, node)
            self._note(who, "span move", name, f"{span} to {node}")
            return self._status(name)

    def split_span(
        self, name: str, span: str, points: Sequence[str], parts: int | None, who: str
    ) -> FeedStatus:
        """Cut it at points, or at even ones."""
        with self._call("split_span", who):
            self._feed(name).split(span, points, parts)
            self._note(who, "span split", name, span)
            return self._status(name)

    def merge_spans(self, name: str, spans: Sequence[str], who: str) -> FeedStatus:
        """Join neighbours."""
        with self._call("merge_spans", who):
            self._feed(name).merge(spans)
            self._note(who, "span merge", name, " ".join(spans))
            return self._status(name)

    # --- nodes, the past, tokens ----------------------------------------------------------------

    def nodes(self) -> list[NodeStatus]:
        """All, by name."""
        with self._call("nodes"):
            return [self._nodes[name] for name in sorted(self._nodes)]

    def drain_node(self, name: str, who: str) -> NodeStatus:
        """Have everything leave it."""
        with self._call("drain_node", who):
            drained = dataclasses.replace(self._node(name), state=NodeState.DRAINING)
            self._nodes[name] = drained
            self._note(who, "node drain", name)
            return drained

    def history(self, object_: str, before: int | None, limit: int) -> list[HistoryEntry]:
        """The newest first."""
        with self._call("history"):
            return self._history.read(object_, before, limit)

    def tokens(self) -> list[AccessToken]:
        """Who may ask."""
        with self._call("tokens"):
            return [self._tokens[name] for name in sorted(self._tokens)]

    def add_token(self, name: str, role: Role, who: str) -> Secret:
        """A new one."""
        with self._call("add_token", who):
            _check_name(name)
            if name in self._tokens:
                raise Conflict("the name is taken", object_=name, hint="choose another")
            token = Secret(secrets.token_urlsafe(32))
            self._tokens[name] = AccessToken(name, role, digest_of(token))
            self._note(who, "token add", name, role.value)
            return token

    def remove_token(self, name: str, who: str) -> None:
        """It opens nothing any more."""
        with self._call("remove_token", who):
            if self._tokens.pop(name, None) is None:
                raise NotFound("there is no such token", object_=name, hint="see the tokens")
            self._note(who, "token remove", name)

    # --- machines -------------------------------------------------------------------------------

    def metrics(self) -> bytes:
        """One gauge."""
        with self._call("metrics"):
            return b"# TYPE lockgate_feeds gauge\nlockgate_feeds %d\n" % len(self._feeds)

    def link_key(self) -> Secret:
        """The cluster's."""
        return self._link_key

    def receive(self, body: bytes) -> None:
        """Anything but nothing is a message."""
        with self._call("receive"):
            if not body:
                raise UsageError("no message can be read", object_="", hint="send msgpack")
            self.arrived.append(body)

    def carry_out(self, body: bytes) -> bytes:
        """The answer to every verb is the verb."""
        with self._call("carry_out"):
            self.arrived.append(body)
            return body

    # --- inside ---------------------------------------------------------------------------------

    def _call(self, verb: str, who: str = "") -> threading.Condition:
        self.calls.append((verb, who))
        if verb in self.failures:
            raise self.failures[verb]
        return self._moved

    def _endpoint(self, name: str) -> Endpoint:
        if name not in self._endpoints:
            raise NotFound("there is no such endpoint", object_=name, hint="add it first")
        url = shown(self._endpoints[name])
        kind = "delta" if url.startswith("delta:") else "postgres"
        return Endpoint(name, url, kind, self._users(name))

    def _users(self, endpoint: str) -> tuple[str, ...]:
        return tuple(
            name
            for name, feed in sorted(self._feeds.items())
            if endpoint in {feed.config.source.reveal(), feed.config.target.reveal()}
        )

    def _chosen(self, config: FeedConfig) -> list[str]:
        return self._matching(config.source.reveal(), config.target.reveal(), config.tables)

    def _matching(self, source: str, target: str, patterns: Sequence[str]) -> list[str]:
        for end in (source, target):
            if "://" not in end:
                self._endpoint(end)
        chosen = [str(name) for name in selected(patterns, CATALOG)]
        if not chosen:
            raise UsageError("no table matches", object_="tables", hint="see the source's tables")
        return chosen

    def _feed(self, name: str) -> FakeFeed:
        if name not in self._feeds:
            raise NotFound("there is no such feed", object_=name, hint="lockgate feed list")
        return self._feeds[name]

    def _node(self, name: str) -> NodeStatus:
        if name not in self._nodes:
            raise NotFound("there is no such node", object_=name, hint="lockgate node list")
        return self._nodes[name]

    def _status(self, name: str) -> FeedStatus:
        return self._feed(name).status()


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise UsageError("not a name", object_="name", hint="take a-z, 0-9, _ and -")
