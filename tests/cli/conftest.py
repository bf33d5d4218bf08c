"""Commands against a whole service in memory, over a real socket, in this process."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import lockgate
from lockgate.cli.main import main
from tests.support.served import Served, serve
from tests.support.services import FakeService


@dataclass(frozen=True)
class Done:
    """How a command ended, and what it said."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """The one document of `--json`."""
        return json.loads(self.out)


Run = Callable[..., Done]


@pytest.fixture(autouse=True)
def own_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No server, no token and no home of whoever runs the tests."""
    for name in ("LOCKGATE_URL", "LOCKGATE_TOKEN", "LOCKGATE_HOME", "LOCKGATE_CA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    """A service with the endpoints `shop`, `copy` and `lake`; the environment leads to it."""
    with serve(FakeService()) as running:
        monkeypatch.setenv("LOCKGATE_URL", running.url)
        monkeypatch.setenv("LOCKGATE_TOKEN", running.token())
        with lockgate.connect() as lg:
            lg.endpoints.add("shop", "postgres://app:hunter2@db.example/shop")
            lg.endpoints.add("copy", "postgres://app:hunter2@db.example/copy")
            lg.endpoints.add("lake", "delta:/srv/lake")
        yield running


@pytest.fixture
def fed(served: Served) -> Served:
    """The same, with the feed `shop` from one to the other."""
    with lockgate.connect() as lg:
        lg.feeds.create("shop", source="shop", target="copy", tables=["public.*"])
    return served


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a command line, split at blanks unless it is given in parts."""

    def call(*args: str) -> Done:
        capsys.readouterr()
        code = main(args[0].split() if len(args) == 1 else list(args))
        out, err = capsys.readouterr()
        return Done(code, out, err)

    return call
