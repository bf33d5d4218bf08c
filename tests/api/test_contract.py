"""What the OpenAPI promises holds, for thousands of requests that nobody thought of.

schemathesis makes requests that fit the description, and requests that do not. Always the same
ones: the generator is derandomised, and each operation has a server of its own. Half of those that
fit are about things that there are, and each operation must go well at least once: otherwise all
this would prove is that nonsense is refused. Who may ask is not a question here (`test_access`),
so the generator is not told of tokens, and makes none up.
"""

import os
from collections.abc import Iterator
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis import Case, GenerationMode
from schemathesis.checks import negative_data_rejection as refused
from schemathesis.checks import not_a_server_error
from schemathesis.schemas import APIOperation
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from lockgate.api.app import make_interface
from lockgate.api.server import Server
from lockgate.model.tokens import Role
from tests.api.conftest import Ask
from tests.support.services import FakeService

CASES = int(os.environ.get("LOCKGATE_API_CASES", "44"))
"""For each operation and way of making requests, at most; some have fewer different ones."""

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]


def _description() -> dict[str, Any]:
    found = make_interface(FakeService()).app.openapi()
    operations = [
        {key: value for key, value in operation.items() if key != "security"}
        for path in found["paths"].values()
        for operation in path.values()
    ]
    by_id = {operation["operationId"]: operation for operation in operations}
    paths = {
        path: {method: by_id[operation["operationId"]] for method, operation in inner.items()}
        for path, inner in found["paths"].items()
    }
    parts = {key: value for key, value in found["components"].items() if key == "schemas"}
    return {**found, "paths": paths, "components": parts}


SCHEMA = schemathesis.openapi.from_dict(_description())
SCHEMA.config.checks.negative_data_rejection.expected_statuses = ["4xx"]
OPERATIONS: dict[str, APIOperation] = {
    found.ok().definition.raw["operationId"]: found.ok() for found in SCHEMA.get_all_operations()
}
TAKING = {
    name: operation
    for name, operation in OPERATIONS.items()
    if operation.path_parameters or operation.query or operation.body
}
"""Those that can be asked in a wrong way."""

NAMES = {
    "name": "shop",
    "table": "public.orders",
    "span": "s2",
    "endpoint": "lake",
    "diff": "0123456789",
}
OTHER_NAMES = {
    "diff_resume": {"diff": "fedcba9876"},
    "diff_cancel": {"diff": "fedcba9876"},
    "move_reverse": {"name": "there"},
    "move_complete": {"name": "there"},
    "move_remove": {"name": "over"},
    "node_drain": {"name": "a"},
    "token_remove": {"name": "viewer"},
    "endpoint_remove": {"name": "spare"},
}
_FEED = {"source": "shop", "target": "copy", "tables": ["public.*"], "name": "more"}
_PLAIN = {"leave_out": [], "masks": {}, "rows": {}, "rename": {}}
_BYTES = {"wal_warn_bytes": 2**30, "wal_stop_bytes": 2**31}
_MOVE = {"source": "shop", "target": "copy", "tables": ["public.*"], "hook": ""}
BODIES: dict[str, dict[str, Any]] = {
    "endpoint_add": {"url": "postgres://db.example/x"},
    "feed_create": {**_FEED, **_PLAIN, **_BYTES},
    "feed_plan": {**_FEED, **_PLAIN, **_BYTES},
    "span_move": {"node": "a"},
    "span_split": {"at": [], "parts": 2},
    "span_merge": {"spans": ["s4", "s5"]},
    "lake_step_down": {"flush": True},
    "diff_run": {"source": "shop", "target": "copy", "tables": ["public.*"], "feed": ""},
    "move_diff": {"resume": False},
    "move_create": {**_MOVE, "name": "more"},
    "move_plan": {**_MOVE, "name": "more"},
}
"""What makes up sense, in place of what the generator made up."""

ran = dict.fromkeys(((name, mode) for mode in GenerationMode for name in TAKING), 0)


@pytest.fixture
def session(service: FakeService) -> Iterator[requests.Session]:
    service.moves.patience_s = 0.0
    with requests.Session() as session:
        session.headers["Authorization"] = f"Bearer {service.keys[Role.ADMIN].reveal()}"
        yield session


def _ask_much(
    name: str, mode: GenerationMode, server: Server, session: requests.Session
) -> set[int]:
    """The statuses of all answers, each of which was as described."""
    names, body = OTHER_NAMES.get(name, NAMES), BODIES.get(name, {})
    positive = mode is GenerationMode.POSITIVE
    statuses: set[int] = set()

    @settings(
        max_examples=CASES,
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(case=OPERATIONS[name].as_strategy(generation_mode=mode), there=st.booleans())
    def ask(case: Case, there: bool) -> None:
        if there and positive:
            known = {key: names[key] for key in case.path_parameters if key in names}
            case.path_parameters.update(known)
            if body:
                sent = case.body if isinstance(case.body, dict) else {}  # it may be left out
                case.body = {**sent, **body}
        if name in TAKING:
            ran[name, mode] += 1
        answer = case.call(base_url=server.url, session=session)
        statuses.add(answer.status_code)
        case.validate_response(answer, checks=CHECKS if positive else [*CHECKS, refused])

    ask()
    return statuses


@pytest.mark.parametrize("name", OPERATIONS)
def test_requests_that_fit_the_description(
    name: str,
    server: Server,
    session: requests.Session,
    shop: str,
    ask: Ask,
    service: FakeService,
) -> None:
    spare = {"name": "spare", "url": "postgres://db.example/spare"}
    assert ask("POST", "/api/v1/endpoints", json=spare).is_success
    lake = {"name": "lake", "url": "delta:/srv/lake"}
    assert ask("POST", "/api/v1/endpoints", json=lake).is_success
    for move, steps in {"shop": [], "there": ["switch"], "over": ["cancel"]}.items():
        moved = {"source": "shop", "target": "copy", "tables": ["public.*"], "name": move}
        assert ask("POST", "/api/v1/moves", json=moved).is_success
        for step in steps:
            assert ask("POST", f"/api/v1/moves/{move}/{step}").is_success
    assert ask("POST", "/api/v1/feeds/shop/spans/s3/split", json={"parts": 2}).is_success
    for service.diffs.fails, diff in (("a lock", "fedcba9876"), ("", "0123456789")):
        assert ask("POST", "/api/v1/diffs", json={"id": diff, "feed": "shop"}).is_success
    statuses = _ask_much(name, GenerationMode.POSITIVE, server, session)
    assert statuses & {200, 201, 204}, "it never went well"


@pytest.mark.parametrize("name", TAKING)
def test_requests_that_do_not_fit_the_description(
    name: str, server: Server, session: requests.Session, shop: str
) -> None:
    _ask_much(name, GenerationMode.NEGATIVE, server, session)


def test_those_were_two_thousand_requests_at_least() -> None:
    if not all(ran.values()):
        pytest.skip("not all of them were run")
    assert sum(ran.values()) >= 2000
