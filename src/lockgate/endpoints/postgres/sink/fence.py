"""PostgresSink: what the owners of a feed ask of its target.

Every verb is one transaction: it happens at one moment, as a whole, or not at all. An answer of
`Refusal` means that nothing was changed. Errors are typed: Transient, when asking again may help;
OutcomeUnknown, when the connection was lost in the COMMIT. Then the caller claims again: a claim is
idempotent, waits for what is still under way, and answers where the row stands.

Verbs that take over (claim, close) wait `grace_s` for whoever is inside, then end them.
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

import psycopg

from lockgate.endpoints.postgres.sink import advance as _advance
from lockgate.endpoints.postgres.sink import chunks as _chunks
from lockgate.endpoints.postgres.sink import claim as _claim
from lockgate.endpoints.postgres.sink import close as _close
from lockgate.endpoints.postgres.sink import ddl as _ddl
from lockgate.endpoints.postgres.sink import hold as _hold
from lockgate.endpoints.postgres.sink import parts as _parts
from lockgate.endpoints.postgres.sink import tables
from lockgate.endpoints.postgres.sink.blockers import Relief
from lockgate.endpoints.postgres.sink.rows import Cursor, Refused
from lockgate.endpoints.postgres.sink.session import Limits, Sessions
from lockgate.endpoints.postgres.url import PostgresUrl
from lockgate.model.ddl import Ddl
from lockgate.model.errors import EndpointBusy
from lockgate.model.floors import Floors, Refusal
from lockgate.model.ids import FeedId, SpanId, Token
from lockgate.model.positions import Position
from lockgate.model.secret import Secret
from lockgate.model.spans import TRIGGER, Birth, Lineage, SpanSpec

__all__ = ["PostgresSink"]

T = TypeVar("T")


class PostgresSink:
    """The fence of one target database. Any thread may ask; use it as a context manager."""

    def __init__(self, url: PostgresUrl | str | Secret, limits: Limits | None = None) -> None:
        self._sessions = Sessions(url, limits or Limits())

    def __enter__(self) -> "PostgresSink":
        return self

    def __exit__(self, *_: object) -> None:
        self.disconnect()

    def disconnect(self) -> None:
        """End the sessions that are kept open between verbs."""
        self._sessions.close()

    def prepare(self) -> None:
        """Make or migrate the schema `lockgate` in the target."""
        with self._sessions.transaction("prepare the target") as cursor:
            tables.prepare(cursor, self._sessions.label)

    # --- verbs ----------------------------------------------------------------------------------

    def claim(
        self,
        feed: FeedId,
        spec: SpanSpec,
        token: Token,
        lineage: Lineage | None = None,
        birth: Birth | None = None,
    ) -> Floors | Refusal:
        """Put `token` into the row, which voids every lower one; answer from where to go on."""

        def work(cursor: Cursor) -> Floors:
            if spec.id == TRIGGER:
                return _claim.claim_feed(cursor, feed, token, birth)
            return _claim.claim_span(cursor, feed, spec, token, lineage)

        return self._take_over("claim", f"{feed}/{spec.id}", work)

    def advance(
        self, feed: FeedId, asked: Sequence[_advance.Asked]
    ) -> dict[SpanId, Floors | Refusal]:
        """Move spans for which there is nothing, each for itself; the trigger may be among them."""
        with self._sessions.transaction("advance", feed) as cursor:
            return _advance.advance(cursor, feed, asked)

    def write_ddl(
        self,
        feed: FeedId,
        token: Token,
        ddl: Ddl,
        births: Sequence[SpanSpec],
        statements: _ddl.Statements,
    ) -> Position | Refusal:
        """Execute `statements` and move everybody concerned behind them, once."""
        return self._ask(
            "write a schema change",
            feed,
            lambda cursor: _ddl.write_ddl(cursor, feed, token, ddl, births, statements),
        )

    def close(self, feed: FeedId, token: Token, forget: bool) -> bool:
        """Void every lower token of the feed. False: a newer owner is there already."""
        answer = self._take_over(
            "close", feed, lambda cursor: _close.close(cursor, feed, token, forget)
        )
        return answer is True

    def least_position(self, feed: FeedId) -> Position | None:
        """Up to where everything of the feed is applied, whoever applies it; None: not born."""
        with self._sessions.transaction("read the feed's positions", feed) as cursor:
            found = cursor.execute(
                "SELECT LEAST(f.position, (SELECT min(p.position) FROM lockgate.progress p "
                "WHERE p.feed = f.feed)) FROM lockgate.feeds f WHERE f.feed = %s",
                (feed,),
            ).fetchone()
        return None if found is None else found[0]

    # --- at an exact position (see `hold`) -------------------------------------------------------

    def hold(
        self,
        feed: FeedId,
        hold_id: str,
        upto: Position | None,
        seconds: float,
        before: Callable[[Cursor], object] | None = None,
    ) -> Position:
        """Apply nothing beyond `upto`, or beyond where the feed is, for so long: where that is.

        Whoever is inside is waited for, and nobody is ended. EndpointBusy when somebody else holds
        the feed, or a row was not to be had in time; Conflict when it is beyond `upto`. `before`
        comes first in the same transaction, and raises if this is not to be.
        """
        with self._sessions.transaction("hold a feed", feed) as cursor:
            cursor.execute(
                "SELECT set_config('lock_timeout', %s, true)",
                (f"{max(1, round(self._sessions.limits.grace_s * 1000))}ms",),
            )
            if before is not None:
                before(cursor)
            return _hold.hold(cursor, feed, hold_id, upto, seconds)

    def release(
        self, feed: FeedId, hold_id: str, before: Callable[[Cursor], object] | None = None
    ) -> bool:
        """Let it go on. False: this hold is not there; another's is left alone. `before` is as
        for a hold, and comes in either case."""
        with self._sessions.transaction("release a feed", feed) as cursor:
            if before is not None:
                before(cursor)
            return _hold.release(cursor, feed, hold_id)

    def held_upto(self, feed: FeedId) -> Position | None:
        """The position beyond which nothing is applied now; None when the feed is not held."""
        with self._sessions.transaction("read the feed's hold", feed) as cursor:
            return _hold.held_upto(cursor, feed)

    def held_by(self, feed: FeedId) -> str | None:
        """The id of the hold that is on; None when the feed is not held."""
        with self._sessions.transaction("read the feed's hold", feed) as cursor:
            return _hold.held_by(cursor, feed)

    def stands(self, feed: FeedId) -> _hold.Stands | None:
        """How far the feed's rows are, the least and the greatest; None: not born."""
        with self._sessions.transaction("read the feed's positions", feed) as cursor:
            return _hold.stands(cursor, feed)

    # --- batches in several parts (see `parts`) -------------------------------------------------

    def record_batch(
        self,
        feed: FeedId,
        span: SpanId,
        token: Token,
        floors: Floors,
        to: Position,
        parts: int,
    ) -> _parts.Batch | Refusal:
        """Record a batch before its tasks start, or answer the one that is to be finished first."""
        return self._ask(
            "record a batch",
            f"{feed}/{span}",
            lambda cursor: _parts.record_batch(cursor, feed, span, token, floors, to, parts),
        )

    def finish_batch(self, feed: FeedId, span: SpanId, token: Token) -> Floors | Refusal:
        """Move the floors past the recorded batch; BEHIND while a part has not landed."""
        return self._ask(
            "finish a batch",
            f"{feed}/{span}",
            lambda cursor: _parts.finish_batch(cursor, feed, span, token),
        )

    # --- the initial copy (see `chunks`) --------------------------------------------------------

    def begin_copy_run(self, feed: FeedId, span: SpanId, token: Token) -> int | Refusal:
        """The number of a new run; whoever is inside for an earlier one is waited for, or ended."""
        return self._take_over(
            "begin a copy",
            f"{feed}/{span}",
            lambda cursor: _chunks.begin_run(cursor, feed, span, token),
        )

    def plan_chunks(
        self,
        feed: FeedId,
        span: SpanId,
        token: Token,
        edges: Sequence[tuple[_chunks.Edge, _chunks.Edge]],
    ) -> list[_chunks.Chunk] | Refusal:
        """Record the chunks of a copy, or answer those that are recorded."""
        return self._ask(
            "plan a copy",
            f"{feed}/{span}",
            lambda cursor: _chunks.plan_chunks(cursor, feed, span, token, edges),
        )

    def chunks(self, feed: FeedId, span: SpanId) -> list[_chunks.Chunk]:
        """The recorded chunks of a span: none before it is planned and after it is forgotten."""
        with self._sessions.transaction("read the copy's chunks", f"{feed}/{span}") as cursor:
            return _chunks.chunks(cursor, feed, span)

    def all_done(self, feed: FeedId, span: SpanId) -> bool | Refusal:
        """True when nothing is left to copy or to build, or the copy is over."""
        return self._ask(
            "read the copy's chunks",
            f"{feed}/{span}",
            lambda cursor: _chunks.copy_over(cursor, feed, span),
        )

    def mark_built(self, feed: FeedId, span: SpanId, token: Token) -> Refusal | None:
        """Every chunk has landed, and what was left for after them is made: changes may come."""
        return self._ask(
            "record the copy's end",
            f"{feed}/{span}",
            lambda cursor: _chunks.mark_built(cursor, feed, span, token),
        )

    def copies_over(self, feed: FeedId) -> bool:
        """True when every span of the feed has its rows, and no snapshot is in question."""
        with self._sessions.transaction("read the copy's state", feed) as cursor:
            found = cursor.execute(
                "SELECT bool_and(copied) FROM lockgate.progress WHERE feed = %s", (feed,)
            ).fetchone()
        return found is not None and found[0] is True

    def forget_chunks(
        self, feed: FeedId, span: SpanId, token: Token, *, uncopied: bool = False
    ) -> Refusal | None:
        """The copy is over and its snapshots are needed no more; BEHIND while a chunk is left."""
        return self._ask(
            "forget the copy's chunks",
            f"{feed}/{span}",
            lambda cursor: _chunks.forget_chunks(cursor, feed, span, token, uncopied=uncopied),
        )

    # --- how they are asked ---------------------------------------------------------------------

    def _ask(self, operation: str, object_: str, work: Callable[[Cursor], T]) -> T | Refusal:
        try:
            with self._sessions.transaction(operation, object_) as cursor:
                return work(cursor)
        except Refused as refused:
            return refused.refusal

    def _take_over(self, operation: str, object_: str, work: Callable[[Cursor], T]) -> T | Refusal:
        """The same, but whoever is inside for longer than the grace is ended."""
        relief: Relief | None = None

        def relieved(cursor: Cursor) -> T:
            nonlocal relief
            with Relief(self._sessions, cursor.connection.info.backend_pid) as relief:
                return work(cursor)

        try:
            return self._ask(operation, object_, relieved)
        except EndpointBusy as busy:
            if relief is None or not isinstance(busy.__cause__, psycopg.errors.LockNotAvailable):
                raise
            raise self._held_up(operation, object_, relief) from busy

    def _held_up(self, operation: str, object_: str, relief: Relief) -> EndpointBusy:
        who = ", ".join(map(str, relief.seen)) or "somebody"
        return EndpointBusy(
            f"{who} holds what Lockgate must have to take over",
            object_=f"{object_}, {self._sessions.label}",
            hint="it is tried again; end that session (pg_terminate_backend), or let the role that "
            "the URL names do it (GRANT pg_signal_backend)",
            operation=operation,
            cause=relief.error,
        )
