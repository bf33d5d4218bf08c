"""One task of applying changes to a target: what it is told, and what it answers.

Both travel as bytes (msgspec): to a Spark task and back. The target's URL is not among them,
because a secret is in it: whoever runs the task hands that over beside the item.
"""

from lockgate.model.errors import LockgateError, OutcomeUnknown, Transient
from lockgate.model.floors import Floors, Refusal
from lockgate.model.ids import FeedId, Token
from lockgate.model.positions import Position
from lockgate.model.spans import SpanSpec
from lockgate.model.tables import TableName, TableShape
from lockgate.model.value import Value

__all__ = ["ApplyError", "ApplyItem", "Receipt"]


class ApplyItem(Value, frozen=True):
    """The changes of one span from its floors up to `to`, or one part of them."""

    feed: FeedId
    span: SpanSpec
    token: Token
    floors: Floors
    """The row's at the sink, all of them, also for a part."""
    to: Position
    target: TableName
    shape: TableShape
    """Of all changes in `segments`."""
    segments: tuple[str, ...]
    """Where the change log's files are; they may hold more than is to be applied."""
    part: int = 0
    parts: int = 1
    snapshots: tuple[str, ...] = ()
    """Under which the span's rows were copied, as PostgreSQL writes them. None: nothing was
    copied, or all of it lies behind. Several: somebody must say which keys each one covers."""


class ApplyError(Value, frozen=True):
    """Why nothing was written."""

    code: str
    """As errors have them. `needs-one-part`: claim the span again, then apply it as one part."""
    what: str
    object: str
    """The table, or the row of it that the target refused, by its key."""
    hint: str
    retryable: bool
    """The same item may succeed later with nothing else changed."""
    cause: str = ""
    """In the server's words."""
    operation: str = ""

    @classmethod
    def of(cls, error: LockgateError, *, object_: str | None = None) -> "ApplyError":
        """An error as a value; `object_` names what it is about when the error does not."""
        return cls(
            code=error.code,
            what=error.what,
            object=error.object if object_ is None else object_,
            hint=error.hint,
            retryable=isinstance(error, Transient | OutcomeUnknown),
            cause=str(error.cause or "").strip(),
            operation=error.operation,
        )

    def __str__(self) -> str:
        """One line, like an error's; the rest of a long cause stays in `cause`."""
        line = f"{self.what} ({self.object})" if self.object else self.what
        return f"{line}: {self.cause.splitlines()[0]}" if self.cause else line


class Receipt(Value, frozen=True):
    """What came of an item. With neither refusal nor error, all of it is committed."""

    span: str
    part: int = 0
    rows: int = 0
    """Rows written or deleted at the target."""
    changes: int = 0
    """Changes of the log that came to these rows."""
    missing: int = 0
    """Rows to update or delete that the target did not have."""
    seconds: float = 0.0
    refusal: Refusal | None = None
    """The fence did not let it happen."""
    error: ApplyError | None = None

    @property
    def applied(self) -> bool:
        """True when everything is committed, now or by an earlier attempt."""
        return self.refusal is None and self.error is None
