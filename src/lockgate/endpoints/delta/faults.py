"""What delta-rs, the file system and an object store say, as errors that say what to do.

pyarrow and delta-rs quote the store's own code, each in a form of its own; where it gives none,
because the answer has no body, there is HTTP's status.
"""

import errno
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import pyarrow as pa
from deltalake.exceptions import DeltaError

from lockgate.endpoints.delta.place import Place
from lockgate.model.errors import (
    EndpointRefused,
    EndpointUnavailable,
    LockgateError,
    MissingPrivilege,
    NotFound,
    ObjectMissing,
    StorageFull,
    Terminal,
)

__all__ = ["LOST", "BucketMissing", "FileCorrupt", "faults"]

_BROKEN = (
    "corrupt",
    "crc checksum",
    "thrift",
    "json error",
    "magic bytes",
    "unexpected end of",
    # Of a log: commits or checkpoints of it are empty or gone.
    "found in delta log",
    "no files in log segment",
    "no table version found",
    "invalid checkpoint",
    "expected contiguous commit files",
    "is older than the existing snapshot",
)
_CHECKPOINT: Final = "_last_checkpoint hint"
"""A checkpoint is told of, and is not there or empty; the commits may well be."""
_CODE: Final = re.compile(r"AWS Error (\w+)|<Code>(\w+)</Code>|ExceptionName: (\w+)")
"""pyarrow writes NO_SUCH_BUCKET where the store, and delta-rs with it, says NoSuchBucket."""
_DENIED: Final = frozenset(
    {
        "accessdenied",
        "accountproblem",
        "allaccessdisabled",
        "expiredtoken",
        "invalidaccesskeyid",
        "invalidclienttokenid",
        "invalidtoken",
        "missingauthenticationtoken",
        "signaturedoesnotmatch",
        "unrecognizedclient",
    }
)
_SAYS_DENIED: Final = (
    "401 unauthorized",
    "403 forbidden",
    "http status 401",
    "http status 403",
    "lacked the necessary privileges",
    "lacked valid authentication credentials",
)
_NO_BUCKET: Final = re.compile(r"Bucket '[^']*' not found")


class BucketMissing(EndpointRefused):
    """There is no bucket of this name, or none that we are let know of."""

    code = "bucket-missing"


class FileCorrupt(Terminal):
    """A file is there, and is not what was written."""

    code = "file-corrupt"


LOST: Final = (NotFound, ObjectMissing, FileCorrupt)
"""What is heard of a table that was deleted by hand, or is damaged."""


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
    codes = {"".join(found).replace("_", "").lower() for found in _CODE.findall(said)}
    if codes & _DENIED or any(words in said.lower() for words in _SAYS_DENIED):
        return MissingPrivilege(
            "the object store does not let us do this",
            object_=label,
            hint="see that the keys in the endpoint's address, or of the environment, are valid "
            "and not expired, and may list, read, write and delete in the bucket",
            operation=operation,
            cause=error,
        )
    if "nosuchbucket" in codes or _NO_BUCKET.search(said):
        return BucketMissing(
            "there is no such bucket",
            object_=label,
            hint="see that the endpoint's address names the bucket, the region and the store where "
            "the lake is",
            operation=operation,
            cause=error,
        )
    if _CHECKPOINT in said:
        return FileCorrupt(
            "the checkpoint that the table's log begins with is damaged",
            object_=label,
            hint="delete `_last_checkpoint` in its `_delta_log`, and the newest checkpoint with "
            "it: the commits say the same. Does it not open then, copy the table anew: "
            "`lockgate feed resync FEED TABLE`",
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
