"""One dispatcher that runs here: what it was started with, and where it stands."""

from dataclasses import dataclass, field

from lockgate.endpoints.postgres.source.slot import lsn_text
from lockgate.model.ddl import Ddl
from lockgate.model.errors import LockgateError
from lockgate.model.floors import Floors, least
from lockgate.model.ids import OperatorId, SpanId, TableId, Token
from lockgate.model.instructions import StartDispatcher
from lockgate.model.positions import Position
from lockgate.model.spans import TRIGGER, SpanSpec


@dataclass
class Running:
    """A dispatcher between its start and its end."""

    start: StartDispatcher
    floors: Floors | None = None
    """None until the sink has let it in."""
    held: OperatorId = ""
    blocked: Ddl | None = None
    """The DDL right before which it stands."""
    in_doubt: bool = False
    """What became of its last batch is not known: it claims again, and learns, before the next."""
    copying: bool = False
    copy_in_doubt: bool = False
    """Its rows may be gone, to be copied anew: it asks the sink with its next claim."""
    copy_run: int = 0
    advance_to: Position = 0
    """Up to here it may move on although its rows are not copied: there are none yet, and the
    copy's snapshot, which is taken later, has seen all of it."""
    ended: bool = False
    snapshots: tuple[str, ...] = ()
    """The snapshots its rows were copied under, while changes that they saw may still come."""
    settled: Position = 0
    """Past this position no change can come that a snapshot has seen."""
    one_part: bool = False
    """The next batch cannot be cut."""
    batch_parts: int = 1
    """In how many parts the batch under way is applied."""
    parked: "Parked | None" = None

    @property
    def span(self) -> SpanId:
        return self.start.spec.id

    @property
    def spec(self) -> SpanSpec:
        return self.start.spec

    @property
    def table(self) -> TableId:
        return self.start.spec.table

    @property
    def token(self) -> Token:
        return self.start.token

    @property
    def is_trigger(self) -> bool:
        return self.start.spec.id == TRIGGER

    @property
    def state(self) -> str:
        """What it does, as people are told (`FeedSpan.state`)."""
        if self.parked is not None:
            return "retrying"
        if self.floors is None:
            return "starting"
        if self.copying:
            return "copying"
        if self.held:
            return "held"
        return "running" if self.blocked is None else "blocked"

    @property
    def low(self) -> Position:
        """Everything up to here is applied."""
        assert self.floors is not None
        return least(self.floors)

    def may_go_on(self, now_s: float) -> bool:
        """True when a round may take it along."""
        return (
            self.floors is not None
            and not (self.held or self.copying or self.in_doubt or self.waits(now_s))
            and self.blocked is None
        )

    def waits(self, now_s: float) -> bool:
        """True while it is not time for another try."""
        return self.parked is not None and now_s < self.parked.until_s


@dataclass
class Parked:
    """Why a dispatcher does not go on just now, and when it tries again.

    A row that the target refuses, or a server that is away, is no reason to give the span to
    somebody else: it would fare no better there. The others of the feed go on.
    """

    what: str
    hint: str = ""
    attempts: int = 1
    until_s: float = 0.0
    since_s: float = field(default=0.0)


BACKOFF_S = (0.25, 15.0)
_DOUBLINGS_MAX = 10


def backoff_s(attempts: int) -> float:
    """How long to wait after so many attempts in a row."""
    return min(BACKOFF_S[0] * 2.0 ** min(attempts - 1, _DOUBLINGS_MAX), BACKOFF_S[1])


HINT = "\nhint: "
"""Between what went wrong and what to do about it, where both are kept as one text."""


def is_held(upto: Position) -> str:
    """What people are told of a feed that is held."""
    return f"it is held at {lsn_text(upto)} for a while: rows are compared or handed over"


def told(error: LockgateError) -> str:
    """An error as one text, for a record."""
    return f"{error}{HINT}{error.hint}" if error.hint else str(error)
