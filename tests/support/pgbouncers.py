"""A real PgBouncer in front of real servers, where the machine has one (Debian: `pgbouncer`).

It does not run as root: started by root it runs as the user that the servers run as.
"""

import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psycopg
import pytest

from lockgate.endpoints.postgres.embedded import EmbeddedPostgres
from lockgate.endpoints.postgres.embedded_install import account_for_servers, room_for
from lockgate.endpoints.postgres.url import PostgresUrl
from tests.support.waiting import until

PASSWORD: Final = "bouncer-hunter2"
WHERE: Final = ("/usr/sbin", "/usr/bin", "/usr/local/bin", "/usr/local/sbin")


def program() -> str:
    """Where it is; a test that needs it is skipped where it is not."""
    found = shutil.which("pgbouncer", path=":".join(WHERE))
    if found is None:
        pytest.skip("PgBouncer is not installed here (Debian: apt-get install pgbouncer)")
    return found


@dataclass(frozen=True)
class Bouncer:
    """Where it is, and its file of databases."""

    port: int
    ini: Path
    """The file with the line of `shop`; the main one includes it."""
    process: "subprocess.Popen[bytes]"

    @property
    def admin(self) -> str:
        return f"postgres://admin:{PASSWORD}@127.0.0.1:{self.port}/pgbouncer"

    def client(self) -> psycopg.Connection:
        """An application's connection to `shop`, wherever that is at the moment."""
        url = f"postgres://app:{PASSWORD}@127.0.0.1:{self.port}/shop"
        return psycopg.connect(url, autocommit=True, prepare_threshold=None)

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """It answers nobody; nothing that is said to it is lost."""
        self.process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self.process.send_signal(signal.SIGCONT)

    def paused(self) -> bool:
        with psycopg.connect(self.admin, autocommit=True) as console:
            cursor = console.execute("SHOW DATABASES")
            names = [column.name for column in cursor.description or ()]
            rows = [dict(zip(names, row, strict=True)) for row in cursor]
        return any(row["name"] == "shop" and str(row["paused"]) == "1" for row in rows)


def line_to(url: str) -> str:
    """What stands behind a database's `=`."""
    parts = PostgresUrl.parse(url).parameters()
    return " ".join(f"{key}={parts[key]}" for key in ("host", "port", "dbname", "user", "password"))


@contextmanager
def bouncer(server: EmbeddedPostgres, url: str) -> Iterator[Bouncer]:
    """A PgBouncer whose database `shop` is at `url`."""
    account = account_for_servers()
    room = room_for(account, None)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    ini, main = room / "databases.ini", room / "pgbouncer.ini"
    ini.write_text(f"[databases]\n; of ours\nshop = {line_to(url)}\nother = host=127.0.0.1\n")
    (room / "users.txt").write_text(f'"admin" "{PASSWORD}"\n"app" "{PASSWORD}"\n')
    main.write_text(
        f"[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\n"
        f"auth_type = plain\nauth_file = {room}/users.txt\nadmin_users = admin\n"
        f"pool_mode = transaction\nlogfile = {room}/log\n%include {ini}\n"
    )
    for file in room.iterdir():
        if account.uid is not None and account.gid is not None:
            shutil.chown(file, account.uid, account.gid)
    process = subprocess.Popen(
        [program(), "-q", str(main)],
        user=account.uid,
        group=account.gid,
        extra_groups=account.groups,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    found = Bouncer(port, ini, process)
    try:
        until(lambda: _answers(found), 20.0)
        yield found
    finally:
        process.kill()
        process.wait()
        shutil.rmtree(room, ignore_errors=True)


def _answers(found: Bouncer) -> bool:
    try:
        found.paused()
    except psycopg.OperationalError:
        return False
    return True
