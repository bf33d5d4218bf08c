"""Lakes and their tables."""

from fastapi import Response

from lockgate.api.bodies import LakeBody, LakeDropBody, LakeStepDownBody
from lockgate.api.pages import Page, PageQuery, paged
from lockgate.api.ports import Service
from lockgate.api.routes.given import Name, Who
from lockgate.model.lake_documents import UNDER_WAY, LakeOutcome, LakeSummary, LakeTableDocument

__all__ = ["LakeRoutes"]


class LakeRoutes:
    """Verbs about lakes, each named as in `verbs.py`."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def lake_show(self, endpoint: Name) -> LakeSummary:
        return self._service.lakes.one(endpoint).summary

    def lake_tables(self, endpoint: Name, query: PageQuery) -> Page[LakeTableDocument]:
        return paged(self._service.lakes.one(endpoint).tables, _key, query)

    def lake_table_show(self, endpoint: Name, table: Name) -> LakeTableDocument:
        return self._service.lakes.table(endpoint, table)

    def lake_drain(
        self, endpoint: Name, who: Who, response: Response, body: LakeBody | None = None
    ) -> LakeOutcome:
        wish = body or LakeBody()
        return _told(self._service.lakes.drain(endpoint, None, who, wish.request), response)

    def lake_table_drain(
        self,
        endpoint: Name,
        table: Name,
        who: Who,
        response: Response,
        body: LakeBody | None = None,
    ) -> LakeOutcome:
        wish = body or LakeBody()
        return _told(self._service.lakes.drain(endpoint, table, who, wish.request), response)

    def lake_table_drop(
        self,
        endpoint: Name,
        table: Name,
        who: Who,
        response: Response,
        body: LakeDropBody | None = None,
    ) -> LakeOutcome:
        wish = body or LakeDropBody()
        outcome = self._service.lakes.drop(
            endpoint, table, who, wait_s=wish.wait_s, force=wish.force, request=wish.request
        )
        return _told(outcome, response)

    def lake_step_up(
        self, endpoint: Name, who: Who, response: Response, body: LakeBody | None = None
    ) -> LakeOutcome:
        wish = body or LakeBody()
        return _told(self._service.lakes.step_up(endpoint, who, wish.request), response)

    def lake_step_down(
        self, endpoint: Name, who: Who, response: Response, body: LakeStepDownBody | None = None
    ) -> LakeOutcome:
        wish = body or LakeStepDownBody()
        outcome = self._service.lakes.step_down(
            endpoint, who, flush=wish.flush, request=wish.request
        )
        return _told(outcome, response)


def _told(outcome: LakeOutcome, response: Response) -> LakeOutcome:
    if outcome.verdict == UNDER_WAY:
        response.status_code = 202
    return outcome


def _key(table: LakeTableDocument) -> str:
    """A name may be there several times, dead and anew. NUL comes before whatever a name goes on
    with, so that one name's incarnations stay together."""
    return f"{table.table}\0{table.incarnation:020d}"
