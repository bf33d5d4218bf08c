"""Endpoints: named databases."""

from fastapi import Response

from lockgate.api.bodies import EndpointBody
from lockgate.api.pages import Page, PageQuery, paged
from lockgate.api.ports import Service
from lockgate.api.routes.given import Name, Who
from lockgate.api.scrub import Scrubber
from lockgate.model.documents import Endpoint, EndpointReport
from lockgate.model.errors import NotFound

__all__ = ["EndpointRoutes"]


class EndpointRoutes:
    """Verbs about endpoints, each named as in `verbs.py`."""

    def __init__(self, service: Service, scrubber: Scrubber) -> None:
        self._service = service
        self._scrubber = scrubber

    def endpoint_list(self, query: PageQuery) -> Page[Endpoint]:
        return paged(self._service.endpoints(), lambda endpoint: endpoint.name, query)

    def endpoint_add(self, body: EndpointBody, who: Who, response: Response) -> Endpoint:
        self._scrubber.learn(body.address)
        if self._known(body.name):
            response.status_code = 200
        return self._service.add_endpoint(body.name, body.address, who)

    def endpoint_show(self, name: Name) -> Endpoint:
        return self._service.endpoint(name)

    def endpoint_remove(self, name: Name, who: Who) -> None:
        self._service.remove_endpoint(name, who)

    def endpoint_test(self, name: Name) -> EndpointReport:
        return self._service.test_endpoint(name)

    def _known(self, name: str) -> bool:
        try:
            self._service.endpoint(name)
        except NotFound:
            return False
        return True
