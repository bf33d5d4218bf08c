"""Where the server listens, under which certificate, and how it stops."""

import socket
import ssl
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from lockgate.api.server import Server, serve
from lockgate.api.tls import TlsFiles
from lockgate.model.errors import UsageError
from lockgate.model.tokens import Role
from tests.api.conftest import ROOMY, Ask
from tests.support.services import FakeService
from tests.support.tls import make_certificate
from tests.support.waiting import until


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> TlsFiles:
    return TlsFiles(*make_certificate(tmp_path_factory.mktemp("tls"), "node", "127.0.0.1"))


# --- where ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("listen", ["127.0.0.1:0", "localhost:0", "[::1]:0", "127.1.2.3:0"])
def test_on_loopback_no_certificate_is_needed(listen: str, service: FakeService) -> None:
    if "::1" in listen and not _has_ipv6():
        pytest.skip("this machine has no IPv6")
    with serve(service, listen) as server:
        assert server.port > 0
        assert httpx.get(f"{server.url}/healthz").status_code == 200


@pytest.mark.parametrize("listen", ["0.0.0.0:0", "[::]:0", "192.0.2.1:0"])
def test_beyond_loopback_it_does_not_listen_without_tls(listen: str, service: FakeService) -> None:
    if "::" in listen and not _has_ipv6():
        pytest.skip("this machine has no IPv6")
    with pytest.raises(UsageError, match="other machines can reach") as raised:
        serve(service, listen)
    assert "TLS" in raised.value.hint


def test_beyond_loopback_it_listens_with_tls(service: FakeService, tls: TlsFiles) -> None:
    with serve(service, "0.0.0.0:0", tls) as server:
        context = ssl.create_default_context(cafile=tls.certificate)
        answer = httpx.get(f"https://127.0.0.1:{server.port}/healthz", verify=context)
        assert answer.status_code == 200


def test_a_name_is_judged_by_what_it_means(
    service: FakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    def elsewhere(*_: object, **__: object) -> list[object]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("192.0.2.1", 0))]

    monkeypatch.setattr(socket, "getaddrinfo", elsewhere)
    with pytest.raises(UsageError, match="other machines can reach"):
        serve(service, "localhost:0")


@pytest.mark.parametrize("listen", ["", "8642", ":8642", "127.0.0.1", "127.0.0.1:x", "::1:8642"])
def test_what_is_no_address_is_refused(listen: str, service: FakeService) -> None:
    with pytest.raises(UsageError, match="no address to listen on"):
        serve(service, listen)


def test_an_address_that_is_taken_is_named(service: FakeService) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        listen = f"127.0.0.1:{other.getsockname()[1]}"
        with pytest.raises(UsageError, match="cannot be listened on") as raised:
            serve(service, listen)
    assert raised.value.object == listen


def test_answers_are_not_held_back(server: Server) -> None:
    assert server._listener.proto == socket.IPPROTO_TCP, "asyncio leaves Nagle's algorithm on"


# --- under which certificate ----------------------------------------------------------------------


def test_a_client_that_trusts_the_authority_is_served(service: FakeService, tls: TlsFiles) -> None:
    with serve(service, "127.0.0.1:0", tls) as server:
        assert server.url.startswith("https://")
        context = ssl.create_default_context(cafile=tls.certificate)
        assert httpx.get(f"{server.url}/healthz", verify=context).json()["node"] == "a"


def test_a_client_that_does_not_know_the_authority_hangs_up(
    service: FakeService, tls: TlsFiles
) -> None:
    with (
        serve(service, "127.0.0.1:0", tls) as server,
        pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"),
    ):
        httpx.get(f"{server.url}/healthz")


def test_tls_is_12_at_least(service: FakeService, tls: TlsFiles) -> None:
    # OpenSSL's own client: Python's warns of versions this old.
    with serve(service, "127.0.0.1:0", tls) as server:

        def shakes_hands(version: str) -> bool:
            command = ["openssl", "s_client", "-connect", f"127.0.0.1:{server.port}", version]
            ciphers = ["-cipher", "DEFAULT:@SECLEVEL=0"] if version != "-tls1_3" else []
            run = subprocess.run([*command, *ciphers], input=b"", capture_output=True, check=False)
            return run.returncode == 0

        versions = ("-tls1_1", "-tls1_2", "-tls1_3")
        assert [shakes_hands(version) for version in versions] == [False, True, True]


def test_plain_http_gets_nothing_of_a_server_with_tls(service: FakeService, tls: TlsFiles) -> None:
    with (
        serve(service, "127.0.0.1:0", tls) as server,
        pytest.raises(httpx.TransportError),
    ):
        httpx.get(f"http://127.0.0.1:{server.port}/healthz")


def _refused(service: FakeService, certificate: Path, key: Path) -> UsageError:
    with pytest.raises(UsageError) as raised:
        serve(service, "127.0.0.1:0", TlsFiles(certificate, key))
    return raised.value


def test_a_certificate_that_is_missing_is_named(
    service: FakeService, tls: TlsFiles, tmp_path: Path
) -> None:
    error = _refused(service, tmp_path / "none.crt", tls.key)
    assert error.object == str(tmp_path / "none.crt")
    assert "No such file" in str(error)


def test_a_key_that_cannot_be_read_is_named(
    service: FakeService, tls: TlsFiles, tmp_path: Path
) -> None:
    error = _refused(service, tls.certificate, tmp_path)
    assert (error.object, error.what) == (str(tmp_path), "the key of TLS cannot be read")


def test_a_key_of_another_certificate_is_told(
    service: FakeService, tls: TlsFiles, tmp_path: Path
) -> None:
    _, other = make_certificate(tmp_path, "other", "127.0.0.1")
    assert "do not belong together" in _refused(service, tls.certificate, other).what


@pytest.mark.parametrize("which", ["certificate", "key"])
@pytest.mark.parametrize("content", ["", "nonsense"])
def test_a_file_that_is_no_pem_is_named(
    which: str, content: str, service: FakeService, tls: TlsFiles, tmp_path: Path
) -> None:
    wrong = tmp_path / "wrong.pem"
    wrong.write_text(content)
    files = {"certificate": tls.certificate, "key": tls.key, which: wrong}
    assert _refused(service, **files).object == str(wrong)


def test_a_key_with_a_password_is_told_and_nobody_is_asked_for_it(
    service: FakeService, tls: TlsFiles, tmp_path: Path
) -> None:
    locked = tmp_path / "locked.key"
    command = ["openssl", "ec", "-in", str(tls.key), "-aes128", "-passout", "pass:hunter2"]
    subprocess.run([*command, "-out", str(locked)], check=True, capture_output=True)
    assert "protected with a password" in _refused(service, tls.certificate, locked).what


# --- how it stops ---------------------------------------------------------------------------------


def test_what_runs_may_end(service: FakeService) -> None:
    go = threading.Event()
    began = threading.Event()
    looks = service.feeds

    def slow():  # type: ignore[no-untyped-def]
        began.set()
        go.wait(30)
        return looks()

    service.feeds = slow  # type: ignore[method-assign]
    server = serve(service, "127.0.0.1:0", limits=ROOMY)
    server.start()
    headers = {"Authorization": f"Bearer {service.keys[Role.VIEWER].reveal()}"}
    with ThreadPoolExecutor(2) as pool:
        answer = pool.submit(httpx.get, f"{server.url}/api/v1/feeds", headers=headers, timeout=30)
        assert began.wait(10)
        stop = pool.submit(server.stop, 20.0)
        until(lambda: not _listens(server.port))
        go.set()
        assert answer.result().status_code == 200
        stop.result()


def test_what_does_not_end_is_left_at_the_deadline(service: FakeService) -> None:
    go = threading.Event()
    began = threading.Event()

    def hang():  # type: ignore[no-untyped-def]
        began.set()
        go.wait(60)

    service.feeds = hang  # type: ignore[method-assign]
    server = serve(service, "127.0.0.1:0", limits=ROOMY)
    server.start()
    headers = {"Authorization": f"Bearer {service.keys[Role.VIEWER].reveal()}"}

    def ask() -> int:
        try:
            return httpx.get(f"{server.url}/api/v1/feeds", headers=headers, timeout=30).status_code
        except httpx.TransportError:
            return 0

    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(ask)
        assert began.wait(10)
        before = time.monotonic()
        server.stop(deadline_s=0.3)
        assert time.monotonic() - before < 5
        assert answer.result() in {0, 500, 503}
    go.set()


def test_who_waits_is_let_go_at_once(
    ask: Ask, shop: str, service: FakeService, server: Server
) -> None:
    service.lag("shop")
    with ThreadPoolExecutor(1) as pool:
        wait = pool.submit(ask, "POST", "/api/v1/feeds/shop/wait", json={"timeout_s": 60})
        until(lambda: service.waiting == 1)
        server.stop(deadline_s=30)
        answer = wait.result(timeout=10)
    assert (answer.status_code, answer.json()["detail"]) == (503, "the node stops")
    service.level("shop")


def test_stopping_twice_is_no_error(service: FakeService) -> None:
    server = serve(service, "127.0.0.1:0")
    server.start()
    server.stop()
    server.stop()


def test_stopping_before_starting_frees_the_address(service: FakeService) -> None:
    server = serve(service, "127.0.0.1:0")
    server.stop()
    with serve(service, f"127.0.0.1:{server.port}") as again:
        assert again.port == server.port


def _listens(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), 1):
            return True
    except OSError:
        return False


def _has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True
