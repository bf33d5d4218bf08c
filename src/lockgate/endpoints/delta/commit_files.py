"""The file of a commit in a table's log: its name, whose it is, that it is on the disk; and what
becomes of the data files that were written for it.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Final

from lockgate.endpoints.delta.death import TableDead
from lockgate.endpoints.delta.files import DataFile, delete_files
from lockgate.endpoints.delta.log_archive import LOG, flush_checkpoint
from lockgate.endpoints.delta.place import Place
from lockgate.model.errors import EndpointUnavailable, LockgateError, OutcomeUnknown

__all__ = [
    "COMMITTING",
    "commit_name",
    "flush_commit",
    "flush_own",
    "holds",
    "landed",
    "may_be_there",
    "taking_back",
]

COMMITTING: Final = "commit"
"""The operation of an error that came while a commit was on its way."""


def commit_name(version: int) -> str:
    """Below the table's directory."""
    return f"{LOG}/{version:020d}.json"


def flush_commit(table: Place, version: int) -> None:
    """Have it on the disk, whoever made it; the first one with the directories made for it."""
    table.flush(commit_name(version), above=not version)


def flush_own(table: Place, version: int) -> None:
    """The same of one that was just made. OutcomeUnknown when it is there for now, and may not be
    after a power failure."""
    try:
        flush_commit(table, version)
        flush_checkpoint(table, version)
    except FileNotFoundError:
        raise  # the table is going
    except OSError as error:
        raise OutcomeUnknown(
            "the lake's storage does not say that it keeps a commit",
            object_=f"{table.label}/{commit_name(version)}",
            hint="look at the storage; what has landed is looked up before anything is done again",
            operation="commit",
            cause=error,
        ) from error


@contextmanager
def landed(table: Place, version: int) -> Iterator[None]:
    """What comes after a commit that is there. That it fails says nothing of the commit:
    OutcomeUnknown. TableDead stays what it is."""
    try:
        yield
    except (TableDead, OutcomeUnknown):
        raise
    except LockgateError as error:
        raise OutcomeUnknown(
            "a commit is there, and what the table is after it cannot be read",
            object_=f"{table.label}/{commit_name(version)}",
            hint=error.hint,
            operation="commit",
            cause=error,
        ) from error


def holds(table: Place, version: int, mark: str) -> bool:
    """Whether there is such a commit, and it bears a mark. OutcomeUnknown when nobody can see."""
    files, base = table.filesystem()
    try:
        with files.open_input_file(f"{base}/{commit_name(version)}") as source:
            return mark.encode() in source.read()
    except FileNotFoundError:
        return False
    except OSError as error:
        raise OutcomeUnknown(
            "whether a commit is there cannot be read",
            object_=f"{table.label}/{commit_name(version)}",
            hint="see that the lake's storage is there; what has landed is looked up before "
            "anything is done again",
            operation="commit",
            cause=error,
        ) from error


def may_be_there(error: LockgateError) -> bool:
    """Whether a commit may have landed, or land yet, that ended with this. Where not, no file is
    named by it, and never will be."""
    if isinstance(error, OutcomeUnknown):
        return True
    return isinstance(error, EndpointUnavailable) and error.operation == COMMITTING


@contextmanager
def taking_back(table: Place, written: Iterable[DataFile]) -> Iterator[None]:
    """A commit of data files, or all that writes them and commits them: where it fails they go.

    It is tried again for as long as somebody is needed, each time with other files. They stay where
    the commit may be there. For files that one commit may name, and no other: those that had landed
    before would be lost.
    """
    try:
        yield
    except LockgateError as error:
        if not may_be_there(error):
            delete_files(table, written)
        raise
