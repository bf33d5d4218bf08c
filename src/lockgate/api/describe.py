"""How a verb is described in the OpenAPI: its answers, its problems, an example of each."""

import inspect
from collections.abc import Callable
from dataclasses import asdict
from http import HTTPStatus
from types import NoneType
from typing import Any, Final, get_args

from fastapi import FastAPI, Response
from fastapi.openapi.utils import get_openapi
from fastapi.responses import JSONResponse
from pydantic import TypeAdapter

from lockgate.api.examples import EXAMPLES, PLAIN
from lockgate.api.problems import MEDIA_TYPE, Problem, Refused
from lockgate.api.verbs import VERBS, Access, Verb
from lockgate.model.lake_documents import UNDER_WAY, LakeOutcome
from lockgate.model.move_status import MoveOutcome

__all__ = ["describe", "description"]

_PROBLEM: Final = TypeAdapter(Problem).json_schema()

_CODES: Final = {
    400: ("malformed", "the body is not JSON", "", "send JSON"),
    401: ("unauthenticated", "the token is missing or wrong", "", "send Authorization: Bearer …"),
    403: ("forbidden", "feed_remove needs the role admin, and ci is operator", "", "use a token…"),
    404: ("not-found", "there is no such feed", "shop", "lockgate feed list"),
    408: ("timeout", "the body did not arrive in time", "", "send it faster"),
    409: ("conflict", "there is another feed of this name", "shop", "choose another name"),
    413: ("too-large", "the body has more than 1048576 bytes", "", "send less"),
    414: ("too-large", "the path and query are too long", "", "shorten them"),
    415: ("media-type", "the body is not application/json", "", "send application/json"),
    422: ("usage", "no table is chosen", "tables", "name at least one, or a pattern"),
    424: ("endpoint-unavailable", "the server does not answer", "db:5432/shop", "is it running?"),
    429: ("too-many", "the token ci asks too often", "", "ask more slowly"),
    500: ("internal", "something went wrong that nobody expected", "", "look for … in the log"),
    503: ("metastore-unavailable", "the metastore does not answer", "", "ask again"),
    507: ("storage-full", "there is no room to record it", "", "make room"),
}


_ALSO: Final = {
    200: "It was there already",
    202: "It is recorded, and goes on by itself",
    304: "Nothing has changed",
}
_ASK_ON: Final = "It is under way: ask again with its `request` to go on waiting"
_WORDS: Final = {
    ("feed_remove", 200): "It is gone by force; the notes name what was left behind",
    **{(verb.operation, 202): _ASK_ON for verb in VERBS if verb.tag in {"lake", "move"}},
}
_ANSWERS: Final = {
    (verb.operation, 202): outcome("5f0c2a9d1e7b4a36", UNDER_WAY, "it is not over yet")
    for verb in VERBS
    for tag, outcome in (("lake", LakeOutcome), ("move", MoveOutcome))
    if verb.tag == tag
}
"""Examples of answers that differ with the status."""
_SILENT: Final = frozenset({HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED})
"""Statuses of answers that hold nothing."""


def describe(verb: Verb, handler: Callable[..., Any]) -> dict[str, Any]:
    """What `add_api_route` is told besides path, method and function."""
    returns = inspect.signature(handler).return_annotation
    plain = returns is None or returns is Response
    responses: dict[int | str, dict[str, Any]] = {
        status: _problem(verb, status) for status in verb.statuses
    }
    for status in (verb.status, *verb.also):
        silent = plain or status in _SILENT
        responses[status] = _answer(verb, status, None if silent else _document(returns))
    return {
        "operation_id": verb.operation,
        "summary": verb.summary,
        "description": f"Needs the role {verb.access.value}." if verb.access.role else "",
        "tags": [verb.tag],
        "status_code": verb.status,
        "response_model": None if plain or verb.status == HTTPStatus.NO_CONTENT else returns,
        "response_class": Response if plain else JSONResponse,
        "responses": responses,
        "include_in_schema": verb.access is not Access.LINK,
    }


def description(app: FastAPI) -> dict[str, Any]:
    """The OpenAPI of the whole: FastAPI's, with problems, who may, and no validation errors of
    FastAPI's own kind, which never get out."""
    found = get_openapi(
        title=app.title,
        version=app.version,
        summary="Replicates live tables, moves them, and proves both sides equal.",
        routes=app.routes,
    )
    components = found.setdefault("components", {})
    schemas = components.setdefault("schemas", {})
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    schemas["Problem"] = _PROBLEM
    components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    for verb in VERBS:
        if verb.access is not Access.LINK:
            path = verb.path.replace(":path}", "}")
            operation = found["paths"][path][verb.method.lower()]
            operation["security"] = [] if verb.access is Access.OPEN else [{"token": []}]
            operation["x-lockgate-access"] = verb.access.value
    return found


def _document(returns: Any) -> Any:
    """What an answer holds, of a verb that may have nothing to say."""
    return next((kind for kind in get_args(returns) if kind is not NoneType), returns)


def _answer(verb: Verb, status: int, returns: Any) -> dict[str, Any]:
    words = _ALSO[status] if status in verb.also else HTTPStatus(status).phrase
    words = _WORDS.get((verb.operation, status), words)
    if verb.operation in PLAIN:
        kind, example = PLAIN[verb.operation]
        schema = {"type": "object" if kind == "application/json" else "string"}
        content = {kind: {"schema": schema, "example": example}}
        return {"description": words, "content": content}
    if returns is None:
        return {"description": words}
    example = _ANSWERS.get((verb.operation, status), EXAMPLES[verb.operation])
    shown = TypeAdapter(returns).dump_python(example, mode="json")
    return {
        "description": words,
        "model": returns,
        "content": {"application/json": {"example": shown}},
    }


def _problem(verb: Verb, status: int) -> dict[str, Any]:
    code, detail, object_, hint = _CODES[status]
    example = Refused(status, code, detail, object_=object_, hint=hint)
    retry = {"Retry-After": {"description": "Seconds.", "schema": {"type": "integer"}}}
    return {
        "description": HTTPStatus(status).phrase,
        "headers": retry if status in {429, 503} else {},
        "content": {
            MEDIA_TYPE: {
                "schema": {"$ref": "#/components/schemas/Problem"},
                "example": asdict(example.problem("5f0c2a9d1e7b4a36", verb.operation)),
            }
        },
    }
