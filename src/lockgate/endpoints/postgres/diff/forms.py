"""How a column is compared: what goes into the hash of its row, on either side.

A row's hash is a chain. Each column's value is hashed with the hash of those before it as seed, by
the server's own functions, which cost a tenth of what MD5 over texts does:

    h := seed;  h := f(column, h) for each column;  h := f(which of them are NULL, h)

So a value counts together with its row and its place. Sums of hashes that were made column by
column would not tell when two rows have exchanged their values.

**Equal means equal in value**: 1.0 is 1.00, -0.0 is 0.0, NaN is NaN, and a time is a moment,
whatever its zone; NULL is nothing but NULL. PostgreSQL's hash functions are made for that, and yet
most of them cannot be taken as they are. They are there to find rows quickly, and what collides is
compared afterwards; here nothing comes after. Known collisions, and what is done about them:

    bigint, timestamp          the upper half is folded into the lower: bigints' upper half goes in
                               once more, and of times the seconds, as a float
    numeric                    the sign is not hashed, nor which one of NaN and the infinities it is
    float                      zero leaves the seed as it is: the column's place goes in as well
    jsonb, arrays, ranges,     built on those above, arrays without their bounds; intervals with a
    composites, interval       month for 30 days: hashed as text, so compared as they are written
    enum                       hashed by a number of its own database: as text

Texts are hashed by their bytes. Where one side has another type than the other, both become a
third that holds both, or texts.
"""

import enum
from collections.abc import Sequence
from typing import Final

from psycopg import sql

from lockgate.endpoints.postgres.masks import hidden
from lockgate.model.feed_config import Mask
from lockgate.model.value import Value

__all__ = ["ColumnForm", "Form", "form_of", "hash_of", "is_null", "shared_form", "text_of"]


class Form(enum.Enum):
    """What values of a column are taken for."""

    INT4 = "int4"
    INT8 = "int8"
    DECIMAL = "decimal"
    """A numeric of a given precision: never infinite."""
    NUMERIC = "numeric"
    FLOAT = "float"
    BOOL = "bool"
    TEXT = "text"
    DATE = "date"
    TIMESTAMP = "timestamp"
    TIMESTAMPTZ = "timestamptz"
    TIME = "time"
    UUID = "uuid"
    BYTEA = "bytea"
    WRITTEN = "written"
    """Whatever has a text."""


class ColumnForm(Value, frozen=True):
    """A column as one side has it, and what both sides take it for."""

    name: str
    form: Form
    nullable: bool = True
    composite: bool = False
    """A composite is NULL by itself, and not because its fields are."""
    recoded: bool = False
    """The two servers keep texts in two encodings."""
    modern: bool = False
    """The server has PostgreSQL 18's functions."""
    mask: Mask | None = None


_BY_TYPE: Final = {
    16: Form.BOOL,
    17: Form.BYTEA,
    19: Form.TEXT,
    20: Form.INT8,
    21: Form.INT4,
    23: Form.INT4,
    25: Form.TEXT,
    700: Form.FLOAT,
    701: Form.FLOAT,
    1042: Form.TEXT,
    1043: Form.TEXT,
    1082: Form.DATE,
    1083: Form.TIME,
    1114: Form.TIMESTAMP,
    1184: Form.TIMESTAMPTZ,
    1700: Form.NUMERIC,
    2950: Form.UUID,
}
"""By the number of the base type, which built-in types have alike on every server."""

_NUMBERS: Final = (Form.INT4, Form.INT8, Form.DECIMAL, Form.NUMERIC)
"""Each can be taken for those after it."""

_FLAGS: Final = 31
"""NULLs that go into one number."""
_STEP: Final = 0x1E3779B97F4A7C15
_PLACES: Final = 2**63


def form_of(type_id: int, type_: str) -> Form:
    """What a column of this type is taken for, by itself."""
    form = _BY_TYPE.get(type_id, Form.WRITTEN)
    return Form.DECIMAL if form is Form.NUMERIC and "(" in type_ else form


def shared_form(here: Form, there: Form) -> Form:
    """What both sides take their values for."""
    if here is there:
        return here
    if here in _NUMBERS and there in _NUMBERS:
        return max(here, there, key=_NUMBERS.index)
    return Form.WRITTEN


# --- in SQL ---------------------------------------------------------------------------------------

_SO_FAR: Final = sql.SQL("")
"""Where a step has the hash of those before it."""
_C: Final = 'COLLATE pg_catalog."C"'
_SECONDS: Final = "pg_catalog.date_part('epoch', {x})"

_STEPS: Final = {
    Form.INT4: "pg_catalog.hashint4extended({x}::int4, {h})",
    Form.INT8: (
        "pg_catalog.hashint8extended({x}::int8 >> 32, pg_catalog.hashint8extended({x}::int8, {h}))"
    ),
    Form.DECIMAL: (
        "pg_catalog.hash_numeric_extended({x}::numeric, "
        "pg_catalog.hashint4extended(CASE WHEN {x} < 0 THEN -1 ELSE 0 END, {h}))"
    ),
    Form.NUMERIC: (
        "pg_catalog.hash_numeric_extended({x}::numeric, "
        "pg_catalog.hashint4extended(CASE WHEN {x} < 0 THEN -1 "
        "WHEN {x} < 'Infinity'::numeric THEN 0 WHEN {x} = 'Infinity'::numeric THEN 1 "
        "ELSE 2 END, {h}))"
    ),
    Form.FLOAT: "(pg_catalog.hashfloat8extended({x}::float8, {h}) # {place})",
    Form.BOOL: "pg_catalog.hashint4extended({x}::int4, {h})",
    Form.TEXT: "pg_catalog.hashtextextended({x}::text " + _C + ", {h})",
    Form.DATE: "(pg_catalog.hashfloat8extended(" + _SECONDS + ", {h}) # {place})",
    Form.TIMESTAMP: (
        "pg_catalog.timestamp_hash_extended({x}, "
        "pg_catalog.hashfloat8extended(" + _SECONDS + ", {h}) # {place})"
    ),
    # In UTC, as all our sessions are, both are of the same microseconds.
    Form.TIMESTAMPTZ: (
        "pg_catalog.timestamp_hash_extended({x}::timestamp, "
        "pg_catalog.hashfloat8extended(" + _SECONDS + ", {h}) # {place})"
    ),
    Form.TIME: "(pg_catalog.hashfloat8extended(" + _SECONDS + ", {h}) # {place})",
    Form.UUID: "pg_catalog.uuid_hash_extended({x}, {h})",
    Form.BYTEA: ("pg_catalog.hashtextextended(pg_catalog.encode({x}, 'hex') " + _C + ", {h})"),
    Form.WRITTEN: "pg_catalog.hashtextextended({x}::text " + _C + ", {h})",
}
_MODERN_TIMESTAMPTZ: Final = (
    "pg_catalog.timestamptz_hash_extended({x}, "
    "pg_catalog.hashfloat8extended(" + _SECONDS + ", {h}) # {place})"
)
_RECODED: Final = (
    "pg_catalog.hashtextextended("
    "pg_catalog.encode(pg_catalog.convert_to({x}::text, 'UTF8'), 'hex') " + _C + ", {h})"
)

_NOTHING: Final = {
    Form.INT4: "0",
    Form.INT8: "0",
    Form.DECIMAL: "0",
    Form.NUMERIC: "0",
    Form.FLOAT: "0",
    Form.BOOL: "false",
    Form.TEXT: "''",
    Form.DATE: "'epoch'::date",
    Form.TIMESTAMP: "'epoch'::timestamp",
    Form.TIMESTAMPTZ: "'epoch'::timestamptz",
    Form.TIME: "'00:00'::time",
    Form.UUID: "'00000000-0000-0000-0000-000000000000'::uuid",
    Form.BYTEA: "''::bytea",
    Form.WRITTEN: "''",
}
"""What stands for NULL, whose flag tells it from the value itself."""


def hash_of(columns: Sequence[ColumnForm], seed: int) -> sql.Composed:
    """The hash of a row's values in these columns: 64 bits."""
    steps: list[sql.Composable] = []
    for place, column in enumerate(columns):
        value, number = _value(column), sql.Literal(_STEP * (place + 1) % _PLACES)
        steps.append(sql.SQL(_step(column)).format(x=value, place=number, h=_SO_FAR))
    # The last step mixes in any case: a sum over rows must not see what a single column left.
    for first in range(0, max(len(columns), 1), _FLAGS):
        flags: list[sql.Composable] = [
            sql.SQL("CASE WHEN {} THEN {} ELSE 0 END").format(is_null(column), sql.Literal(1 << no))
            for no, column in enumerate(columns[first : first + _FLAGS])
            if column.nullable
        ]
        steps.append(
            sql.SQL("pg_catalog.hashint4extended({}, {})").format(
                sql.SQL(" + ").join(flags) if flags else sql.Literal(0), _SO_FAR
            )
        )
    return _nested(sql.Literal(seed), steps)


def _nested(seed: sql.Composable, steps: Sequence[sql.Composable]) -> sql.Composed:
    """Each step around the one before it, as a flat list: a thousand columns are too deep to be
    composed one within the other."""
    before: list[sql.Composable] = []
    after: list[sql.Composable] = []
    for step in steps:
        assert isinstance(step, sql.Composed)
        parts = list(step)
        at = next(number for number, part in enumerate(parts) if part is _SO_FAR)
        before[:0] = parts[:at]
        after += parts[at + 1 :]
    return sql.Composed([*before, seed, *after])


def text_of(column: ColumnForm) -> sql.Composed:
    """The value as a text, the same for all values that count as equal."""
    value = _raw(column)
    if column.mask is None and column.form in {Form.DECIMAL, Form.NUMERIC}:
        return sql.SQL("pg_catalog.trim_scale({}::numeric)::text").format(value)
    if column.mask is None and column.form is Form.FLOAT:
        return sql.SQL("CASE WHEN {0} = 0 THEN '0' ELSE {0}::text END").format(value)
    return sql.SQL("{}::text").format(value)


def is_null(column: ColumnForm) -> sql.Composed:
    """Whether it has no value."""
    form = "{} IS NOT DISTINCT FROM NULL" if column.composite else "{} IS NULL"
    return sql.SQL(form).format(_raw(column))


def _step(column: ColumnForm) -> str:
    if column.recoded and column.form in {Form.TEXT, Form.WRITTEN}:
        return _RECODED
    if column.modern and column.form is Form.TIMESTAMPTZ:
        return _MODERN_TIMESTAMPTZ
    return _STEPS[column.form]


def _value(column: ColumnForm) -> sql.Composable:
    if not column.nullable:
        return _raw(column)
    value = _raw(column)
    if column.form is Form.WRITTEN:
        value = sql.SQL("{}::text").format(value)
    return sql.SQL("coalesce({}, {})").format(value, sql.SQL(_NOTHING[column.form]))


def _raw(column: ColumnForm) -> sql.Composable:
    if column.mask is not None:
        return sql.SQL("({})").format(hidden(column.name, column.mask))
    return sql.Identifier(column.name)
