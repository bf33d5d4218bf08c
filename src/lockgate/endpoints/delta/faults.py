"""What delta-rs and the file system say, as errors that say what to do."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from deltalake.exceptions import DeltaError

from lockgate.endpoints.delta.place import Place
from lockgate.model.errors import (
    EndpointUnavailable,
    LockgateError,
    MissingPrivilege,
    ObjectMissing,
    StorageFull,
)

__all__ = ["faults"]


@contextmanager
def faults(operation: str, place: Place) -> Iterator[None]:
    """Raise what fails inside as errors of ours."""
    try:
        yield
    except LockgateError:
        raise
    except (OSError, DeltaError) as error:
        raise _named(error, operation, place.label) from error


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
    if number in (errno.EACCES, errno.EPERM) or "ermission denied" in said:
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
            hint="if they were deleted by hand, drop the table: its feed makes and copies it anew",
            operation=operation,
            cause=error,
        )
    return EndpointUnavailable(
        "the lake does not answer as it should",
        object_=label,
        hint="see that its storage is there",
        operation=operation,
        cause=error,
    )
