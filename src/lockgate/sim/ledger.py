"""The ledger: for every key of every table of every feed, up to where it has been applied.

It is kept beside the sink and knows nothing of the sink's fence. Each transaction that
committed is entered with what it *claims* to have done; whatever does not go on exactly
from where the key stood is a gap or a repetition, whoever did it and whyever.
"""

from itertools import pairwise
from typing import NoReturn

from lockgate.model.ddl import Ddl, DdlKind
from lockgate.model.floors import Floors
from lockgate.model.ids import Epoch, FeedId, SpanId, TableId, Token
from lockgate.model.positions import Position
from lockgate.model.spans import TRIGGER, Birth, KeyRange, Lineage, SpanSpec
from lockgate.sim.rows import SinkFeed, SpanRow
from lockgate.sim.source import KEYS, Change, keys_in
from lockgate.sim.violation import Law, LawBroken, about_feed, about_span


def covers_once(ranges: list[KeyRange]) -> bool:
    """True when the ranges cover every key exactly once."""
    return tiled(ranges) == (b"", None)


def tiled(ranges: list[KeyRange]) -> tuple[bytes, bytes | None] | None:
    """From where to where the ranges reach, each beginning where another ends; or None."""
    if not ranges:
        return None
    ordered = sorted(ranges, key=lambda keys: keys.low)
    for left, right in pairwise(ordered):
        if not left.touches(right):
            return None
    return ordered[0].low, ordered[-1].high


class TableLedger:
    """Of one table: per key, the position it is applied up to and the span it belongs to."""

    __slots__ = ("at", "owner")

    def __init__(self, position: Position) -> None:
        self.at: list[Position] = [position] * len(KEYS)
        self.owner: list[SpanId] = [""] * len(KEYS)


class FeedLedger:
    """Of one feed, from its birth at the sink to its tombstone."""

    __slots__ = ("claimed", "open", "stopped", "superseded", "tables", "trigger", "void")

    def __init__(self) -> None:
        self.open = False
        self.trigger: Position = 0
        self.tables: dict[TableId, TableLedger] = {}
        self.claimed: dict[SpanId, Token] = {}
        """The highest token that was ever claimed for a span."""
        self.superseded: set[SpanId] = set()
        """Spans that were cut, joined or dropped: nobody applies to them any more."""
        self.void: Token | None = None
        """Everything up to here was closed."""
        self.stopped: Epoch = 0
        """The feed was recorded as stopped under this epoch: nothing of it is under way."""


class Ledger:
    """Takes down what the sink commits, and raises at the first thing that cannot be right."""

    def __init__(self) -> None:
        self.feeds: dict[FeedId, FeedLedger] = {}
        self.applied_count = 0

    def feed(self, feed: FeedId) -> FeedLedger:
        found = self.feeds.get(feed)
        if found is None:
            found = self.feeds[feed] = FeedLedger()
        return found

    # --- tokens -----------------------------------------------------------------------------

    def claimed(self, feed: SinkFeed, span: SpanId, token: Token, floors: Floors) -> None:
        """A row took a token."""
        book = self.feed(feed.name)
        highest = book.claimed.get(span)
        if highest is not None and token < highest:
            _broken(Law.FENCE, f"{token} claimed after {highest}", feed.name, span)
        if book.void is not None and token <= book.void:
            _broken(Law.FENCE, f"{token} claimed after {book.void} was closed", feed.name, span)
        if span in book.superseded:
            _broken(Law.FENCE, f"{token} claimed a span that is no more", feed.name, span)
        self._not_stopped(book, feed.name, span, token)
        book.claimed[span] = token
        if span == TRIGGER:
            return
        table = book.tables.get(feed.spans[span].spec.table)
        if table is None:
            _broken(Law.DRAIN, "a span of a dropped table was claimed", feed.name, span)
        for keys, position in floors:
            for key in keys_in(keys):
                if table.at[key] != position:
                    what = f"key {key} is at {table.at[key]}, its row says {position}"
                    _broken(Law.TOGETHER, what, feed.name, span)
                if table.owner[key] != span:
                    what = f"key {key} belongs to {table.owner[key]}"
                    _broken(Law.COVER, what, feed.name, span)

    def _under_token(self, book: FeedLedger, feed: FeedId, span: SpanId, token: Token) -> None:
        highest = book.claimed.get(span)
        if token != highest:
            what = f"a transaction of {token} committed; {highest} is the newest claimed"
            _broken(Law.FENCE, what, feed, span)
        if book.void is not None and token <= book.void:
            what = f"a transaction of {token} committed after {book.void} was closed"
            _broken(Law.FENCE, what, feed, span)
        self._not_stopped(book, feed, span, token)

    def _not_stopped(self, book: FeedLedger, feed: FeedId, span: SpanId, token: Token) -> None:
        if 0 < token.epoch <= book.stopped:
            what = f"a transaction of {token} committed after epoch {book.stopped} was stopped"
            _broken(Law.FENCE, what, feed, span)

    def stopped(self, feed: FeedId, epoch: Epoch) -> None:
        """The feed rests; only a newer owner may let it run again."""
        book = self.feed(feed)
        book.stopped = max(book.stopped, epoch)

    # --- a feed's first and last ------------------------------------------------------------

    def born(self, feed: SinkFeed, token: Token, birth: Birth) -> None:
        """The first claim made the feed's rows."""
        book = self.feed(feed.name)
        if book.open:
            _broken(Law.COVER, f"born again under {token}", feed.name, TRIGGER)
        book.open = True
        book.trigger = birth.position
        book.tables = {}
        book.claimed = {}
        for table in feed.tables:
            self._table_born(book, feed.name, table, birth.position, birth.spans)

    def _table_born(
        self,
        book: FeedLedger,
        feed: FeedId,
        table: TableId,
        position: Position,
        births: tuple[SpanSpec, ...],
    ) -> None:
        specs = [spec for spec in births if spec.table == table]
        if not covers_once([spec.range for spec in specs]):
            _broken(Law.COVER, f"the first spans of {table} do not cover it", feed)
        if table in book.tables:
            _broken(Law.DRAIN, f"{table} was created while it exists", feed)
        ledger = book.tables[table] = TableLedger(position)
        for spec in specs:
            if spec.id in book.superseded or spec.id in book.claimed:
                _broken(Law.COVER, "a span's identity was used again", feed, spec.id)
            for key in keys_in(spec.range):
                ledger.owner[key] = spec.id

    def closed(self, feed: SinkFeed, token: Token, forget: bool) -> None:
        """Every token up to this one is void."""
        book = self.feed(feed.name)
        if book.void is None or token > book.void:
            book.void = token
        if forget:
            book.open = False
            book.superseded.update(span for span in book.claimed if span != TRIGGER)
            book.tables = {}

    def descended(self, feed: SinkFeed, lineage: Lineage) -> None:
        """Rows of a split's or merge's sources became its targets' rows."""
        book = self.feed(feed.name)
        owned: dict[SpanId, list[int]] = {source: [] for source in lineage.sources}
        name = lineage.targets[0].table
        table = book.tables.get(name)
        if table is None:
            _broken(Law.DRAIN, "spans of a dropped table were cut or joined", feed.name)
        for key, owner in enumerate(table.owner):
            if owner in owned:
                owned[owner].append(key)
        before = sorted(key for keys in owned.values() for key in keys)
        after = sorted(key for target in lineage.targets for key in keys_in(target.range))
        if before != after or tiled([target.range for target in lineage.targets]) is None:
            _broken(Law.COVER, f"{lineage} covers {after}, before it {before}", feed.name)
        for target in lineage.targets:
            for key in keys_in(target.range):
                table.owner[key] = target.id
        book.superseded.update(lineage.sources)

    # --- data -------------------------------------------------------------------------------

    def applied(
        self,
        feed: SinkFeed,
        row: SpanRow,
        token: Token,
        floors: Floors,
        to: Position,
        changes: list[Change],
    ) -> None:
        """A span's transaction committed."""
        name, span = feed.name, row.spec.id
        self.applied_count += 1
        book = self.feed(name)
        if span in book.superseded:
            _broken(Law.FENCE, f"a transaction of {token} on a span that is no more", name, span)
        self._under_token(book, name, span, token)
        ledger = book.tables.get(row.spec.table)
        if ledger is None:
            _broken(Law.DRAIN, f"{token} applied to a dropped table", name, span)
        log = feed.source.logs[row.spec.table]
        table = feed.tables[row.spec.table]
        at, owner, rows = ledger.at, ledger.owner, table.rows
        after = row.floors
        for keys, start in floors:
            if start < to:
                ddl = feed.source.next_ddl(row.spec.table, start)
                if ddl is not None and ddl.position <= to:
                    _broken(Law.DRAIN, f"{token} went from {start} to {to} past {ddl}", name, span)
            for key in keys_in(keys):
                if at[key] != start:
                    kind = "a gap" if at[key] < start else "done twice"
                    what = f"key {key} is at {at[key]}, {token} goes on from {start}: {kind}"
                    _broken(Law.COVER, what, name, span)
                if owner[key] != span:
                    _broken(Law.COVER, f"key {key} belongs to {owner[key]}", name, span)
                if start < to:
                    at[key] = to
                if rows[key] != log.value_at(key, at[key]):
                    what = f"key {key} at {at[key]} is {rows[key]}"
                    what += f", at the source {log.value_at(key, at[key])}"
                    _broken(Law.COVER, what, name, span)
        for keys, position in after:
            for key in keys_in(keys):
                if at[key] != position:
                    what = f"key {key} is applied up to {at[key]}, its row says {position}"
                    _broken(Law.TOGETHER, what, name, span)
        for change in changes:
            if change.version != table.version:
                what = f"{change} met version {table.version} of {row.spec.table}"
                _broken(Law.DRAIN, what, name, span)

    def advanced(self, feed: SinkFeed, token: Token, to: Position) -> None:
        """The trigger moved on over what is not DDL."""
        book = self.feed(feed.name)
        self._under_token(book, feed.name, TRIGGER, token)
        ddl = feed.source.next_ddl(None, book.trigger)
        if to < book.trigger or (ddl is not None and ddl.position <= to):
            what = f"the trigger went from {book.trigger} to {to} past {ddl}"
            _broken(Law.DRAIN, what, feed.name, TRIGGER)
        book.trigger = to

    def ddl(self, feed: SinkFeed, token: Token, ddl: Ddl, births: tuple[SpanSpec, ...]) -> None:
        """The trigger wrote a schema change (the tables are as they were before it)."""
        name = feed.name
        book = self.feed(name)
        self._under_token(book, name, TRIGGER, token)
        if ddl != feed.source.next_ddl(None, book.trigger):
            _broken(Law.DRAIN, f"{ddl} is not the next after {book.trigger}", name, TRIGGER)
        book.trigger = ddl.position
        if ddl.kind is DdlKind.CREATE:
            for table in ddl.tables:
                self._table_born(book, name, table, ddl.position, births)
            return
        for table in [table for table in book.tables if ddl.concerns(table)]:
            ledger = book.tables[table]
            for key, position in enumerate(ledger.at):
                if position != ddl.position - 1:
                    what = f"{ddl} was written while {table} key {key} was at {position}"
                    _broken(Law.DRAIN, what, name, ledger.owner[key])
            ledger.at = [ddl.position] * len(KEYS)
            if ddl.kind is DdlKind.DROP:
                book.superseded.update(ledger.owner)
                del book.tables[table]


def _broken(law: Law, what: str, feed: FeedId, span: SpanId = "") -> NoReturn:
    about = (about_feed(feed), about_span(feed, span)) if span else (about_feed(feed),)
    where = f"{feed}/{span}" if span else feed
    raise LawBroken(law, f"{where}: {what}", about)
