"""LakeSink: what the owners of a feed ask of a lake.

The same verbs as a database's sink has, with the same answers. Rows are one document of the lake
(`rows`, `Document`), data and its position one commit of a table's ingest. Where both change, the
order is what makes it safe to break off anywhere and do it again:

    claim      the row first, then the ingest: from then on nobody else lands, and where it stands
               is the greater of the two positions
    write_ddl  the tables first, each made, changed or ended by the position of the change, so that
               whoever does it again finds it done; then the rows, all at once
    close      the rows first, then the ingests, and only then the rows are forgotten: who does it
               again finds in them what is still to be voided
    a copy     chunks are recorded with the files they wrote, which no table names; one commit of
               the stable table names them all; then the row says that it is over

What ends a table never ends more than it knows of: all incarnations before a position of the log.
Somebody who was paused and does it late ends what had ended anyway.
"""

import contextlib
import threading
from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from typing import TypeVar

from msgspec import structs

from lockgate.endpoints.delta import rows as on
from lockgate.endpoints.delta.faults import LOST, FileCorrupt
from lockgate.endpoints.delta.feed_document import FeedDocument
from lockgate.endpoints.delta.fenced import TableDead
from lockgate.endpoints.delta.head import CONTROL, LakeHead
from lockgate.endpoints.delta.layered import LayeredTable
from lockgate.endpoints.delta.origins import taken
from lockgate.endpoints.delta.place import Place
from lockgate.endpoints.delta.rows import FeedRows, Refused, SpanRow
from lockgate.endpoints.delta.schemas import NeedsNewIncarnation, others, united
from lockgate.endpoints.delta.sink_copy import SinkCopies
from lockgate.endpoints.delta.sink_tables import Born, LakeTable, SinkTables
from lockgate.model.ddl import Ddl
from lockgate.model.errors import Conflict, LockgateError, StaleOwner
from lockgate.model.floors import Floors, Refusal, least, raised
from lockgate.model.ids import FeedId, SpanId, TableId, Token
from lockgate.model.positions import Position
from lockgate.model.spans import TRIGGER, WHOLE, Birth, SpanSpec

__all__ = ["LakeSink", "LakeTable"]

T = TypeVar("T")

Asked = tuple[SpanId, Token, Floors, Position]


class LakeSink:
    """The fence of one feed at one lake. Any thread may ask."""

    def __init__(
        self,
        lake: Place,
        feed: FeedId,
        home: str,
        name_of: Callable[[TableId], TableId],
        birth: int = 0,
        source: Callable[[], str] = str,
    ) -> None:
        """`name_of` says what a table of the source is called in the lake. `birth` tells the feed
        from all others that its home has had or will have, `source` its source from all others;
        empty: it is not known."""
        self.home = home
        self.head = LakeHead(lake, home)
        self.tables = SinkTables(lake, home, name_of, birth, source)
        place = lake.child(CONTROL).child("feeds").child(f"{feed}-{home}")
        self.rows = FeedDocument(place)
        self.copies = SinkCopies(self.rows, self.tables, self.head.token, lake.label)
        self._landed: dict[SpanId, tuple[Token, Position, int]] = {}
        """How far tables are that the rows do not know of yet, who brought them there, and which
        incarnation."""
        self._level: set[tuple[SpanId, int]] = set()
        """Spans and incarnations whose ingest is known to be past the end of their first copy."""
        self._lock = threading.Lock()

    # --- who may write, and from where on -------------------------------------------------------

    def claim(
        self, spec: SpanSpec, token: Token, birth: Birth | None = None, born: Born | None = None
    ) -> Floors | Refusal:
        """Put `token` into the row, which voids every lower one; answer from where to go on.

        A feed that is not born yet gets its first rows, and the lake the tables `born`.
        """

        def work() -> Floors:
            if spec.id == TRIGGER:
                return ((WHOLE, self._claim_feed(token, birth, born or {})),)
            return ((WHOLE, self._claim_span(spec, token)),)

        return self.rows.ask(work)

    def _claim_feed(self, token: Token, birth: Birth | None, born: Born) -> Position:
        if birth is not None and self.rows.read().position is None:
            for spec in birth.spans:
                table = born[spec.table]
                self.tables.make(table, birth.position, first=not table.incarnation)
        joined = {table: one.incarnation for table, one in born.items() if one.incarnation}
        ingest = self.tables.ingest
        rows = self.rows.change(lambda rows: on.feed_claimed(rows, token, birth, joined, ingest))
        return on.owned(rows, token)

    def _claim_span(self, spec: SpanSpec, token: Token) -> Position:
        rows = self.rows.change(lambda rows: on.claimed(rows, spec.id, token))
        row = rows.spans[spec.id]

        def claim(table: LayeredTable) -> Position:
            claimed = table.ingest.claim(token).position
            self.tables.note_origin(table)
            return claimed

        claimed = self._done(row, claim)
        self.tables.sweep(self.rows.spans()[spec.id])
        return max(row.position, claimed or 0)

    def _done(self, row: SpanRow, work: Callable[[LayeredTable], T]) -> T | None:
        """Work on the row's table, or on the one that has come in its place by now. None: there is
        none, because it was dropped; the row says so from then on."""
        while not row.dropped:
            try:
                return work(self.tables.take_part(row))
            except TableDead:
                after = partial(self._after_its_end, row.incarnation)
                row = self.rows.change_row(row.spec.id, row.token, after)
        return None

    def _after_its_end(self, ended: int, row: SpanRow) -> SpanRow:
        """The table was dropped; or another installation has made it anew, and we take part.

        Is it as far as we are, then nothing is missing: what comes from here on comes to it. How
        far that is, the old ingest knows better than the row, and is asked no more after this.
        Conflict when what has the name now is of another source: those rows are not ours."""
        if row.incarnation != ended:
            return row  # somebody else has seen to it
        row = structs.replace(row, position=max(row.position, self.tables.landed(row)))
        newest = self.tables.newest(row)
        if newest is not None and newest != row.incarnation:
            self.tables.check_source(self.tables.name_of(row.spec.table), newest)
        if newest is None or newest <= row.incarnation:
            return structs.replace(row, dropped=True)
        anew = on.anew(row, newest, self.tables.ingest)
        return structs.replace(anew, copied=self.tables.has_rows(anew, row.position))

    def pass_by(self, spec: SpanSpec, token: Token) -> Floors | Refusal:
        """`claim`, of a table that is lost here and not there any more at the source: what comes
        before its end in the log would be read by nobody, and its end is waited for by others."""

        def work() -> Floors:
            self.rows.change(lambda rows: on.claimed(rows, spec.id, token))
            row = self.rows.change_row(spec.id, token, partial(structs.replace, dropped=True))
            return ((WHOLE, max(row.position, self.tables.landed(row))),)

        return self.rows.ask(work)

    def close(
        self,
        token: Token,
        *,
        forget: bool,
        give_up: Callable[[LockgateError], bool] = lambda _: False,
    ) -> bool:
        """Void every lower token of the feed. False: a newer owner is there already.

        What an ingest says against it is raised when all others are voided; nothing is forgotten
        then, and whoever closes again finds every row from which to go on.

        Into one that is damaged no token can be written. Its feed may stop all the same: what its
        former owner can still land, once it is put back, is what comes next, with the position; the
        next claim voids him and goes on from there. After `forget` there is no next claim:
        `give_up` says whether to go on without."""

        def work() -> bool:
            rows = self.rows.change(lambda rows: on.closed(rows, token, forget=False))
            failed: list[LockgateError] = []
            for row in rows.spans.values():
                try:
                    self.tables.void(row)
                except FileCorrupt as error:
                    if forget and not give_up(error):
                        failed.append(error)
                except LockgateError as error:
                    failed.append(error)
            if failed:
                raise failed[0]
            if forget:
                self.rows.change(lambda rows: on.closed(rows, token, forget=True))
            return True

        return self.rows.ask(work) is True

    # --- moving on ------------------------------------------------------------------------------

    def advance(self, asked: Sequence[Asked]) -> dict[SpanId, Floors | Refusal]:
        """Move spans for which there is nothing, each for itself; the trigger may be among them."""
        answers: dict[SpanId, Floors | Refusal] = {}

        def step(rows: FeedRows) -> FeedRows:
            answers.clear()
            moves: dict[SpanId, Position] = {}
            brought: dict[SpanId, Position] = {}
            for span, (token, at, incarnation) in landed.items():
                # The row may be another feed's of the same name by now: ours is not its position.
                with contextlib.suppress(Refused):
                    row = on.mine(rows, span, token)
                    moves[span] = at
                    if row.incarnation == incarnation:
                        brought[span] = at
            position = rows.position
            for span, token, floors, to in asked:
                try:
                    if span == TRIGGER:
                        position = _from(on.owned(rows, token), floors, to)
                    else:
                        moves[span] = max(to, on.mine(rows, span, token).position)
                    answers[span] = raised(floors, to)
                except Refused as refused:
                    answers[span] = refused.refusal
            return structs.replace(on.advanced(rows, moves, brought), position=position)

        with self._lock:
            landed = dict(self._landed)
        rows = self.rows.change(step)
        with self._lock:
            for span, noted in landed.items():
                if self._landed.get(span) == noted:
                    del self._landed[span]
        for span, token, _, to in asked:
            if span != TRIGGER and not isinstance(answers[span], Refusal):
                self._let_be_read(rows.spans[span], token, to)
        return answers

    def _let_be_read(self, row: SpanRow, token: Token, to: Position) -> None:
        """Readers go by the table's own position, and want it past the end of the first copy. A
        table to which nothing comes would never be: it is told once, here."""
        if not row.copied or (row.spec.id, row.incarnation) in self._level:
            return

        def work(table: LayeredTable) -> bool:
            settled = table.stable.look().settled
            if not settled or to < settled:
                return False
            if table.ingest.look().position < settled:
                table.note_position(token, to)
            return True

        # Whoever has the table by now tells it.
        with contextlib.suppress(StaleOwner, Refused, Conflict):
            if self._done(row, work):
                self._level.add((row.spec.id, row.incarnation))

    def landed(self, span: SpanId, token: Token, position: Position, incarnation: int = 0) -> None:
        """The span's table has everything up to there: its row is told with the next advance, if it
        is the token's then. `incarnation` is the one whose ingest has it; none has what is passed
        by."""
        new = (token, position, incarnation)
        with self._lock:
            self._landed[span] = max(self._landed.get(span, new), new)

    def copies_over(self) -> bool:
        """True when every table of the feed has its rows."""
        return all(row.copied or row.dropped for row in self.rows.spans().values())

    def least_position(self) -> Position | None:
        """Up to where everything of the feed is applied, at the least; None: not born."""
        return self.rows.read().least

    # --- schema changes -------------------------------------------------------------------------

    def write_ddl(
        self,
        token: Token,
        ddl: Ddl,
        births: Sequence[SpanSpec],
        after: Born,
        fills: AbstractSet[TableId],
    ) -> Position | Refusal:
        """Change the lake's tables and move everybody concerned behind the change, once.

        `after` are the tables as they are then; of `fills`, rows that were there have values that
        the stream does not bring.
        """

        def work() -> Position:
            rows = self.rows.read()
            position = on.owned(rows, token)
            if ddl.position <= position:
                return position
            concerned = [row for row in rows.spans.values() if ddl.concerns(row.spec.table)]
            before = ddl.position - 1
            if position < before or any(self._stands(row, ddl) < before for row in concerned):
                raise Refused(Refusal.BEHIND)
            self._refuse_taken(rows.spans.values(), ddl, births, after)
            renewed = set()
            for row in concerned:
                table = row.spec.table
                if table in ddl.ended:
                    self.tables.end(table, ddl.position)
                elif table in after and not self._evolved(row, ddl, after[table], table in fills):
                    renewed.add(table)
            came = {now for _, now in ddl.renames}
            for spec in births:
                # Another installation may have been here before, and it was dropped since: whoever
                # claims the row learns of it.
                with contextlib.suppress(TableDead):
                    self.tables.make(
                        after[spec.table],
                        ddl.position,
                        empty=spec.table not in came,
                        alone=True,
                    )
            rows = self.rows.change(
                lambda rows: on.schema_changed(
                    rows, token, ddl, births, renewed, self.tables.ingest
                )
            )
            return on.owned(rows, token)

        return self.rows.ask(work)

    def _refuse_taken(
        self,
        rows: Iterable[SpanRow],
        ddl: Ddl,
        births: Sequence[SpanSpec],
        after: Born,
    ) -> None:
        """Conflict, before anything is done, where a new table would take the name of another one:
        of another feed, or of this one, and not ended by the same change."""
        ended: set[TableId] = set()
        taken_: dict[TableId, TableId] = {}
        for row in rows:
            name = self.tables.name_of(row.spec.table)
            if row.spec.table in ddl.ended:
                ended.add(name)
            elif not row.dropped:
                taken_[name] = row.spec.table
        for spec in births:
            name = after[spec.table].name
            if taken_.get(name, spec.table) != spec.table:
                raise taken(f"{taken_[name]} and {spec.table} would be one table in the lake", name)
            if name not in ended:
                self.tables.check_free(name, ddl.position, alone=True)

    def _evolved(self, row: SpanRow, ddl: Ddl, after: LakeTable, fills: bool) -> bool:
        """Have the table go on as it is now; False when that took a new incarnation."""

        def evolve(table: LayeredTable) -> bool:
            if fills or list(after.key) != table.key or others(table.rows, after.rows):
                return False
            names = set(after.rows.names)
            if any(name in names and at < ddl.position for name, at in table.dropped.items()):
                return False  # rows from before would have the values of the one that is gone
            with contextlib.suppress(NeedsNewIncarnation):
                # A column that is gone at the source stays here, for the rows that had it.
                gone = [name for name in table.rows.names if name not in names]
                table.note_dropped(dict.fromkeys(gone, ddl.position))
                table.evolve(united(table.rows, after.rows, ()), ddl.position)
                return True
            return False

        if self._done(row, evolve) is not False:
            return True
        with contextlib.suppress(TableDead):
            self.tables.make(after, ddl.position)
        return False

    def _stands(self, row: SpanRow, ddl: Ddl) -> Position:
        """How far the row's table has come, that the change is about. Nothing of before is waited
        for where it was dropped, or is lost and ends here: nobody would read that."""
        try:
            stands = self._done(row, lambda table: table.ingest.look().position)
        except LOST:
            if row.spec.table not in ddl.ended:
                raise
            stands = None
        return ddl.position if stands is None else max(row.position, stands)


def _from(stands: Position, floors: Floors, to: Position) -> Position:
    if stands != least(floors):
        raise Refused(Refusal.MOVED)
    return max(stands, to)
