"""What delta-rs and the file system say, as errors that say what to do."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa
from deltalake.exceptions import DeltaError

from lockgate.endpoints.delta.place import Place
from lockgate.model.errors import (
    EndpointUnavailable,
    LockgateError,
    MissingPrivilege,
    ObjectMissing,
    StorageFull,
    Terminal,
)

__all__ = ["FileCorrupt", "faults"]

_BROKEN = ("corrupt", "crc checksum", "thrift", "json error", "magic bytes", "unexpected end of")


class FileCorrupt(Terminal):
    """A file is there, and is not what was written."""

    code = "file-corrupt"


@contextmanager
def faults(operation: str, place: Place, path: str = "") -> Iterator[None]:
    """Raise what fails inside as errors of ours. `path` is the file that it is about, if one."""
    try:
        yield
    except LockgateError:
        raise
    except pa.ArrowInvalid as error:
        # Arrow says so of the bytes of a file; of rows in memory it is a bug, and stays one.
        if operation != "read":
            raise
        raise _corrupt(error, operation, _label(place, path)) from error
    except (OSError, DeltaError) as error:
        raise _named(error, operation, _label(place, path)) from error


def _label(place: Place, path: str) -> str:
    return f"{place.label}/{path}" if path else place.label


def _named(error: Exception, operation: str, label: str) -> LockgateError:
    number = getattr(error, "errno", None)
    said = str(error)
    if number in (errno.ENOSPC, errno.EDQUOT) or "No space left" in said:
        return StorageFull(
            "the lake's storage is full",
            object_=label,
            hint="free some space: nothing was committed, and it is tried again",
            operation=operation,
            cause=error,
        )
    if number in (errno.EACCES, errno.EPERM, errno.EROFS) or "ermission denied" in said:
        return MissingPrivilege(
            "the lake's directory may not be used",
            object_=label,
            hint="let the account that Lockgate runs under read and write it",
            operation=operation,
            cause=error,
        )
    missing = number == errno.ENOENT or "not found" in said.lower()
    if missing or "Invalid table version" in said:
        return ObjectMissing(
            "files of the table are gone",
            object_=label,
            hint="deleted by hand? Copy the table anew: `lockgate feed resync FEED TABLE`",
            operation=operation,
            cause=error,
        )
    if operation != "write" and any(word in said.lower() for word in _BROKEN):
        return _corrupt(error, operation, label)
    return EndpointUnavailable(
        "the lake does not answer as it should",
        object_=label,
        hint="see that its storage is there",
        operation=operation,
        cause=error,
    )


def _corrupt(error: Exception, operation: str, label: str) -> LockgateError:
    return FileCorrupt(
        "a file of the table is damaged",
        object_=label,
        hint="put the file back from a copy of the storage, or copy the table anew: "
        "`lockgate feed resync FEED TABLE`; nothing was changed",
        operation=operation,
        cause=error,
    )
