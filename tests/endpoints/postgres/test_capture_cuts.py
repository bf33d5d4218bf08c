"""However the stream is cut, buffered and begun anew, the log is the same, and never half a one.

What a real server sent is recorded once and played again: in chunks that end anywhere, with buffers
of any size, broken off and sent again from its beginning.
"""

import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

from lockgate.endpoints.postgres.capture import Capture, CaptureOptions
from lockgate.endpoints.postgres.embedded import EmbeddedPostgres
from lockgate.endpoints.postgres.source.chunks import Chunk
from lockgate.model.ids import Token
from lockgate.store.changelog import Changelog, SegmentFiles
from lockgate.store.changelog.places import file_of
from lockgate.store.metastore import SqlMetastore
from tests.support.captures import DDL, FEED, Run, Workshop, changes_of, plan, workshop
from tests.support.changes import messages
from tests.support.databases import fresh_database
from tests.support.pgoutput_bytes import joined
from tests.support.pgoutput_reference import ReferenceDecoder
from tests.support.stores import LEASE_MS, sqlite_url
from tests.support.waiting import until

Plain = tuple[int, str, str, dict[str, object] | None]


class Recording(NamedTuple):
    """What a server sent, and what it means."""

    start: int
    messages: list[bytes]
    changes: list[Plain]
    schema: list[tuple[int, list[str | None]]]
    end: int


class Replay:
    """A source that plays a recording, in chunks of so many messages."""

    def __init__(self, recording: Recording, dice: random.Random, breaks_off: bool) -> None:
        self.left = recording.messages
        if breaks_off:
            self.left = self.left[: dice.randrange(len(self.left))]
        self.dice = dice
        self.sizes = dice.choice([[1, 7, 40], [100, 200], [10_000]])
        self.acknowledged: list[int] = []

    def read(self, timeout_s: float) -> Chunk | None:
        size = self.dice.choice(self.sizes)
        now, self.left = self.left[:size], self.left[size:]
        if not now:
            time.sleep(min(timeout_s, 0.001))
            return None
        buffer, starts, ends = joined(now)
        return Chunk(buffer, starts, ends, None)

    def acknowledge(self, resolved: int) -> None:
        self.acknowledged.append(resolved)

    def close(self) -> None:
        pass


@pytest.fixture(scope="module")
def recording(
    pg18: EmbeddedPostgres, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Recording]:
    home = tmp_path_factory.mktemp("recording")
    with fresh_database(pg18) as url, workshop(url, home / "log", sqlite_url(home)) as shop:
        _write(shop)
        source = shop.fetch(shop.start - 1)
        found: list[bytes] = []
        end = shop.end()

        def all_there() -> bool:
            chunk = source.read(0.1)
            if chunk is not None:
                found.extend(messages(chunk))
            return chunk is not None and chunk.wal_end is not None and chunk.wal_end >= end

        until(all_there, 60, 0.0)
        source.close()
        reference = ReferenceDecoder(DDL, plan, 0)
        changes = [
            (change.position, change.table.id, change.op, change.new)
            for change in reference.decode(found)
        ]
        runs: dict[int, list[str | None]] = {}
        for position, values in reference.schema_rows:
            runs.setdefault(position, []).append(values["said"])
        last = reference.commits[-1][1] - 1
        yield Recording(shop.start - 1, found, changes, list(runs.items()), last)


def _write(shop: Workshop) -> None:
    """Transactions of all sizes, with changes of both tables and of the schema."""
    dice = random.Random(3)
    key = 0
    for _ in range(25):
        statements = []
        for _ in range(dice.choice([1, 1, 2, 3])):
            rows = dice.choice([1, 2, 60])
            table, column = dice.choice([("a", "i::text"), ("b", "i")])
            statements.append(
                f"INSERT INTO {table} SELECT i, {column} "
                f"FROM generate_series({key + 1}, {key + rows}) i"
            )
            key += rows
            match dice.randrange(5):
                case 0:
                    said = f"INSERT INTO lockgate_test.ddl (said) VALUES ('{key}')"
                    statements += [said] * dice.choice([1, 2])
                case 1:
                    statements.append("UPDATE a SET id = -id WHERE id % 7 = 0")
                case 2:
                    statements.append("DELETE FROM b WHERE id % 5 = 0")
        shop.execute(*statements)
    shop.execute("TRUNCATE a, b")


@pytest.mark.parametrize("seed", range(12))
def test_however_the_stream_is_cut_the_log_is_the_same(
    recording: Recording, tmp_path: Path, seed: int
) -> None:
    dice = random.Random(seed)
    files = SegmentFiles(str(tmp_path / "log"))
    with SqlMetastore.open(sqlite_url(tmp_path), lease_ms=LEASE_MS) as store:
        log = Changelog(store.transactions)
        lives = dice.randrange(1, 4)
        for life in range(1, lives + 1):
            source = Replay(recording, dice, breaks_off=life < lives)

            def whole() -> None:
                """Seen from outside, at any moment: all up to the end, and nothing beyond."""
                view = log.read(FEED, recording.start)
                known = [change for change in recording.changes if change[0] <= view.resolved]
                assert sum(segment.rows for segment in view.segments) == len(known)

            capture = Capture(
                FEED,
                Token(life, 1, 1),
                changelog=log,
                files=files,
                open_source=lambda _, source=source: source,
                ddl_table=DDL,
                plan=plan,
                start=recording.start,
                options=CaptureOptions(
                    flush_ms=dice.choice([0, 5]), idle_ms=5, rows_max=dice.choice([10, 50, 10_000])
                ),
                landed=whole,
            )
            with Run(capture) as run:
                run.until(lambda source=source: not source.left)
                if life == lives:
                    run.until_resolved(recording.end + 1)
            assert source.acknowledged == sorted(source.acknowledged)
        found = changes_of(log, files, recording.start)
        assert [(c.position, c.table, c.op, c.new) for c in found] == recording.changes
        seqs = [change.seq for change in found]
        assert seqs == sorted(set(seqs))
        schema = [
            (change.position, [row["said"] for row in msgspec.json.decode(change.body)])
            for change in log.read(FEED, recording.start).changes
        ]
        assert schema == recording.schema
        named = {file_of(segment.path) for segment in log.read(FEED, recording.start).segments}
        root = tmp_path / "log"
        there = {str(p.relative_to(root)) for p in root.rglob("*") if p.is_file()}
        assert there == named
