"""One line per request, with what is needed to find out what happened."""

import io
import json
import logging
from typing import Any

from lockgate.api.logs import configure_logs
from lockgate.api.scrub import Scrubber
from lockgate.model.tokens import Role
from tests.api.conftest import Ask
from tests.support.services import FakeService
from tests.support.waiting import until


def _lines(log: io.StringIO, event: str) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in log.getvalue().splitlines()]
    return [line for line in lines if line["event"] == event]


def _line(log: io.StringIO, id_: str) -> dict[str, Any]:
    """The line of a request, which is written after its answer has gone out."""
    return until(lambda: next((ln for ln in _lines(log, "request") if ln["id"] == id_), {}))


def test_a_request_is_one_line_with_who_what_how_and_how_long(ask: Ask, log: io.StringIO) -> None:
    answer = ask("GET", "/api/v1/feeds/nobody?x=1", role=Role.VIEWER)
    line = _line(log, answer.headers["x-request-id"])
    assert line.pop("ms") >= 0
    assert line.pop("timestamp").endswith("Z")
    assert line == {
        "event": "request",
        "level": "info",
        "node": "a",
        "id": answer.headers["x-request-id"],
        "who": "viewer",
        "verb": "feed_show",
        "address": "127.0.0.1",
        "status": 404,
    }


def test_a_strangers_request_is_logged_without_its_path(ask: Ask, log: io.StringIO) -> None:
    line = _line(log, ask("GET", "/secret/path").headers["x-request-id"])
    assert (line["verb"], line["who"], line["status"]) == ("-", "-", 404)
    assert "secret" not in log.getvalue()


def test_a_refused_login_is_a_warning(ask: Ask, log: io.StringIO) -> None:
    ask("GET", "/api/v1/feeds", token="wrong")
    [line] = _lines(log, "login refused")
    assert (line["level"], line["address"], line["verb"]) == ("warning", "127.0.0.1", "feed_list")


def test_a_probe_that_went_well_is_for_who_looks_closely(ask: Ask, log: io.StringIO) -> None:
    assert _line(log, ask("GET", "/healthz").headers["x-request-id"])["level"] == "debug"
    assert _line(log, ask("GET", "/metrics").headers["x-request-id"])["level"] == "debug"


def test_what_nodes_tell_each_other_is_for_who_looks_closely(
    service: FakeService, ask: Ask, log: io.StringIO
) -> None:
    """Several lines a second for each pair of nodes would bury all others."""
    key = service.link_key().reveal()
    media = {"content-type": "application/msgpack"}
    answer = ask("POST", "/link/v1/messages", token=key, content=b"\x90", headers=media)
    assert answer.status_code == 204
    assert _line(log, answer.headers["x-request-id"])["level"] == "debug"


def test_what_the_server_library_says_is_a_line_too(log: io.StringIO) -> None:
    logging.getLogger("uvicorn.error").warning("odd: %s", "postgres://a:hunter2@db")
    [line] = [json.loads(line) for line in log.getvalue().splitlines()]
    assert (line["event"], line["level"]) == ("odd: postgres://a:***@db", "warning")


def test_lines_can_be_text() -> None:
    stream = io.StringIO()
    configure_logs(stream, Scrubber(), "text")
    logging.getLogger("uvicorn.error").warning("odd")
    assert "[warning  ] odd" in stream.getvalue()
