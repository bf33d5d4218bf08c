"""What a copy run does at both endpoints, so that rows and stream fit together exactly.

    look            which tables there are, and as what
    now             where the source's log ends
    pass            spans without rows follow the log up to now: schema only
    snapshot        and look again: nothing has changed since the first look
    chunks          each sees to it that its columns are still the ones of the look

A span without rows passes changes by. That is only right if the snapshot, taken later, has them: a
transaction is in the log before everybody can see it, and with synchronous replication long before.
So it passes only what everybody can see already (`may_pass`).
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from lockgate.endpoints.postgres.connect import connect
from lockgate.endpoints.postgres.faults import faults
from lockgate.endpoints.postgres.sink.snapshots import Snapshot
from lockgate.endpoints.postgres.source import heartbeat
from lockgate.model.errors import Terminal, Transient
from lockgate.model.feed_status import CopyProgress
from lockgate.model.floors import Refusal
from lockgate.model.ids import TableId
from lockgate.model.positions import Position
from lockgate.model.spans import WHOLE
from lockgate.node.feed.running import Running
from lockgate.node.feed.setup import still_chosen
from lockgate.node.feed.targets.port import CopyJob, Look
from lockgate.pipeline.copy import CopyOutcome
from lockgate.store.changelog import read_segments

if TYPE_CHECKING:
    from lockgate.node.feed.context import FeedContext

__all__ = ["Copies"]


class Copies:
    """The copy of one feed's rows, step by step."""

    def __init__(self, context: "FeedContext") -> None:
        self._context = context

    def wanted(self, one: Running) -> bool:
        """True when rows of the span are still to be copied; else it is told its snapshots."""
        context = self._context
        if not context.config.copy:
            context.target.skip_copy(one)
            return False
        return not context.target.is_copied(one)

    # --- before the snapshot --------------------------------------------------------------------

    def begin(self, one: Running) -> Refusal | None:
        """Begin a run: what tasks of an earlier one have landed is all that they will land."""
        run = self._context.target.begin_copy(one)
        if isinstance(run, Refusal):
            return run
        one.copy_run = run
        return None

    def look(self, tables: set[TableId]) -> Look:
        """What the feed takes of these tables now; those that are gone are missing."""
        context = self._context
        purpose = f"look {context.feed}"
        with connect(context.source, purpose=purpose, autocommit=True) as connection:
            found = still_chosen(connection, context.config, tables)
        return {each.definition.table.id: each for each in found}

    def end_of_log(self) -> Position:
        """No snapshot that was taken before now has seen a change that comes after this."""
        context = self._context
        purpose = f"settle {context.feed}"
        with connect(context.source, purpose=purpose, autocommit=True) as connection:
            return heartbeat.beat(connection, context.feed)

    def is_empty(self, one: Running) -> bool:
        """True when no chunk of the span is copied, or what was is given up.

        A chunk that was copied before its table changed is not worth keeping track of: the few
        tables that this happens to are copied anew.
        """
        context = self._context
        if not context.target.has_rows(one):
            return True
        if not any(ddl.concerns(one.table) for ddl in context.read_log(one.low).ddls):
            return False
        if one.spec.range != WHOLE:
            raise Terminal(
                "a table that is split was changed in the middle of its copy",
                object_=one.table,
                hint="merge its spans, or remove the feed and create it anew",
                operation="copy",
            )
        self.empty(one)
        return True

    def empty(self, one: Running, *, whole: bool = False) -> None:
        """Remove the span's rows, which are the table's, to have them copied anew. `whole`: also
        when its copy is over. Raises StaleOwner when it has a newer owner."""
        self._context.target.empty(one, whole=whole)

    def is_captured(self, upto: Position) -> bool:
        """True when the change log holds everything up to a position."""
        context = self._context
        return context.changelog.read(context.feed, upto).resolved >= upto

    def may_pass(self, one: Running, upto: Position) -> bool:
        """True when every change of the span's table up to there is visible to whoever looks."""
        context = self._context
        view = context.changelog.read(context.feed, one.low, upto)
        uris = [context.files.uri(s.path) for s in view.segments if s.table == one.table]
        if not uris:
            return True
        parts = [read_segments([uri], one.low, upto, columns=["xid"])["xid"] for uri in uris]
        xids = np.unique(np.concatenate([part.to_numpy() for part in parts]))
        return bool(self._snapshot().sees(xids).all())

    def _snapshot(self) -> Snapshot:
        context = self._context
        with (
            connect(context.source, purpose=f"look {context.feed}", autocommit=True) as connection,
            faults(object_=context.source.label, operation="take a snapshot"),
        ):
            row = connection.execute("SELECT pg_current_snapshot()::text").fetchone()
        assert row is not None
        return Snapshot.parse(row[0])

    # --- the run --------------------------------------------------------------------------------

    def copy(
        self, spans: Sequence[Running], look: Look, report: Callable[[CopyProgress], None]
    ) -> list[CopyOutcome]:
        """Copy what is left of these spans' rows, and have what changes need recorded as built."""
        job = CopyJob(spans, look, report, lambda: self._check_still(look))
        with self._context.using_spark() as spark:
            return self._context.target.copy(spark, job)

    def _check_still(self, before: Look) -> None:
        """The snapshot is taken: were the tables then what the target's are?"""
        now = self.look(set(before))
        for table, chosen in before.items():
            if now.get(table) != chosen:
                raise Transient(
                    "the table was changed when its copy began",
                    object_=table,
                    hint="it is tried again once the change has come through the log",
                    operation="copy",
                )
