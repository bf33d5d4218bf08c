"""A real server on a real socket in front of a service in memory, and somebody who asks it."""

import io
import logging
from collections.abc import Callable, Iterator

import httpx
import pytest
import structlog

from lockgate.api.limits import Limits, Rate
from lockgate.api.logs import configure_logs
from lockgate.api.scrub import Scrubber
from lockgate.api.server import Server, serve
from lockgate.model.tokens import Role
from tests.support.services import FakeService

FAST = Rate(per_s=1e6, burst=10**6)
ROOMY = Limits(per_token=FAST, per_address=FAST, failed_logins=FAST)
"""For tests of anything but rates."""

Ask = Callable[..., httpx.Response]


@pytest.fixture
def scrubber() -> Scrubber:
    return Scrubber()


@pytest.fixture(autouse=True)
def log(scrubber: Scrubber) -> Iterator[io.StringIO]:
    """Everything that is logged during the test, down to the least, as lines of JSON."""
    stream, root = io.StringIO(), logging.getLogger()
    before, level = list(root.handlers), logging.getLogger("lockgate").level
    configure_logs(stream, scrubber, level=logging.DEBUG)
    yield stream
    structlog.reset_defaults()
    root.handlers[:] = before
    logging.getLogger("lockgate").setLevel(level)
    logging.getLogger("uvicorn").handlers.clear()


@pytest.fixture
def service() -> FakeService:
    return FakeService()


@pytest.fixture
def limits() -> Limits:
    """What the server allows; a test may parametrise it."""
    return ROOMY


@pytest.fixture
def server(service: FakeService, limits: Limits, scrubber: Scrubber) -> Iterator[Server]:
    with serve(service, "127.0.0.1:0", limits=limits, scrubber=scrubber) as server:
        yield server


@pytest.fixture
def client(server: Server) -> Iterator[httpx.Client]:
    """Shows nothing by itself."""
    with httpx.Client(base_url=server.url, timeout=30) as client:
        yield client


@pytest.fixture
def ask(client: httpx.Client, service: FakeService) -> Ask:
    """`ask("GET", "/api/v1/feeds")`, as an admin unless `role` or `token` says otherwise."""

    def ask(
        method: str,
        path: str,
        *,
        role: Role = Role.ADMIN,
        token: str | None = None,
        **more: object,
    ) -> httpx.Response:
        shown = service.keys[role].reveal() if token is None else token
        headers = {"Authorization": f"Bearer {shown}", **more.pop("headers", {})}  # type: ignore[dict-item]
        return client.request(method, path, headers=headers, **more)  # type: ignore[arg-type]

    return ask


@pytest.fixture
def shop(ask: Ask) -> str:
    """A feed called `shop` between two endpoints."""
    for name in ("shop", "copy"):
        url = f"postgres://app:${{env:PW}}@db.example/{name}"
        assert ask("POST", "/api/v1/endpoints", json={"name": name, "url": url}).is_success
    body = {"name": "shop", "source": "shop", "target": "copy", "tables": ["public.*"]}
    assert ask("POST", "/api/v1/feeds", json=body).status_code == 201
    return "shop"
