"""The sink: tables, and beside them the rows that say who may write what and from where on.

One row per feed (it is the trigger dispatcher's) and one per span. Every verb is one
transaction: it happens at one moment, as a whole, or not at all.

    claim      raise a row's token, learn where to go on; the only way to a new token
    apply      token and floors must be the row's; rows and floors change together
    write_ddl  nobody concerned may be behind; tables, span rows and feed row change together
    close      void all lower tokens; with `forget`, leave a tombstone only
"""

from collections.abc import Callable

from lockgate.model.ddl import Ddl, DdlKind
from lockgate.model.floors import Floors, Refusal, joined, raised
from lockgate.model.ids import FeedId, SpanId, Token
from lockgate.model.positions import Position
from lockgate.model.spans import TRIGGER, WHOLE, Birth, Lineage, SpanSpec
from lockgate.sim.ledger import Ledger
from lockgate.sim.probes import Probe, Probes
from lockgate.sim.rows import FeedRow, SinkFeed, SinkTable, SpanRow
from lockgate.sim.source import KEYS, Change, Source


class Sink:
    """The target of all feeds. It tells the ledger of everything that it commits."""

    def __init__(
        self, source_of: Callable[[FeedId], Source], ledger: Ledger, probes: Probes
    ) -> None:
        self._source_of = source_of
        self._ledger = ledger
        self._probes = probes
        self.feeds: dict[FeedId, SinkFeed] = {}
        self.down = False
        """Nobody can reach it; whoever tries hears nothing, and cannot know."""

    def feed(self, feed: FeedId) -> SinkFeed:
        found = self.feeds.get(feed)
        if found is None:
            found = self.feeds[feed] = SinkFeed(feed, self._source_of(feed))
        return found

    # --- claim ------------------------------------------------------------------------------

    def claim(
        self,
        name: FeedId,
        spec: SpanSpec,
        token: Token,
        lineage: Lineage | None,
        birth: Birth | None,
    ) -> Floors | Refusal:
        """Put `token` into the row, which voids every lower one; answer from where to go on."""
        feed = self.feed(name)
        if spec.id == TRIGGER:
            return self._claim_feed(feed, token, birth)
        row = feed.spans.get(spec.id) or self._make_row(feed, spec, token, lineage)
        if isinstance(row, Refusal):
            self._probes.hit(Probe.CLAIM_GONE)
            return row
        if token < row.token:
            self._probes.hit(Probe.CLAIM_NEWER)
            return Refusal.NEWER
        row.token = token
        self._ledger.claimed(feed, spec.id, token, row.floors)
        return row.floors

    def _claim_feed(self, feed: SinkFeed, token: Token, birth: Birth | None) -> Floors | Refusal:
        row = feed.row
        if row is not None and row.closed and row.token.epoch >= token.epoch:
            return Refusal.CLOSED
        if row is None or row.closed or row.position is None:
            if row is not None and token <= row.token:
                return Refusal.NEWER
            if birth is None:
                return Refusal.GONE
            row = self._give_birth(feed, token, birth)
        if token < row.token:
            return Refusal.NEWER
        row.token = token
        assert row.position is not None
        floors = ((WHOLE, row.position),)
        self._ledger.claimed(feed, TRIGGER, token, floors)
        return floors

    def _give_birth(self, feed: SinkFeed, token: Token, birth: Birth) -> FeedRow:
        """The first rows of the feed, over a copy of the tables as of the birth's position."""
        if feed.row is not None and feed.row.closed:
            self._probes.hit(Probe.FEED_REBORN)
        row = feed.row = FeedRow(token, birth.position)
        # Under its maker's epoch, or a dispatcher of a closed owner could claim a row that was
        # born after the close, under the span's same name.
        floor = token.floor()
        feed.spans = {
            spec.id: SpanRow(spec, floor, ((spec.range, birth.position),)) for spec in birth.spans
        }
        feed.tables = {}
        for spec in birth.spans:
            log = feed.source.logs[spec.table]
            rows = [log.value_at(key, birth.position) for key in range(len(KEYS))]
            feed.tables[spec.table] = SinkTable(log.version_at(birth.position), rows)
        self._ledger.born(feed, token, birth)
        return row

    def _make_row(
        self, feed: SinkFeed, spec: SpanSpec, token: Token, lineage: Lineage | None
    ) -> SpanRow | Refusal:
        """Turn the sources' rows of a committed split or merge into the targets' rows."""
        if lineage is None:
            return Refusal.GONE
        sources = [feed.spans[source] for source in lineage.sources if source in feed.spans]
        if len(sources) != len(lineage.sources):
            return Refusal.GONE
        highest = max(source.token for source in sources)
        if token <= highest:
            return Refusal.NEWER
        for source in lineage.sources:
            del feed.spans[source]
        for target in lineage.targets:
            floors = [
                (part, position)
                for source in sources
                for keys, position in source.floors
                if (part := keys.intersection(target.range)) is not None
            ]
            feed.spans[target.id] = SpanRow(target, highest, joined(floors))
        self._observe(lineage, sources)
        self._ledger.descended(feed, lineage)
        return feed.spans.get(spec.id, Refusal.GONE)

    def _observe(self, lineage: Lineage, sources: list[SpanRow]) -> None:
        if len(lineage.targets) > 1:
            self._probes.hit(Probe.SPLIT_AT_SINK)
            return
        self._probes.hit(Probe.MERGE_AT_SINK)
        if len({source.position for source in sources}) > 1:
            self._probes.hit(Probe.MERGE_UNEVEN)

    # --- apply ------------------------------------------------------------------------------

    def apply(
        self,
        name: FeedId,
        span: SpanId,
        token: Token,
        floors: Floors,
        to: Position,
        changes: list[Change],
    ) -> Floors | Refusal:
        """Write what lies between `floors` and `to`, and that it is written, together."""
        feed = self.feed(name)
        if span == TRIGGER:
            return self._advance_feed(feed, token, floors, to)
        row = feed.spans.get(span)
        if row is None:
            return Refusal.GONE
        if not self._may(row.token, token):
            return Refusal.NEWER
        if row.floors != floors:
            return Refusal.MOVED
        table = feed.tables[row.spec.table]
        self._write(table, changes)
        row.floors = self._moved(floors, to)
        self._ledger.applied(feed, row, token, floors, to, changes)
        return row.floors

    def _may(self, held: Token, token: Token) -> bool:
        """The fence."""
        return held == token

    def _write(self, table: SinkTable, changes: list[Change]) -> None:
        rows = table.rows
        for change in changes:
            rows[change.key] = change.value

    def _moved(self, floors: Floors, to: Position) -> Floors:
        return raised(floors, to)

    def _advance_feed(
        self, feed: SinkFeed, token: Token, floors: Floors, to: Position
    ) -> Floors | Refusal:
        row = feed.row
        if row is None or row.closed or row.position is None:
            return Refusal.CLOSED
        if not self._may(row.token, token):
            return Refusal.NEWER
        if row.position != floors[0][1]:
            return Refusal.MOVED
        row.position = to
        self._ledger.advanced(feed, token, to)
        return ((WHOLE, to),)

    # --- DDL --------------------------------------------------------------------------------

    def write_ddl(
        self, name: FeedId, token: Token, ddl: Ddl, births: tuple[SpanSpec, ...]
    ) -> Position | Refusal:
        """Change the tables, and move the rows of everybody concerned behind the change."""
        feed = self.feed(name)
        row = feed.row
        if row is None or row.closed or row.position is None:
            return Refusal.CLOSED
        if not self._may(row.token, token):
            return Refusal.NEWER
        if ddl.position <= row.position:
            self._probes.hit(Probe.DDL_WRITTEN_AGAIN)
            return row.position
        concerned = [row for row in feed.spans.values() if ddl.concerns(row.spec.table)]
        if not self._all_there(row.position, concerned, ddl.position - 1):
            return Refusal.BEHIND
        self._ledger.ddl(feed, token, ddl, births)
        for span in concerned:
            span.floors = raised(span.floors, ddl.position)
        self._execute(feed, ddl, births, token.floor())
        row.position = ddl.position
        return row.position

    def _all_there(self, trigger: Position, spans: list[SpanRow], position: Position) -> bool:
        return trigger >= position and all(span.position >= position for span in spans)

    def _execute(
        self, feed: SinkFeed, ddl: Ddl, births: tuple[SpanSpec, ...], floor: Token
    ) -> None:
        if ddl.every_table:
            self._probes.hit(Probe.DDL_EVERY_TABLE)
        elif len(ddl.tables) > 1:
            self._probes.hit(Probe.DDL_MANY_TABLES)
        if ddl.kind is DdlKind.CREATE:
            for spec in births:
                feed.spans[spec.id] = SpanRow(spec, floor, ((spec.range, ddl.position),))
            for name in ddl.tables:
                if any(version == 0 for _, version in feed.source.logs[name].versions):
                    self._probes.hit(Probe.TABLE_RECREATED)
                version = feed.source.logs[name].version_at(ddl.position)
                feed.tables[name] = SinkTable(version, [None] * len(KEYS))
        elif ddl.kind is DdlKind.DROP:
            for name in ddl.tables:
                del feed.tables[name]
            feed.spans = {
                span: row for span, row in feed.spans.items() if row.spec.table not in ddl.tables
            }
        elif ddl.kind is DdlKind.ALTER:
            for name, table in feed.tables.items():
                if ddl.concerns(name):
                    table.version += 1

    # --- close ------------------------------------------------------------------------------

    def close(self, name: FeedId, token: Token, forget: bool) -> bool:
        """Void every lower token of the feed. False: a newer owner is there already."""
        feed = self.feed(name)
        row = feed.row
        if row is None:
            # An unborn feed keeps the token too, or a late first claim would still be let in.
            row = feed.row = FeedRow(token, None)
            self._probes.hit(Probe.CLOSE_UNBORN)
        elif row.token.epoch > token.epoch:
            return False
        row.token = max(row.token, token)
        for span in feed.spans.values():
            span.token = max(span.token, token)
        if forget:
            feed.spans = {}
            row.closed = True
            row.position = None
        self._ledger.closed(feed, token, forget)
        return True
