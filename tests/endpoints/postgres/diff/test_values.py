"""What counts as equal: values of every type on PostgreSQL 16 against the same and others on 18."""

from collections.abc import Iterator

import pytest

from lockgate.endpoints.postgres.embedded import EmbeddedPostgres
from lockgate.model.feed_config import Mask, MaskKind
from tests.support.databases import fresh_database
from tests.support.diffs import Pair, pair_of

TYPES = """
CREATE TYPE mood AS ENUM ('sad', 'ok');
CREATE TYPE point3 AS (x int, y text);
CREATE DOMAIN grade AS numeric(6,2);
"""


@pytest.fixture(scope="module")
def servers(pg16: EmbeddedPostgres, pg18: EmbeddedPostgres) -> Iterator[Pair]:
    """An old server as the source of a new one."""
    with (
        fresh_database(pg16) as source,
        fresh_database(pg18) as target,
        pair_of(source, target) as pair,
    ):
        pair.both(TYPES)
        yield pair


@pytest.fixture
def pair(servers: Pair) -> Pair:
    """The two, with no table `t`."""
    servers.both("DROP TABLE IF EXISTS t")
    return servers


EQUAL = {
    "numeric scale": ("numeric", "1.0", "1.00"),
    "numeric zero": ("numeric", "0", "0.000"),
    "numeric of two precisions": ("numeric", "1.5::numeric(8,4)", "1.5::numeric(3,1)"),
    "domain over numeric": ("grade", "7.5", "7.50"),
    "negative zero": ("float8", "'-0'", "'0'"),
    "negative zero, single": ("float4", "'-0'", "'0'"),
    "not a number": ("float8", "'NaN'", "'Infinity'::float8 - 'Infinity'::float8"),
    "numeric not a number": ("numeric", "'NaN'", "'NaN'"),
    "zones": ("timestamptz", "'2024-07-01 12:00+02'", "'2024-07-01 10:00+00'"),
    "infinite time": ("timestamptz", "'infinity'", "'infinity'"),
    "old time": ("timestamp", "'4713-01-01 00:00:00 BC'", "'4713-01-01 BC'"),
    "infinite date": ("date", "'-infinity'", "'-infinity'"),
    "padded": ("char(8)", "'a'", "'a   '"),
    "enum": ("mood", "'ok'", "'ok'"),
    "composite": ("point3", "ROW(1, NULL)", "ROW(1, NULL)"),
    "composite of NULLs": ("point3", "ROW(NULL, NULL)", "ROW(NULL, NULL)"),
    "jsonb": ("jsonb", """'{"b": 1, "a": [2]}'""", """'{"a":[2],"b":1}'"""),
    "array": ("int[]", "'{1,NULL}'", "ARRAY[1, NULL]"),
    "bytes": ("bytea", r"'\x00ff'", r"'\000\377'"),
    "uuid": (
        "uuid",
        "'00000000000000000000000000000001'",
        "'{00000000-0000-0000-0000-000000000001}'",
    ),
    "wide": ("text", "repeat('x', 300000)", "repeat('x', 300000)"),
    "umlaut": ("text", "'ä€𝄞'", "U&'\\00E4\\20AC\\+01D11E'"),
    "interval": ("interval", "'1 day 2 hours'", "'1 day 02:00'"),
    "bool": ("bool", "'yes'", "true"),
    "null": ("text", "NULL", "NULL"),
    "range": ("int4range", "'[1,4]'", "'[1,5)'"),
}

DIFFERENT = {
    "empty against NULL": ("text", "''", "NULL"),
    "zero against NULL": ("int", "0", "NULL"),
    "numeric zero against NULL": ("numeric", "0", "NULL"),
    "float zero against NULL": ("float8", "0", "NULL"),
    "false against NULL": ("bool", "false", "NULL"),
    "epoch against NULL": ("timestamptz", "'epoch'", "NULL"),
    "first day against NULL": ("date", "'1970-01-01'", "NULL"),
    "no bytes against NULL": ("bytea", "''", "NULL"),
    "nil against NULL": ("uuid", "'00000000-0000-0000-0000-000000000000'", "NULL"),
    "composite of NULLs against NULL": ("point3", "ROW(NULL, NULL)", "NULL"),
    "empty array against NULL": ("int[]", "'{}'", "NULL"),
    "json null against NULL": ("jsonb", "'null'", "NULL"),
    "sign": ("numeric", "5", "-5"),
    "sign, of a precision": ("numeric(8,2)", "5", "-5"),
    "ten thousand": ("numeric", "1", "10000"),
    "numeric infinity against NaN": ("numeric", "'Infinity'", "'NaN'"),
    "infinities": ("numeric", "'Infinity'", "'-Infinity'"),
    "numeric NaN against zero": ("numeric", "'NaN'", "0"),
    "halves of a bigint exchanged": ("bigint", "5", "(1::bigint << 32) | 4"),
    "signed bigint": ("bigint", "7", "-8"),
    "smallest float": ("float8", "0", "4.9406564584124654e-324"),
    "last bit": ("float8", "0.1", "0.1::float8 + 1.4e-17::float8"),
    "microsecond": ("timestamptz", "'2024-01-01 00:00:00.000001Z'", "'2024-01-01Z'"),
    "microsecond, far": ("timestamptz", "'9999-01-01 00:00:00.000001Z'", "'9999-01-01Z'"),
    "microsecond of a time": ("time", "'23:59:59.999999'", "'23:59:59.999998'"),
    "folded time": (
        "timestamp",
        "'2024-01-01'",
        "'2024-01-01'::timestamp + interval '4294.967297 s'",
    ),
    "zone of a time": ("timetz", "'12:00+00'", "'13:00+01'"),
    "month against 30 days": ("interval", "'1 month'", "'30 days'"),
    "day against 24 hours": ("interval", "'1 day'", "'24:00'"),
    "case": ("text", "'a'", "'A'"),
    "blank": ("text", "'a'", "'a '"),
    "enum": ("mood", "'sad'", "'ok'"),
    "bounds of an array": ("int[]", "'{1,2}'", "'[0:1]={1,2}'"),
    "depth of an array": ("int[]", "'{1,2}'", "'{{1,2}}'"),
    "sign in jsonb": ("jsonb", """'{"a": 5}'""", """'{"a": -5}'"""),
    "order in json": ("json", """'{"a":1,"b":2}'""", """'{"b":2,"a":1}'"""),
    "composed letter": ("text", "U&'\\00E4'", "U&'a\\0308'"),
}


def _told(pair: Pair, cases: dict[str, tuple[str, str, str]]) -> dict[str, list[str]]:
    """For each case the columns that differ. Each has a column of its own and a row of its own, so
    that nothing but its value is in the hash of its row."""
    columns = [f"c{n} {type_}" for n, (type_, _, _) in enumerate(cases.values())]
    pair.both(f"CREATE TABLE t (id int PRIMARY KEY, {', '.join(columns)})")
    for n, (_, here, there) in enumerate(cases.values()):
        pair.here.execute(f"INSERT INTO t (id, c{n}) VALUES ({n}, {here})")
        pair.there.execute(f"INSERT INTO t (id, c{n}) VALUES ({n}, {there})")
    found = {
        str(sample.key["id"]): [column.name for column in sample.columns]
        for sample in pair.compare(samples=1000).samples
    }
    return {name: found.get(str(n), []) for n, name in enumerate(cases)}


@pytest.fixture(scope="module")
def told_equal(servers: Pair) -> dict[str, list[str]]:
    servers.both("DROP TABLE IF EXISTS t")
    return _told(servers, EQUAL)


@pytest.fixture(scope="module")
def told_different(servers: Pair) -> dict[str, list[str]]:
    servers.both("DROP TABLE IF EXISTS t")
    return _told(servers, DIFFERENT)


@pytest.mark.parametrize("case", EQUAL)
def test_equal(told_equal: dict[str, list[str]], case: str) -> None:
    assert told_equal[case] == []


@pytest.mark.parametrize("case", DIFFERENT)
def test_different(told_different: dict[str, list[str]], case: str) -> None:
    assert told_different[case] == [f"c{list(DIFFERENT).index(case)}"]


EXCHANGED = {
    "texts": ("text", "'a'", "'b'"),
    "floats and zero": ("float8", "0", "5"),
    "dates and the epoch": ("date", "'1970-01-01'", "'2024-01-01'"),
    "numbers": ("int", "1", "2"),
    "NULL": ("int", "NULL", "0"),
    "numerics": ("numeric", "1", "10000"),
    "numerics of zero": ("numeric", "0", "'NaN'"),
}


def test_values_exchanged_between_columns(pair: Pair) -> None:
    columns = [f"v{n} {type_}, w{n} {type_}" for n, (type_, _, _) in enumerate(EXCHANGED.values())]
    pair.both(f"CREATE TABLE t (id int PRIMARY KEY, {', '.join(columns)})")
    for n, (_, one, other) in enumerate(EXCHANGED.values()):
        pair.here.execute(f"INSERT INTO t (id, v{n}, w{n}) VALUES ({n}, {one}, {other})")
        pair.there.execute(f"INSERT INTO t (id, v{n}, w{n}) VALUES ({n}, {other}, {one})")
    assert pair.compare().different == len(EXCHANGED)


def test_values_exchanged_between_rows(pair: Pair) -> None:
    """Eight times each, in one range: sums over columns would be the same."""
    columns = [f"v{n} {type_}" for n, (type_, _, _) in enumerate(EXCHANGED.values())]
    pair.both(f"CREATE TABLE t (id serial PRIMARY KEY, {', '.join(columns)})")
    for n, (_, one, other) in enumerate(EXCHANGED.values()):
        for _ in range(8):
            pair.here.execute(f"INSERT INTO t (v{n}) VALUES ({one}), ({other})")
            pair.there.execute(f"INSERT INTO t (v{n}) VALUES ({other}), ({one})")
    assert pair.compare().different == 16 * len(EXCHANGED)


WIDENED = {
    "int to bigint": ("int", "bigint", "5"),
    "int to numeric": ("int", "numeric", "5"),
    "bigint to numeric(20,2)": ("bigint", "numeric(20,2)", "-4294967296"),
    "numeric(8,2) to numeric": ("numeric(8,2)", "numeric", "'NaN'"),
    "varchar to text": ("varchar(9)", "text", "'x'"),
    "real to double": ("real", "double precision", "0.5"),
    "enum to text": ("mood", "text", "'ok'"),
    "uuid to text": ("uuid", "text", "'00000000-0000-0000-0000-00000000000a'"),
}


def test_columns_of_other_types(pair: Pair) -> None:
    cases = list(enumerate(WIDENED.values()))
    narrow = [f"c{n} {type_}" for n, (type_, _, _) in cases]
    wide = [f"c{n} {wider}" for n, (_, wider, _) in cases]
    pair.here.execute(f"CREATE TABLE t (id int PRIMARY KEY, {', '.join(narrow)})")
    pair.there.execute(f"CREATE TABLE t (id bigint PRIMARY KEY, {', '.join(wide)})")
    for n, (_, _, value) in cases:
        pair.both(f"INSERT INTO t (id, c{n}) VALUES ({n}, {value})")
    assert pair.compare().samples == ()
    for n, _ in cases:
        pair.there.execute(f"UPDATE t SET c{n} = NULL WHERE id = {n}")
    assert pair.compare().different == len(cases)


MASKS = {
    "hash": (Mask(MaskKind.HASH), "encode(sha256('a'), 'hex')"),
    "null": (Mask(MaskKind.NULL), "NULL"),
    "fixed": (Mask(MaskKind.FIXED, "x'{}"), "'x''{}'"),
}


@pytest.mark.parametrize(("mask", "stored"), MASKS.values(), ids=MASKS)
def test_a_masked_column(pair: Pair, mask: Mask, stored: str) -> None:
    pair.both("CREATE TABLE t (id int PRIMARY KEY, v text)")
    pair.here.execute("INSERT INTO t VALUES (1, 'a')")
    pair.there.execute(f"INSERT INTO t VALUES (1, {stored})")
    selection = pair.selection(masks={"v": mask})
    assert pair.compare(selection).differing == 0
    pair.there.execute("UPDATE t SET v = 'a'")
    assert pair.compare(selection).different == 1


def test_settings_of_a_database_do_not_matter(pair: Pair) -> None:
    name = pair.there.info.dbname
    for setting in ("timezone = 'Asia/Tokyo'", "datestyle = 'SQL, DMY'", "bytea_output = 'escape'"):
        pair.there.execute(f'ALTER DATABASE "{name}" SET {setting}')
    pair.both(
        "CREATE TABLE t (id timestamptz PRIMARY KEY, b bytea[], d date[], i interval)",
        r"INSERT INTO t VALUES ('2024-01-01Z', '{\\x00}', '{2024-02-01}', '1 day')",
    )
    assert pair.compare().differing == 0


def test_a_thousand_columns(pair: Pair) -> None:
    columns = ", ".join(f"c{n} {('int', 'text', 'numeric')[n % 3]}" for n in range(1000))
    pair.both(f"CREATE TABLE t (id int PRIMARY KEY, {columns})", "INSERT INTO t (id) VALUES (1)")
    assert pair.compare().differing == 0
    pair.there.execute("UPDATE t SET c998 = 0")
    [sample] = pair.compare().samples
    assert [column.name for column in sample.columns] == ["c998"]
