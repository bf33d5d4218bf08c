"""Every type's values go through segment and target by each way, and stay what they are.

The source is the server itself: values are written there as literals, read in its text form as
the stream brings them, and compared as the server prints them on both sides. Types that have a
binary COPY go that way; `beside` puts a type without one into the table, so that all go as text.
"""

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from psycopg import sql
from pyarrow import csv

from lockgate.endpoints.postgres.connect import connect
from lockgate.endpoints.postgres.pgoutput.segments import segment_schema
from lockgate.endpoints.postgres.sink import staging
from lockgate.endpoints.postgres.sink.apply import Way, apply
from lockgate.endpoints.postgres.types import arrow_type, from_text
from lockgate.model.tables import Column, TableName, TableShape
from tests.endpoints.postgres.sink.place import Place
from tests.support.databases import fresh_database

# ruff: noqa: RUF005

UNICODE = "aä€𝄞\u0301\u202e 🤷🏽‍♀️\U00020000\U0003134a\U000e0001\U000f0000\U0010ffff"
"""Of all planes that have characters: 0, 1, 2, 3, 14, 15 and 16."""
TOASTED = "".join(hashlib.sha256(bytes([n])).hexdigest() for n in range(200))
"""Too large to lie in a row, also when it is compressed."""
SPECIAL = "\\ \\N \\. \t \n \r \x01 \x7f '\" {}"


@dataclass(frozen=True)
class Kind:
    """A type, some of its values as literals, and the base type's number where it is a domain."""

    type: str
    values: tuple[str, ...]
    base: int = 0
    null: bool = True
    """It may be NULL."""
    since: int = 0
    """The first version of PostgreSQL that takes the values."""

    def __str__(self) -> str:
        return self.type

    @property
    def literals(self) -> list[str | None]:
        """Its values, and NULL if it may be that."""
        return [*self.values, *([None] if self.null else [])]


KINDS = [
    Kind("smallint", ("-32768", "0", "32767")),
    Kind("integer", ("-2147483648", "0", "2147483647")),
    Kind("bigint", ("-9223372036854775808", "0", "9223372036854775807")),
    Kind(
        "numeric",
        ("0", "-0.0001", "1.00", "1.0", "NaN", "Infinity", "-Infinity", "123456789.123456789")
        + ("10000", "9999", "0.0000", "1e-5", "100000000", "9" * 60, "-0.00000000000000000001"),
    ),
    Kind("numeric", ("9" * 131072, "-0." + "0" * 16382 + "1", "1")),
    Kind("numeric(12,4)", ("-99999999.9999", "0", "1234.5")),
    Kind("real", ("0", "-0", "1.1", "NaN", "Infinity", "-Infinity", "1e-45", "3.4028235e38")),
    Kind("double precision", ("0", "-0", "0.1", "NaN", "Infinity", "-Infinity", "5e-324", "1e308")),
    Kind("boolean", ("t", "f")),
    Kind("text", ("", " ", UNICODE, SPECIAL, "x" * 100_000, "NULL", TOASTED)),
    Kind("character varying(40)", ("", UNICODE, "\\", "null")),
    Kind("character(10)", ("", "a", "1234567890", "ä")),
    Kind("name", ("", "a name", "ä" * 31)),
    Kind('"char"', ("", "a", "\\\\", r"\200", r"\344", r"\377")),
    Kind("bytea", ("", r"\x00", r"\xdeadBEEF", r"\x" + "5c" * 5000)),
    Kind(
        "date",
        ("2024-02-29", "0001-01-01", "4713-01-01 BC", "5874897-12-31", "infinity")
        + ("-infinity", "10000-01-01", "1999-12-31", "2000-01-01"),
    ),
    Kind("time without time zone", ("00:00", "24:00:00", "12:34:56.789012")),
    Kind("time with time zone", ("00:00+00", "12:34:56.789012-15:59:59")),
    Kind(
        "timestamp without time zone",
        ("2024-02-29 12:34:56.789012", "0044-03-15 BC", "infinity")
        + ("-infinity", "1999-12-31 23:59:59.999999", "200000-01-01", "4714-11-24 BC")
        + ("294246-12-31 23:59:59.999999", "294247-01-10 04:00:54.775806"),
    ),
    Kind(
        "timestamp with time zone",
        ("2024-02-29 12:34:56.789012+07", "0044-03-15 BC", "infinity")
        + ("-infinity", "1969-12-31 23:59:59.999999", "200000-01-01 00:00:00+00")
        + ("4714-11-24 00:00:00+00 BC", "294247-01-10 04:00:54.775806+00"),
    ),
    Kind("interval", ("0", "1 year -2 mons 3 days -04:05:06.789", "178000000 years", "-1 day")),
    Kind("interval", ("infinity", "-infinity", "1 day"), since=17),
    Kind("interval[]", ("{infinity,NULL,-infinity}", "{1 day}"), since=17),
    Kind("uuid", ("00000000-0000-0000-0000-000000000000", "ffffffff-1234-5678-9abc-DEF012345678")),
    Kind("json", ("null", "[]", '{"b":  1, "a":"\\\\ \\u00e4"}', '"x"', '{"a":1, "a" : 2,"a":1}')),
    Kind("jsonb", ("null", "[]", '{"b":  1.00, "a":"\\\\ \\u00e4"}', "1e5")),
    Kind("jsonpath", ("$.a[*] ? (@ > 1)", 'strict $."ä"', '$ ? (@ like_regex "^a\\\\d")')),
    Kind(
        "integer[]",
        ("{}", "{1,NULL,3}", "{{1,2},{3,4}}", "[2:3]={5,6}", "{{1,NULL},{NULL,4}}")
        + ("{{{1,2},{3,4}},{{5,6},{7,NULL}}}", "[0:0][-1:0][3:4]={{{1,2},{3,4}}}"),
    ),
    Kind("text[]", ("{}", '{"a\\\\b","c,d",NULL,"NULL",""}')),
    Kind("text[]", ('{{a,NULL},{"",b}}', '{{{"{"}},{{"}"}}}')),
    Kind("numeric(8,2)[]", ("{1.00,NULL,-0.10}", "{NaN}")),
    Kind("bytea[]", (r'{"\\x00ff",NULL,"\\x"}', r'{{"\\x5c"},{NULL}}')),
    Kind(
        "timestamp with time zone[]",
        ('{"2024-02-29 12:34:56.789012+07",infinity,NULL}', '{"0044-03-15 00:00:00+00 BC"}'),
    ),
    Kind("mood", ("happy", "so la la", "ä")),
    Kind("mood[]", ("{}", '{happy,NULL,"so la la"}', "{{ä},{NULL}}")),
    Kind("money_sum", ("0.00", "1.50"), 1700),
    Kind("small_text", ("", UNICODE[:4]), 25),
    Kind("day", ("2024-01-01", "infinity"), 1082),
    Kind("whole", ("4", "2147483647"), 23),
    Kind("word", ("", UNICODE, SPECIAL), 25),
    Kind("moment", ("infinity", "2024-02-29 12:34:56.789012+07", "0044-03-15 BC"), 1184),
    Kind("feeling", ("happy", "ä")),
    Kind("sure", ("", "NULL", TOASTED, UNICODE), 25, null=False),
    Kind("words", ("{}", '{a,NULL,""}')),
    Kind("pair", ('(1,"a ""b"", c")', "(,)")),
    Kind("pair[]", ('{"(1,x)",NULL,"(,\\"a \\"\\"b\\"\\", c\\")"}', "{}")),
    Kind(
        "nest",
        ('("(1,""a """"b"""", c"")",happy,1.50,"{1,NULL}","[1,5)",2024-02-29)', "(,,,,,)")
        + ('("(,)",,0.00,{},empty,infinity)',),
    ),
    Kind("int4range", ("empty", "[1,10)", "(,)", "[5,)")),
    Kind("int8range", ("empty", "[-9223372036854775808,9223372036854775807)", "(,1)")),
    Kind("numrange", ("empty", "[1.0,1.00]", "(-0.5,)", "(-Infinity,NaN]")),
    Kind("daterange", ("empty", "[2024-02-29,infinity)", "(,0044-03-15 BC)")),
    Kind("tsrange", ('("2024-02-29 12:34:56.789012",infinity]', "empty")),
    Kind("tstzrange", ('["2024-01-01 00:00:00+00",infinity)', "empty", "(,)")),
    Kind("spread", ("[-0,0.1)", "(,NaN]", "empty")),
    Kind("int4multirange", ("{}", "{[1,3),[5,7)}")),
    Kind("nummultirange", ("{}", "{[1.0,1.00],(2,)}")),
    Kind("tstzmultirange", ('{["2024-01-01 00:00:00+00","2024-01-02 00:00:00+00"),[infinity,]}',)),
    Kind("spread_multirange", ("{[-1,0.1),(2,Infinity]}", "{}")),
    Kind("inet", ("127.0.0.1", "10.0.0.0/8", "::1", "fe80::1/64")),
    Kind("cidr", ("10.0.0.0/8", "2001:db8::/32")),
    Kind("macaddr", ("08:00:2b:01:02:03",)),
    Kind("macaddr8", ("08:00:2b:01:02:03:04:05",)),
    Kind("bit(5)", ("10101",)),
    Kind("bit varying", ("", "1", "0101")),
    Kind("xml", ()),  # the embedded server is built without libxml and takes NULL only
    Kind("tsvector", ("", "'a':1A 'b':2,3", "'ä''\\\\'")),
    Kind("tsquery", ("", "'a' & !'b'")),
    Kind("money", ("0", "-1.50", "92233720368547758.07")),
    Kind("point", ("(1,2)", "(-0,1e300)", "(NaN,Infinity)", "(-Infinity,5e-324)")),
    Kind("lseg", ("[(0,0),(1,-0)]", "[(NaN,0.1),(Infinity,2)]")),
    Kind("line", ("{1,2,3}", "{0,-1,0.1}")),
    Kind("box", ("(3,4),(1,2)", "(Infinity,1),(-Infinity,-0)")),
    Kind("path", ("[(0,0),(1,1)]", "((0,0),(1,1),(-0,2))", "((0.1,1e300))")),
    Kind("polygon", ("((0,0),(1,1),(-0,1))", "((1,2))")),
    Kind("circle", ("<(1,2),3>", "<(0.1,-0),Infinity>")),
    Kind("pg_lsn", ("0/0", "FFFFFFFF/FFFFFFFF")),
    Kind("oid", ("0", "4294967295")),
    Kind("xid8", ("18446744073709551615",)),
    Kind("xid", ("0", "4294967295")),
    Kind("cid", ("0", "4294967295")),
    Kind("tid", ("(0,0)", "(4294967295,65535)")),
    Kind("pg_snapshot", ("10:20:11,12", "1:1:")),
    Kind("refcursor", ("", "a cursor")),
    Kind("int2vector", ("", "1 -2")),
    Kind("oidvector", ("", "1 4294967295")),
    Kind("regclass", ("pg_class", "-", "4000000000")),  # an oid that no server comes to in a test
    Kind("regtype", ("integer", "timestamp with time zone[]")),
    Kind("regproc", ("now",)),
    Kind("regprocedure", ("lower(text)",)),
    Kind("regoperator", ("+(integer,integer)",)),
    Kind("regnamespace", ("pg_catalog",)),
    Kind("regcollation", ('"C"',)),
    Kind("regconfig", ("simple",)),
    Kind("vector", ("[1,-0,3.4e+38]", "[0.1]")),
    Kind("vector(3)", ("[1,2,3]", "[-1e-45,0.1,0]")),
    Kind("halfvec", ("[1,-0,65504]",)),
    Kind("sparsevec", ("{1:1.5,3:-2}/5", "{}/7")),
    Kind("vector[]", ('{"[1,2]",NULL}',)),
]

BINARY = [
    kind
    for kind in KINDS
    if kind.type.split("(")[0].split(" with")[0]
    in {
        *("smallint", "integer", "bigint", "numeric", "real", "double precision", "boolean"),
        *("text", "character varying", "character", "bytea", "date", "timestamp", "uuid", "json"),
        *("jsonb", "mood", "money_sum", "small_text", "day", "whole", "word", "moment"),
        *("feeling", "sure"),
    }
    and not kind.type.endswith("[]")
    and not any(len(value) > 10_000 for value in kind.values if kind.type == "numeric")
]
"""Those that are to go by binary COPY. Numbers of more digits than that are text."""

TYPES = """
    CREATE TYPE mood AS ENUM ('happy', 'so la la', 'ä');
    CREATE DOMAIN money_sum AS numeric(12,2) CHECK (value >= 0);
    CREATE DOMAIN small_text AS varchar(20);
    CREATE DOMAIN day AS date;
    CREATE DOMAIN positive AS int CHECK (value > 0);
    CREATE DOMAIN whole AS positive CHECK (value > 3);
    CREATE DOMAIN word AS text;
    CREATE DOMAIN moment AS timestamptz;
    CREATE DOMAIN feeling AS mood CHECK (value <> 'so la la');
    CREATE DOMAIN sure AS text NOT NULL;
    CREATE DOMAIN words AS text[];
    CREATE TYPE pair AS (a int, b text);
    CREATE TYPE nest AS (p pair, m mood, s money_sum, l int[], r int4range, d day);
    CREATE TYPE spread AS RANGE (subtype = float8);
"""
EXTENSIONS = "CREATE EXTENSION vector"
EXTENDED = ("vector", "halfvec", "sparsevec")
"""The types that it brings."""


@pytest.fixture(scope="module")
def url(request: pytest.FixtureRequest) -> Iterator[str]:
    with fresh_database(request.getfixturevalue(f"pg{request.param}")) as found:
        with psycopg.connect(found) as admin:
            admin.execute(f"{EXTENSIONS}; {TYPES}")
        yield found


def noting(sent: list[str], form: str, encode: Callable[..., Any]) -> Callable[..., Any]:
    def noted(*arguments: Any) -> Any:
        sent.append(form)
        return encode(*arguments)

    return noted


def printed(connection: psycopg.Connection, table: sql.Composable) -> list[bytes]:
    """The table's rows as the server prints them."""
    with connection.cursor().copy(sql.SQL("COPY {} TO STDOUT").format(table)) as copy:
        return sorted(b"".join(map(bytes, copy)).split(b"\n"))


def texts(connection: psycopg.Connection, query: str) -> pa.Array:
    """One column in text form, as the stream would bring it."""
    with connection.cursor().copy(f"COPY ({query}) TO STDOUT (FORMAT csv, FORCE_QUOTE *)") as copy:
        data = b"".join(map(bytes, copy))
    return csv.read_csv(
        pa.BufferReader(data),
        csv.ReadOptions(column_names=["c"], block_size=2**26),
        csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False),
        csv.ConvertOptions(
            column_types={"c": pa.string()},
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
            null_values=[""],
        ),
    )["c"].combine_chunks()


def changes(
    shape: TableShape, op: str, ids: list[int], values: dict[str, pa.Array], position: int
) -> pa.Table:
    schema = segment_schema(shape)
    count = len(ids)
    new = pa.StructArray.from_arrays(
        [pa.array(ids, pa.int64()), *values.values()], fields=list(schema.field("new").type)
    )
    start = position * 1000
    columns = [
        pa.array([position] * count, pa.int64()),
        pa.array(range(start, start + count), pa.int64()),
        pa.array([ord(op)] * count, pa.uint8()),
        pa.array([1] * count, pa.int64()),
        *(pa.nulls(count, schema.field(i).type) for i in (4, 5)),
        new,
        pa.nulls(count, schema.field("old").type),
    ]
    return pa.Table.from_arrays(columns, schema=schema)


@pytest.mark.parametrize(
    ("url", "beside"),
    [(18, ""), (18, "interval"), (16, "")],
    indirect=["url"],
    ids=["18", "18_as_text", "16"],
)
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_values_stay_what_they_are(
    url: str, kind: Kind, beside: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[str] = []
    for form in ("copy_bytes", "binary_bytes"):
        monkeypatch.setattr(staging, form, noting(sent, form, getattr(staging, form)))
    more = {"c": kind.type} | ({"beside": beside} if beside else {})
    columns = (
        Column("id", "bigint", 20),
        *(Column(name, type_, kind.base if name == "c" else 0) for name, type_ in more.items()),
    )
    shape = TableShape(TableName("public", "t"), columns, ("id",))
    ddl = ", ".join(["id bigint PRIMARY KEY", *(f"{name} {t}" for name, t in more.items())])
    source = connect(url, purpose="test", autocommit=True)
    if source.info.server_version < kind.since * 10_000:
        source.close()
        pytest.skip(f"not before PostgreSQL {kind.since}")
    place = Place(url, f"CREATE TABLE t ({ddl}); CREATE TABLE source (LIKE t)", shape)
    try:
        source.execute(f"SET search_path = {place.target.schema}, public")
        literals = kind.literals
        for n, literal in enumerate(literals):
            source.execute("INSERT INTO source (id, c) VALUES (%s, %s)", (n, literal))
        typed = {
            column.name: from_text(
                texts(source, f'SELECT "{column.name}" FROM source ORDER BY id'),
                arrow_type(column),
                "t.c",
            )
            for column in columns[1:]
        }
        ids = list(range(len(literals)))
        inserted = changes(shape, "I", ids, typed, 1)
        assert apply(place.item(1), url, read=lambda *_: inserted, way=Way.PLAIN).error is None
        target, wanted = sql.Identifier("t"), sql.Identifier("source")
        assert printed(source, target) == printed(source, wanted)

        # Once more through staging: first other values, then the right ones again. And so on.
        turned = {name: pa.concat_arrays([v[1:], v[:1]]) for name, v in typed.items()}
        for position, (op, values, way) in enumerate(
            [
                ("U", turned, Way.PLAIN),
                ("U", typed, Way.PLAIN),
                ("U", turned, Way.ORDERED),
                ("U", typed, Way.REWRITING),
                ("U", turned, Way.FEW),
                ("U", typed, Way.FEW),
                ("I", typed, Way.FEW),
            ],
            2,
        ):
            if op == "I":
                place.admin.execute("DELETE FROM t")
            place.floors["s0"] = place.claim()
            updated = changes(shape, op, ids, values, position)
            receipt = apply(place.item(position), url, read=lambda *_, u=updated: u, way=way)
            assert receipt.error is None
            assert receipt.rows == len(ids)
            same = printed(source, target) == printed(source, wanted)
            assert same == (values is typed or len(literals) == 1)
    finally:
        source.close()
        place.close()
    # A value that the binary form gets wrong would go as text, and nobody would notice.
    assert ("copy_bytes" not in sent) == (kind in BINARY and not beside)


@pytest.mark.parametrize("url", [16], indirect=True)
@pytest.mark.parametrize("way", list(Way))
def test_an_infinite_interval_is_refused_where_it_is_not_known(url: str, way: Way) -> None:
    shape = TableShape(
        TableName("public", "t"),
        (Column("id", "bigint", 20), Column("c", "interval", 1186)),
        ("id",),
    )
    place = Place(url, "CREATE TABLE t (id bigint PRIMARY KEY, c interval)", shape)
    try:
        infinite = changes(shape, "I", [7], {"c": pa.array(["infinity"])}, 1)
        receipt = apply(place.item(1), url, read=lambda *_: infinite, way=way)
        assert receipt.error is not None
        assert receipt.error.code == "data-refused"
        assert "id=7" in receipt.error.object
        assert place.rows() == {}
    finally:
        place.close()
