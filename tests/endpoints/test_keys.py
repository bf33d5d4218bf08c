"""The hash that places keys: recorded at sinks for ever, so its values are pinned here."""

import datetime
import struct
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lockgate.endpoints.keys import encode, hashes, in_range, is_whole
from lockgate.model.spans import WHOLE, KeyRange

MASK = 2**64 - 1


def mix(x: int) -> int:
    x = (x + 0x9E3779B97F4A7C15) & MASK
    x = ((x ^ x >> 30) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ x >> 27) * 0x94D049BB133111EB) & MASK
    return x ^ x >> 31


def word(value: Any) -> int:
    """The description in `keys`, one value at a time."""
    if value is None:
        return int.from_bytes(b"nulltext"[:4] * 2, "big")
    if isinstance(value, float):
        return int.from_bytes(struct.pack(">d", value + 0.0), "big")
    if isinstance(value, int):
        return value & MASK
    data = value.encode() if isinstance(value, str) else value
    w = mix(len(data))
    for at in range(0, len(data), 8):
        w = mix(w ^ int.from_bytes(data[at : at + 8].ljust(8, b"\0"), "little"))
    return w


def expected(*key: Any) -> int:
    h = int.from_bytes(b"Lockgate", "big")
    for value in key:
        h = mix(h ^ word(value))
    return h


TEXTS = ["", "a", "1234567", "12345678", "123456789", "ä€𝄞", "\0", "\0\0", "x" * 1000]
INTS = [0, 1, -1, 42, 2**63 - 1, -(2**63)]
FLOATS = [0.0, 1.5, -2.25, float("inf"), 1e300]


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (INTS, pa.int64()),
        ([0, 1, -1, 32767], pa.int16()),
        ([True, False], pa.bool_()),
        (FLOATS, pa.float64()),
        (TEXTS, pa.string()),
        (TEXTS, pa.large_string()),
        ([text.encode() for text in TEXTS], pa.binary()),
        ([None, "a", None], pa.string()),
        ([None, 0], pa.int64()),
    ],
    ids=str,
)
def test_the_hash_is_what_is_written_down(values: list[Any], kind: pa.DataType) -> None:
    assert hashes([pa.array(values, kind)]).tolist() == [expected(value) for value in values]


def test_keys_of_several_columns() -> None:
    columns = [pa.array(INTS[:3]), pa.array(TEXTS[:3]), pa.array(FLOATS[:3])]
    rows = zip(INTS, TEXTS, FLOATS, strict=False)
    assert hashes(columns).tolist() == [expected(*row) for row in list(rows)[:3]]


def test_pinned_values() -> None:
    """If this fails, spans that exist would change their rows: never change it."""
    pinned = hashes([pa.array([1, 2, 3], pa.int64())]).tolist()
    assert [f"{value:016x}" for value in pinned] == PINNED_INTS
    text = hashes([pa.array(["a", "Lockgate"]), pa.array([7, 8], pa.int32())]).tolist()
    assert [f"{value:016x}" for value in text] == PINNED_MIXED


PINNED_INTS = ["4bfe7e4cd3340325", "a7b26715dd961b11", "2809cd8796beeed5"]
PINNED_MIXED = ["4c16d08e89ccaadf", "d5d99158fcfc31bd"]


def test_neither_chunks_nor_slices_nor_widths_matter() -> None:
    whole = hashes([pa.array(TEXTS)])
    chunked = pa.chunked_array([TEXTS[:3], [], TEXTS[3:]], pa.string())
    assert hashes([chunked]).tolist() == whole.tolist()
    sliced = pa.array(["zz", *TEXTS, "zz"]).slice(1, len(TEXTS))
    assert hashes([sliced]).tolist() == whole.tolist()
    narrow, wide = pa.array([1, -5], pa.int32()), pa.array([1, -5], pa.int64())
    assert hashes([narrow]).tolist() == hashes([wide]).tolist()


def test_times_are_hashed_as_stored() -> None:
    day = pa.array([datetime.date(1970, 1, 3)], pa.date32())
    assert hashes([day]).tolist() == [expected(2)]
    for zone in (None, "UTC"):
        moment = pa.array([5_000_000], pa.int64()).cast(pa.timestamp("us", zone))
        assert hashes([moment]).tolist() == [expected(5_000_000)]


def test_zeros_are_one_and_so_are_nans() -> None:
    found = hashes([pa.array([0.0, -0.0, float("nan"), -float("nan")])])
    assert len(set(found.tolist())) == 2


EDGES = [b"", b"\0", b"\x80", b"\x80" + b"\0" * 7, b"\x80" + b"\0" * 8, b"\xff" * 8, b"\xff" * 9]


@pytest.mark.parametrize("low", EDGES)
@pytest.mark.parametrize("high", [*EDGES, None])
def test_ranges_hold_what_their_bytes_say(low: bytes, high: bytes | None) -> None:
    keys = KeyRange(low, high)
    values = [0, 1, 2**63 - 1, 2**63, 2**63 + 1, MASK - 1, MASK]
    found = in_range(np.array(values, dtype=np.uint64), keys).tolist()
    assert found == [value.to_bytes(8, "big") in keys for value in values]


def test_only_the_whole_range_is_whole() -> None:
    assert is_whole(WHOLE)
    assert not is_whole(KeyRange(b"\x01", None))
    assert not is_whole(KeyRange(b"", b"\xff"))


def test_numbers_of_keys_are_exact() -> None:
    """Also for keys that would look alike when their parts were simply put together."""
    columns = [pa.array(["a", "ab", "a", None, ""]), pa.array(["bc", "c", "bc", "", None])]
    codes = encode(columns)
    assert codes.size == 4
    assert codes.codes[0] == codes.codes[2]
    assert len(set(codes.codes.tolist())) == 4
    assert codes.first().tolist() == [0, 1, 3, 4]
    assert codes.last().tolist() == [2, 1, 3, 4]
