"""The home of a feed that one process runs: its metastore, its change log, and who runs it.

    <home>/metastore.db      what is decided and where everything stands
    <home>/changelog/        the changes, as files
    <home>/process           the process that runs it: the one that was started last
    <home>/token             opens the service's interface; its owner's alone
    <home>/identity          tells this home from any other

Two processes on one home would be two lives of one node, and each would end the other's life, again
and again. So a process looks here whenever it renews its lease, and before it begins another life:
if somebody else was started since, it ends. This is for peace and not for safety: what a former
process still has in flight is refused by the fences, whatever this file says.
"""

import contextlib
import errno
import os
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Final

from lockgate.model.batch import (
    Batch,
    Joined,
    JoinFailed,
    Landed,
    LeaseLost,
    Loaded,
    LoadFailed,
    NotLanded,
    Refused,
    Renewed,
    RenewFailed,
    Unknown,
)
from lockgate.model.errors import LockgateError, StaleOwner, StorageFull, Terminal
from lockgate.model.ids import Millis, NodeId, NodeRef
from lockgate.model.records import Scope
from lockgate.model.secret import Secret
from lockgate.store.metastore import SqlMetastore

__all__ = ["Home", "HomeMetastore"]

_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})


class Home:
    """A directory that belongs to the process which took it last."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._mark = f"{os.getpid()} {secrets.token_hex(8)}"

    @property
    def metastore_url(self) -> str:
        return f"sqlite:///{self.path / 'metastore.db'}"

    @property
    def changelog(self) -> Path:
        return self.path / "changelog"

    @property
    def _process(self) -> Path:
        return self.path / "process"

    def take(self) -> None:
        """Make the directory if need be, and be the process that runs it."""
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            new = self._process.with_suffix(f".{os.getpid()}")
            try:
                new.write_text(self._mark, "utf-8")
                new.replace(self._process)
            except BaseException:
                with contextlib.suppress(OSError):
                    new.unlink()
                raise
        except OSError as error:
            raise self._unusable(error) from error

    def token(self) -> Secret:
        """The token that opens everything for whoever may read this directory; made when there is
        none."""
        return Secret(self._kept("token", lambda: secrets.token_urlsafe(32)))

    def identity(self) -> str:
        """What tells this directory from any other, wherever it is moved."""
        return self._kept("identity", lambda: secrets.token_hex(16))

    def _kept(self, name: str, make: Callable[[], str]) -> str:
        """A text of this home's own, for the eyes of its owner only."""
        path = self.path / name
        try:
            with contextlib.suppress(FileNotFoundError):
                if found := path.read_text("utf-8").strip():
                    return found
            new = path.with_suffix(f".{os.getpid()}")
            descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(f"{make()}\n")
                file.flush()
                os.fsync(file.fileno())
            new.replace(path)
            return path.read_text("utf-8").strip()
        except OSError as error:
            raise self._unusable(error) from error

    def check(self) -> None:
        """Raise StaleOwner when another process has taken the directory."""
        try:
            found = self._process.read_text("utf-8")
        except OSError as error:
            raise self._unusable(error) from error
        if found != self._mark:
            raise StaleOwner(
                f"process {found.split(' ')[0]} was started after this one and runs it now",
                object_=str(self.path),
                hint="this process has stopped, and whatever it had under way is refused by the "
                "target; to run the feed here, stop the other one first",
                operation="run a feed",
            )

    def _unusable(self, error: OSError) -> LockgateError:
        if error.errno in _FULL:
            return StorageFull(
                "there is no room left in the feed's home",
                object_=str(self.path),
                hint="free some space there, and start again; nothing is lost",
                operation="run a feed",
                cause=error,
            )
        return Terminal(
            "the feed's home cannot be used",
            object_=str(self.path),
            hint="see that the directory is there, and that this user may read and write in it",
            operation="run a feed",
            cause=error,
        )


class HomeMetastore:
    """`core.ports.Metastore` for a process that runs a home: ends it when the home is another's."""

    def __init__(self, home: Home, metastore: SqlMetastore) -> None:
        self._home = home
        self._metastore = metastore
        self.trouble = ""
        """Why the metastore did not do what it was asked last; empty when it did."""

    def join(self, node: NodeId, asked_at: Millis) -> Joined | JoinFailed:
        """Begin a life, unless somebody else runs the home."""
        self._home.check()
        answer = self._metastore.join(node, asked_at)
        self.trouble = answer.why if isinstance(answer, JoinFailed) else ""
        return answer

    def renew(self, ref: NodeRef, asked_at: Millis) -> Renewed | RenewFailed | LeaseLost:
        """Prolong a running lease, elect `ref` if the coordinator's lease has run out."""
        self._home.check()
        answer = self._metastore.renew(ref, asked_at)
        self.trouble = answer.why if isinstance(answer, RenewFailed) else ""
        return answer

    def commit(self, batch: Batch) -> Landed | Refused | NotLanded | Unknown:
        """Make a batch durable under its fence and serial."""
        answer = self._metastore.commit(batch)
        if isinstance(answer, NotLanded | Unknown):
            self.trouble = answer.why
        return answer

    def load(self, scope: Scope) -> Loaded | LoadFailed:
        """All records of a scope at one moment."""
        answer = self._metastore.load(scope)
        if isinstance(answer, LoadFailed):
            self.trouble = answer.why
        return answer
