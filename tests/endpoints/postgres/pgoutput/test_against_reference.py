"""The decoder agrees with the plain one on any stream, however it is cut into buffers."""

import itertools
from collections.abc import Callable
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from lockgate.endpoints.postgres.pgoutput import batches
from lockgate.endpoints.postgres.pgoutput.decoder import Decoded, Decoder
from lockgate.endpoints.postgres.pgoutput.relations import (
    Mask,
    MaskKind,
    Relation,
    RelationColumn,
    TablePlan,
)
from lockgate.model.tables import Column, Identity, TableName, TableShape
from tests.support import pgoutput_bytes as pg
from tests.support.pgoutput_reference import ReferenceDecoder

DDL = TableName("lockgate", "ddl")
DDL_OID = 5
DDL_RELATION = Relation(
    DDL_OID,
    DDL,
    "d",
    (RelationColumn("id", 20, -1, True), RelationColumn("statement", 25, -1, False)),
)

WORDS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12)
TIMES = st.sampled_from(
    [
        "2024-02-29 12:34:56.789012",
        "2024-02-29 12:34:56.5",
        "1969-12-31 23:59:59.999999",
        "0001-01-01 00:00:00",
        "9999-12-31 23:59:59",
        "12024-02-29 00:00:00.000001",
        "0044-03-15 12:00:00 BC",
    ]
)
TEXTS: dict[int, st.SearchStrategy[str]] = {
    16: st.sampled_from("tf"),
    17: st.binary(max_size=9).map(lambda value: r"\x" + value.hex()),
    20: st.integers(-(2**63), 2**63 - 1).map(str),
    21: st.integers(-(2**15), 2**15 - 1).map(str),
    23: st.integers(-(2**31), 2**31 - 1).map(str),
    25: WORDS,
    700: st.sampled_from(["1.5", "-0", "NaN", "Infinity", "-Infinity", "3.4028235e+38", "1e-45"]),
    701: st.sampled_from(["0.1", "-0", "NaN", "Infinity", "-Infinity", "5e-324", "1e+308"]),
    1082: st.sampled_from(
        ["2024-02-29", "infinity", "-infinity", "0044-03-15 BC", "5874897-12-31", "9999-12-31"]
    ),
    1114: TIMES | st.sampled_from(["infinity", "-infinity"]),
    1184: TIMES.map(lambda text: text.replace(" BC", "+00 BC") if "BC" in text else text + "+00"),
    1700: st.sampled_from(["NaN", "Infinity", "1.10", "-123456789012345678901234567890.5"]),
    99_999: WORDS,
}
MASKS = st.none() | st.sampled_from(
    [Mask(MaskKind.NULL), Mask(MaskKind.HASH), Mask(MaskKind.FIXED, "xxx")]
)


@st.composite
def tables(draw: st.DrawFn, oid: int) -> tuple[Relation, TablePlan | None]:
    """A table: its key is its first column, unless its identity is the whole row."""
    types = draw(st.lists(st.sampled_from(sorted(TEXTS)), min_size=1, max_size=10))
    full = draw(st.booleans())
    columns = tuple(
        RelationColumn(f"c{number}", type_id, -1, full or number == 0)
        for number, type_id in enumerate(types)
    )
    name = TableName("public", f"t{oid}")
    relation = Relation(oid, name, "f" if full else "d", columns)
    if draw(st.integers(0, 5)) == 0:
        return relation, None
    travel = [column for column in columns if column.name == "c0" or draw(st.integers(0, 4)) > 0]
    shape = TableShape(
        name,
        tuple(Column(column.name, "", column.type_id) for column in travel),
        () if full else ("c0",),
        Identity.FULL if full else Identity.KEY,
    )
    masks = {column.name: draw(MASKS) for column in travel}
    return relation, TablePlan(shape, {name: mask for name, mask in masks.items() if mask})


@st.composite
def rows(draw: st.DrawFn, relation: Relation) -> bytes:
    """A change of a row of the table."""

    def value(column: RelationColumn, sent: bool = True) -> Any:
        which = draw(st.integers(0, 9))
        if which == 0 and not column.key:
            return None
        if which == 1 and not sent:
            return pg.UNCHANGED
        return draw(TEXTS[column.type_id])

    def old() -> list[Any]:
        return [value(column) if column.key else None for column in relation.columns]

    kind = draw(st.sampled_from("IUVD"))
    if kind == "D":
        return pg.delete(relation.oid, old(), draw(st.sampled_from([b"K", b"O"])))
    if kind == "I":
        return pg.insert(relation.oid, [value(column) for column in relation.columns])
    new = [value(column, sent=column.key) for column in relation.columns]
    return pg.update(relation.oid, new, old() if kind == "V" else None)


@st.composite
def streams(draw: st.DrawFn) -> tuple[list[bytes], list[tuple[Relation, TablePlan | None]]]:
    """Messages of some transactions, and every edition of every table in the order it comes.

    Tables change their shape in the middle; DDL rows, TRUNCATEs and noise lie between.
    """
    out: list[bytes] = []
    editions: list[tuple[Relation, TablePlan | None]] = []
    known: dict[int, tuple[Relation, TablePlan | None]] = {}
    lsn = 1000

    def describe(oid: int) -> None:
        if oid not in known or draw(st.integers(0, 15)) == 0:
            known[oid] = draw(tables(oid))
        elif draw(st.integers(0, 15)) > 0:
            return
        if draw(st.booleans()):
            out.append(pg.type_())
        out.append(pg.relation(known[oid][0]))
        editions.append(known[oid])

    out.append(pg.message()) if draw(st.booleans()) else None
    for _ in range(draw(st.integers(1, 4))):
        time = draw(st.integers(0, 2 * 10**15))
        out.append(pg.begin(lsn, time, draw(st.integers(0, 2**32 - 1))))
        out.append(pg.origin()) if draw(st.integers(0, 5)) == 0 else None
        runs = 0
        for _ in range(draw(st.integers(0, 12))):
            what = draw(st.integers(0, 12))
            if what == 0 and runs < 12:
                runs += 1
                out.append(pg.relation(DDL_RELATION))
                for _ in range(draw(st.integers(1, 3))):
                    out.append(pg.insert(DDL_OID, [str(lsn), draw(st.none() | WORDS)]))
            elif what == 1:
                oids = draw(st.lists(st.integers(1, 3), min_size=1, max_size=3, unique=True))
                for oid in oids:
                    describe(oid)
                out.append(pg.truncate(*oids))
            elif what == 2:
                out.append(pg.message(draw(st.binary(max_size=9))))
            else:
                oid = draw(st.integers(1, 3))
                describe(oid)
                out.append(draw(rows(known[oid][0])))
        out.append(pg.commit(lsn, lsn + 40, time))
        lsn += 1000
    return out, editions


def planner(editions: list[tuple[Relation, TablePlan | None]]) -> Callable[[Relation], Any]:
    """Answers with the editions' plans, one after the other, and sees who asks."""
    left = iter(editions)

    def plan(relation: Relation) -> TablePlan | None:
        expected, answer = next(left)
        assert relation == expected
        return answer

    return plan


def cut(messages: list[bytes], points: list[int]) -> list[list[bytes]]:
    edges = [0, *sorted(points), len(messages)]
    return [messages[start:end] for start, end in itertools.pairwise(edges)]


def compare(messages: list[bytes], editions: Any, points: list[int], gap: bytes) -> None:
    reference = ReferenceDecoder(DDL, planner(editions), 17)
    expected = reference.decode(messages)
    decoder = Decoder(DDL, planner(editions), 17)
    results: list[Decoded] = []
    for piece in cut(messages, points):
        buffer, starts, ends = pg.joined(piece, gap)
        reused = bytearray(buffer + bytes(8))
        results.append(decoder.decode(reused, starts, ends))
        reused[:] = b"\xff" * len(reused)  # What was decoded does not lie in the buffer.
    assert pg.comparable(pg.changes_of(*results)) == pg.comparable(expected)
    seen = [tuple(row) for decoded in results for row in decoded.schema_rows]
    assert seen == reference.schema_rows
    assert decoder.next_seq == reference.next_seq
    assert sum(decoded.rows for decoded in results) == len(expected)
    assert sum(decoded.transactions for decoded in results) == len(reference.commits)
    assert sum(decoded.bytes for decoded in results) == sum(map(len, messages))
    commits = [decoded.commit for decoded in results if decoded.commit]
    last = commits[-1]
    assert (last.commit_lsn, last.end_lsn, last.time) == reference.commits[-1]
    assert not results[-1].open


@given(streams(), st.data(), st.sampled_from([b"", b"dd\0gap"]))
@settings(deadline=None, max_examples=100)
def test_any_stream_cut_anywhere_gives_the_rows_of_the_plain_decoder(
    stream: Any, data: st.DataObject, gap: bytes
) -> None:
    messages, editions = stream
    points = data.draw(st.lists(st.integers(0, len(messages)), max_size=6))
    compare(messages, editions, points, gap)


@given(streams())
@settings(deadline=None, max_examples=20)
def test_one_message_at_a_time_gives_the_same_rows(stream: Any) -> None:
    messages, editions = stream
    compare(messages, editions, list(range(1, len(messages))), b"")


@given(streams(), st.integers(1, 5), st.sampled_from([1, 60, 2**30]))
@settings(deadline=None, max_examples=40)
def test_the_size_of_batches_does_not_show(stream: Any, rows: int, span: int) -> None:
    messages, editions = stream
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batches, "ROWS", rows)
        patch.setattr(batches, "_SPAN", span)
        compare(messages, editions, [], b"")


def test_no_messages_are_no_changes() -> None:
    decoded = Decoder(DDL, lambda _: None, 1).decode(b"", np.zeros(0, int), np.zeros(0, int))
    assert decoded == ([], [], [], [], None, 0, False, 0, 0)
