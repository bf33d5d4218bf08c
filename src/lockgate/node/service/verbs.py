"""What people ask of a node: each verb goes to the desk that it concerns.

Verbs of diffs, lakes and moves have a desk of their own in `api.ports`; all others are here.
"""

from collections.abc import Sequence

from lockgate.model.documents import Endpoint, EndpointReport, HistoryEntry, NodeStatus, Waited
from lockgate.model.feed_config import FeedConfig
from lockgate.model.feed_status import FeedPlan, FeedStatus, FeedTable
from lockgate.model.secret import Secret
from lockgate.model.tokens import AccessToken, Role
from lockgate.node.service.endpoints import EndpointDesk
from lockgate.node.service.feeds import FeedDesk
from lockgate.node.service.nodes import NodeDesk
from lockgate.node.service.spans import SpanDesk
from lockgate.node.service.statuses import Statuses
from lockgate.node.service.stores import Stores
from lockgate.node.service.tokens import TokenDesk

__all__ = ["Verbs"]


class Verbs:
    """The verbs of `api.ports.Service`. The node has the desks."""

    _stores: Stores
    _statuses: Statuses
    _endpoints: EndpointDesk
    _feeds: FeedDesk
    _spans: SpanDesk
    _nodes: NodeDesk
    _tokens: TokenDesk

    def endpoints(self) -> list[Endpoint]:
        return self._endpoints.all()

    def endpoint(self, name: str) -> Endpoint:
        return self._endpoints.one(name)

    def add_endpoint(self, name: str, url: Secret, who: str) -> Endpoint:
        return self._endpoints.add(name, url, who)

    def test_endpoint(self, name: str) -> EndpointReport:
        return self._endpoints.test(name)

    def remove_endpoint(self, name: str, who: str) -> None:
        self._endpoints.remove(name, who)

    def feeds(self) -> list[FeedStatus]:
        return self._statuses.all()

    def feed(self, name: str) -> FeedStatus:
        return self._statuses.one(name)

    def feed_tables(self, name: str) -> list[FeedTable]:
        return self._statuses.tables(name)

    def plan_feed(self, config: FeedConfig) -> FeedPlan:
        return self._feeds.plan(config)

    def create_feed(self, config: FeedConfig, who: str) -> FeedStatus:
        return self._feeds.create(config, who)

    def pause_feed(self, name: str, who: str) -> FeedStatus:
        return self._feeds.pause(name, who)

    def resume_feed(self, name: str, who: str) -> FeedStatus:
        return self._feeds.resume(name, who)

    def remove_feed(self, name: str, who: str, force: bool = False) -> FeedStatus | None:
        return self._feeds.remove(name, who, force)

    def wait_feed(self, name: str, timeout_s: float, position: str = "") -> Waited:
        return self._feeds.wait(name, timeout_s, position)

    def resync_table(self, name: str, table: str, who: str) -> FeedStatus:
        return self._feeds.resync(name, table, who)

    def move_span(self, name: str, span: str, node: str, who: str) -> FeedStatus:
        return self._spans.move(name, span, node, who)

    def split_span(
        self, name: str, span: str, points: Sequence[str], parts: int | None, who: str
    ) -> FeedStatus:
        return self._spans.split(name, span, points, parts, who)

    def merge_spans(self, name: str, spans: Sequence[str], who: str) -> FeedStatus:
        return self._spans.merge(name, spans, who)

    def nodes(self) -> list[NodeStatus]:
        return self._nodes.all()

    def drain_node(self, name: str, who: str) -> NodeStatus:
        return self._nodes.drain(name, who)

    def history(self, object_: str, before: int | None, limit: int) -> list[HistoryEntry]:
        return self._stores.history.read(object_, before, limit)

    def tokens(self) -> list[AccessToken]:
        return self._tokens.all()

    def add_token(self, name: str, role: Role, who: str) -> Secret:
        return self._tokens.add(name, role, who)

    def remove_token(self, name: str, who: str) -> None:
        self._tokens.remove(name, who)
