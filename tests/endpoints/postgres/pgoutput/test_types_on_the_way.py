"""Every value of every type arrives as it was, and goes into a table as the same value again."""

from typing import Any

import psycopg
import pyarrow as pa
import pytest
from psycopg import sql

from lockgate.endpoints.postgres.pgoutput.decoder import Decoded
from lockgate.endpoints.postgres.types import Unrepresentable, arrow_type, to_text
from tests.support.streams import Stream

PLANES = "aä€\U00010348😀\U00020000\U0003134a\U000e0001\U000f0000\U0010ffff\u200b\u202e\ufeff"
DATES = [
    "4714-11-24 BC",
    "4713-01-01 BC",
    "0044-03-15 BC",
    "0005-02-29 BC",
    "0001-12-31 BC",
    "0001-01-01",
    "1582-10-10",
    "1900-02-28",
    "1969-12-31",
    "2000-02-29",
    "9999-12-31",
    "10000-01-01",
    "99999-12-31",
    "5874897-12-31",
    "infinity",
    "-infinity",
]
TIMES = [
    "4714-11-24 00:00:00 BC",
    "4713-01-01 00:00:00 BC",
    "0044-03-15 12:30:00.5 BC",
    "0001-12-31 23:59:59.999999 BC",
    "0001-01-01 00:00:00",
    "1969-12-31 23:59:59.999999",
    "1970-01-01 00:00:00",
    "2024-02-29 12:34:56.789012",
    "2024-02-29 12:34:56.1",
    "2024-02-29 12:34:56.000001",
    "9999-12-31 23:59:59.999999",
    "10000-01-01 00:00:00",
    "294246-12-31 23:59:59.999999",
    "294247-01-10 04:00:54.775806",
    "infinity",
    "-infinity",
]
VALUES: dict[str, list[str]] = {
    "smallint": ["-32768", "0", "32767"],
    "integer": ["-2147483648", "0", "2147483647"],
    "bigint": ["-9223372036854775808", "0", "9223372036854775807"],
    "numeric": [
        "NaN",
        "Infinity",
        "-Infinity",
        "0.00",
        "-0.10",
        "1e-50",
        "9" * 400 + "." + "1" * 90,
    ],
    "numeric(10,2)": ["12345678.90", "-0.01"],
    "real": ["NaN", "Infinity", "-Infinity", "-0", "0", "1e-45", "3.4028235e38", "0.1", "16777217"],
    "double precision": [
        *["NaN", "Infinity", "-Infinity", "-0", "0", "5e-324", "1.7976931348623157e308"],
        *["0.1", "1e16", "123456789012345680", "1e-7", "100000", "2.2250738585072014e-308"],
    ],
    "text": ["", " ", PLANES, "a\nb\tc\\d\r", "NULL", r"\N", "'\"", "x" * 100_000],
    "varchar(40)": ["", PLANES],
    "char(5)": ["", "ab", "abcde"],
    '"char"': ["a", "", r"\200", r"\344", r"\377"],
    "name": ["n" * 63],
    "bytea": ["\\x", "\\x00", "\\x" + bytes(range(256)).hex(), "\\x5c78"],
    "boolean": ["t", "f"],
    "date": DATES,
    "time": ["00:00:00", "23:59:59.999999", "24:00:00"],
    "timetz": ["00:00:00+00", "23:59:59.5-15:59"],
    "timestamp": TIMES,
    "timestamp(2)": ["2024-02-29 12:34:56.78", "2024-02-29 12:34:56"],
    "timestamptz": [text.replace(" BC", "+00 BC") if "BC" in text else text for text in TIMES],
    "interval": ["0", "1 year 2 mons -3 days 04:05:06.789", "-178000000 years", "1 microsecond"],
    "uuid": ["00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff"],
    "json": ['{"a": [1, null, "ä"],  "a": 2}', "null", '""'],
    "jsonb": ['{"a": [1, null, "ä"], "b": 1.10}', "null", '"\\\\"'],
    "jsonpath": ["$.a[*] ? (@ > 1)"],
    "integer[]": [
        *["{}", "{1,NULL,3}", "{{1,2},{3,NULL}}", "[0:1]={1,2}"],
        *["{{{1,2},{3,4}},{{5,6},{7,NULL}}}", "[0:0][-1:0][3:4]={{{1,2},{3,4}}}"],
    ],
    "text[]": ['{"a,b","\\"","\\\\",NULL,"NULL","",ä}'],
    "bytea[]": ['{"\\\\x00ff",NULL}'],
    "timestamptz[]": ['{"2024-02-29 12:34:56+00",infinity}'],
    "mood": ["sad", 'it\'s "ok"'],
    "mood[]": ["{sad,NULL}"],
    "positive": ["1", "2147483647"],
    "deep": ["3", "4"],
    "word": ["", PLANES],
    "sum": ["0.00", "1.50", "NaN"],
    "feeling": ["sad"],
    "sure": ["", PLANES],
    "moment": ["infinity", "2024-02-29 12:34:56+00", "0044-03-15 00:00:00+00 BC"],
    "pair": ["(1,x)", "(,)", '(-1,"a ""b"" , \\\\")'],
    "pair[]": ['{"(1,x)",NULL}'],
    "nest": ['("(1,""a """"b"""", c"")",sad,3,"{1,NULL}","[1,5)")', "(,,,,)"],
    "int4range": ["empty", "[1,10)", "(,5)", "(,)"],
    "int8range": ["[-9223372036854775808,9223372036854775807)"],
    "numrange": ["[1.0,1.00]", "(-Infinity,NaN]"],
    "daterange": ["[2024-02-29,infinity)", "(,0044-03-15 BC)"],
    "tsrange": ['("2024-02-29 12:34:56.789012",infinity]'],
    "tstzrange": ['["2024-01-01 00:00:00+00",infinity)'],
    "spread": ["[-0,0.1)", "(,NaN]"],
    "int4multirange": ["{}", "{[1,3),[5,7)}"],
    "nummultirange": ["{[1.0,1.00],(2,)}"],
    "tstzmultirange": ['{["2024-01-01 00:00:00+00",infinity)}'],
    "spread_multirange": ["{[-1,0.1),(2,Infinity]}"],
    "inet": ["192.168.0.1", "192.168.0.1/24", "::1/128", "2001:db8::/32"],
    "cidr": ["10.0.0.0/8", "2001:db8::/32"],
    "macaddr": ["08:00:2b:01:02:03"],
    "macaddr8": ["08:00:2b:01:02:03:04:05"],
    "bit(5)": ["01010"],
    "bit varying": ["", "0101"],
    "tsvector": ["'a':1A 'b c':2,3", ""],
    "tsquery": ["'a' & !'b'", ""],
    "money": ["-$92,233,720,368,547,758.08", "$0.01"],
    "point": ["(1.5,-0)", "(NaN,Infinity)"],
    "lseg": ["[(0,0),(1,-0)]", "[(NaN,0.1),(Infinity,2)]"],
    "box": ["(1,1),(0,0)"],
    "path": ["[(0,0),(1,1)]", "((0,0),(1,1))"],
    "polygon": ["((0,0),(1,1),(0,1))"],
    "circle": ["<(1,2),3>"],
    "line": ["{1,2,3}"],
    "oid": ["4294967295"],
    "xid8": ["18446744073709551615"],
    "pg_lsn": ["FFFFFFFF/FFFFFFFF"],
    "regclass": ["pg_class"],
    "xid": ["4294967295"],
    "tid": ["(4294967295,65535)"],
    "pg_snapshot": ["10:20:11,12"],
    "vector": ["[1,-0,3.4e+38]"],
    "bag": ['"a"=>"1", "b"=>NULL'],
}
TYPED: dict[str, pa.DataType] = {
    "smallint": pa.int16(),
    "integer": pa.int32(),
    "positive": pa.int32(),
    "deep": pa.int32(),
    "bigint": pa.int64(),
    "real": pa.float32(),
    "double precision": pa.float64(),
    "bytea": pa.binary(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us"),
    "timestamp(2)": pa.timestamp("us"),
    "timestamptz": pa.timestamp("us", "UTC"),
    "moment": pa.timestamp("us", "UTC"),
}
OWN_TYPES = r"""
CREATE TYPE mood AS ENUM ('sad', 'it''s "ok"');
CREATE DOMAIN positive AS integer CHECK (VALUE > 0);
CREATE DOMAIN deep AS positive CHECK (VALUE > 2);
CREATE DOMAIN word AS text;
CREATE DOMAIN sum AS numeric(12,2);
CREATE DOMAIN feeling AS mood;
CREATE DOMAIN sure AS text NOT NULL;
CREATE DOMAIN moment AS timestamptz;
CREATE TYPE pair AS (a integer, b text);
CREATE TYPE nest AS (p pair, m mood, d deep, l integer[], r int4range);
CREATE TYPE spread AS RANGE (subtype = float8);
CREATE EXTENSION vector;
-- A type of an extension's kind: a base type with a text form of its own.
CREATE TYPE bag;
CREATE FUNCTION bag_in(cstring) RETURNS bag LANGUAGE internal IMMUTABLE STRICT AS 'textin';
CREATE FUNCTION bag_out(bag) RETURNS cstring LANGUAGE internal IMMUTABLE STRICT AS 'textout';
CREATE TYPE bag (INPUT = bag_in, OUTPUT = bag_out, LIKE = text);
"""


def tables(stream: Stream) -> dict[str, str]:
    """A table per type, `v` with its values and a NULL; the names of the types that there are."""
    stream.execute(OWN_TYPES)
    values = dict(VALUES)
    if stream.connection.info.server_version >= 170_000:
        values["interval"] = [*VALUES["interval"], "infinity", "-infinity"]
    try:
        stream.execute("SELECT '<a/>'::xml")
        values["xml"] = ["<a>ä</a>", '<?xml version="1.0"?><b/>']
    except psycopg.errors.FeatureNotSupported:
        pass
    for number, kind in enumerate(values):
        stream.execute(f"CREATE TABLE t{number} (id integer PRIMARY KEY, v {kind})")
        stream.execute(f"CREATE TABLE back{number} (id integer PRIMARY KEY, v {kind})")
    stream.slot()
    for number, (kind, texts) in enumerate(values.items()):
        rows = list(enumerate([*texts, *([] if kind == "sure" else [None])]))
        with stream.connection.cursor() as cursor:
            cursor.executemany(f"INSERT INTO t{number} SELECT %s, %s::text::{kind}".encode(), rows)
    return {f"t{number}": kind for number, kind in enumerate(values)}


def columns(decoded: Decoded) -> dict[str, Any]:
    """By table: the shape and its rows."""
    return {
        shape.table.name: (
            shape,
            pa.concat_arrays([batch.column("new") for of, batch in decoded.batches if of == shape]),
        )
        for shape, _ in decoded.batches
    }


def test_every_value_goes_there_and_back(stream: Stream) -> None:
    kinds = tables(stream)
    found = columns(stream.decoded())
    wrong = []
    for table, kind in kinds.items():
        shape, rows = found[table]
        values = rows.field("v")
        assert values.type == TYPED.get(kind, pa.string()), kind
        assert arrow_type(shape.columns[1]) == values.type
        back = table.replace("t", "back")
        texts = to_text(values).to_pylist()
        with stream.connection.cursor() as cursor:
            cursor.executemany(
                f"INSERT INTO {back} SELECT %s, %s::text::{kind}".encode(),
                list(zip(rows.field("id").to_pylist(), texts, strict=True)),
            )
        wrong += [
            (kind, *difference)
            for difference in stream.rows(
                f"SELECT a.v::text, b.v::text FROM {table} a FULL JOIN {back} b USING (id) "
                "WHERE a.v::text IS DISTINCT FROM b.v::text OR a.id IS NULL OR b.id IS NULL"
            )
        ]
        [[count]] = stream.rows(f"SELECT count(*) FROM {table}")
        assert len(values) == count
        assert values.null_count == (kind != "sure")
    assert wrong == []


def test_dates_and_times_are_the_servers_numbers(stream: Stream) -> None:
    kinds = tables(stream)
    found = columns(stream.decoded())
    epoch = "(extract(epoch FROM v) * 1000000)::numeric::bigint"
    numbers = {"date": "v - DATE '1970-01-01'", "timestamp": epoch, "timestamptz": epoch}
    for table, kind in kinds.items():
        if kind not in numbers:
            continue
        values = found[table][1].field("v")
        number = pa.int32() if kind == "date" else pa.int64()
        bits = number.bit_width - 1
        expected = stream.rows(
            f"SELECT CASE WHEN v = 'infinity' THEN {2**bits - 1} "
            f"WHEN v = '-infinity' THEN {-(2**bits)} ELSE {numbers[kind]} END "
            f"FROM {table} ORDER BY id"
        )
        assert values.cast(number).to_pylist() == [value for (value,) in expected]


@pytest.mark.parametrize(
    "text", ["294247-01-10 04:00:54.775807", "294247-01-10 04:00:54.775808", "294276-12-31 00:00"]
)
@pytest.mark.parametrize("kind", ["timestamp", "timestamptz"])
def test_times_beyond_the_type_are_refused_by_name(stream: Stream, kind: str, text: str) -> None:
    stream.execute(f"CREATE TABLE far (id int PRIMARY KEY, moment {kind})")
    stream.slot()
    stream.connection.execute(sql.SQL("INSERT INTO far VALUES (1, {})").format(text))
    with pytest.raises(Unrepresentable, match=r"public\.far\.moment"):
        stream.decoded()
