"""Moves, and the commands that carry them on."""

from fastapi import Response

from lockgate.api.bodies import MoveCancelBody, MoveCompleteBody, MoveCreateBody, MoveFlipBody
from lockgate.api.pages import Page, PageQuery, paged
from lockgate.api.ports import Service
from lockgate.api.routes.given import Name, Who
from lockgate.model.errors import NotFound
from lockgate.model.lake_documents import UNDER_WAY
from lockgate.model.move_status import MoveOutcome, MoveStatus
from lockgate.model.moves import Command

__all__ = ["MoveRoutes"]


class MoveRoutes:
    """Verbs about moves, each named as in `verbs.py`."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def move_list(self, query: PageQuery) -> Page[MoveStatus]:
        return paged(self._service.moves.all(), lambda move: move.name, query)

    def move_create(self, body: MoveCreateBody, who: Who, response: Response) -> MoveStatus:
        config = body.config
        if self._known(config.name):
            response.status_code = 200
        return self._service.moves.create(config, who)

    def move_plan(self, body: MoveCreateBody) -> MoveOutcome:
        return self._service.moves.plan(body.config)

    def move_show(self, name: Name) -> MoveStatus:
        return self._service.moves.one(name)

    def move_remove(self, name: Name, who: Who) -> None:
        self._service.moves.remove(name, who)

    def move_switch(
        self, name: Name, who: Who, response: Response, body: MoveFlipBody | None = None
    ) -> MoveOutcome:
        return self._flip(Command.SWITCH, name, who, response, body or MoveFlipBody())

    def move_reverse(
        self, name: Name, who: Who, response: Response, body: MoveFlipBody | None = None
    ) -> MoveOutcome:
        return self._flip(Command.REVERSE, name, who, response, body or MoveFlipBody())

    def move_complete(
        self, name: Name, who: Who, response: Response, body: MoveCompleteBody
    ) -> MoveOutcome:
        outcome = self._service.moves.command(
            name, body.order, who, dry=body.dry_run, request=body.request
        )
        return _told(outcome, response)

    def move_cancel(
        self, name: Name, who: Who, response: Response, body: MoveCancelBody | None = None
    ) -> MoveOutcome:
        wish = body or MoveCancelBody()
        outcome = self._service.moves.command(
            name, wish.order, who, dry=wish.dry_run, request=wish.request
        )
        return _told(outcome, response)

    def _flip(
        self, command: Command, name: str, who: str, response: Response, wish: MoveFlipBody
    ) -> MoveOutcome:
        outcome = self._service.moves.command(
            name, wish.order(command), who, dry=wish.dry_run, request=wish.request
        )
        return _told(outcome, response)

    def _known(self, name: str) -> bool:
        try:
            self._service.moves.one(name)
        except NotFound:
            return False
        return True


def _told(outcome: MoveOutcome, response: Response) -> MoveOutcome:
    if outcome.verdict == UNDER_WAY:
        response.status_code = 202
    return outcome
