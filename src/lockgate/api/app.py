"""Puts the interface together: the table of verbs, their handlers, and the guard in front.

    Guard ──► FastAPI: parses and validates ──► handler, in a thread of its verb's lane ──► Service

FastAPI's own answers to wrong requests are turned into `Refused`, so that the guard is the one
place where problem documents are made.
"""

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from lockgate import __version__
from lockgate.api.describe import describe, description
from lockgate.api.door import Door
from lockgate.api.guard import Answered, Guard
from lockgate.api.keys import Keys
from lockgate.api.lanes import Slots
from lockgate.api.limits import Limits
from lockgate.api.logs import Log
from lockgate.api.pages import Page
from lockgate.api.ports import Service
from lockgate.api.problems import Refused
from lockgate.api.routes.diffs import DiffRoutes
from lockgate.api.routes.endpoints import EndpointRoutes
from lockgate.api.routes.feeds import FeedRoutes
from lockgate.api.routes.lakes import LakeRoutes
from lockgate.api.routes.machines import MachineRoutes
from lockgate.api.routes.moves import MoveRoutes
from lockgate.api.routes.people import PeopleRoutes
from lockgate.api.routes.routes import RouteRoutes
from lockgate.api.scrub import Scrubber
from lockgate.api.verbs import VERBS, Lane

__all__ = ["Interface", "make_interface"]


@dataclass(frozen=True)
class Interface:
    """The application, and what its server needs of it."""

    app: FastAPI
    lanes: Mapping[Lane, Slots]
    limits: Limits


def make_interface(
    service: Service,
    *,
    limits: Limits | None = None,
    scrubber: Scrubber | None = None,
    answered: Answered = lambda _operation, _status, _seconds: None,
) -> Interface:
    """The HTTP interface of a service. `scrubber` may know secrets already, and learns more;
    `answered` is told of every request."""
    limits = limits or Limits()
    scrubber = scrubber or Scrubber()
    log = Log(scrubber, service.name)
    keys = Keys(service)
    lanes = {
        Lane.WATCH: Slots("watch", 4, 64),
        Lane.WORK: Slots("work", limits.workers, limits.in_flight_max),
        # Who waits for a place to wait had better ask again.
        Lane.WAIT: Slots("wait", limits.waiters, 0),
        Lane.FOLLOW: Slots("follow", limits.followers, 0),
        Lane.LINK: Slots("link", 8, limits.link_in_flight_max),
        Lane.ASK: Slots("ask", 8, limits.link_in_flight_max),
    }
    app = FastAPI(
        title="Lockgate",
        version=__version__,
        openapi_url=None,  # served by a verb, for those who may look
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        exception_handlers={HTTPException: _refuse, RequestValidationError: _refuse_fields},
    )
    app.openapi = functools.cache(functools.partial(description, app))  # type: ignore[method-assign]
    app.add_middleware(
        Guard,
        door=Door(keys, limits, log),
        limits=limits,
        log=log,
        scrubber=scrubber,
        answered=answered,
    )
    handlers = (
        EndpointRoutes(service, scrubber),
        FeedRoutes(service, scrubber),
        LakeRoutes(service),
        MoveRoutes(service),
        RouteRoutes(service),
        DiffRoutes(service),
        PeopleRoutes(service, keys.forget),
        MachineRoutes(service, app.openapi),
    )
    for verb in VERBS:
        handler = next(getattr(h, verb.operation) for h in handlers if hasattr(h, verb.operation))
        route = _in_lane(handler, verb.lane, lanes, scrubber)
        app.add_api_route(verb.path, route, methods=[verb.method], **describe(verb, handler))
    return Interface(app, lanes, limits)


def _in_lane(
    handler: Callable[..., Any], lane: Lane, lanes: Mapping[Lane, Slots], scrubber: Scrubber
) -> Callable[..., Any]:
    """The handler as a coroutine that runs it in a lane, and scrubs what it says."""

    async def run(**given: Any) -> Any:
        hangs = getattr(given.get("query"), "hangs", False)
        slots = lanes[Lane.FOLLOW if hangs else lane]
        answer = await slots.run(functools.partial(handler, **given))
        if isinstance(answer, Page):
            return answer.model_copy(update={"items": scrubber.document(answer.items)})
        return scrubber.document(answer)

    run.__name__ = handler.__name__
    run.__doc__ = handler.__doc__
    # FastAPI reads from the signature what to parse. `functools.wraps` would lead it to the
    # handler itself, which is no coroutine.
    run.__signature__ = inspect.signature(handler)  # type: ignore[attr-defined]
    return run


async def _refuse(_: Request, error: Exception) -> NoReturn:
    assert isinstance(error, HTTPException)
    raise Refused(
        error.status_code,
        "malformed" if error.status_code == 400 else "usage",
        "the body cannot be read" if error.status_code == 400 else str(error.detail),
        hint="send JSON",
    ) from None


async def _refuse_fields(_: Request, error: Exception) -> NoReturn:
    """What is wrong with a request's fields, and where; never what the fields hold."""
    assert isinstance(error, RequestValidationError)
    found = error.errors()
    first = found[0]
    if first["type"] == "json_invalid":
        raise Refused(400, "malformed", "the body is not JSON", hint="send JSON") from None
    place = [str(part) for part in first["loc"]]
    what = str(first["msg"]).removeprefix("Value error, ")
    more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    raise Refused(
        422,
        "usage",
        f"{what[:1].lower()}{what[1:]}{more}",
        object_=".".join(place[1:] or place)[:200],
        hint="see /api/v1/openapi.json for what may stand there",
    ) from None
