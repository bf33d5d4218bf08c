"""TLS: a certificate is checked when the URL asks for it, and a wrong one is refused."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from lockgate.endpoints.postgres.connect import connect
from lockgate.endpoints.postgres.embedded import EmbeddedPostgres
from lockgate.model.errors import EndpointRefused
from tests.support.tls import TlsFront, make_certificate


class Tls(NamedTuple):
    """A server behind a certificate for 127.0.0.1, and a certificate of somebody else."""

    url: str
    certificate: Path
    stranger: Path
    front: TlsFront


def behind(front: TlsFront, server: EmbeddedPostgres) -> str:
    return server.url().replace(f":{server.port}/", f":{front.port}/")


@pytest.fixture(scope="module")
def tls(pg18: EmbeddedPostgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tls]:
    place = tmp_path_factory.mktemp("tls")
    certificate, key = make_certificate(place, "server", "127.0.0.1")
    stranger, _ = make_certificate(place, "stranger", "127.0.0.1")
    with TlsFront(pg18.host, pg18.port, certificate, key) as front:
        yield Tls(behind(front, pg18), certificate, stranger, front)


def test_the_right_certificate_is_accepted(tls: Tls) -> None:
    before = tls.front.handshakes
    url = f"{tls.url}?sslmode=verify-full&sslrootcert={tls.certificate}"
    with connect(url, purpose="test") as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)
    assert tls.front.handshakes == before + 1


def test_a_certificate_of_somebody_else_is_refused(tls: Tls) -> None:
    with pytest.raises(EndpointRefused, match="TLS") as caught:
        connect(f"{tls.url}?sslmode=verify-full&sslrootcert={tls.stranger}", purpose="test")
    assert "sslrootcert" in caught.value.hint


def test_a_certificate_for_another_name_is_refused_in_full_only(tls: Tls) -> None:
    url = tls.url.replace("127.0.0.1", "localhost")
    with pytest.raises(EndpointRefused, match="TLS"):
        connect(f"{url}?sslmode=verify-full&sslrootcert={tls.certificate}", purpose="test")
    connect(f"{url}?sslmode=verify-ca&sslrootcert={tls.certificate}", purpose="test").close()


def test_a_missing_root_certificate_is_refused(tls: Tls) -> None:
    with pytest.raises(EndpointRefused, match="TLS"):
        connect(f"{tls.url}?sslmode=verify-full&sslrootcert=/not/there", purpose="test")


def test_a_path_may_be_a_reference(tls: Tls, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_CA", str(tls.certificate))
    connect(f"{tls.url}?sslmode=verify-full&sslrootcert=${{env:SHOP_CA}}", purpose="test").close()


def test_a_client_shows_its_own_certificate(pg18: EmbeddedPostgres, tmp_path: Path) -> None:
    certificate, key = make_certificate(tmp_path, "server", "127.0.0.1")
    mine, my_key = make_certificate(tmp_path, "client", "lockgate")
    with TlsFront(pg18.host, pg18.port, certificate, key, clients=mine) as front:
        url = f"{behind(front, pg18)}?sslmode=verify-full&sslrootcert={certificate}"
        connect(f"{url}&sslcert={mine}&sslkey={my_key}", purpose="test").close()
        with pytest.raises(EndpointRefused, match="TLS"):
            connect(f"{url}&sslcertmode=disable", purpose="test")
