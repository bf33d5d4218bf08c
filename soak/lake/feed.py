"""A feed of one home, without a database: lands the log that a seed makes, through the real sink.

It goes as the engine's dispatchers do: claim, land what lies between two schema changes, advance,
write the schema change. Begun anew under a higher token it goes on where the sink says; the one
before it, if it still runs, finds that out by its fence and ends.
"""

import random
import threading
import time
import traceback
from collections.abc import Collection
from typing import Any, Final

from lockgate.endpoints.delta.fenced import TableDead
from lockgate.endpoints.delta.files import write_file
from lockgate.endpoints.delta.lake import STABLE
from lockgate.endpoints.delta.layered import BatchOvertaken
from lockgate.endpoints.delta.place import Place
from lockgate.endpoints.delta.rows import SpanRow
from lockgate.endpoints.delta.sink import LakeSink
from lockgate.endpoints.delta.sink_copy import NoLeader
from lockgate.endpoints.delta.sink_tables import LakeTable
from lockgate.model.ddl import Ddl, DdlKind
from lockgate.model.errors import LockgateError, StaleOwner, Transient
from lockgate.model.floors import Refusal, least
from lockgate.model.ids import Token
from lockgate.model.spans import TRIGGER, TRIGGER_SPEC, WHOLE, Birth, SpanSpec
from soak.lake.roles import Part
from soak.lake.source import START, Entry, Source, changes_table, rows_schema, rows_table
from soak.lake.story import Story

__all__ = ["FeedRole"]

_BEYOND: Final = 10
"""No table is begun anew further than this ahead of the source."""
_REST_S: Final = 0.03
_KIND: Final = {"create": DdlKind.CREATE, "drop": DdlKind.DROP, "alter": DdlKind.ALTER}


class Outdated(Exception):
    """A newer owner of the feed is there."""


class Again(Exception):
    """Something has changed below us: claim, and look again."""


class FeedRole:
    """The feed in this process, and those before it that have not noticed yet."""

    def __init__(self, part: Part, story: Story) -> None:
        self._part = part
        self._story = story
        self._number = part.number
        self._threads: list[threading.Thread] = []
        self._over = threading.Event()
        self._feed = self._start()

    def act(self, verb: str, args: tuple[Any, ...]) -> Any:
        if verb == "again":
            self._number += 1
            self._feed = self._start()
            return None
        if verb == "resync":
            self._feed.resync.update(args)
            return None
        if verb == "wants lead":
            return self._feed.wants_lead
        assert verb == "done", verb
        return self._feed.done

    def _start(self) -> "Feed":
        feed = Feed(self._part, self._number, self._story, self._over, self._is_newest)
        thread = threading.Thread(target=feed.run, daemon=True)
        self._threads.append(thread)
        thread.start()
        return feed

    def _is_newest(self, number: int) -> bool:
        return number == self._number

    def end(self) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join(60)
            assert not thread.is_alive(), "a feed did not end"


class Feed:
    """One owner of the feed."""

    def __init__(
        self, part: Part, number: int, story: Story, over: threading.Event, is_newest: Any
    ) -> None:
        self._place = Place(f"{part.run}/lake", "lake")
        self._sink = LakeSink(self._place, "feed", part.home, lambda table: table)
        self._home = part.home
        self._presents = part.run / f"present-{part.home}"
        self._number = number
        self._token = Token(number, 1, 1)
        self._source = Source(part.seed)
        self._draw = random.Random(f"feed {part.seed} {part.home} {number}")
        self._story = story
        self._over = over
        self._is_newest = is_newest
        self._at = START
        self._noted = START
        """Where the sink knows the feed to be."""
        self._lows: dict[str, int] = {}
        self.resync: set[str] = set()
        """Tables that somebody wants copied anew."""
        self.done = False
        self.wants_lead = False
        """It waits for rows that only a leader brings."""

    def run(self) -> None:
        """Until the end of the log, or of the run."""
        claimed = False
        while not self._over.is_set() and not self.done:
            try:
                if not claimed:
                    self._claim()
                    claimed = True
                self._round()
                self.done = self._at >= self._source.end
                self.wants_lead = False
            except Outdated:
                if self._is_newest(self._number):
                    self._story.tell("violation", what="the newest feed was told that it is not")
                return
            except Again:
                claimed = False
            except NoLeader:
                self.wants_lead = True
            except Transient as error:
                self._story.tell("feed waits", what=str(error), code=error.code)
            except LockgateError as error:
                trace = traceback.format_exc()
                self._story.tell("violation", what=f"a feed met: {error!r}", trace=trace)
                claimed = False
                time.sleep(0.5)
            except Exception as error:
                trace = traceback.format_exc()
                self._story.tell("violation", what=f"a feed broke: {error!r}", trace=trace)
                return
            time.sleep(self._draw.random() * _REST_S)

    # --- claiming -------------------------------------------------------------------------------

    def _claim(self) -> None:
        floors = self._sink.claim(TRIGGER_SPEC, self._token, Birth(START, ()), {})
        self._at = self._noted = least(_let(floors))
        self._lows = {}
        for row in self._sink.rows.spans().values():
            self._claim_span(row.spec)

    def _claim_span(self, spec: SpanSpec) -> None:
        floors = self._sink.claim(spec, self._token)
        if floors is Refusal.GONE:
            raise Again
        self._lows[spec.id] = least(_let(floors))

    # --- landing --------------------------------------------------------------------------------

    def _round(self) -> None:
        """Land up to the next cut; behind it a schema change may be due."""
        ddl = self._source.next_ddl(self._at)
        limit = self._source.end if ddl is None else ddl.position - 1
        ahead = [one.position for one in self._source.entries if self._at < one.position <= limit]
        to = self._draw.choice(ahead) if ahead and self._draw.random() < 0.8 else limit
        self._go_to(to)
        rows = self._sink.rows.spans()
        waiting: dict[str, NoLeader] = {}
        for span, row in rows.items():
            if span in self._lows:
                try:
                    self._land(row, to)
                except NoLeader as error:
                    waiting[span] = error
        if waiting:
            # One table's wait holds up no other: another home may wait for that in turn.
            self._advance(to, waiting)
            raise next(iter(waiting.values()))
        self._at = to
        due = to == limit
        if due or self._draw.random() < 0.4:
            self._advance(to)
        if due and ddl is not None:
            self._write(ddl)

    def _advance(self, to: int, waiting: Collection[str] = ()) -> None:
        """Note how far the tables are; and the feed, if none of them is waiting."""
        asked = [
            (span, self._token, ((WHOLE, low),), to)
            for span, low in self._lows.items()
            if low < to and span not in waiting
        ]
        if not waiting:
            asked.append((TRIGGER, self._token, ((WHOLE, self._noted),), to))
        answers = self._sink.advance(asked)
        for span, answer in answers.items():
            if isinstance(answer, Refusal):
                _let(answer)
            elif span != TRIGGER:
                self._lows[span] = least(answer)
        if not waiting:
            self._noted = to

    def _land(self, row: SpanRow, to: int) -> None:
        span = row.spec.id
        if row.spec.table in self.resync:
            self.resync.discard(row.spec.table)
            # What was begun anew and left is ended by who has come past it. A log goes on; not
            # this one.
            if self._present() + _BEYOND < self._source.end:
                self._renew(row)
        if row.dropped:
            self._sink.landed(span, self._token, to)
            self._lows[span] = to
            return
        if not row.copied:
            self._copy(row)
            raise Again
        low = self._lows[span]
        entries = self._source.changes(row.spec.table, low, to)
        if low >= to or not entries:
            return
        try:
            table = self._sink.tables.open(row)
            changes = changes_table(entries, table.ingest.schema)
            table.land(self._token, changes, to, after=low)
        except (TableDead, BatchOvertaken):
            self._claim_span(row.spec)
            raise Again from None
        except StaleOwner:
            raise Outdated from None
        self._sink.landed(span, self._token, to)
        self._lows[span] = to
        self._story.tell("landed", table=row.spec.table, incarnation=row.incarnation, to=to)

    # --- schema changes -------------------------------------------------------------------------

    def _write(self, entry: Entry) -> None:
        table = entry.table
        self._go_to(entry.position)
        ddl = Ddl(entry.position, _KIND[entry.kind], (table,))
        births = ()
        after = {}
        if entry.kind == "create":
            births = (SpanSpec(f"{table}@{entry.position}", table),)
        if entry.kind != "drop":
            after = {table: self._as(table, entry.position)}
        answer = self._sink.write_ddl(self._token, ddl, births, after, frozenset())
        if answer is Refusal.BEHIND:
            raise Again
        self._at = self._noted = _let(answer)
        if entry.kind == "drop":
            gone = [span for span in self._lows if span.split("@")[0] == table]
            for span in gone:
                del self._lows[span]
            self._story.tell("source drop", table=table, before=entry.position)
        for spec in births:
            self._claim_span(spec)

    def _as(self, table: str, position: int) -> LakeTable:
        return LakeTable(table, rows_schema(wide=self._source.wide(table, position)), ("id",))

    # --- copies ---------------------------------------------------------------------------------

    def _present(self) -> int:
        """Where the source stands: as far as anybody has come, and no copy is of an earlier
        moment."""
        found = [int(path.read_text() or 0) for path in self._presents.parent.glob("present-*")]
        return max(found, default=START)

    def _go_to(self, position: int) -> None:
        """The source has come so far."""
        if position > self._present():
            half = self._presents.with_name(f"half-{self._home}-{self._number}")
            half.write_text(str(position))
            half.replace(self._presents)

    def _renew(self, row: SpanRow) -> None:
        """Begin the table anew, at a position that no other does: another home's is another."""
        table = row.spec.table
        position = self._present() + (3 if self._home == "a" else 7)
        if position % 10 not in {3, 7} or self._source.life(table, position) is None:
            # A schema change is just about to be made, or the table is gone there. Sources go on,
            # whoever of its feeds waits for whom.
            self._go_to(min(self._present() // 10 * 10 + 10, self._source.end))
            return
        refusal = self._sink.copies.renew(
            row.spec.id, self._token, position, self._as(table, position)
        )
        if refusal is not None:
            _let(refusal)
        self._story.tell("resync", table=table, incarnation=position)
        raise Again

    def _copy(self, row: SpanRow) -> None:
        """Bring the rows of a table that was begun anew; or have those that the leader brings."""
        span, copies = row.spec.id, self._sink.copies
        if self._sink.head.token() is None:
            refusal = copies.joined(span, self._token, self._lows[span])
        elif _let(copies.taken(span, self._token)):
            self._renew(row)
            return
        else:
            settled = max(self._present(), row.incarnation)
            _let(copies.begin_run(span, self._token))
            _let(copies.plan(span, self._token, [(None, None)]))
            rows = rows_table(
                self._source.rows(row.spec.table, row.incarnation, settled) or {},
                rows_schema(wide=self._source.wide(row.spec.table, settled)),
            )
            stable = self._sink.tables.place_of(row).child(STABLE)
            try:
                files = (write_file(stable, rows, ["id"]),) if rows.num_rows else ()
            except TableDead:  # claimed again, it learns of it
                raise Again from None
            _let(copies.chunk_landed(span, self._token, 0, files, rows.num_rows, 0, "s"))
            refusal = copies.land(span, self._token, settled)
        if refusal is not None:
            _let(refusal)
        self._story.tell("copied", table=row.spec.table, incarnation=row.incarnation)


def _let(answer: Any) -> Any:
    """What the fence has let happen."""
    if answer is Refusal.NEWER or answer is Refusal.CLOSED:
        raise Outdated
    if isinstance(answer, Refusal):
        raise Again
    return answer
