"""The real sink against its picture: the same verbs get the same answers and leave the same rows.

`sim.sink.Sink` is what the simulator holds the whole control plane to. Whatever is done to it here
is done to a PostgreSQL as well, data and DDL included; after every step both must say the same.
"""

import itertools
from random import Random

import psycopg
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from psycopg import sql

from lockgate.endpoints.postgres.sink.fence import PostgresSink
from lockgate.endpoints.postgres.sink.gate import enter, leave
from lockgate.endpoints.postgres.sink.rows import Refused, lock_spans, peek_feed
from lockgate.endpoints.postgres.sink.session import open_session
from lockgate.model.ddl import Ddl, DdlKind
from lockgate.model.floors import Floors, Refusal, least
from lockgate.model.ids import Token
from lockgate.model.positions import Position
from lockgate.model.spans import TRIGGER, TRIGGER_SPEC, WHOLE, Birth, KeyRange, Lineage, SpanSpec
from lockgate.sim.ledger import Ledger
from lockgate.sim.probes import Probes
from lockgate.sim.rows import SinkFeed
from lockgate.sim.sink import Sink
from lockgate.sim.source import KEYS, Change, Source
from tests.endpoints.postgres.sink.target import NEVER, Target

NAMES = [f"t{number:02}" for number in range(4)]
POINTS = [b"\x20", b"\x40", b"\x80", b"\xc0"]
_NUMBERS = itertools.count(1)

steps = st.integers(0, 2)
picks = st.integers(0, 99)
names = st.sampled_from(NAMES)


class Silent(Ledger):
    """Takes nothing down: verbs are tried here in orders that a sane world does not have."""

    def claimed(self, *_: object) -> None: ...
    def born(self, *_: object) -> None: ...
    def closed(self, *_: object) -> None: ...
    def descended(self, *_: object) -> None: ...
    def applied(self, *_: object) -> None: ...
    def advanced(self, *_: object) -> None: ...
    def ddl(self, *_: object) -> None: ...


class Both(RuleBasedStateMachine):
    """One feed, at both sinks."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self.feed = f"model{next(_NUMBERS)}"
        source = Source(Random(1), tables=len(NAMES), ddl_share=0.0, names=len(NAMES))
        self.picture = Sink(lambda _: source, Silent(), Probes())
        self.real = PostgresSink(url, NEVER)
        self.admin = psycopg.connect(url, autocommit=True)
        self.task = open_session(url, self.feed, "task")
        self.tokens = [Token(1, 1, 1)]
        """All that were given out."""
        self.spans_made = 0
        self.last_value = 0
        self.lineages: list[Lineage] = []
        """Splits and merges that were begun; they may have happened, or be out of date."""
        self.floors: list[tuple[str, Token, Floors]] = [(TRIGGER, Token(1, 1, 1), ((WHOLE, 0),))]
        """What was ever claimed."""
        self.admin.execute(f"CREATE SCHEMA {self.feed}")
        self.same(Token(1, 1, 1), Birth(5, tuple(self.new_span(name) for name in NAMES[:2])))

    def teardown(self) -> None:
        self.admin.execute(f"DROP SCHEMA {self.feed} CASCADE")
        self.admin.close()
        self.task.close()
        self.real.disconnect()

    # --- helpers --------------------------------------------------------------------------------

    def token(self, pick: int) -> Token:
        """The next one, or, now and then, one of a new owner, or one that was used before."""
        last = self.tokens[-1]
        if pick % 4 == 0:
            return self.tokens[pick // 4 % len(self.tokens)]
        if pick % 10 == 9:
            self.tokens.append(Token(last.epoch + 1, 1, pick % 3))
        else:
            self.tokens.append(Token(last.epoch, last.seq + 1, pick % 3))
        return self.tokens[-1]

    def new_span(self, table: str, keys: KeyRange = WHOLE) -> SpanSpec:
        self.spans_made += 1
        return SpanSpec(f"s{self.spans_made:03}", table, keys)

    @property
    def at(self) -> SinkFeed:
        return self.picture.feed(self.feed)

    def table(self, name: str) -> sql.Composed:
        return sql.SQL("{}").format(sql.Identifier(self.feed, name))

    def create(self, name: str) -> sql.Composed:
        return sql.SQL("CREATE TABLE {} (key int PRIMARY KEY, value bigint)").format(
            self.table(name)
        )

    def span(self, pick: int) -> SpanSpec:
        """One that is there, or, now and then, one that is not."""
        there = [row.spec for row in self.at.spans.values()]
        return there[pick % len(there)] if there and pick % 10 else SpanSpec("ghost", "t00")

    def same(self, token: Token, birth: Birth | None) -> None:
        """Claim the trigger's row at both; a birth makes the tables."""
        reborn = self.at.row is None or self.at.row.position is None
        expected = self.picture.claim(self.feed, TRIGGER_SPEC, token, None, birth)
        assert self.real.claim(self.feed, TRIGGER_SPEC, token, None, birth) == expected
        self.remember(TRIGGER, token, expected)
        if reborn and birth is not None and not isinstance(expected, Refusal):
            self.admin.execute(f"DROP SCHEMA {self.feed} CASCADE")
            self.admin.execute(f"CREATE SCHEMA {self.feed}")
            for name, table in self.at.tables.items():
                self.admin.execute(self.create(name))
                table.version = 1

    def remember(self, span: str, token: Token, answer: Floors | Refusal) -> None:
        if not isinstance(answer, Refusal):
            self.floors.append((span, token, answer))

    # --- verbs ----------------------------------------------------------------------------------

    @rule(by=picks, pick=picks)
    def claim(self, by: int, pick: int) -> None:
        spec, token = self.span(pick), self.token(by)
        expected = self.picture.claim(self.feed, spec, token, None, None)
        assert self.real.claim(self.feed, spec, token) == expected
        self.remember(spec.id, token, expected)

    @rule(by=picks, born=st.booleans(), position=st.integers(0, 9))
    def claim_trigger(self, by: int, born: bool, position: Position) -> None:
        birth = Birth(position, tuple(self.new_span(name) for name in NAMES[:2]))
        self.same(self.token(by), birth if born else None)

    @rule(pick=picks, points=st.sets(st.sampled_from(POINTS), min_size=1, max_size=2))
    def begin_split(self, pick: int, points: set[bytes]) -> None:
        spec = self.span(pick)
        try:
            ranges = spec.range.divided(tuple(sorted(points)))
        except ValueError:
            return
        targets = tuple(self.new_span(spec.table, keys) for keys in ranges)
        self.lineages.append(Lineage((spec.id,), targets))

    @rule(pick=picks)
    def begin_merge(self, pick: int) -> None:
        left = self.span(pick)
        for row in list(self.at.spans.values()):
            if row.spec.table == left.table and left.range.touches(row.spec.range):
                keys = KeyRange(left.range.low, row.spec.range.high)
                target = self.new_span(left.table, keys)
                self.lineages.append(Lineage((left.id, row.spec.id), (target,)))
                return

    @precondition(lambda self: self.lineages)
    @rule(by=picks, pick=picks, which=picks)
    def claim_with_lineage(self, by: int, pick: int, which: int) -> None:
        lineage = self.lineages[-1 - pick % min(len(self.lineages), 3)]
        spec, token = lineage.targets[which % len(lineage.targets)], self.token(by)
        expected = self.picture.claim(self.feed, spec, token, lineage, None)
        assert self.real.claim(self.feed, spec, token, lineage) == expected
        self.remember(spec.id, token, expected)

    @rule(step=st.integers(1, 3), pick=picks)
    def level(self, step: int, pick: int) -> None:
        """Everybody is claimed anew and moved, in one transaction, to where a DDL may come next."""
        row = self.at.row
        if row is None or row.position is None or row.token.epoch > self.tokens[-1].epoch:
            return
        to = max([row.position, *(span.position for span in self.at.spans.values())]) + step
        asked = []
        for spec in [TRIGGER_SPEC, *(span.spec for span in self.at.spans.values())]:
            token = self.token(pick | 1)
            floors = self.picture.claim(self.feed, spec, token, None, None)
            assert self.real.claim(self.feed, spec, token) == floors
            if isinstance(floors, Refusal):
                return
            asked.append((spec.id, token, floors, to))
        expected = {
            span: self.picture.apply(self.feed, span, token, floors, to, [])
            for span, token, floors, to in asked
        }
        assert self.real.advance(self.feed, asked) == expected
        for span, token, _, _ in asked:
            self.remember(span, token, expected[span])

    @rule(pick=picks, step=steps)
    def split_and_merge_unevenly(self, pick: int, step: int) -> None:
        """Two halves at different positions become one row with two floors."""
        count = len(self.lineages)
        self.begin_split(pick, {b"\x40"})
        if len(self.lineages) == count:
            return
        left, right = self.lineages[-1].targets
        self.claim_with_lineage(1, 0, 0)
        self.claim_with_lineage(1, 0, 1)
        self.apply(pick % 2, step, {1, 2})
        self.lineages.append(Lineage((left.id, right.id), (self.new_span(left.table, WHOLE),)))
        self.claim_with_lineage(1, 0, 0)

    @rule(pick=picks, step=steps, keys=st.sets(st.integers(0, len(KEYS) - 1), max_size=3))
    def apply(self, pick: int, step: int, keys: set[int]) -> None:
        """By somebody who claimed once: maybe the owner, maybe long ago."""
        span, token, floors = self.floors[-1 - pick % min(len(self.floors), 6)]
        to = least(floors) + step
        self.last_value += 1
        changes = [Change(to, key, self.last_value, 1) for key in sorted(keys)]
        if span == TRIGGER:
            changes = []
        expected = self.picture.apply(self.feed, span, token, floors, to, changes)
        if changes:
            found = self.apply_for_real(span, token, floors, to, changes)
        else:
            found = self.real.advance(self.feed, [(span, token, floors, to)])[span]
        assert found == expected
        self.remember(span, token, expected)

    def apply_for_real(
        self, span: str, token: Token, floors: Floors, to: Position, changes: list[Change]
    ) -> Floors | Refusal:
        with self.task.cursor() as cursor:
            try:
                enter(cursor, self.feed, span, token, floors, share=False)
                table = self.at.spans[span].spec.table
                cursor.executemany(
                    sql.SQL(
                        "INSERT INTO {} (key, value) VALUES (%s, %s) "
                        "ON CONFLICT (key) DO UPDATE SET value = excluded.value"
                    ).format(self.table(table)),
                    [(change.key, change.value) for change in changes],
                )
                moved = leave(cursor, self.feed, span, token, floors, to)
                self.task.commit()
            except Refused as refused:
                self.task.rollback()
                return refused.refusal
            return moved

    @rule(
        kind=st.sampled_from(DdlKind),
        step=st.integers(0, 2),
        wanted=st.sets(names, min_size=1, max_size=2),
        every=st.booleans(),
        pick=picks,
        halves=st.booleans(),
    )
    def write_ddl(
        self, kind: DdlKind, step: int, wanted: set[str], every: bool, pick: int, halves: bool
    ) -> None:
        there = set(self.at.tables)
        tables = tuple(sorted(wanted - there if kind is DdlKind.CREATE else wanted & there))
        every = every and kind in (DdlKind.ALTER, DdlKind.SYNC)
        if not tables and not every:
            return
        row = self.at.row
        start = row.position if row is not None and row.position is not None else 0
        ddl = Ddl(start + step, kind, () if every else tables, every)
        births: tuple[SpanSpec, ...] = ()
        if kind is DdlKind.CREATE:
            cut = (KeyRange(b"", b"\x80"), KeyRange(b"\x80")) if halves else (WHOLE,)
            births = tuple(self.new_span(name, keys) for name in tables for keys in cut)
        triggers = [token for span, token, _ in self.floors if span == TRIGGER]
        token = row.token if row is not None and pick % 4 else triggers[pick % len(triggers)]
        statements = self.statements(kind, sorted(there) if every else tables)
        expected = self.picture.write_ddl(self.feed, token, ddl, births)
        assert self.real.write_ddl(self.feed, token, ddl, births, statements) == expected
        if kind is DdlKind.CREATE and expected == ddl.position and step:
            for name in tables:
                self.at.tables[name].version = 1

    def statements(self, kind: DdlKind, tables: tuple[str, ...] | list[str]) -> list[sql.Composed]:
        """An ALTER adds a column, so that their number tells how often it was done."""
        self.last_value += 1
        return [
            {
                DdlKind.CREATE: self.create(name),
                DdlKind.DROP: sql.SQL("DROP TABLE {}").format(self.table(name)),
                DdlKind.ALTER: sql.SQL("ALTER TABLE {} ADD COLUMN {} int").format(
                    self.table(name), sql.Identifier(f"c{self.last_value}")
                ),
                DdlKind.SYNC: sql.SQL("SELECT 1"),
            }[kind]
            for name in tables
        ]

    @rule(by=picks, pick=picks)
    def close(self, by: int, pick: int) -> None:
        if pick % 3 == 0:  # a closed feed is dull
            token, forget = self.token(by), pick % 2 == 0
            expected = self.picture.close(self.feed, token, forget)
            assert self.real.close(self.feed, token, forget) == expected

    # --- both say the same ----------------------------------------------------------------------

    @invariant()
    def the_rows_are_the_same(self) -> None:
        with self.admin.transaction(), self.admin.cursor() as cursor:
            row = peek_feed(cursor, self.feed)
            spans = lock_spans(cursor, self.feed)
        picture = self.at.row
        assert picture is not None
        assert row == (picture.token, picture.position, picture.closed)
        found = {one.spec.id: (one.spec, one.token, one.floors) for one in spans}
        assert found == {
            span: (one.spec, one.token, one.floors) for span, one in self.at.spans.items()
        }

    @invariant()
    def the_positions_are_the_least_floors(self) -> None:
        found = self.admin.execute(
            "SELECT span, position FROM lockgate.progress WHERE feed = %s", (self.feed,)
        ).fetchall()
        assert dict(found) == {span: row.position for span, row in self.at.spans.items()}

    @invariant()
    def the_data_is_the_same(self) -> None:
        for name, table in self.at.tables.items():
            found = self.admin.execute(
                sql.SQL("SELECT * FROM {}").format(self.table(name)), prepare=False
            )
            assert found.description is not None
            assert len(found.description) == table.version + 1
            rows = {key: value for key, value, *_ in found.fetchall()}
            assert [rows.get(key) for key in range(len(KEYS))] == table.rows


def test_the_real_sink_is_as_its_picture(target: Target) -> None:
    run_state_machine_as_test(
        lambda: Both(target.url),
        settings=settings(
            max_examples=12,
            stateful_step_count=30,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
