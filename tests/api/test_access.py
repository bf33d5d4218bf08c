"""Every route, with every key: exactly those come in who may."""

import asyncio
import itertools
import json
import re
from collections.abc import Iterator

import httpx
import pytest
from fastapi.routing import APIRoute
from starlette.routing import Route

from lockgate.api.app import make_interface
from lockgate.api.server import serve
from lockgate.api.verbs import VERBS, Access, Verb
from lockgate.model.secret import Secret
from lockgate.model.tokens import Role
from tests.api.conftest import ROOMY
from tests.support.services import FakeService

LETS_IN = {
    Access.OPEN: {"none", "wrong", "viewer", "operator", "admin", "link"},
    Access.VIEWER: {"viewer", "operator", "admin"},
    Access.OPERATOR: {"operator", "admin"},
    Access.ADMIN: {"admin"},
    Access.LINK: {"link"},
}
KEYS = ("none", "wrong", "viewer", "operator", "admin", "link")

EXPECTED = """
GET    /healthz open
GET    /metrics viewer
GET    /api/v1/openapi.json viewer
GET    /api/v1/endpoints viewer
POST   /api/v1/endpoints admin
GET    /api/v1/endpoints/{name} viewer
DELETE /api/v1/endpoints/{name} admin
POST   /api/v1/endpoints/{name}/test operator
GET    /api/v1/feeds viewer
POST   /api/v1/feeds operator
POST   /api/v1/feeds/plan operator
GET    /api/v1/feeds/{name} viewer
DELETE /api/v1/feeds/{name} admin
GET    /api/v1/feeds/{name}/tables viewer
POST   /api/v1/feeds/{name}/pause operator
POST   /api/v1/feeds/{name}/resume operator
POST   /api/v1/feeds/{name}/wait viewer
POST   /api/v1/feeds/{name}/tables/{table:path}/resync operator
POST   /api/v1/feeds/{name}/spans/{span}/move operator
POST   /api/v1/feeds/{name}/spans/{span}/split operator
POST   /api/v1/feeds/{name}/spans/merge operator
GET    /api/v1/lakes/{endpoint} viewer
POST   /api/v1/lakes/{endpoint}/drain operator
POST   /api/v1/lakes/{endpoint}/step-up operator
POST   /api/v1/lakes/{endpoint}/step-down operator
GET    /api/v1/lakes/{endpoint}/tables viewer
GET    /api/v1/lakes/{endpoint}/tables/{table:path} viewer
POST   /api/v1/lakes/{endpoint}/tables/{table:path}/drain operator
POST   /api/v1/lakes/{endpoint}/tables/{table:path}/drop admin
GET    /api/v1/moves viewer
POST   /api/v1/moves operator
POST   /api/v1/moves/plan operator
GET    /api/v1/moves/{name} viewer
DELETE /api/v1/moves/{name} admin
POST   /api/v1/moves/{name}/switch operator
POST   /api/v1/moves/{name}/reverse operator
POST   /api/v1/moves/{name}/complete admin
POST   /api/v1/moves/{name}/cancel admin
POST   /api/v1/moves/{name}/diff operator
GET    /api/v1/routes viewer
GET    /api/v1/diffs viewer
POST   /api/v1/diffs operator
GET    /api/v1/diffs/{diff} viewer
POST   /api/v1/diffs/{diff}/resume operator
POST   /api/v1/diffs/{diff}/cancel operator
GET    /api/v1/nodes viewer
POST   /api/v1/nodes/{name}/drain operator
GET    /api/v1/history viewer
GET    /api/v1/tokens admin
POST   /api/v1/tokens admin
DELETE /api/v1/tokens/{name} admin
POST   /link/v1/messages link
POST   /link/v1/verbs link
"""
"""The contract, written a second time on purpose."""


def _header(key: str, service: FakeService) -> dict[str, str]:
    if key == "none":
        return {}
    if key == "wrong":
        return {"Authorization": "Bearer wrong"}
    secret = service.link_key() if key == "link" else service.keys[Role(key)]
    return {"Authorization": f"Bearer {secret.reveal()}"}


def test_who_may_what_is_as_agreed() -> None:
    agreed = {tuple(line.split()) for line in EXPECTED.strip().splitlines()}
    assert {(verb.method, verb.path, verb.access.value) for verb in VERBS} == agreed


def test_every_route_of_the_application_has_a_verb_that_says_who_may() -> None:
    routes = make_interface(FakeService()).app.routes
    assert all(isinstance(route, APIRoute) for route in routes)
    found = [(m, r.path) for r in routes if isinstance(r, Route) for m in r.methods or ()]
    assert sorted(found) == sorted((verb.method, verb.path) for verb in VERBS)


@pytest.mark.parametrize(
    ("verb", "key"),
    list(itertools.product(VERBS, KEYS)),
    ids=lambda value: value.operation if isinstance(value, Verb) else value,
)
def test_a_key_opens_what_it_may_and_nothing_else(
    verb: Verb, key: str, matrix: tuple[httpx.Client, FakeService]
) -> None:
    client, service = matrix
    path = re.sub(r"\{[^}]+\}", "nobody", verb.path)
    before = len(service.calls)
    answer = client.request(verb.method, path, headers=_header(key, service))
    let_in = answer.status_code not in {401, 403}
    assert let_in == (key in LETS_IN[verb.access]), answer.text
    assert answer.status_code < 500
    if not let_in:
        known = {role.value for role in Role} - LETS_IN[verb.access]
        forbidden = key in known and verb.access is not Access.LINK
        assert answer.status_code == (403 if forbidden else 401)
        asked = [call for call in service.calls[before:] if call[0] != "tokens"]
        assert not asked, "the service was asked for somebody who may not"


@pytest.fixture(scope="module")
def matrix() -> Iterator[tuple[httpx.Client, FakeService]]:
    """One server for all of it: nobody changes anything here, since there is no `nobody`."""
    service = FakeService()
    with (
        serve(service, "127.0.0.1:0", limits=ROOMY) as server,
        httpx.Client(base_url=server.url) as client,
    ):
        yield client, service


def test_a_route_that_nobody_listed_is_closed(service: FakeService) -> None:
    app = make_interface(service).app
    app.add_api_route("/api/v1/backdoor", lambda: "open")

    async def knock() -> int:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://x") as client:
            token = service.keys[Role.ADMIN].reveal()
            headers = {"Authorization": f"Bearer {token}"}
            return (await client.get("/api/v1/backdoor", headers=headers)).status_code

    assert asyncio.run(knock()) == 404


@pytest.mark.parametrize(
    "header", ["", "Bearer", "Basic {}", "Bearer {},x", "Bearer {} x", "{}", "Bearer\t{}"]
)
def test_only_the_bearer_scheme_shows_a_token(
    header: str, client: httpx.Client, service: FakeService
) -> None:
    value = header.format(service.keys[Role.ADMIN].reveal())
    answer = client.get("/api/v1/feeds", headers={"Authorization": value})
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"].startswith("Bearer")


def test_two_authorization_headers_show_nothing(client: httpx.Client, service: FakeService) -> None:
    good = f"Bearer {service.keys[Role.ADMIN].reveal()}"
    headers = [("Authorization", "Bearer wrong"), ("Authorization", good)]
    assert client.get("/api/v1/feeds", headers=headers).status_code == 401


def test_the_history_names_the_token_that_asked(client: httpx.Client, service: FakeService) -> None:
    body = {"name": "shop", "url": "postgres://db/shop"}
    client.post("/api/v1/endpoints", json=body, headers=_header("admin", service))
    assert ("add_endpoint", "admin") in service.calls


@pytest.mark.parametrize("verb", ["", "/plan"], ids=["create", "plan"])
@pytest.mark.parametrize("end", ["source", "target"])
@pytest.mark.parametrize("role", [Role.OPERATOR, Role.ADMIN], ids=lambda role: role.value)
def test_only_an_admin_chooses_where_a_secret_is_sent_to(
    verb: str, end: str, role: Role, client: httpx.Client, service: FakeService
) -> None:
    for name in ("shop", "copy"):
        service.add_endpoint(name, Secret(f"postgres://db/{name}"), "admin")
    body = {"name": "f", "source": "shop", "target": "copy", "tables": ["public.*"]}
    body[end] = "postgres://u:${file:/home/token}@elsewhere/db"
    service.calls.clear()
    answer = client.post(f"/api/v1/feeds{verb}", json=body, headers=_header(role.value, service))
    if role is Role.ADMIN:
        assert answer.is_success
        return
    problem = answer.json()
    assert (answer.status_code, problem["code"], problem["object"]) == (403, "forbidden", end)
    assert "endpoint add" in problem["hint"]
    assert "elsewhere" not in answer.text
    assert {verb for verb, _ in service.calls} == {"tokens"}


@pytest.mark.parametrize("verb", ["", "/plan"], ids=["create", "plan"])
def test_an_operator_names_endpoints(verb: str, client: httpx.Client, service: FakeService) -> None:
    for name in ("shop", "copy"):
        service.add_endpoint(name, Secret(f"postgres://db/{name}"), "admin")
    body = {"name": "f", "source": "shop", "target": "copy", "tables": ["public.*"]}
    answer = client.post(f"/api/v1/feeds{verb}", json=body, headers=_header("operator", service))
    assert answer.is_success


def test_no_other_body_than_these_holds_an_address() -> None:
    """One that did would have to say, too, whose addresses it takes."""
    described = make_interface(FakeService()).app.openapi()
    schemas = described["components"]["schemas"]
    holding = {
        name
        for name, schema in schemas.items()
        for field in schema.get("properties", {}).values()
        if field.get("format") == "password"
    }
    taking = {
        verb.operation
        for verb in VERBS
        for body in holding
        if f'"#/components/schemas/{body}"'
        in json.dumps(described["paths"].get(verb.path, {}).get(verb.method.lower(), {}))
    }
    assert taking == {"endpoint_add", "feed_create", "feed_plan"}
