"""Where a store is and who we are there comes from the place's settings, not from its URL."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from pyarrow import fs

from lockgate.endpoints.delta.place import Place
from lockgate.model.secret import Secret


class _Store(BaseHTTPRequestHandler):
    """Says of everything that it is not there, and keeps who asked for what."""

    asked: list[tuple[str, str]]

    def do_HEAD(self) -> None:
        self.asked.append((self.path, self.headers.get("Authorization", "")))
        self.send_response(404)
        self.end_headers()

    def do_GET(self) -> None:
        self.do_HEAD()

    def log_request(self, *said: object) -> None:
        """Not to anybody's terminal."""


@pytest.fixture
def store() -> Iterator[tuple[str, list[tuple[str, str]]]]:
    asked: list[tuple[str, str]] = []
    handler = type("Handler", (_Store,), {"asked": asked})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", asked
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize("prefix", ["aws_", "AWS_", ""])
def test_an_object_store_is_asked_where_and_as_whom_the_settings_say(
    store: tuple[str, list[tuple[str, str]]], prefix: str
) -> None:
    endpoint, asked = store
    settings = {
        "access_key_id": "AKIDOURS",
        "secret_access_key": "hush",
        "endpoint_url": endpoint,
        "region": "eu-north-7",
        "allow_http": "true",
    }
    named = {
        (prefix + name).upper() if prefix.isupper() else prefix + name: Secret(value)
        for name, value in settings.items()
    }
    files, base = Place("s3://bucket/lake", "lake", named).child("t").filesystem()
    assert base == "bucket/lake/t"
    assert files.get_file_info(f"{base}/x.parquet").type is fs.FileType.NotFound
    path, said = asked[0]
    assert path.startswith("/bucket/lake/t/x.parquet")
    assert "Credential=AKIDOURS/" in said
    assert "/eu-north-7/s3/" in said


def test_a_directory_is_a_directory() -> None:
    files, base = Place("/data/lake", "lake").filesystem()
    assert isinstance(files, fs.LocalFileSystem)
    assert base == "/data/lake"


def test_a_directory_that_comes_and_goes_while_it_is_listed_is_empty_or_not_there(
    tmp_path: Path,
) -> None:
    over = threading.Event()

    def come_and_go() -> None:
        while not over.is_set():
            (tmp_path / "here").mkdir()
            (tmp_path / "here").rmdir()

    thread = threading.Thread(target=come_and_go)
    thread.start()
    try:
        for _ in range(20_000):
            assert Place(str(tmp_path / "here"), "here").listed() == []
    finally:
        over.set()
        thread.join()
