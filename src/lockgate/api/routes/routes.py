"""Where the traffic of tables goes, for whoever routes it.

    GET /api/v1/routes                          all of it, and its version
    If-None-Match: "7"                          304, when 7 is still the version
    GET /api/v1/routes?after=7&wait_s=30        hangs until the version is greater, 30 s at most

The version rises with each change of any route, in the transaction that changes the traffic.
"""

from typing import Annotated

from fastapi import Header, Query, Response
from pydantic import BaseModel, ConfigDict, Field

from lockgate.api.ports import Service
from lockgate.model.move_status import Routes

__all__ = ["RouteRoutes"]


class _RouteFields(BaseModel):
    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    tables: list[Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^\x00]*$")]] = (
        Field(default=[], max_length=100, description="Of these only: `public.orders`.")
    )
    after: int | None = Field(
        default=None, ge=0, le=2**62, description="Wait until the version is greater."
    )
    wait_s: float = Field(
        default=0.0, ge=0, le=30, allow_inf_nan=False, description="With `after`: no longer."
    )

    @property
    def hangs(self) -> bool:
        """Asked so, it may keep a thread for a while."""
        return self.after is not None and self.wait_s > 0


RouteQuery = Annotated[_RouteFields, Query()]
Seen = Annotated[
    str, Header(alias="If-None-Match", max_length=200, description="The ETag of a former answer.")
]


class RouteRoutes:
    """Verbs about routes, each named as in `verbs.py`."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def route_list(self, query: RouteQuery, response: Response, seen: Seen = "") -> Routes | None:
        found = self._service.moves.routes(query.tables, after=query.after, wait_s=query.wait_s)
        tag = f'"{found.version}"'
        response.headers["ETag"] = tag
        known = {one.strip().removeprefix("W/") for one in seen.split(",")}
        if known & {tag, "*"}:
            response.status_code = 304
            return None
        return found
