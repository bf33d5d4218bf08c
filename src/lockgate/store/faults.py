"""What can go wrong with a database, in the few words that decide what to do about it.

A backend turns its driver's errors into a `Fault`; nobody else looks at error codes. When the
metastore is being opened, or read, a fault becomes a typed error for people (`as_error`). When a
batch is written it becomes one of the answers of `model.batch`, and there only one thing counts:
whether the transaction is certainly not there.
"""

import enum

import msgspec

from lockgate.model.errors import (
    LockgateError,
    MetastoreUnavailable,
    MetastoreUnreadable,
    StorageFull,
)

__all__ = ["Fault", "Kind", "Unfit", "as_error"]


class Kind(enum.Enum):
    """The sorts of trouble that differ in what helps."""

    BUSY = "busy"
    """Somebody else holds what we need, or too many are asking at once."""
    GONE = "gone"
    """The server, or the way to it, is not there (any more)."""
    FULL = "full"
    """No room for another byte."""
    IO = "io"
    """The disk or the file system failed us."""
    DENIED = "denied"
    """We may not read or write there."""
    DAMAGED = "damaged"
    """What is there is not a metastore, or no longer one."""
    OTHER = "other"


class Fault(msgspec.Struct, frozen=True):
    """One failed transaction. `certain` when it left nothing behind and never will."""

    kind: Kind
    why: str
    certain: bool


class Unfit(Exception):
    """A database answers well, and holds something else than a metastore."""


_HINTS = {
    Kind.BUSY: "another process holds the metastore; try again, or see who does",
    Kind.GONE: "see that the database server runs and is reached under this address, "
    "and that user and password are right",
    Kind.FULL: "free some space where the metastore lies; nothing that was acknowledged is lost",
    Kind.IO: "see the system's log for errors of the disk that holds the metastore",
    Kind.DENIED: "see that the directory exists and that this user may read and write in it "
    "(on PostgreSQL: may create and use the schema `lockgate`)",
    Kind.DAMAGED: "see that the metastore's address is right; if it is, restore it from a backup",
    Kind.OTHER: "see that the metastore's address is right and that nobody else changed its tables",
}

_ERRORS: dict[Kind, tuple[type[LockgateError], str]] = {
    Kind.BUSY: (MetastoreUnavailable, "the metastore is busy"),
    Kind.GONE: (MetastoreUnavailable, "the metastore does not answer"),
    Kind.FULL: (StorageFull, "there is no room left for the metastore"),
    Kind.IO: (MetastoreUnreadable, "the metastore's disk failed"),
    Kind.DENIED: (MetastoreUnreadable, "the metastore may not be read or written"),
    Kind.DAMAGED: (MetastoreUnreadable, "this is not a metastore of Lockgate"),
    Kind.OTHER: (MetastoreUnreadable, "the metastore cannot be used"),
}


def as_error(fault: Fault, label: str, operation: str = "open the metastore") -> LockgateError:
    """The error that people see when a metastore cannot be used."""
    error, what = _ERRORS[fault.kind]
    return error(
        what,
        object_=label,
        hint=_HINTS[fault.kind],
        operation=operation,
        cause=fault.why,
    )
