"""Real PostgreSQL servers out of a wheel, for the demo and the tests: nothing must already run.

    with EmbeddedPostgres(settings={"wal_level": "logical"}) as server:
        server.url()                        # postgresql://postgres:…@127.0.0.1:…/postgres
        server.stop("immediate"); server.start()

Each server has a directory, a port on loopback and a password of its own, so any number of
them run side by side. PostgreSQL refuses to run as root; started by root, it runs as an
unprivileged user, which then owns the directory. That user must be able to reach the
binaries: when it cannot (a checkout below /root), they are copied to where it can.

A server ends with the process that started it. The context manager and `atexit` see to the
ordinary ways out; for a SIGKILL there is a watcher, a shell that waits for the end of a pipe
which only the starter holds open.
"""

import atexit
import contextlib
import os
import secrets
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Final, Literal, Self

from lockgate.endpoints.postgres.embedded_install import (
    VERSIONS,
    EmbeddedServerFailed,
    account_for_servers,
    binaries,
    room_for,
)
from lockgate.endpoints.postgres.embedded_orphans import Orphans
from lockgate.model.secret import Secret

__all__ = ["EmbeddedPostgres", "EmbeddedServerFailed"]

_LOG_LINES: Final = 15
_POLL_S: Final = 0.02

Shutdown = Literal["fast", "immediate", "kill"]
"""`fast` ends transactions and writes a checkpoint; `immediate` recovers at the next start;
`kill` is SIGKILL to the server's parent process, and to whoever of the others does not follow."""

_SIGNAL: Final[dict[Shutdown, signal.Signals]] = {
    "fast": signal.SIGINT,
    "immediate": signal.SIGQUIT,
    "kill": signal.SIGKILL,
}


_WATCH: Final = """
cat > /dev/null
kill -QUIT "$1"
while kill -0 "$1" 2> /dev/null; do sleep 0.1; done
rm -rf -- "$2"
"""
"""What the watcher does: wait for our end, then end the server, then remove its directory."""


class EmbeddedPostgres:
    """One server. It is running inside the `with` block, and gone without a trace after it."""

    def __init__(
        self,
        version: int = 18,
        *,
        settings: Mapping[str, str | int] | None = None,
        directory: Path | None = None,
        start_timeout_s: float = 30.0,
    ) -> None:
        """Prepare, start nothing. `directory` must be empty or absent, and is removed at the end.

        `settings` go to postgresql.conf. `fsync` is on unless they say otherwise.
        """
        if version not in VERSIONS:
            raise EmbeddedServerFailed(
                "no such version is embedded",
                object_=f"PostgreSQL {version}",
                hint=f"choose one of {', '.join(map(str, VERSIONS))}",
            )
        self.version = version
        self.host = "127.0.0.1"
        self.port = 0
        self.user = "postgres"
        self.password = Secret(secrets.token_urlsafe(18))
        self.settings = dict(settings or {})
        self._wanted = directory
        self._directory: Path | None = None
        """Set once it is ours: from then on it may be removed."""
        self._start_timeout_s = start_timeout_s
        self._account = account_for_servers()
        self._lock = threading.RLock()
        """Starting and stopping take turns: one thread may stop what another is to start again."""
        self._process: subprocess.Popen[bytes] | None = None
        self._watcher: subprocess.Popen[bytes] | None = None

    # --- what others need to know ---------------------------------------------------------------

    def url(self, database: str = "postgres") -> str:
        """How to connect, password included: hand it to a driver, show it to nobody."""
        secret = self.password.reveal()
        return f"postgresql://{self.user}:{secret}@{self.host}:{self.port}/{database}"

    @property
    def running(self) -> bool:
        """True while the server's parent process lives."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """The server's parent process."""
        if self._process is None:
            raise self._failed("the server is not running", "start() it first")
        return self._process.pid

    @property
    def directory(self) -> Path:
        """Where data, log and configuration are."""
        if self._directory is None:
            raise self._failed("the server has no directory yet", "start() it first")
        return self._directory

    def log_tail(self, lines: int = _LOG_LINES) -> str:
        """The last lines that the server wrote to its log."""
        with contextlib.suppress(OSError):
            text = (self.directory / "log").read_text("utf-8", "replace")
            return "\n".join(text.splitlines()[-lines:])
        return ""

    # --- life -----------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.remove()
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.remove()

    def start(self) -> Self:
        """Run the server, initialising its directory the first time; return when it answers."""
        with self._lock:
            return self if self.running else self._start()

    def _start(self) -> Self:
        atexit.register(self.remove)
        if self._directory is None:
            self._directory = room_for(self._account, self._wanted)
        if not (self._directory / "data" / "PG_VERSION").exists():
            self._initialise(self._directory)
        deadline = time.monotonic() + self._start_timeout_s
        chosen = self.port != 0
        while True:
            self.port = self.port or _free_port()
            if self._launch(deadline):
                return self
            log = self.log_tail()
            taken = "Address already in use" in log
            if taken and not chosen:
                self.port = 0  # somebody else took it between our choosing and binding it
            # After a SIGKILL of their parent, the server's other processes need a moment to go.
            if not (taken or "is still in use" in log) or time.monotonic() > deadline:
                break
        raise self._failed("the server did not start", f"its log ends with:\n{self.log_tail()}")

    def stop(self, how: Shutdown = "fast", *, timeout_s: float = 30.0) -> None:
        """End the server and keep its directory: `start()` goes on with the same data and port."""
        with self._lock:
            self._stop(how, timeout_s)

    def _stop(self, how: Shutdown, timeout_s: float) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        if process.poll() is None:
            orphans = Orphans(process.pid)
            process.send_signal(_SIGNAL[how])
            try:
                process.wait(timeout_s)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            if orphans.end() and self._directory is not None:
                # It says who runs here, and by now that number may be somebody else's: the server
                # would not start for as long as he lives.
                (self._directory / "data" / "postmaster.pid").unlink(missing_ok=True)
        if self._watcher is not None:
            self._watcher.kill()
            self._watcher.wait()
            if self._watcher.stdin is not None:
                self._watcher.stdin.close()
            self._watcher = None

    def remove(self) -> None:
        """End the server at once and delete its directory."""
        self.stop("immediate")
        if self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)
        atexit.unregister(self.remove)

    # --- inside ---------------------------------------------------------------------------------

    def _failed(self, what: str, hint: str) -> EmbeddedServerFailed:
        return EmbeddedServerFailed(what, object_=f"embedded PostgreSQL {self.version}", hint=hint)

    def _initialise(self, root: Path) -> None:
        password = root / "password"
        password.touch(0o600)
        password.write_text(self.password.reveal(), "utf-8")
        if self._account.uid is not None and self._account.gid is not None:
            os.chown(password, self._account.uid, self._account.gid)
        done = subprocess.run(
            [
                str(binaries(self.version, self._account) / "initdb"),
                f"--pgdata={root / 'data'}",
                f"--username={self.user}",
                f"--pwfile={password}",
                "--auth=scram-sha-256",
                "--encoding=UTF8",
                "--locale=C",
                "--no-sync",
                "--no-instructions",
            ],
            capture_output=True,
            text=True,
            check=False,
            cwd=root,
            env=_environment(),
            user=self._account.uid,
            group=self._account.gid,
            extra_groups=self._account.groups,
        )
        password.unlink()
        if done.returncode != 0:
            raise self._failed("initdb failed", done.stderr.strip() or done.stdout.strip())
        settings: dict[str, str | int] = {
            "listen_addresses": self.host,
            "unix_socket_directories": "",
            "lc_messages": "C",
            "shared_buffers": "64MB",
            "dynamic_shared_memory_type": "mmap",
            **self.settings,
        }
        with (root / "data" / "postgresql.conf").open("a", encoding="utf-8") as conf:
            for name, value in settings.items():
                quoted = str(value).replace("'", "''")
                conf.write(f"{name} = '{quoted}'\n")

    def _launch(self, deadline: float) -> bool:
        """Start the process and wait until it is ready. False when it is not."""
        data = self.directory / "data"
        with (self.directory / "log").open("wb") as log:
            self._process = process = subprocess.Popen(
                [
                    str(binaries(self.version, self._account) / "postgres"),
                    "-D",
                    str(data),
                    "-p",
                    str(self.port),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.directory,
                env=_environment(),
                start_new_session=True,  # a Ctrl-C is for us; we end the server in our own time
                user=self._account.uid,
                group=self._account.gid,
                extra_groups=self._account.groups,
            )
        self._watcher = subprocess.Popen(
            ["/bin/sh", "-c", _WATCH, "watcher", str(process.pid), str(self.directory)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=_environment(),
            start_new_session=True,
            user=self._account.uid,
            group=self._account.gid,
            extra_groups=self._account.groups,
        )
        while time.monotonic() < deadline:
            if process.poll() is not None:
                break
            if _says_ready(data / "postmaster.pid", process.pid):
                return True
            time.sleep(_POLL_S)
        self.stop("immediate")
        return False


def _environment() -> dict[str, str]:
    """Nothing of ours that changes what PostgreSQL does: no PG* variables, no locale."""
    return {"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC"}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _says_ready(pid_file: Path, pid: int) -> bool:
    """The file that the server keeps about itself: line 1 is its pid, line 8 its status."""
    try:
        lines = pid_file.read_text("utf-8").splitlines()
    except OSError:
        return False
    return (
        len(lines) >= 8
        and lines[0].strip() == str(pid)
        and lines[7].strip() in {"ready", "standby"}
    )
