"""Planted secrets: given to the interface, and searched for in everything that comes out of it."""

import dataclasses
import io
import json
from collections.abc import Iterator

import httpx
import pytest
import structlog

from lockgate.api.scrub import _ADDRESSES, _TEXTS, Scrubber
from lockgate.api.server import serve
from lockgate.model import documents, feed_status, lake_documents
from lockgate.model.documents import EndpointReport, HistoryEntry
from lockgate.model.errors import (
    Conflict,
    DataRefused,
    EndpointRefused,
    LockgateError,
    Transient,
    UsageError,
)
from lockgate.model.feed_status import CopyProgress, FeedStatus, FindingDocument
from lockgate.model.feeds import FeedState
from lockgate.model.secret import Secret
from lockgate.model.tokens import Role
from tests.api.conftest import ROOMY, Ask
from tests.support.services import FakeService
from tests.support.waiting import until

PLANTED = "Tr0ub4dor"
URLS = {
    "plain": (f"postgres://app:{PLANTED}@db.example/shop", [PLANTED]),
    "encoded": ("postgres://app:p%40ss%2Fw0rd@db.example/shop", ["p%40ss%2Fw0rd", "p@ss/w0rd"]),
    "not encoded": ("postgres://app:p@ss/w0rd@db.example/shop", ["p@ss/w0rd"]),
    "as an option": (f"postgres://db.example/shop?user=app&password={PLANTED}", [PLANTED]),
    "quotes": ("postgres://app:it's\"odd\\one@db.example/x", ["it's\"odd\\one"]),
    "umlauts": ("postgres://app:Schlüßel9@db.example/x", ["Schlüßel9"]),
    "spaces": ("postgres://app:two words@db.example/x", ["two words"]),
}


@pytest.fixture(params=URLS)
def planted(request: pytest.FixtureRequest) -> tuple[str, list[str]]:
    return URLS[request.param]


def _spelled(words: list[str]) -> set[str]:
    return {
        spelled for word in words for spelled in (word, repr(word)[1:-1], json.dumps(word)[1:-1])
    }


def _assert_absent(words: list[str], *texts: str) -> None:
    for text in texts:
        found = [word for word in _spelled(words) if word in text]
        assert not found, f"{found} in {text}"


ERRORS = [
    lambda url, pw: EndpointRefused(f"cannot reach {url}", object_=url, hint=url, cause=pw),
    lambda url, pw: Conflict("no", object_="", hint="", cause=ValueError(f"with {pw!r} in it")),
    lambda url, pw: Transient("no", object_="", hint="", operation=f"open {url}"),
    lambda url, pw: DataRefused("no", object_="", hint="", detail=f"Key (url)=({url})"),
    lambda url, pw: UsageError("no", object_="", hint="", cause=json.dumps({"password": pw})),
    lambda url, pw: LockgateError("no", object_="", hint="", cause=ValueError(url)),
    lambda url, pw: RuntimeError(f"connect(dsn={url!r}, password={pw!r})"),
]
"""What a driver may put into an error, of an address and its password."""


@pytest.mark.parametrize("number", range(len(ERRORS)))
@pytest.mark.parametrize("verb", ["add_endpoint", "create_feed", "plan_feed", "test_endpoint"])
def test_an_error_of_the_service_does_not_tell_a_password(
    number: int,
    verb: str,
    planted: tuple[str, list[str]],
    shared: tuple[httpx.Client, FakeService],
    log: io.StringIO,
) -> None:
    client, service = shared
    url, words = planted
    service.failures = {verb: ERRORS[number](url, words[-1])}
    feed = {"name": "f", "source": url, "target": url, "tables": ["public.*"]}
    answer = {
        "add_endpoint": lambda: client.post("/api/v1/endpoints", json={"name": "shop", "url": url}),
        "create_feed": lambda: client.post("/api/v1/feeds", json=feed),
        "plan_feed": lambda: client.post("/api/v1/feeds/plan", json=feed),
        # Of an address that this node was given some time before.
        "test_endpoint": lambda: (
            client.post("/api/v1/endpoints", json={"name": "shop", "url": url})
            and client.post("/api/v1/endpoints/shop/test")
        ),
    }[verb]()
    assert answer.status_code >= 400
    _assert_absent(words, answer.text, json.dumps(answer.json(), ensure_ascii=False))
    # The line of the request is written after its answer has gone out.
    until(lambda: answer.headers["x-request-id"] in log.getvalue())
    _assert_absent(words, *answer.headers.values(), log.getvalue())


@pytest.fixture(scope="module")
def shared() -> Iterator[tuple[httpx.Client, FakeService]]:
    """One server for all of them. Its scrubber is not that of the logs, which knows nothing."""
    service = FakeService()
    headers = {"Authorization": f"Bearer {service.keys[Role.ADMIN].reveal()}"}
    with (
        serve(service, "127.0.0.1:0", limits=ROOMY) as server,
        httpx.Client(base_url=server.url, headers=headers) as client,
    ):
        yield client, service


def test_no_answer_about_an_endpoint_or_feed_tells_a_password(
    ask: Ask, planted: tuple[str, list[str]], log: io.StringIO
) -> None:
    url, words = planted
    feed = {"name": "f", "source": url, "target": url, "tables": ["public.*"]}
    texts = [ask("POST", "/api/v1/endpoints", json={"name": "shop", "url": url}).text]
    texts += [ask("POST", f"/api/v1/feeds{path}", json=feed).text for path in ("/plan", "")]
    for path in ("endpoints", "endpoints/shop", "feeds", "feeds/f", "feeds/f/tables", "history"):
        texts.append(ask("GET", f"/api/v1/{path}").text)
    texts.append(ask("GET", "/metrics").text)
    _assert_absent(words, *texts, log.getvalue())


def test_a_finding_that_repeats_a_password_is_scrubbed(ask: Ask, service: FakeService) -> None:
    url = f"postgres://app:{PLANTED}@db.example/shop"
    ask("POST", "/api/v1/endpoints", json={"name": "shop", "url": url})
    said = FindingDocument("error", "x", f"no entry for {PLANTED}", "shop", f"see {url}")
    report = EndpointReport("shop", (said,), (), False, False)
    service.test_endpoint = lambda name: report  # type: ignore[method-assign]
    answer = ask("POST", "/api/v1/endpoints/shop/test")
    _assert_absent([PLANTED], answer.text)
    assert answer.json()["as_source"][0]["what"] == "no entry for ***"


def test_names_stay_what_they_are_also_when_a_password_is_the_same(ask: Ask) -> None:
    url = "postgres://app:shop@db.example/shop"
    ask("POST", "/api/v1/endpoints", json={"name": "shop", "url": url})
    body = {"name": "shop", "source": "shop", "target": "shop", "tables": ["public.*"]}
    status = ask("POST", "/api/v1/feeds", json=body).json()
    assert (status["name"], status["source"]) == ("shop", "shop")


def test_a_body_that_is_refused_is_not_repeated(ask: Ask, log: io.StringIO) -> None:
    url = f"postgres://app:{PLANTED}@db.example/shop"
    bodies = [
        {"name": "shop", "url": [url]},
        {"name": url, "url": "postgres://x"},
        {"name": "shop", "url": url + "x" * 5000},
        {"name": "shop", "url": url + "\0"},
        {"name": "shop", "uri": url},
        url,
    ]
    for body in bodies:
        answer = ask("POST", "/api/v1/endpoints", json=body)
        assert answer.status_code == 422
        _assert_absent([PLANTED], answer.text)
    feed = {"name": url, "source": "a", "target": "b", "tables": [url]}
    _assert_absent([PLANTED], ask("POST", "/api/v1/feeds", json=feed).text)
    feed = {"name": "f", "source": "a", "target": "b", "tables": [url]}
    _assert_absent([PLANTED], ask("POST", "/api/v1/feeds", json=feed).text, log.getvalue())


def test_what_stands_in_a_path_or_query_is_not_logged(ask: Ask, log: io.StringIO) -> None:
    for path in (f"/api/v1/feeds/{PLANTED}", f"/{PLANTED}", f"/api/v1/history?object={PLANTED}"):
        ask("GET", path)
    _assert_absent([PLANTED], log.getvalue())


def test_tokens_are_in_no_log(ask: Ask, service: FakeService, log: io.StringIO) -> None:
    made = ask("POST", "/api/v1/tokens", json={"name": "ci", "role": "viewer"}).json()["token"]
    ask("GET", "/api/v1/feeds", token=made)
    ask("GET", "/api/v1/feeds", token=PLANTED)
    shown = [made, PLANTED, *(key.reveal() for key in service.keys.values())]
    _assert_absent(shown, log.getvalue())
    digests = [token.digest for token in service.tokens()]
    _assert_absent(digests, log.getvalue(), ask("GET", "/api/v1/tokens").text)


# --- the scrubber itself --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("to postgres://app:pw@db/x now", "to postgres://app:***@db/x now"),
        ("postgres://:pw@db", "postgres://:***@db"),
        ("postgres://app@db/x", "postgres://app@db/x"),
        ("http://127.0.0.1:8642/x", "http://127.0.0.1:8642/x"),
        ("postgres://a:${env:PW}@db", "postgres://a:${env:PW}@db"),
        ("host=db password=pw user=app", "host=db password=*** user=app"),
        ("password='p w' x", "password=*** x"),
        ('{"password": "pw"}', '{"password": ***}'),
        ("?sslpassword=pw&x=1", "?sslpassword=***&x=1"),
        ("Authorization: Bearer abcdefgh12", "Authorization: Bearer ***"),
        ("the bearer of news", "the bearer of news"),
        ("password authentication failed for user", "password authentication failed for user"),
    ],
)
def test_secrets_are_known_by_their_look(text: str, clean: str) -> None:
    assert Scrubber().text(text) == clean


def test_short_passwords_are_known_by_their_look_alone() -> None:
    scrubber = Scrubber([Secret("postgres://a:xy@db")])
    assert scrubber.text("xylophone of postgres://a:xy@db") == "xylophone of postgres://a:***@db"


def test_only_so_many_secrets_are_remembered() -> None:
    scrubber = Scrubber(Secret(f"postgres://a:word{n:05d}@db") for n in range(1030))
    assert scrubber.text("word00000 word01029") == "word00000 ***"


def test_lines_of_others_are_scrubbed_too(log: io.StringIO, scrubber: Scrubber) -> None:
    scrubber.learn(Secret(f"postgres://a:{PLANTED}@db"))
    structlog.get_logger("elsewhere").warning(
        f"said {PLANTED}", deep={"list": [PLANTED, PLANTED.encode()]}, error=ValueError(PLANTED)
    )
    try:
        raise ValueError(PLANTED)
    except ValueError:
        structlog.get_logger("elsewhere").exception("failed")
    assert "said ***" in log.getvalue()
    _assert_absent([PLANTED], log.getvalue())


NAMES = {
    *("name", "kind", "feeds", "who", "verb", "object", "node", "owner", "at", "version", "status"),
    *("span", "table", "columns", "left_out", "masked", "key", "rows", "operator"),
    *("state", "severity", "code", "low", "high", "position", "checkpoint", "resolved"),
    *("lake", "role", "stage", "leader", "drained_to", "request", "verdict"),
}
"""Fields of documents that hold what people called something, or one of few words, or numbers."""


def test_every_text_of_a_document_is_scrubbed() -> None:
    found = {
        field.name
        for module in (documents, feed_status, lake_documents)
        for kind in vars(module).values()
        if dataclasses.is_dataclass(kind)
        for field in dataclasses.fields(kind)
        if field.type in {str, tuple[str, ...]}
    }
    assert found - NAMES <= _TEXTS | _ADDRESSES, "say whether it is a text or a name"
    assert not NAMES & (_TEXTS | _ADDRESSES)


def test_what_came_of_a_wish_and_what_to_do_next_tell_no_password(scrubber: Scrubber) -> None:
    scrubber.learn(Secret(f"postgres://app:{PLANTED}@db.example/shop"))
    entry = HistoryEntry(1, "", "ann", "feed create", "shop", "", f"refused: {PLANTED}")
    status = FeedStatus(
        *("shop", FeedState.NORMAL, 1, "", "", "", None, 1, 1, CopyProgress()),
        next_steps=(f"look at {PLANTED}",),
        notes=(f"since {PLANTED}",),
    )
    shown = [str(scrubber.document(document)) for document in (entry, status)]
    _assert_absent([PLANTED], *shown)
    assert "refused: ***" in shown[0]
