"""The one table of PostgreSQL types and Arrow types, and the way of values between the two.

A few types travel typed: where Arrow has a type that holds every value of PostgreSQL's, and
that lake readers expect. All others travel as the text that PostgreSQL itself writes and reads,
which is exact for whatever type there is or will be.

The texts are PostgreSQL's under the settings that all connections here use: TimeZone=UTC,
DateStyle=ISO, bytea_output=hex, extra_float_digits=3.

| PostgreSQL                  | Arrow                    | values outside the obvious            |
| --------------------------- | ------------------------ | ------------------------------------- |
| boolean                     | bool                     |                                       |
| smallint, integer, bigint   | int16, int32, int64      |                                       |
| real, double precision      | float32, float64         | NaN, ±Infinity, -0                    |
| bytea                       | binary                   |                                       |
| date                        | date32                   | ±infinity: greatest and least number  |
| timestamp                   | timestamp[us]            | the same; years from 294247: refused  |
| timestamp with time zone    | timestamp[us, tz=UTC]    | the same                              |
| everything else             | string                   |                                       |
"""

import re
from functools import partial
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from lockgate.endpoints.postgres import dates, hexadecimal
from lockgate.model.errors import Terminal
from lockgate.model.tables import Column

__all__ = [
    "TEXT",
    "Unrepresentable",
    "arrow_type",
    "from_bytes",
    "from_text",
    "to_text",
]

TEXT: Final = 25
"""The number of PostgreSQL's type `text`."""

_UTC: Final = pa.timestamp("us", "UTC")

_BY_OID: Final[dict[int, pa.DataType]] = {
    16: pa.bool_(),
    17: pa.binary(),
    20: pa.int64(),
    21: pa.int16(),
    23: pa.int32(),
    700: pa.float32(),
    701: pa.float64(),
    1082: pa.date32(),
    1114: pa.timestamp("us"),
    1184: _UTC,
}

_BY_NAME: Final[dict[str, pa.DataType]] = {
    "bool": pa.bool_(),
    "boolean": pa.bool_(),
    "bytea": pa.binary(),
    "int2": pa.int16(),
    "smallint": pa.int16(),
    "int4": pa.int32(),
    "integer": pa.int32(),
    "int8": pa.int64(),
    "bigint": pa.int64(),
    "float4": pa.float32(),
    "real": pa.float32(),
    "float8": pa.float64(),
    "double precision": pa.float64(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us"),
    "timestamp without time zone": pa.timestamp("us"),
    "timestamptz": _UTC,
    "timestamp with time zone": _UTC,
}

_MODIFIER: Final = re.compile(r"\(\d+\)")


class Unrepresentable(Terminal):
    """A value that the typed column cannot hold, or that is not of PostgreSQL's form."""

    code = "value-unrepresentable"


def arrow_type(column: Column) -> pa.DataType:
    """How the column's values travel: by the number of its base type, else by the type's name."""
    if column.type_id:
        return _BY_OID.get(column.type_id, pa.string())
    return _BY_NAME.get(_MODIFIER.sub("", column.type), pa.string())


def from_bytes(values: pa.Array, object_: str) -> pa.Array:
    """Bytes (binary) as texts, if that is what they are."""
    try:
        return values.cast(pa.string())
    except pa.ArrowInvalid as error:
        raise Unrepresentable(
            "a text is not valid UTF-8",
            object_=object_,
            hint="a database with encoding SQL_ASCII may hold such texts; correct the row, or "
            "leave the column out",
            operation="decode",
            cause=error,
        ) from error


def from_text(text: pa.Array, to: pa.DataType, object_: str) -> pa.Array:
    """PostgreSQL's texts (string) as values of the type. `object_` is for the error's sake."""
    try:
        if to == pa.string():
            return text
        if to == pa.bool_():
            return pc.equal(text, "t")
        if to == pa.binary():
            return hexadecimal.to_bytes(text)
        if pa.types.is_temporal(to):
            return _times(text, to)
        return text.cast(to)
    except OverflowError as error:
        raise Unrepresentable(
            "a time is too far in the future",
            object_=object_,
            hint="times from the year 294247 on are not replicated; use 'infinity', or mask "
            "the column",
            operation="decode",
            cause=error,
        ) from error
    except (pa.ArrowInvalid, ValueError) as error:
        raise Unrepresentable(
            f"a value is not of PostgreSQL's form for {to}",
            object_=object_,
            hint="every connection must use DateStyle=ISO, TimeZone=UTC and bytea_output=hex",
            operation="decode",
            cause=error,
        ) from error


def to_text(values: pa.Array) -> pa.Array:
    """The values as the texts (string) that PostgreSQL reads the very same values from."""
    kind = values.type
    if kind == pa.string():
        return values
    if kind == pa.bool_():
        return pc.if_else(values, "t", "f")
    if kind == pa.binary():
        return hexadecimal.to_text(values)
    if pa.types.is_temporal(kind):
        return _time_texts(values)
    if pa.types.is_floating(kind):
        return _float_texts(values)
    if pa.types.is_integer(kind):
        return values.cast(pa.string())
    raise TypeError(f"no column of PostgreSQL's travels as {kind}")


# --- times ---------------------------------------------------------------------------------------

_USUAL: Final = r"^\d{4}-\d\d-\d\d( \d\d:\d\d:\d\d(\.\d{1,6})?(Z|[+-]\d\d(:\d\d)?)?)?$"
"""Years of four digits, AD, and zones without seconds. Arrow reads these."""

# In days and in microseconds since 1970: the years that have four digits.
_FIRST_DAY, _LAST_DAY = dates.date_of("0001-01-01"), dates.date_of("9999-12-31")
_DAY: Final = 86_400_000_000


def _times(text: pa.Array, to: pa.DataType) -> pa.Array:
    try:
        return text.cast(to)
    except pa.ArrowInvalid:
        pass
    usual = pc.match_substring_regex(text, _USUAL)
    number, parse = (
        (pa.int32(), dates.date_of) if to == pa.date32() else (pa.int64(), dates.micros_of)
    )
    typed = pc.if_else(usual, text, None).cast(to).cast(number)
    odd = pc.invert(usual)
    found = text.filter(odd).dictionary_encode()
    numbers = pa.array([parse(value) for value in found.dictionary.to_pylist()], number)
    return pc.replace_with_mask(typed, odd, numbers.take(found.indices)).cast(to)


def _time_texts(values: pa.Array) -> pa.Array:
    if values.type == pa.date32():
        numbers, spell = values.cast(pa.int32()), dates.date_text
        first, last = _FIRST_DAY, _LAST_DAY
    else:
        numbers = values.cast(pa.int64())
        spell = partial(dates.micros_text, zone=values.type.tz is not None)
        first, last = _FIRST_DAY * _DAY, (_LAST_DAY + 1) * _DAY - 1
    usual = pc.and_(pc.greater_equal(numbers, first), pc.less_equal(numbers, last))
    if pc.all(usual).as_py() is not False:
        return values.cast(pa.string())
    texts = pc.if_else(usual, values, None).cast(pa.string())
    odd = pc.invert(usual)
    found = numbers.filter(odd).dictionary_encode()
    spelled = pa.array([spell(number) for number in found.dictionary.to_pylist()], pa.string())
    return pc.replace_with_mask(texts, odd, spelled.take(found.indices))


# --- floating point ------------------------------------------------------------------------------


def _float_texts(values: pa.Array) -> pa.Array:
    """Arrow writes the shortest digits that read back as the same number, as PostgreSQL does."""
    texts = values.cast(pa.string())
    finite = pc.is_finite(values)
    if pc.all(finite).as_py() is not False:
        return texts
    special = pc.if_else(
        pc.is_nan(values), "NaN", pc.if_else(pc.greater(values, 0), "Infinity", "-Infinity")
    )
    return pc.if_else(finite, texts, special)
