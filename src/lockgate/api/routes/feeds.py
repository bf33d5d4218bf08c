"""Feeds and their spans."""

from fastapi import Response

from lockgate.api.bodies import FeedBody, MergeBody, MoveBody, SplitBody, WaitBody
from lockgate.api.pages import Page, PageQuery, paged
from lockgate.api.ports import Service
from lockgate.api.routes.given import Name, RemovalQuery, Standing, Who
from lockgate.api.scrub import Scrubber
from lockgate.model.documents import Waited
from lockgate.model.errors import NotFound, UsageError
from lockgate.model.feed_config import FeedConfig
from lockgate.model.feed_status import FeedPlan, FeedStatus, FeedTable
from lockgate.model.feeds import FeedState
from lockgate.model.tokens import Role

__all__ = ["FeedRoutes"]


class FeedRoutes:
    """Verbs about feeds, each named as in `verbs.py`."""

    def __init__(self, service: Service, scrubber: Scrubber) -> None:
        self._service = service
        self._scrubber = scrubber

    def feed_list(self, query: PageQuery) -> Page[FeedStatus]:
        return paged(self._service.feeds(), lambda feed: feed.name, query)

    def feed_create(
        self, body: FeedBody, who: Who, role: Standing, response: Response
    ) -> FeedStatus:
        config = self._config(body, role)
        if self._known(config.name):
            response.status_code = 200
        return self._service.create_feed(config, who)

    def feed_plan(self, body: FeedBody, role: Standing) -> FeedPlan:
        return self._service.plan_feed(self._config(body, role))

    def feed_show(self, name: Name) -> FeedStatus:
        return self._service.feed(name)

    def feed_remove(
        self, name: Name, who: Who, response: Response, query: RemovalQuery
    ) -> FeedStatus | None:
        left = self._service.remove_feed(name, who, query.force)
        if left is not None:
            response.status_code = 200 if left.state is FeedState.REMOVED else 202
        return left

    def feed_tables(self, name: Name, query: PageQuery) -> Page[FeedTable]:
        return paged(self._service.feed_tables(name), lambda table: table.table, query)

    def feed_pause(self, name: Name, who: Who) -> FeedStatus:
        return self._service.pause_feed(name, who)

    def feed_resume(self, name: Name, who: Who) -> FeedStatus:
        return self._service.resume_feed(name, who)

    def feed_wait(self, name: Name, body: WaitBody | None = None) -> Waited:
        wish = body or WaitBody()
        return self._service.wait_feed(name, wish.timeout_s, wish.position)

    def feed_resync(self, name: Name, table: Name, who: Who) -> FeedStatus:
        return self._service.resync_table(name, table, who)

    def span_move(self, name: Name, span: Name, body: MoveBody, who: Who) -> FeedStatus:
        return self._service.move_span(name, span, body.node, who)

    def span_split(self, name: Name, span: Name, body: SplitBody, who: Who) -> FeedStatus:
        if bool(body.at) == (body.parts is not None):
            raise UsageError(
                "a span is cut at points or into parts",
                object_="at",
                hint='give one of the two: {"at": ["80"]} or {"parts": 4}',
            )
        points = tuple(point.lower() for point in body.at)
        return self._service.split_span(name, span, points, body.parts, who)

    def span_merge(self, name: Name, body: MergeBody, who: Who) -> FeedStatus:
        return self._service.merge_spans(name, tuple(body.spans), who)

    def _config(self, body: FeedBody, role: Role) -> FeedConfig:
        for address in body.addresses:
            self._scrubber.learn(address)
        return body.config(role)

    def _known(self, name: str) -> bool:
        try:
            self._service.feed(name)
        except NotFound:
            return False
        return True
