"""Whatever goes wrong is told as a problem document."""

import io
import json
import socket

import httpx
import pytest

from lockgate.api.problems import MEDIA_TYPE, status_of
from lockgate.api.server import Server
from lockgate.model import errors
from lockgate.model.errors import LockgateError
from tests.api.conftest import Ask
from tests.support.services import FakeService

KEYS = {
    "type",
    "title",
    "status",
    "detail",
    "instance",
    "code",
    "object",
    "hint",
    "operation",
}

STATUSES = {
    "LockgateError": 500,
    "Transient": 503,
    "MetastoreUnavailable": 503,
    "DidNotLand": 503,
    "OutcomeUnknown": 503,
    "EndpointUnavailable": 424,
    "EndpointBusy": 424,
    "EndpointRefused": 424,
    "MissingPrivilege": 424,
    "ObjectMissing": 424,
    "Terminal": 409,
    "UsageError": 422,
    "NotFound": 404,
    "Conflict": 409,
    "StaleOwner": 409,
    "MetastoreUnreadable": 409,
    "MetastoreTooNew": 409,
    "DataRefused": 409,
    "StorageFull": 507,
    "IllegalTransition": 500,
}


def _problem(answer: httpx.Response, status: int, code: str) -> dict[str, str]:
    assert answer.headers["content-type"] == MEDIA_TYPE, answer.text
    document: dict[str, str] = answer.json()
    assert set(document) == KEYS
    assert (answer.status_code, document["status"], document["code"]) == (status, status, code)
    assert document["type"] == f"urn:lockgate:problem:{code}"
    return document


def test_every_error_has_a_status() -> None:
    assert set(STATUSES) == set(errors.__all__)


@pytest.mark.parametrize("name", STATUSES)
def test_an_error_of_the_service_is_a_problem(name: str, ask: Ask, service: FakeService) -> None:
    kind: type[LockgateError] = getattr(errors, name)
    error = kind("it went wrong", object_="shop", hint="do better", operation="look")
    service.failures["feed"] = error
    status = STATUSES[name]
    assert status_of(error) == status
    answer = ask("GET", "/api/v1/feeds/shop")
    if status == 500:
        _problem(answer, 500, "internal")
        return
    found = _problem(answer, status, error.code)
    assert (found["detail"], found["object"], found["hint"], found["operation"]) == (
        "it went wrong",
        "shop",
        "do better",
        "look",
    )
    assert ("retry-after" in answer.headers) == (status == 503)


def test_the_cause_is_told_in_one_line(ask: Ask, service: FakeService) -> None:
    service.failures["feed"] = errors.Conflict(
        "it went wrong", object_="", hint="", cause=ValueError("because\nof many lines")
    )
    found = _problem(ask("GET", "/api/v1/feeds/shop"), 409, "conflict")
    assert found["detail"] == "it went wrong: because"


def test_a_bug_is_told_by_its_id_which_is_in_the_log(
    ask: Ask, service: FakeService, log: io.StringIO
) -> None:
    service.failures["feed"] = ZeroDivisionError("deep inside")
    found = _problem(ask("GET", "/api/v1/feeds/shop"), 500, "internal")
    assert "deep inside" not in json.dumps(found)
    assert "Traceback" not in json.dumps(found)
    id_ = found["instance"].rpartition(":")[2]
    [line] = [json.loads(line) for line in log.getvalue().splitlines() if '"bug"' in line]
    assert line["id"] == id_
    assert "ZeroDivisionError: deep inside" in line["trace"]


def test_an_answer_that_is_not_as_described_is_a_bug(ask: Ask, service: FakeService) -> None:
    service.feed = lambda name: "no status at all"  # type: ignore[method-assign, assignment, return-value]
    _problem(ask("GET", "/api/v1/feeds/shop"), 500, "internal")


@pytest.mark.parametrize(
    "path", ["/", "/api", "/api/v1", "/api/v1/feeds/", "/link/v1", "/docs", "/api/v1/feeds//x"]
)
def test_a_path_of_nothing_is_a_problem(path: str, ask: Ask) -> None:
    _problem(ask("GET", path), 404, "no-such-path")


@pytest.mark.parametrize("method", ["PUT", "PATCH", "OPTIONS", "TRACE", "DELETE", "BREW"])
def test_a_method_that_is_not_taken_is_a_problem_that_names_those_that_are(
    method: str, ask: Ask
) -> None:
    answer = ask(method, "/api/v1/feeds")
    _problem(answer, 405, "method-not-allowed")
    assert answer.headers["allow"] == "GET, HEAD, POST"


def test_nobody_of_another_origin_is_invited(ask: Ask) -> None:
    headers = {"Origin": "http://evil.example", "Access-Control-Request-Method": "GET"}
    for method in ("OPTIONS", "GET"):
        answer = ask(method, "/api/v1/feeds", headers=headers)
        assert not [name for name in answer.headers if name.startswith("access-control")]


def test_head_is_a_get_without_its_body(ask: Ask) -> None:
    head, get = ask("HEAD", "/api/v1/feeds"), ask("GET", "/api/v1/feeds")
    assert head.status_code == 200
    assert head.content == b""
    assert head.headers["content-length"] == get.headers["content-length"]


@pytest.mark.parametrize(
    "body",
    [b"{", b"", b"\xff\xfe", b'{"name": ' + b"[" * 100_000, b'{"name": ' + b"9" * 9000 + b"}"],
    ids=["cut", "empty", "no UTF-8", "deep", "long number"],
)
def test_a_body_that_is_no_json_is_a_problem(body: bytes, ask: Ask) -> None:
    answer = ask(
        "POST", "/api/v1/feeds", content=body, headers={"Content-Type": "application/json"}
    )
    if body:
        _problem(answer, 400, "malformed")
    else:
        _problem(answer, 422, "usage")


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "", "nonsense"]
)
def test_a_body_of_another_type_is_a_problem(kind: str, ask: Ask) -> None:
    answer = ask("POST", "/api/v1/feeds", content=b"{}", headers={"Content-Type": kind})
    _problem(answer, 415, "media-type")


@pytest.mark.parametrize(
    ("body", "object_"),
    [
        ({"name": "a"}, "url"),
        ({"name": "a", "url": "postgres://x", "extra": 1}, "extra"),
        ({"name": 1, "url": "postgres://x"}, "name"),
        ({"name": "A", "url": "postgres://x"}, "name"),
        ({"name": "a" * 41, "url": "postgres://x"}, "name"),
        ({"name": "a", "url": ""}, "url"),
        ({"name": "a", "url": "postgres://x\0"}, "url"),
        ({"name": "a", "url": "x" * 5000}, "url"),
        ({"name": "a\n", "url": "postgres://x"}, "name"),
        ({"name": "\ud800", "url": "postgres://x"}, "name"),
        ([], "body"),
    ],
    ids=str,
)
def test_a_field_that_is_wrong_is_named(body: object, object_: str, ask: Ask) -> None:
    content = json.dumps(body).encode()
    answer = ask(
        "POST", "/api/v1/endpoints", content=content, headers={"Content-Type": "application/json"}
    )
    assert _problem(answer, 422, "usage")["object"] == object_


def test_a_key_of_a_feed_that_makes_no_sense_is_named(ask: Ask) -> None:
    body = {"name": "shop", "source": "a", "target": "b", "tables": ["public.*", "nonsense"]}
    found = _problem(ask("POST", "/api/v1/feeds", json=body), 422, "usage")
    assert found["object"] == "tables[1]"


@pytest.mark.parametrize(
    "path", ["/api/v1/feeds/a%00b", "/api/v1/history?object=%00", "/api/v1/feeds?after=%00"]
)
def test_a_nul_is_a_problem(path: str, ask: Ask) -> None:
    _problem(ask("GET", path), 422, "usage")


def test_a_query_that_is_not_known_is_a_problem(ask: Ask) -> None:
    found = _problem(ask("GET", "/api/v1/feeds?limt=3"), 422, "usage")
    assert found["object"] == "limt"


def test_a_target_that_is_too_long_is_a_problem(ask: Ask) -> None:
    _problem(ask("GET", "/api/v1/feeds?after=" + "x" * 9000), 414, "too-large")


def test_a_parameter_that_is_given_twice_is_refused_unless_it_is_a_list(ask: Ask) -> None:
    _problem(ask("GET", "/api/v1/routes?after=1&after=2"), 422, "usage")
    _problem(ask("GET", "/api/v1/feeds?limit=5&limit="), 422, "usage")
    _problem(ask("GET", "/api/v1/feeds?l%69mit=5&limit=%F3%95%A8"), 422, "usage")
    assert ask("GET", "/api/v1/routes?tables=public.a&tables=public.b").status_code == 200
    assert ask("GET", "/api/v1/routes?tables=%C3%A4%F3").status_code == 200


@pytest.mark.parametrize(
    "said",
    [b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n", b"nonsense\r\n\r\n"],
)
def test_what_is_no_http_is_a_problem(said: bytes, server: Server) -> None:
    with socket.create_connection(("127.0.0.1", server.port), 10) as connection:
        connection.sendall(said)
        answer = b""
        while piece := connection.recv(65536):
            answer += piece
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b"400" in head.splitlines()[0]
    assert MEDIA_TYPE.encode() in head
    assert json.loads(body)["code"] == "malformed"


def test_every_answer_has_the_headers_of_caution(ask: Ask, client: httpx.Client) -> None:
    for answer in (ask("GET", "/api/v1/feeds"), ask("GET", "/nothing"), client.get("/metrics")):
        headers = answer.headers
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"
        assert headers["x-frame-options"] == "DENY"
        assert "default-src 'none'" in headers["content-security-policy"]
        assert len(headers["x-request-id"]) == 16
        assert "server" not in headers
