"""Errors that say what happened, to which object, why, and what to do next.

Whether trying again can help is a type, so that the one retry helper needs no list of cases:

    LockgateError
    ├── Transient         the same call may succeed later with nothing else changed
    │   ├── MetastoreUnavailable
    │   ├── EndpointUnavailable
    │   ├── EndpointBusy      a deadlock, a lock or a statement that took too long
    │   └── DidNotLand        a commit that is known to have had no effect
    ├── Terminal          trying again changes nothing until somebody acts
    │   ├── UsageError
    │   ├── NotFound          nobody knows the name
    │   ├── Conflict          it cannot be done as things stand
    │   ├── MetastoreUnreadable
    │   ├── MetastoreTooNew
    │   ├── StorageFull
    │   ├── EndpointRefused   a database that lets us in under no conditions that we meet
    │   │   └── MissingPrivilege
    │   ├── ObjectMissing     a table, slot or publication that was there is not any more
    │   ├── DataRefused       a row that the target does not take
    │   ├── StaleOwner        the fence refused: somebody else owns this now
    │   └── IllegalTransition a bug of Lockgate's own
    └── OutcomeUnknown    a commit that may or may not have landed

`OutcomeUnknown` is in neither branch on purpose. Repeating it may do the work twice and giving up
may forget it: whoever catches it reads the state back first.
"""

from collections.abc import Iterable
from typing import ClassVar

__all__ = [
    "Conflict",
    "DataRefused",
    "DidNotLand",
    "EndpointBusy",
    "EndpointRefused",
    "EndpointUnavailable",
    "IllegalTransition",
    "LockgateError",
    "MetastoreTooNew",
    "MetastoreUnavailable",
    "MetastoreUnreadable",
    "MissingPrivilege",
    "NotFound",
    "ObjectMissing",
    "OutcomeUnknown",
    "StaleOwner",
    "StorageFull",
    "Terminal",
    "Transient",
    "UsageError",
]


class LockgateError(Exception):
    """The root of every error Lockgate raises on purpose.

    `str(error)` is one line, "what (object): cause"; the hint is kept apart, because people are
    shown it on a line of its own. `code` is stable: scripts and the HTTP interface rely on it, so
    it may be added to and never renamed.
    """

    code: ClassVar[str] = "failed"
    exit_code: ClassVar[int] = 1

    def __init__(
        self,
        what: str,
        *,
        object_: str,
        hint: str,
        operation: str = "",
        cause: BaseException | str | None = None,
    ) -> None:
        super().__init__(what)
        self.what = what
        self.object = object_
        self.hint = hint
        self.operation = operation
        self.cause = cause
        if isinstance(cause, BaseException):
            self.__cause__ = cause
        if hint:
            self.add_note(f"hint: {hint}")

    def __str__(self) -> str:
        line = f"{self.what} ({self.object})" if self.object else self.what
        cause = self.cause_line
        return f"{line}: {cause}" if cause else line

    @property
    def cause_line(self) -> str:
        """The cause in one line, or nothing. The rest of a long cause stays on `__cause__`."""
        if self.cause is None:
            return ""
        lines = str(self.cause).strip().splitlines()
        return lines[0] if lines else type(self.cause).__name__

    def as_dict(self) -> dict[str, str]:
        """The error for machines: the same words that people are shown, under fixed keys."""
        return {
            "code": self.code,
            "what": self.what,
            "object": self.object,
            "operation": self.operation,
            "cause": self.cause_line,
            "hint": self.hint,
        }


class Transient(LockgateError):
    """The same call may succeed later with nothing else changed."""

    code = "transient"


class Terminal(LockgateError):
    """Trying again changes nothing until somebody acts."""

    code = "terminal"


class UsageError(Terminal):
    """Somebody asked for something that cannot be: a wrong argument, an unknown name."""

    code = "usage"
    exit_code = 2


class NotFound(Terminal):
    """There is no feed, endpoint, node, span or table of this name."""

    code = "not-found"


class Conflict(Terminal):
    """As things stand it cannot be done, and nothing was changed."""

    code = "conflict"


class MetastoreUnavailable(Transient):
    """The metastore did not answer. Nothing is known to be wrong with what it holds."""

    code = "metastore-unavailable"


class MetastoreUnreadable(Terminal):
    """The metastore answered, and what it holds is not what Lockgate wrote."""

    code = "metastore-unreadable"


class MetastoreTooNew(Terminal):
    """A newer Lockgate wrote this metastore. Guessing at its meaning could break a law."""

    code = "metastore-too-new"


class StorageFull(Terminal):
    """There is no room to make the next record durable, so nothing further may take effect."""

    code = "storage-full"


class EndpointUnavailable(Transient):
    """An endpoint does not answer, or went away while it was asked: nobody said no."""

    code = "endpoint-unavailable"


class EndpointBusy(Transient):
    """An endpoint gave up on a statement for the sake of another one, or of a time limit."""

    code = "endpoint-busy"


class EndpointRefused(Terminal):
    """An endpoint said no: wrong credentials, no such database, not what we need of it."""

    code = "endpoint-refused"


class MissingPrivilege(EndpointRefused):
    """An endpoint knows us and does not let us do this."""

    code = "missing-privilege"


class ObjectMissing(Terminal):
    """A table, column, slot or publication is not there."""

    code = "object-missing"


class DataRefused(Terminal):
    """A target does not take a row: a broken constraint, a value that its type does not have.

    Where the server says so: `constraint`, `table` and `column` it is about. `detail` is the
    server's own line, which quotes the row's key; people are shown it with the cause.
    """

    code = "data-refused"

    def __init__(
        self,
        what: str,
        *,
        object_: str,
        hint: str,
        operation: str = "",
        cause: BaseException | str | None = None,
        constraint: str = "",
        table: str = "",
        column: str = "",
        detail: str = "",
    ) -> None:
        super().__init__(what, object_=object_, hint=hint, operation=operation, cause=cause)
        self.constraint = constraint
        self.table = table
        self.column = column
        self.detail = detail

    def __str__(self) -> str:
        return f"{super().__str__()}; {self.detail}" if self.detail else super().__str__()

    def as_dict(self) -> dict[str, str]:
        """With what the server said of the row, under keys of their own."""
        return super().as_dict() | {
            "constraint": self.constraint,
            "table": self.table,
            "column": self.column,
            "detail": self.detail,
        }


class DidNotLand(Transient):
    """A commit is known to have had no effect: a lost race, a refused requirement."""

    code = "did-not-land"


class OutcomeUnknown(LockgateError):
    """A commit may or may not have landed. Read the state back before anything else."""

    code = "outcome-unknown"


class StaleOwner(Terminal):
    """The fence refused: a newer owner was seen. The caller stops; it does not try again."""

    code = "stale-owner"


class IllegalTransition(Terminal):
    """A state machine was asked for a step it does not have: a bug, never a user's mistake.

    `story` is what happened to the entity so far, oldest first. It travels as a note, so that a
    traceback shows it.
    """

    code = "illegal-transition"

    def __init__(
        self,
        what: str,
        *,
        object_: str,
        story: Iterable[str] = (),
        hint: str = "this is a bug in Lockgate; please report it with this story",
        operation: str = "",
        cause: BaseException | str | None = None,
    ) -> None:
        super().__init__(what, object_=object_, hint=hint, operation=operation, cause=cause)
        self.story = list(story)
        if self.story:
            self.add_note("story, oldest first:\n" + "\n".join(f"  {line}" for line in self.story))
