"""Decoding alone: pgoutput into typed columns, against a plain decoder on the same bytes.

The bytes are a real server's, as `COPY` of a slot's changes sends them: inserts, updates and
deletes of rows with ten columns. The plain decoder (`tests/support/pgoutput_reference.py`) gets
them already divided into messages; ours has to find the messages too. Both run in one thread.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import numpy as np

from bench.figures import Figure, Limit
from bench.registry import Benchmark, Case, NotThere
from bench.watch import Watch, seconds
from lockgate.endpoints.postgres.pgoutput.decoder import Decoded, Decoder
from lockgate.endpoints.postgres.pgoutput.frames import find_frames
from lockgate.endpoints.postgres.pgoutput.loads import SPARE, Bytes
from lockgate.endpoints.postgres.pgoutput.relations import Relation, TablePlan
from lockgate.endpoints.postgres.pgoutput.sources import CopyRows
from lockgate.model.tables import Column, TableName, TableShape
from tests.support.pgoutput_reference import ReferenceDecoder

T = TypeVar("T")

ONE, MANY = "one transaction", "transactions of 10 rows"
ROWS = 300_000
ROWS_QUICK = 200
ROUNDS = 3
DDL = TableName("lockgate", "ddl")

_TABLE = """
CREATE TABLE orders (
    id bigint PRIMARY KEY, customer integer, name text, email text, amount numeric(12,2),
    score double precision, active boolean, created timestamptz, day date, note text
)
"""
_INSERT = """
INSERT INTO orders SELECT i, i * 7919 % 100000, 'name ' || i, md5(i::text) || '@example.org',
    i % 100000 / 7.0, i / 3.0, i % 2 = 0,
    timestamptz '2024-01-01' + i * interval '1.234567 s', date '2020-01-01' + (i % 2000)::integer,
    CASE WHEN i % 3 > 0 THEN repeat('n', (i % 40)::integer) END
FROM generate_series({first}::bigint, {last}::bigint) i
"""
_UPDATE = "UPDATE orders SET customer = customer + 1, note = 'changed' WHERE id {those}"
_DELETE = "DELETE FROM orders WHERE id {those}"


def cases(quick: bool) -> tuple[Case, ...]:
    """The same kinds of changes in one transaction, and in many."""
    return tuple(Case(name, ROWS_QUICK if quick else ROWS) for name in (ONE, MANY))


def prepare(case: Case, directory: Path) -> None:
    """Have a server make the bytes."""
    try:
        from lockgate.endpoints.postgres.embedded import EmbeddedPostgres
        from tests.support.streams import stream_of
    except ImportError as error:
        raise NotThere(f"there is no PostgreSQL to embed: {error}") from error

    settings = {"wal_level": "logical", "fsync": "off", "max_wal_size": "4GB"}
    with EmbeddedPostgres(settings=settings) as server, stream_of(server.url()) as stream:
        stream.execute(_TABLE)
        stream.slot()
        if case.name == ONE:
            insert = _INSERT.format(first=1, last=case.size)
            update, delete = _UPDATE.format(those="% 2 = 0"), _DELETE.format(those="% 3 = 0")
            stream.execute(f"BEGIN; {insert}; {update}; {delete}; COMMIT")
        else:
            insert = _INSERT.format(first="k * 10 + 1", last="k * 10 + 5")
            update = _UPDATE.format(those="BETWEEN k * 10 + 1 AND k * 10 + 3")
            delete = _DELETE.format(those="BETWEEN k * 10 + 2 AND k * 10 + 3")
            stream.execute(
                f"DO $$ BEGIN FOR k IN 0..{case.size // 10 - 1} LOOP "
                f"{insert}; {update}; {delete}; COMMIT; END LOOP; END $$"
            )
        _file(directory).write_bytes(stream.copied())


def measure(_: Case, directory: Path) -> tuple[Figure, ...]:
    """The best of some rounds of ours, and one of the plain decoder's."""
    bytes_ = _file(directory).read_bytes()
    buffer = np.frombuffer(bytes_ + bytes(SPARE), np.uint8)
    best, decoded = min((_ours(buffer) for _round in range(ROUNDS)), key=lambda one: one[0].total())

    found = find_frames(buffer[:-SPARE])
    starts, ends = CopyRows().messages(buffer, found.starts, found.ends)
    messages = [bytes_[start:end] for start, end in zip(starts, ends, strict=True)]
    plain, changes = _timed(lambda: ReferenceDecoder(DDL, _plan, 1).decode(messages))
    if len(changes) != decoded.rows:
        raise RuntimeError(f"{decoded.rows} changes are not the plain decoder's {len(changes)}")
    return (
        Figure("changes", decoded.rows, "rows"),
        Figure("bytes", len(bytes_), "B"),
        *best.figures(),
        seconds("ours, all", best.total()),
        seconds("plain", plain),
        Figure("our rate", round(decoded.rows / best.total()), "rows/s"),
        Figure("plain rate", round(decoded.rows / plain), "rows/s"),
        Figure("times as fast", round(plain / best.total(), 1), ""),
        Figure("share of the plain time", round(best.total() / plain, 4), ""),
    )


def _ours(buffer: Bytes) -> tuple[Watch, Decoded]:
    watch = Watch()
    with watch.lap("find messages"):
        found = find_frames(buffer[:-SPARE])
        starts, ends = CopyRows().messages(buffer, found.starts, found.ends)
    with watch.lap("decode"):
        decoded = Decoder(DDL, _plan, 1).decode(buffer, starts, ends)
    return watch, decoded


def _timed(what: Callable[[], T]) -> tuple[float, T]:
    began = time.perf_counter()
    answer = what()
    return time.perf_counter() - began, answer


def _plan(relation: Relation) -> TablePlan:
    columns = tuple(Column(each.name, "", each.type_id) for each in relation.columns)
    return TablePlan(TableShape(relation.table, columns, ("id",)))


def _file(directory: Path) -> Path:
    return directory / "frames"


BENCHMARK = Benchmark(
    name="decode",
    title="pgoutput into typed columns, against a plain decoder, row by row, on the same bytes",
    cases=cases,
    prepare=prepare,
    measure=measure,
    limits=tuple(
        Limit(
            case,
            "share of the plain time",
            round(1 / 3, 4),
            "",
            f"decoding {case} at least 3 times as fast as a plain decoder",
        )
        for case in (ONE, MANY)
    ),
)
