"""Diffs: of endpoints, of a feed, of a move."""

from typing import Final

from fastapi import Response

from lockgate.api.bodies import DiffBody, MoveDiffBody
from lockgate.api.pages import Page, PageQuery, paged
from lockgate.api.ports import Service
from lockgate.api.problems import Refused
from lockgate.api.routes.given import Name, Standing, Who
from lockgate.model.diffs import DiffDocument, DiffSummary
from lockgate.model.errors import NotFound
from lockgate.model.tokens import Role

__all__ = ["DiffRoutes"]

_BACKWARDS: Final = str.maketrans("0123456789", "9876543210")


class DiffRoutes:
    """Verbs about diffs, each named as in `verbs.py`."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def diff_list(self, query: PageQuery) -> Page[DiffSummary]:
        return paged(self._service.diffs.all(), _key, query)

    def diff_show(self, diff: Name) -> DiffDocument:
        return self._service.diffs.one(diff)

    def diff_run(
        self, body: DiffBody, who: Who, role: Standing, response: Response
    ) -> DiffDocument:
        _may(body.repair, role)
        self._known(body.id, response)
        return self._service.diffs.run(body.order, who, body.id)

    def diff_resume(self, diff: Name, who: Who, role: Standing) -> DiffDocument:
        _may(self._service.diffs.one(diff).repair, role)
        return self._service.diffs.resume(diff, who)

    def diff_cancel(self, diff: Name, who: Who) -> DiffDocument:
        return self._service.diffs.cancel(diff, who)

    def move_diff(
        self,
        name: Name,
        who: Who,
        role: Standing,
        response: Response,
        body: MoveDiffBody | None = None,
    ) -> DiffDocument:
        wish = body or MoveDiffBody()
        if not wish.resume:
            _may(wish.repair, role)
            self._known(wish.id, response)
            return self._service.diffs.run_of_move(name, who, wish.id, repair=wish.repair)
        last = self._service.diffs.last_of_move(name)
        _may(wish.repair or last.repair, role)
        response.status_code = 200
        return self._service.diffs.resume(last.id, who)

    def _known(self, diff: str, response: Response) -> None:
        """Say so when it is there already."""
        try:
            if diff:
                self._service.diffs.one(diff)
                response.status_code = 200
        except NotFound:
            pass


def _key(diff: DiffSummary) -> str:
    """The newest first: a later time is a lower text."""
    return f"{diff.started.translate(_BACKWARDS)} {diff.id}"


def _may(repair: bool, role: Role) -> None:
    """A repair writes to somebody's tables, in whatever was chosen: that is for admins."""
    if repair and role is not Role.ADMIN:
        raise Refused(
            403,
            "forbidden",
            f"a repair needs the role admin, and yours is {role.value}",
            object_="repair",
            hint="compare without it, or have an admin ask",
        )
