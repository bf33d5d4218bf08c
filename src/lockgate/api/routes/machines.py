"""What machines ask: probes, Prometheus, tools that read the OpenAPI, and other nodes."""

import json
from collections.abc import Callable
from typing import Any

from fastapi import Response

from lockgate.api.ports import Service
from lockgate.api.routes.given import RawBody
from lockgate.model.documents import Health

__all__ = ["MachineRoutes"]


class MachineRoutes:
    """Verbs of machines, each named as in `verbs.py`."""

    def __init__(self, service: Service, description: Callable[[], dict[str, Any]]) -> None:
        self._service = service
        self._description = description

    def health(self) -> Health:
        return self._service.health()

    def metrics(self) -> Response:
        return Response(
            self._service.metrics(), media_type="text/plain; version=0.0.4; charset=utf-8"
        )

    def openapi(self) -> Response:
        return Response(json.dumps(self._description()), media_type="application/json")

    def link_messages(self, body: RawBody) -> None:
        self._service.receive(body)

    def link_verbs(self, body: RawBody) -> Response:
        return Response(self._service.carry_out(body), media_type="application/msgpack")
