"""The line of one database in PgBouncer's file, exchanged for another.

    [databases]
    shop = host=old.example dbname=shop        ──►   shop = host=new.example dbname=shop
    ; everything else stays as it is, byte for byte

The new file takes the place of the old one at once, with its owner and mode: PgBouncer never reads
half of one. Who changes it is fenced by a file beside it (`databases.ini.lockgate`) that holds, for
a database and each move by its birth, the greatest number of a keeper that was ever there: one that
was paused, and wakes up when a later keeper of its move has been there, changes nothing. Between
moves no number is greater: they may be of different installations, each with births of its own.
"""

import contextlib
import fcntl
import json
import os
import re
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from lockgate.model.errors import Conflict, EndpointBusy, ObjectMissing, StaleOwner, Terminal

__all__ = ["exchanged", "fenced", "line_of", "point"]

_SECTION: Final = re.compile(rb"\s*\[(?P<name>[^\]]*)\]")
_PAIR: Final = re.compile(
    rb"(?P<head>[ \t]*(?P<name>\"(?:[^\"]|\"\")*\"|[^\s=;#\"]+)[ \t]*=[ \t]*)"
)
_LOOK_S: Final = 0.02


def line_of(content: bytes, database: str) -> str:
    """What stands behind the database's `=`."""
    _, start, end = _found(content, database)
    return content[start:end].decode("utf-8", "replace").strip()


def exchanged(content: bytes, database: str, value: str) -> bytes:
    """The file with another line for the database, and nothing else of it changed."""
    _, start, end = _found(content, database)
    return content[:start] + value.encode() + content[end:]


def point(path: Path, database: str, value: str) -> bool:
    """Have the line in the file; False when it was there already."""
    real = path.resolve()
    with _readable(path):
        before = real.read_bytes()
        after = exchanged(before, database, value)
        if line_of(before, database) == value.strip():
            return False
        _replace(real, after)
    return True


@contextlib.contextmanager
def fenced(path: Path, database: str, mark: tuple[int, int], patience_s: float) -> Iterator[None]:
    """Do something to the database as `mark`, the birth of a move and the number of its keeper,
    unless a later keeper of that move was there; others wait."""
    beside = path.with_name(f"{path.name}.lockgate")
    deadline = time.monotonic() + patience_s
    with _readable(beside):
        held = os.open(beside, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        while not _locked(held):
            if time.monotonic() > deadline:
                raise EndpointBusy(
                    "another process holds the file of databases",
                    object_=str(beside),
                    hint="see which one (fuser, lsof), and whether it is stopped",
                )
            time.sleep(_LOOK_S)
        _take(held, beside, database, mark)
        yield
    finally:
        os.close(held)


# --- inside ---------------------------------------------------------------------------------------


def _found(content: bytes, database: str) -> tuple[int, int, int]:
    """Where its line begins, and where its value begins and ends, without the end of the line."""
    wanted = {database.encode(), b'"' + database.replace('"', '""').encode() + b'"'}
    inside, place = True, 0
    found: list[tuple[int, int, int]] = []
    for line in content.splitlines(keepends=True):
        if section := _SECTION.match(line):
            inside = section["name"].strip().lower() == b"databases"
        elif inside and (pair := _PAIR.match(line)) and pair["name"] in wanted:
            end = place + len(line.rstrip(b"\r\n"))
            found.append((place, place + len(pair["head"]), end))
        place += len(line)
    if not found:
        raise ObjectMissing(
            "the file has no line of this database",
            object_=database,
            hint="name the file that holds it, of those that PgBouncer reads; with `* = …` alone, "
            "write a line for the database first",
        )
    if len(found) > 1:
        raise Conflict(
            "the file has several lines of this database",
            object_=database,
            hint="leave one of them: which one counts is not for us to say",
        )
    return found[0]


def _replace(real: Path, content: bytes) -> None:
    """The new file in the place of the old one, durable, with the same owner and mode."""
    old = real.stat()
    handle, name = tempfile.mkstemp(prefix=f".{real.name}.", dir=real.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            os.fchmod(file.fileno(), old.st_mode & 0o7777)
            if (old.st_uid, old.st_gid) != (os.geteuid(), os.getegid()):
                os.fchown(file.fileno(), old.st_uid, old.st_gid)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(real)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    directory = os.open(real.parent, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def _locked(held: int) -> bool:
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _take(held: int, beside: Path, database: str, mark: tuple[int, int]) -> None:
    birth, keeper = mark
    move = f"{database} {birth}"
    try:
        seen: dict[str, int] = json.loads(os.pread(held, os.fstat(held).st_size, 0) or b"{}")
        last = int(seen.get(move, 0))
    except (ValueError, TypeError, AttributeError):
        raise Terminal(
            "the fence of the file cannot be read",
            object_=str(beside),
            hint="see that no flip is under way, then delete it",
        ) from None
    if last > keeper:
        raise StaleOwner(
            f"keeper {last} of the move has been at this database, and this is {keeper}",
            object_=database,
            hint="nothing was changed; whoever keeps the move now goes on",
        )
    if last != keeper:
        content = json.dumps({**seen, move: keeper}).encode()
        os.pwrite(held, content.ljust(os.fstat(held).st_size), 0)
        os.fsync(held)


@contextlib.contextmanager
def _readable(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise Terminal(
            "the file of databases cannot be read or written",
            object_=str(path),
            hint="the user who runs this node must be able to write to it and to its directory",
            cause=error.strerror,
        ) from error
