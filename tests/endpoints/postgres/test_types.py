"""Values and PostgreSQL's texts for them: the same value after any way there and back."""

import math
import struct
from typing import Any

import hypothesis.strategies as st
import numpy as np
import psycopg
import pyarrow as pa
import pytest
from hypothesis import given, settings

from lockgate.endpoints.postgres import dates
from lockgate.endpoints.postgres.types import Unrepresentable, arrow_type, from_text, to_text
from lockgate.model.tables import Column

UTC = pa.timestamp("us", "UTC")
LEAST, GREATEST = dates.date_of("4714-11-24 BC"), dates.date_of("5874897-12-31")
FIRST = dates.micros_of("4714-11-24 00:00:00 BC")

DAYS = st.integers(LEAST, GREATEST) | st.sampled_from([dates.DAYS_MIN, dates.DAYS_MAX])
MICROS = (
    st.integers(FIRST, dates.MICROS_MAX - 1)
    | st.integers(-(10**17), 10**17)
    | st.sampled_from([dates.MICROS_MIN, dates.MICROS_MAX])
)


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (Column("c", "whatever", 16), pa.bool_()),
        (Column("c", "whatever", 17), pa.binary()),
        (Column("c", "whatever", 20), pa.int64()),
        (Column("c", "whatever", 21), pa.int16()),
        (Column("c", "whatever", 23), pa.int32()),
        (Column("c", "whatever", 700), pa.float32()),
        (Column("c", "whatever", 701), pa.float64()),
        (Column("c", "whatever", 1082), pa.date32()),
        (Column("c", "whatever", 1114), pa.timestamp("us")),
        (Column("c", "whatever", 1184), UTC),
        (Column("c", "integer", 1700), pa.string()),
        (Column("c", "integer", 123_456), pa.string()),
        (Column("c", "bigint"), pa.int64()),
        (Column("c", "timestamp(3) with time zone"), UTC),
        (Column("c", "timestamp without time zone"), pa.timestamp("us")),
        (Column("c", "numeric(10,2)"), pa.string()),
        (Column("c", "integer[]"), pa.string()),
        (Column("c", "character varying(40)"), pa.string()),
    ],
)
def test_the_table(column: Column, expected: pa.DataType) -> None:
    assert arrow_type(column) == expected


def back(values: pa.Array) -> pa.Array:
    texts = to_text(values)
    texts.validate(full=True)
    assert texts.type == pa.string()
    found = from_text(texts, values.type, "t.c")
    found.validate(full=True)
    return found


def array(kind: pa.DataType, numbers: list[int | None], number: pa.DataType) -> pa.Array:
    return pa.array(numbers, number).cast(kind)


@given(st.lists(st.none() | DAYS))
@settings(deadline=None, max_examples=60)
def test_dates_there_and_back(days: list[int | None]) -> None:
    values = array(pa.date32(), days, pa.int32())
    assert back(values).cast(pa.int32()).to_pylist() == days


@pytest.mark.parametrize("kind", [pa.timestamp("us"), UTC])
@given(st.lists(st.none() | MICROS))
@settings(deadline=None, max_examples=60)
def test_times_there_and_back(kind: pa.DataType, micros: list[int | None]) -> None:
    values = array(kind, micros, pa.int64())
    assert back(values).cast(pa.int64()).to_pylist() == micros


@pytest.mark.parametrize(
    ("around", "texts"),
    [
        ("0001-01-01", ["0001-12-31 BC", "0001-01-01"]),
        ("10000-01-01", ["9999-12-31", "10000-01-01"]),
    ],
)
def test_dates_at_the_edges_are_spelled_as_postgresql_does(around: str, texts: list[str]) -> None:
    day = dates.date_of(around)
    assert to_text(array(pa.date32(), [day - 1, day], pa.int32())).to_pylist() == texts


@pytest.mark.parametrize(("kind", "zone"), [(pa.timestamp("us"), ""), (UTC, "+00")])
def test_times_at_the_edges_are_spelled_as_postgresql_does(kind: pa.DataType, zone: str) -> None:
    first, late = (dates.micros_of(f"{year}-01-01 00:00:00") for year in ("0001", "10000"))
    numbers = [first - 1, first, late - 1, late, dates.MICROS_MAX, dates.MICROS_MIN]
    usual = "Z" if zone else ""
    assert to_text(array(kind, [*numbers], pa.int64())).to_pylist() == [
        f"0001-12-31 23:59:59.999999{zone} BC",
        f"0001-01-01 00:00:00.000000{usual}",
        f"9999-12-31 23:59:59.999999{usual}",
        f"10000-01-01 00:00:00{zone}",
        "infinity",
        "-infinity",
    ]


@pytest.mark.parametrize(("kind", "code"), [(pa.float32(), "f"), (pa.float64(), "d")])
@given(st.data())
@settings(deadline=None, max_examples=100)
def test_floats_there_and_back_bit_for_bit(
    kind: pa.DataType, code: str, data: st.DataObject
) -> None:
    numbers = data.draw(st.lists(st.none() | st.floats(width=32 if code == "f" else 64)))
    found = back(pa.array(numbers, kind)).to_pylist()
    for number, value in zip(numbers, found, strict=True):
        if number is None or math.isnan(number):
            assert repr(value) == repr(number)
        else:
            assert struct.pack(code, value) == struct.pack(code, number)


@pytest.mark.parametrize("kind", [pa.int16(), pa.int32(), pa.int64()])
def test_whole_numbers_there_and_back(kind: pa.DataType) -> None:
    limit = 2 ** (kind.bit_width - 1)
    values = pa.array([-limit, -1, 0, None, 1, limit - 1], kind)
    assert back(values) == values


def test_booleans_there_and_back() -> None:
    values = pa.array([True, None, False])
    assert to_text(values).to_pylist() == ["t", None, "f"]
    assert back(values) == values


@given(st.lists(st.none() | st.binary(max_size=20)), st.data())
@settings(deadline=None, max_examples=100)
def test_bytes_there_and_back_also_in_a_slice(
    values: list[bytes | None], data: st.DataObject
) -> None:
    start = data.draw(st.integers(0, len(values)))
    found = pa.array(values, pa.binary())[start:]
    texts = to_text(found)
    assert texts.to_pylist() == [
        None if value is None else "\\x" + value.hex() for value in values[start:]
    ]
    assert back(found).to_pylist() == values[start:]


def test_digits_of_either_case_are_read_also_in_a_slice() -> None:
    texts = pa.array(["", "\\xAbcD", None, "\\xeF"])[1:]
    assert from_text(texts, pa.binary(), "").to_pylist() == [b"\xab\xcd", None, b"\xef"]


def test_bytes_under_a_null_do_not_show() -> None:
    # A null may have bytes of its own, which mean nothing.
    def hidden(kind: pa.DataType, parts: list[bytes]) -> pa.Array:
        offsets = np.cumsum([0, *map(len, parts)], dtype=np.int32)
        validity = np.array([0b101], np.uint8)
        buffers = [pa.py_buffer(each) for each in (validity, offsets, b"".join(parts))]
        return pa.Array.from_buffers(kind, 3, buffers)

    values = hidden(pa.binary(), [b"ab", b"?", b"cd"])
    assert to_text(values).to_pylist() == ["\\x6162", None, "\\x6364"]
    texts = hidden(pa.string(), [b"\\x6162", b"what is this", b"\\x6364"])
    assert from_text(texts, pa.binary(), "").to_pylist() == [b"ab", None, b"cd"]


@pytest.mark.parametrize(
    ("texts", "kind"),
    [
        (["1", "x"], pa.int32()),
        (["40000"], pa.int16()),
        (["\\x0"], pa.binary()),
        (["\\xgg"], pa.binary()),
        (["\\x00", "ab"], pa.binary()),
        ([""], pa.binary()),
        (["\\x", "\\"], pa.binary()),
        (["01/02/2024"], pa.date32()),
        (["2024-02-30"], pa.date32()),
        (["infinity", "Infinity"], pa.date32()),
        (["12024-01-01 00:00"], pa.timestamp("us")),
        (["294247-01-10 04:00:54.775807"], pa.timestamp("us")),
        (["294276-12-31 23:59:59.999999+00"], UTC),
    ],
)
def test_a_text_of_another_form_is_refused_by_name(texts: list[str], kind: pa.DataType) -> None:
    with pytest.raises(Unrepresentable, match=r"\(shop\.orders\.made\)") as caught:
        from_text(pa.array(texts), kind, "shop.orders.made")
    assert caught.value.hint


def test_zones_with_seconds_are_read() -> None:
    texts = pa.array(["1800-01-01 00:53:28+00:53:28", "1800-01-01 00:00:00-01:30"])
    hour = 3_600_000_000
    start = dates.micros_of("1800-01-01 00:00:00")
    found = from_text(texts, UTC, "").cast(pa.int64()).to_pylist()
    assert found == [start, start + hour + hour // 2]


def test_only_types_that_travel_have_texts() -> None:
    with pytest.raises(TypeError):
        to_text(pa.array([[1]]))


# --- against a server ----------------------------------------------------------------------------


def drawn(count: int, kind: str) -> pa.Array:
    """Many values, spread over all that there are."""
    random = np.random.default_rng(7)
    if kind == "real":
        return pa.array(random.integers(0, 2**32, count, np.uint32).view(np.float32))
    if kind == "double precision":
        return pa.array(random.integers(0, 2**64, count, np.uint64).view(np.float64))
    if kind == "date":
        return pa.array(random.integers(LEAST, GREATEST, count, np.int32)).cast(pa.date32())
    numbers = random.integers(FIRST, dates.MICROS_MAX, count, np.int64)
    numbers[::2] = random.integers(-(10**17), 10**17, (count + 1) // 2)
    return pa.array(numbers).cast(UTC if kind == "timestamptz" else pa.timestamp("us"))


@pytest.mark.parametrize("kind", ["real", "double precision", "date", "timestamp", "timestamptz"])
def test_the_server_reads_and_writes_the_same_values(database: str, kind: str) -> None:
    values = drawn(5_000, kind)
    options = "-c TimeZone=UTC -c DateStyle=ISO,YMD -c extra_float_digits=3"
    with psycopg.connect(database, options=options) as connection:
        rows = connection.execute(
            f"SELECT v::text FROM unnest(%s::text[]::{kind}[]) WITH ORDINALITY u (v, n) "
            "ORDER BY n".encode(),
            (to_text(values).to_pylist(),),
        ).fetchall()
    found = from_text(pa.array([text for (text,) in rows]), values.type, "t.c")
    assert bits(found) == bits(values)


def bits(values: pa.Array) -> Any:
    if pa.types.is_floating(values.type):
        # There are many NaNs, and PostgreSQL has one.
        return [repr(value) for value in values.to_pylist()]
    return values.view(pa.int32() if values.type == pa.date32() else pa.int64()).to_pylist()
