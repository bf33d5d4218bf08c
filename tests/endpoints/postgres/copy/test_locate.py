"""Which snapshot a key's row is of, in the source's own order."""

import numpy as np
import pyarrow as pa
import pytest

from lockgate.endpoints.keys import hashes
from lockgate.endpoints.postgres.copy.items import KeyColumn
from lockgate.endpoints.postgres.copy.locate import chunk_finder
from lockgate.endpoints.postgres.sink.chunks import Chunk, Edge
from lockgate.endpoints.postgres.sink.snapshots import BLIND
from lockgate.endpoints.postgres.types import arrow_type, from_text
from lockgate.endpoints.postgres.url import PostgresUrl
from lockgate.model.errors import Terminal
from lockgate.model.spans import KeyRange
from lockgate.model.tables import Column

SNAPSHOTS = ("1:2:", "3:4:", "5:6:")


def _chunks(cuts: list[tuple[str, ...]], snapshots: list[int]) -> list[Chunk]:
    edges: list[Edge] = [None, *cuts, None]
    return [
        Chunk(number, edges[number], edges[number + 1], snapshot=SNAPSHOTS[which], done=True)
        for number, which in enumerate(snapshots)
    ]


@pytest.mark.parametrize(
    ("kind", "oid", "cuts", "keys", "wanted"),
    [
        ("bigint", 20, ["10", "20", "30"], ["-5", "9", "10", "25", "30", "99"], [0, 0, 1, 0, 2, 2]),
        ("text", 0, ["M", "a", "z"], ["A", "M", "Z", "a", "zz", "é"], [0, 1, 1, 0, 2, 2]),
        ("numeric", 0, ["1.0", "10"], ["0.999", "1.00", "9", "1e1"], [0, 1, 1, 0]),
        ("character(3)", 0, ["b"], ["b  ", "a  "], [1, 0]),
        ("boolean", 16, ["true"], ["t", "f"], [1, 0]),
        ("bytea", 17, ["\\x80"], ["\\x7fff", "\\x80"], [0, 1]),
        ("date", 1082, ["2000-01-01"], ["0001-01-01 BC", "infinity"], [0, 1]),
    ],
)
def test_keys_are_found_in_the_order_of_their_type(
    database: str, kind: str, oid: int, cuts: list[str], keys: list[str], wanted: list[int]
) -> None:
    column = Column("k", kind, oid)
    snapshots = [0, 1, 0, 2][: len(cuts) + 1]
    find = chunk_finder(
        PostgresUrl.parse(database),
        "f",
        [KeyColumn(column)],
        ["k"],
        _chunks([(cut,) for cut in cuts], snapshots),
        SNAPSHOTS,
    )
    array = from_text(pa.array(keys, pa.string()), arrow_type(column), "t")
    assert find([array]).tolist() == wanted


def test_composite_keys_come_in_another_order_of_columns(database: str) -> None:
    """The edges are in the order of the index, the stream's keys in the table's."""
    key = [KeyColumn(Column("b", "text")), KeyColumn(Column("a", "integer", 23))]
    chunks = _chunks([("m", "5"), ("m", "50")], [0, 1, 2])
    find = chunk_finder(PostgresUrl.parse(database), "f", key, ["a", "b"], chunks, SNAPSHOTS)
    a = pa.array([4, 5, 49, 50, 99, 1], pa.int32())
    b = pa.array(["m", "m", "m", "m", "a", "z"], pa.string())
    assert find([a, b]).tolist() == [0, 1, 1, 2, 0, 2]


def test_a_collation_of_the_column_is_kept(database: str) -> None:
    key = [KeyColumn(Column("k", "text"), ("pg_catalog", "C"))]
    find = chunk_finder(
        PostgresUrl.parse(database), "f", key, ["k"], _chunks([("a",)], [0, 1]), SNAPSHOTS
    )
    assert find([pa.array(["Z", "a", "b"], pa.string())]).tolist() == [0, 1, 1]


def test_shares_of_a_split_span_are_told_apart_by_hash(database: str) -> None:
    """The upper half of the hashes went on under another snapshot."""
    low, high = KeyRange(b"", b"\x80"), KeyRange(b"\x80", None)
    chunks = [
        Chunk(0, None, ("50",), low, SNAPSHOTS[0], done=True),
        Chunk(1, None, ("50",), high, SNAPSHOTS[1], done=True),
        Chunk(2, ("50",), None, KeyRange(), SNAPSHOTS[2], done=True),
    ]
    key = [KeyColumn(Column("k", "bigint", 20))]
    find = chunk_finder(PostgresUrl.parse(database), "f", key, ["k"], chunks, SNAPSHOTS)
    keys = pa.array(range(100), pa.int64())
    upper = hashes([keys]) >= np.uint64(2**63)
    wanted = np.where(np.arange(100) >= 50, 2, np.where(upper, 1, 0))
    assert upper[:50].any()
    assert not upper[:50].all()
    assert find([keys]).tolist() == wanted.tolist()


def test_keys_whose_copy_was_over_before_a_merge_are_told_apart_by_hash(database: str) -> None:
    low, high = KeyRange(b"", b"\x80"), KeyRange(b"\x80", None)
    chunks = [
        Chunk(0, None, ("50",), high, SNAPSHOTS[0], done=True),
        Chunk(1, ("50",), None, high, SNAPSHOTS[1], done=True),
        Chunk(2, None, None, low, BLIND, done=True),
    ]
    key = [KeyColumn(Column("k", "bigint", 20))]
    asked = [*SNAPSHOTS[:2], BLIND]
    find = chunk_finder(PostgresUrl.parse(database), "f", key, ["k"], chunks, asked)
    keys = pa.array(range(100), pa.int64())
    upper = hashes([keys]) >= np.uint64(2**63)
    wanted = np.where(~upper, 2, np.where(np.arange(100) >= 50, 1, 0))
    assert set(wanted.tolist()) == {0, 1, 2}
    assert find([keys]).tolist() == wanted.tolist()


def test_a_key_in_no_chunk_is_an_error(database: str) -> None:
    key = [KeyColumn(Column("k", "bigint", 20))]
    chunks = [Chunk(0, None, ("50",), snapshot=SNAPSHOTS[0], done=True)]
    find = chunk_finder(PostgresUrl.parse(database), "f", key, ["k"], chunks, SNAPSHOTS)
    with pytest.raises(Terminal, match="no chunk"):
        find([pa.array([60], pa.int64())])
