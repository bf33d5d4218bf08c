"""`lockgate server` comes to one configuration, out of a file and options, and runs it."""

import socket
import sys
import types
from pathlib import Path

import pytest

from lockgate.model.server_config import ServerConfig, fit_node_name
from tests.cli.conftest import Run

FILE = """\
home = "of-the-file"
listen = "127.0.0.1:1"
metastore = "postgresql://lg:hunter2@meta.example/lockgate"
[spark]
master = "spark://of-the-file:7077"
[spark.settings]
"spark.executor.memory" = "4g"
"""

EXIT = {"failing": 1}
"""How servers end, by their names."""


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[ServerConfig]:
    """Every configuration that a server was started with."""
    configs: list[ServerConfig] = []

    def run_server(config: ServerConfig) -> int:
        configs.append(config)
        return EXIT.get(config.node, 0)

    main = types.ModuleType("lockgate.api.main")
    main.run_server = run_server  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "lockgate.api.main", main)
    return configs


def test_nothing_must_be_said(run: Run, started: list[ServerConfig]) -> None:
    assert run("server").code == 0
    assert started == [ServerConfig(home="lockgate-home", node=fit_node_name(socket.gethostname()))]


def test_the_home_of_the_environment(
    run: Run, started: list[ServerConfig], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOCKGATE_HOME", "there")
    run("server")
    assert started[0].home == "there"


def test_every_option_has_its_place(run: Run, started: list[ServerConfig]) -> None:
    done = run(
        "server --home h --listen 0.0.0.0:7 --advertise https://lg1:7 --metastore sqlite:///m.db"
        " --node lg1 --changelog s3://b/c --lease 5 --tls-cert c --tls-key k --tls-ca a"
        " --spark-master local[2] --spark-memory 2g --no-spark-ship --log text"
    )
    assert done.code == 0, done.err
    config = started[0]
    assert (config.home, config.address, config.advertise) == ("h", ("0.0.0.0", 7), "https://lg1:7")
    assert (config.metastore.reveal(), config.node) == ("sqlite:///m.db", "lg1")
    assert (config.changelog, config.lease_s, config.log) == ("s3://b/c", 5.0, "text")
    assert (config.tls.cert, config.tls.key, config.tls.ca) == ("c", "k", "a")
    assert (config.spark.master, config.spark.driver_memory) == ("local[2]", "2g")
    assert not config.spark.ship


def test_options_go_before_the_file(run: Run, started: list[ServerConfig], tmp_path: Path) -> None:
    (tmp_path / "lg.toml").write_text(FILE)
    run("server --config lg.toml --listen 127.0.0.1:2 --spark-memory 3g")
    config = started[0]
    assert (config.home, config.listen) == ("of-the-file", "127.0.0.1:2")
    assert (config.spark.master, config.spark.driver_memory) == ("spark://of-the-file:7077", "3g")
    assert config.spark.settings == {"spark.executor.memory": "4g"}


def test_its_exit_code_is_the_server_s(run: Run, started: list[ServerConfig]) -> None:
    assert run("server --node failing").code == 1


@pytest.mark.parametrize("form", ["", " --json"])
def test_a_check_shows_all_but_secrets_and_starts_nothing(
    form: str, run: Run, started: list[ServerConfig], tmp_path: Path
) -> None:
    (tmp_path / "lg.toml").write_text(FILE)
    done = run("server --config lg.toml --check" + form)
    assert (done.code, started) == (0, [])
    assert "of-the-file" in done.out
    assert "hunter2" not in done.out
    if form:
        assert done.document["metastore"] == "***"
