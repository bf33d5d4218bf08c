"""What a feed's engine asks of its target, whatever kind of target that is.

Verbs that write are fenced where the data lies: an answer of `Refusal` means that nothing has
changed. Errors are typed; after one that leaves open what happened, the caller claims again.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

from lockgate.endpoints.postgres.sink.advance import Asked
from lockgate.model.apply import ApplyError
from lockgate.model.ddl import Ddl
from lockgate.model.feed_status import CopyProgress
from lockgate.model.floors import Floors, Refusal
from lockgate.model.ids import SpanId, TableId, Token
from lockgate.model.instructions import StartDispatcher
from lockgate.model.positions import Position
from lockgate.model.schema_changes import SchemaStep
from lockgate.model.spans import SpanSpec
from lockgate.node.feed.chosen import Chosen
from lockgate.node.feed.rounds import Work
from lockgate.node.feed.running import Running
from lockgate.pipeline.copy import CopyOutcome
from lockgate.pipeline.session import Spark

__all__ = ["Applied", "CopyJob", "Look", "Target"]

Look = Mapping[TableId, Chosen]
"""What a feed takes of its source's tables, as they were at one moment."""


class Applied(NamedTuple):
    """What came of one span's batch."""

    work: Work
    rows: int = 0
    refusal: Refusal | None = None
    error: ApplyError | None = None
    floors: Floors = ()
    """Where the span stands now, when it was applied."""


class CopyJob(NamedTuple):
    """Spans whose rows are to be copied, together."""

    spans: Sequence[Running]
    look: Look
    report: Callable[[CopyProgress], None]
    check: Callable[[], None]
    """Called when the snapshot is taken: raises when the tables are not those of the look."""


class Target(Protocol):
    """A feed's target."""

    round_s: float
    """The least time between two rounds: what a commit there costs."""
    renews: bool
    """After a schema change, a table's rows may have to be copied anew."""

    # --- who may write, and how far it is -------------------------------------------------------

    def claim(self, start: StartDispatcher) -> Floors | Refusal:
        """Make the dispatcher the owner of its span; answer from where to go on."""

    def advance(self, asked: Sequence[Asked]) -> dict[SpanId, Floors | Refusal]:
        """Move spans for which there is nothing."""

    def least_position(self) -> Position | None:
        """Up to where everything is applied, at the least; None: the feed is not born."""

    def held_upto(self) -> Position | None:
        """The position beyond which the target takes nothing now; None: it takes everything."""

    # --- changes --------------------------------------------------------------------------------

    def apply(self, spark: Spark, works: Sequence[Work]) -> list[Applied]:
        """All batches of a round, as one Spark job."""

    def write_ddl(
        self, token: Token, ddl: Ddl, births: Sequence[SpanSpec], step: SchemaStep
    ) -> Position | Refusal:
        """Execute a schema change and move everybody concerned behind it, once."""

    # --- the first copy -------------------------------------------------------------------------

    def is_copied(self, one: Running) -> bool:
        """True when nothing is left to copy; the span is told the snapshots of its rows then, if
        changes that those have seen may still come."""

    def skip_copy(self, one: Running) -> None:
        """Its rows are there already, so people say."""

    def begin_copy(self, one: Running) -> int | Refusal:
        """The number of a new run; nothing that an earlier one still does has an effect."""

    def has_rows(self, one: Running) -> bool:
        """True when a part of the copy has landed."""

    def empty(self, one: Running, *, whole: bool) -> None:
        """Remove the rows that were copied, to have them copied anew. `whole`: also when the copy
        is over. Raises StaleOwner when the span has a newer owner."""

    def copy(self, spark: Spark, job: CopyJob) -> list[CopyOutcome]:
        """Copy what is left, and have all that changes need."""

    def forget_snapshots(self, one: Running) -> Refusal | None:
        """No change that the copy has seen will come any more."""

    def finish(self, token: Token) -> float | None:
        """Try to build what the copy left: after how many seconds to try again. None: nothing of
        that is to be done any more."""

    # --- its end --------------------------------------------------------------------------------

    def disconnect(self) -> None:
        """Give connections back."""
