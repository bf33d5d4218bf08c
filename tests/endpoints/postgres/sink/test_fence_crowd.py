"""A crowd of owners at one feed, all at once, stale ones among them; the data tells who was let in.

Every transaction that applies something writes into a journal, for each key of its span, from where
to where it went and under which token. At the end each key's entries must go on from each other
without gap or overlap, in the order of their tokens, up to where the key's span stands: whatever
was committed by whom, in which interleaving, through splits, merges, schema changes and kills.
"""

import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from random import Random

import psycopg

from lockgate.endpoints.postgres.sink.fence import PostgresSink
from lockgate.endpoints.postgres.sink.gate import (
    Refused,
    enter,
    leave,
    part_landed,
    part_range,
)
from lockgate.endpoints.postgres.sink.parts import Batch
from lockgate.endpoints.postgres.sink.rows import decoded
from lockgate.endpoints.postgres.sink.session import Limits, open_session
from lockgate.model.ddl import Ddl, DdlKind
from lockgate.model.errors import OutcomeUnknown, Transient
from lockgate.model.floors import Floors, Refusal, least
from lockgate.model.ids import Token
from lockgate.model.positions import Position
from lockgate.model.spans import TRIGGER_SPEC, KeyRange, Lineage, SpanSpec
from tests.endpoints.postgres.sink.target import AT_ONCE, Target

KEYS = [bytes([16 + 32 * number]) + bytes(7) for number in range(8)]
WORKERS, STEPS = 6, 40
HASTY = Limits(grace_s=0.1, patience_s=0.5)


class Crowd:
    """What all workers share."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.feed, self.url = target.feed, target.url
        self.journal = f"{target.feed}_journal"
        target.admin.execute(
            f"CREATE TABLE {self.journal} (table_id text, key int, low bigint, high bigint, "
            "epoch bigint, seq bigint)"
        )
        self._lock = threading.Lock()
        self._seq = 10
        self._names = 0
        self.counts: dict[str, int] = {}
        self.abandoned: list[psycopg.Connection] = []

    def token(self) -> Token:
        """The next one; now and then it is a new owner's."""
        with self._lock:
            self._seq += 1
            return Token(1 + self._seq // 40, self._seq, 1)

    def name(self) -> str:
        with self._lock:
            self._names += 1
            return f"n{self._names}"

    def abandon(self, connection: psycopg.Connection) -> None:
        """Keep it open, so that nobody but a claim ends its transaction."""
        self.count("abandoned")
        with self._lock:
            self.abandoned.append(connection)

    def count(self, what: str) -> None:
        with self._lock:
            self.counts[what] = self.counts.get(what, 0) + 1


class Worker:
    """Somebody who believes that the feed is theirs."""

    def __init__(self, crowd: Crowd, seed: int) -> None:
        self.crowd = crowd
        self.feed = crowd.feed
        self.rng = Random(seed)
        self.sink = PostgresSink(crowd.url, HASTY)
        self.held: dict[str, tuple[SpanSpec, Token, Floors]] = {}

    def run(self) -> None:
        verbs = [self.claim] * 2 + [self.apply] * 4 + [self.parts] * 3
        verbs += [self.split, self.merge, self.schema_change, self.advance]
        with self.sink:
            for _ in range(STEPS):
                try:
                    self.rng.choice(verbs)()
                except (Transient, OutcomeUnknown, psycopg.Error):
                    self.crowd.count("ended")

    def spans(self) -> list[SpanSpec]:
        """Those that are there just now."""
        with psycopg.connect(self.crowd.url) as connection:
            found = connection.execute(
                "SELECT span, table_id, low, high FROM lockgate.progress WHERE feed = %s",
                (self.feed,),
            ).fetchall()
        return [SpanSpec(span, table, KeyRange(low, high)) for span, table, low, high in found]

    def mine(self) -> tuple[SpanSpec, Token, Floors]:
        """A span that was claimed, maybe long ago, or is claimed now."""
        while not self.held:
            self.claim()
        return self.rng.choice(list(self.held.values()))

    def keep(self, spec: SpanSpec, token: Token, answer: Floors | Refusal) -> bool:
        if isinstance(answer, Refusal):
            self.crowd.count(f"claim {answer.name}")
            self.held.pop(spec.id, None)
            return False
        self.held[spec.id] = (spec, token, answer)
        return True

    # --- verbs ----------------------------------------------------------------------------------

    def claim(self) -> None:
        spec = self.rng.choice(self.spans())
        token = self.crowd.token()
        self.keep(spec, token, self.sink.claim(self.feed, spec, token))

    def split(self) -> None:
        spec = self.rng.choice(self.spans())
        try:
            ranges = spec.range.divided((bytes([self.rng.randrange(1, 8) * 32]) + bytes(7),))
        except ValueError:
            return
        targets = tuple(SpanSpec(self.crowd.name(), spec.table, keys) for keys in ranges)
        self.turn_over(Lineage((spec.id,), targets))

    def merge(self) -> None:
        specs = self.spans()
        for left in specs:
            for right in specs:
                if left.table == right.table and left.range.touches(right.range):
                    keys = KeyRange(left.range.low, right.range.high)
                    target = SpanSpec(self.crowd.name(), left.table, keys)
                    self.turn_over(Lineage((left.id, right.id), (target,)))
                    return

    def turn_over(self, lineage: Lineage) -> None:
        for spec in lineage.targets:
            token = self.crowd.token()
            if self.keep(spec, token, self.sink.claim(self.feed, spec, token, lineage)):
                self.crowd.count("turned over")

    def apply(self) -> None:
        spec, token, floors = self.mine()
        to = least(floors) + self.rng.randrange(1, 5)
        connection = open_session(self.crowd.url, self.feed, spec.id, limits=HASTY)
        try:
            with connection.cursor() as cursor:
                enter(cursor, self.feed, spec.id, token, floors, share=False)
                self.note(cursor, spec.table, token, floors, to)
                if self.rng.random() < 0.2:  # forgotten in the middle of it
                    self.crowd.abandon(connection)
                    return
                moved = leave(cursor, self.feed, spec.id, token, floors, to)
            connection.commit()
            self.held[spec.id] = (spec, token, moved)
            self.crowd.count("applied")
        except Refused as refused:
            self.crowd.count(f"apply {refused.refusal.name}")
            del self.held[spec.id]
        finally:
            if connection not in self.crowd.abandoned:
                connection.close()

    def parts(self) -> None:
        """A batch in several parts of which some may never come."""
        spec, token, floors = self.mine()
        to = least(floors) + self.rng.randrange(1, 5)
        batch = self.sink.record_batch(self.feed, spec.id, token, floors, to, 3)
        if not isinstance(batch, Batch):
            self.crowd.count(f"batch {batch.name}")
            del self.held[spec.id]
            return
        for part in range(batch.parts):
            if self.rng.random() < 0.9:
                self.part(batch, part, spec, token)
        answer = self.sink.finish_batch(self.feed, spec.id, token)
        if answer is Refusal.BEHIND:  # leave it, as whoever claims next does
            answer = self.sink.claim(self.feed, spec, token)
            self.crowd.count("batch left")
        if self.keep(spec, token, answer):
            self.crowd.count("batch done")

    def part(self, batch: Batch, part: int, spec: SpanSpec, token: Token) -> None:
        keys_of_part = part_range(spec.range, part, batch.parts)
        cut = tuple(
            (keys, position)
            for of_floor, position in batch.floors
            if (keys := of_floor.intersection(keys_of_part)) is not None
        )
        with (
            open_session(self.crowd.url, self.feed, spec.id, limits=HASTY) as connection,
            connection.cursor() as cursor,
        ):
            try:
                enter(cursor, self.feed, spec.id, token, batch.floors, share=True)
                if part_landed(cursor, self.feed, spec.id, part, batch.parts, batch.to):
                    self.note(cursor, spec.table, token, cut, batch.to)
            except Refused as refused:
                connection.rollback()
                self.crowd.count(f"part {refused.refusal.name}")

    def advance(self) -> None:
        asked = [
            (span, token, floors, least(floors)) for span, (_, token, floors) in self.held.items()
        ]
        for span, answer in self.sink.advance(self.feed, asked).items():
            if isinstance(answer, Refusal):
                del self.held[span]

    def schema_change(self) -> None:
        """Of a table whose spans may stand anywhere."""
        token = self.crowd.token()
        found = self.sink.claim(self.feed, TRIGGER_SPEC, token)
        if isinstance(found, Refusal):
            return
        table, at = self.rng.choice(["t00", "t01"]), found[0][1]
        ddl = Ddl(at + 1, DdlKind.ALTER, (table,))

        def change(cursor: psycopg.Cursor) -> None:
            rows = cursor.execute(
                "SELECT floors::text FROM lockgate.progress WHERE feed = %s AND table_id = %s",
                (self.feed, table),
            ).fetchall()
            floors = tuple(floor for (text,) in rows for floor in decoded(text))
            self.note(cursor, table, None, floors, ddl.position)

        answer = self.sink.write_ddl(self.feed, token, ddl, (), change)
        self.crowd.count(f"ddl {answer.name if isinstance(answer, Refusal) else 'written'}")

    def note(
        self,
        cursor: psycopg.Cursor,
        table: str,
        token: Token | None,
        floors: Floors,
        to: Position,
    ) -> None:
        under = (None, None) if token is None else (token.epoch, token.seq)
        rows = [
            (table, number, low, to, *under)
            for keys, low in floors
            for number, key in enumerate(KEYS)
            if key in keys and low < to
        ]
        cursor.executemany(
            f"INSERT INTO {self.crowd.journal} VALUES (%s, %s, %s, %s, %s, %s)", rows
        )


def check(crowd: Crowd) -> None:
    """Every key's entries go on from each other, up to where its span stands."""
    spans = crowd.target.spans()
    for table in ("t00", "t01"):
        for number, key in enumerate(KEYS):
            owners = [
                floor
                for row in spans.values()
                if row.spec.table == table
                for floor in row.floors
                if key in floor[0]
            ]
            assert len(owners) == 1, (table, key, owners)
            entries = crowd.target.admin.execute(
                f"SELECT low, high, epoch, seq FROM {crowd.journal} "
                "WHERE table_id = %s AND key = %s ORDER BY low, high",
                (table, number),
            ).fetchall()
            at = 0
            for low, high, *_ in entries:
                assert low == at, (table, number, entries)
                at = high
            assert at == owners[0][1]
            # A schema change is written under the trigger's token, which is in no order to theirs.
            tokens = [(epoch, seq) for _, _, epoch, seq in entries if epoch is not None]
            assert all(one <= other for one, other in pairwise(tokens)), entries


def test_a_crowd_of_owners_leaves_no_gap_and_no_overlap(target: Target) -> None:
    crowd = Crowd(target)
    workers = [Worker(crowd, seed) for seed in range(WORKERS)]
    try:
        with ThreadPoolExecutor(WORKERS) as threads:
            for done in [threads.submit(worker.run) for worker in workers]:
                done.result()
        with PostgresSink(crowd.url, AT_ONCE) as sink:  # ends who was forgotten
            assert sink.close(crowd.feed, Token(10_000, 0, 0), forget=False)
        check(crowd)
    finally:
        for connection in crowd.abandoned:
            connection.close()
    for rare in ("applied", "abandoned", "batch done", "turned over", "ddl written"):
        assert crowd.counts.get(rare), crowd.counts
