"""Hooks, as people write them into a server's configuration.

    [hooks.dns]
    command = ["/usr/local/bin/point-dns", "shop"]
    timeout_s = 20

    [hooks.bouncer.pgbouncer]
    admin = "postgres://admin:${env:BOUNCER_PW}@127.0.0.1:6432/pgbouncer"
    ini = "/etc/pgbouncer/databases.ini"
    database = "shop"
    source = "host=old.example port=5432 dbname=shop"
    target = "host=new.example port=5432 dbname=shop"

A program is named by its whole path and run as it is written, by no shell: nothing that comes over
the API becomes a part of it. The same of the file that is rewritten.
"""

import re
from collections.abc import Iterator
from typing import Final

from lockgate.model.reading import convert, quoted, unfit
from lockgate.model.secret import Secret
from lockgate.model.value import Value

__all__ = ["HookConfig", "PgBouncerConfig", "check_hook", "read_hooks"]

_NAME: Final = re.compile(r"[a-z][a-z0-9_-]{0,39}")
_DATABASE: Final = re.compile(r"[^\s\"'=;#\[\]\x00]{1,63}")
_TIMEOUT_S: Final = (0.1, 600.0)


class PgBouncerConfig(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A PgBouncer that holds the traffic during a flip, and then sends it to the other side."""

    admin: Secret
    """Its console, by a user who may administer it."""
    ini: str
    """The file with the database's line: its main one, or one that it includes."""
    database: str
    """As applications call it there."""
    source: Secret
    """What stands behind the `=` while the source has the traffic. It may hold a password."""
    target: Secret


class HookConfig(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A command, or a PgBouncer."""

    command: tuple[str, ...] = ()
    pgbouncer: PgBouncerConfig | None = None
    timeout_s: float = 10.0
    """For each of its verbs. Then it is ended, and has failed."""

    @property
    def secrets(self) -> Iterator[Secret]:
        """What nobody is to read anywhere."""
        if self.pgbouncer is not None:
            yield from (self.pgbouncer.admin, self.pgbouncer.source, self.pgbouncer.target)


def read_hooks(document: object) -> None:
    """Refuse what is wrong with a table of hooks. The reader of the whole names no keys inside."""
    for name, hook in document.items() if isinstance(document, dict) else ():
        convert(hook, HookConfig, _key(name))


def check_hook(name: str, hook: HookConfig) -> None:
    """Whether it could ever be run."""
    key = _key(name)
    if not _NAME.fullmatch(name):
        raise unfit(
            f"{name!r} is no name of a hook",
            key,
            "take at most 40 of a-z, 0-9, _ and -, a letter first",
        )
    if bool(hook.command) == (hook.pgbouncer is not None):
        raise unfit("a hook is a command or a pgbouncer", key, "write one of the two")
    if not _TIMEOUT_S[0] <= hook.timeout_s <= _TIMEOUT_S[1]:
        raise unfit(
            "a number is out of range",
            f"{key}.timeout_s",
            f"take {_TIMEOUT_S[0]:g} to {_TIMEOUT_S[1]:g}",
        )
    if hook.command:
        _check_path(hook.command[0], f"{key}.command")
        if any("\0" in word for word in hook.command):
            raise unfit("a word holds a zero byte", f"{key}.command", "leave it out")
    if hook.pgbouncer is not None:
        _check_pgbouncer(hook.pgbouncer, f"{key}.pgbouncer")


def _check_pgbouncer(given: PgBouncerConfig, key: str) -> None:
    _check_path(given.ini, f"{key}.ini")
    if not given.admin.reveal().startswith(("postgres://", "postgresql://")):
        raise unfit(
            "this is no address of a console",
            f"{key}.admin",
            "write postgres://user:password@host:6432/pgbouncer",
        )
    if not _DATABASE.fullmatch(given.database):
        raise unfit("this is no name of a database", f"{key}.database", "as applications call it")
    for side, value in (("source", given.source), ("target", given.target)):
        text = value.reveal()
        if "=" not in text or re.search(r"[\r\n\0]", text):
            raise unfit(
                "this is not what stands behind a database's =",
                f"{key}.{side}",
                "write host=… port=… dbname=…, in one line",
            )


def _check_path(path: str, key: str) -> None:
    if not path.startswith("/") or "\0" in path:
        raise unfit("a path must be whole", key, "let it begin with /")


def _key(name: str) -> str:
    return f"hooks.{name}" if _NAME.fullmatch(name) else quoted("hooks", name)
