"""Which rows differ, in tables of every kind of key."""

from collections.abc import Iterator

import msgspec
import pytest
from psycopg import sql

from lockgate.endpoints.postgres.diff import finding
from lockgate.endpoints.postgres.diff.items import KeySpace
from lockgate.endpoints.postgres.diff.survey import look, paired
from lockgate.endpoints.postgres.embedded import EmbeddedPostgres
from lockgate.model.diffs import DiffColumn, DiffSample, RowKind
from lockgate.model.tables import TableName
from tests.support.databases import fresh_database
from tests.support.diffs import Pair, pair_of


@pytest.fixture(scope="module")
def servers(pg16: EmbeddedPostgres, pg18: EmbeddedPostgres) -> Iterator[Pair]:
    with (
        fresh_database(pg16) as source,
        fresh_database(pg18) as target,
        pair_of(source, target) as pair,
    ):
        yield pair


@pytest.fixture
def pair(servers: Pair) -> Pair:
    """The two, with no table `t`."""
    servers.both("DROP TABLE IF EXISTS t, u CASCADE")
    return servers


KEYS = {
    "int": ("id int PRIMARY KEY", "n"),
    "text": ('id text COLLATE "C" PRIMARY KEY', "'k' || n"),
    "text in another collation": ("id text PRIMARY KEY", "'k' || n"),
    "numeric": ("id numeric PRIMARY KEY", "n / 8.0"),
    "float": ("id float8 PRIMARY KEY", "n / 8.0"),
    "uuid": ("id uuid PRIMARY KEY", "md5(n::text)::uuid"),
    "time": ("id timestamptz PRIMARY KEY", "timestamptz 'epoch' + n * interval '1 s'"),
    "pair": ("a int, b text, PRIMARY KEY (b, a)", "n, (n % 7)::text"),
    "unique": ("id int NOT NULL UNIQUE", "n"),
    "jsonb": ("id jsonb PRIMARY KEY", "to_jsonb(n)"),
}


@pytest.mark.parametrize(("columns", "key"), KEYS.values(), ids=KEYS)
def test_one_missing_one_extra_one_changed(pair: Pair, columns: str, key: str) -> None:
    pair.both(f"CREATE TABLE t (v int, {columns})")
    names = "id" if columns.startswith("id") else "a, b"
    into = f"INSERT INTO t ({names}, v) SELECT {key}, n FROM generate_series"
    pair.both(f"{into}(1, 2000) n")
    pair.there.execute("DELETE FROM t WHERE v = 50")
    pair.there.execute(f"{into}(5001, 5001) n")
    pair.there.execute("UPDATE t SET v = 7777 WHERE v = 700")
    found = pair.compare()
    assert (found.rows, found.missing, found.extra, found.different) == (2000, 1, 1, 1)
    shown = {sample.kind: {each.name: each for each in sample.columns} for sample in found.samples}
    assert shown[RowKind.MISSING]["v"] == DiffColumn("v", "50", None)
    assert shown[RowKind.EXTRA]["v"] == DiffColumn("v", None, "5001")
    assert shown[RowKind.DIFFERENT] == {"v": DiffColumn("v", "700", "7777")}


def test_a_sample_has_the_key_by_its_columns(pair: Pair) -> None:
    pair.both("CREATE TABLE t (v int, a int, b text, PRIMARY KEY (b, a))")
    pair.both("INSERT INTO t VALUES (1, 2, 'x')")
    pair.there.execute("UPDATE t SET v = NULL")
    assert pair.compare().samples == (
        DiffSample(RowKind.DIFFERENT, {"b": "x", "a": "2"}, (DiffColumn("v", "1", None),)),
    )


def test_rows_without_a_key_are_counted(pair: Pair) -> None:
    pair.both("CREATE TABLE t (v int, w text)")
    pair.both("INSERT INTO t SELECT n % 10, NULL FROM generate_series(1, 100) n")
    pair.here.execute("INSERT INTO t VALUES (3, NULL), (3, NULL), (77, 'x')")
    pair.there.execute("INSERT INTO t VALUES (4, NULL)")
    found = pair.compare()
    assert (found.rows, found.missing, found.extra, found.different) == (103, 3, 1, 0)
    assert {sample.columns for sample in found.samples} == {
        (DiffColumn("v", "3", None), DiffColumn("w", None, None)),
        (DiffColumn("v", "77", None), DiffColumn("w", "x", None)),
        (DiffColumn("v", None, "4"), DiffColumn("w", None, None)),
    }


@pytest.mark.parametrize("emptied", ["here", "there"])
def test_a_side_without_rows(pair: Pair, emptied: str) -> None:
    pair.both("CREATE TABLE t (id int PRIMARY KEY)")
    pair.both("INSERT INTO t SELECT generate_series(1, 500)")
    getattr(pair, emptied).execute("DELETE FROM t")
    found = pair.compare()
    expected = (0, 500) if emptied == "here" else (500, 0)
    assert (found.missing, found.extra, len(found.samples)) == (*expected, 20)


def test_much_that_differs_is_looked_at_in_turns(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(finding, "_AT_ONCE", 100)
    pair.both("CREATE TABLE t (id int PRIMARY KEY, v int)")
    pair.both("INSERT INTO t SELECT n, n FROM generate_series(1, 3000) n")
    pair.there.execute("UPDATE t SET v = -v")
    assert pair.compare().different == 3000


def test_ranges_share_the_rows_out(pair: Pair) -> None:
    pair.both("CREATE TABLE t (id numeric PRIMARY KEY)")
    pair.both("INSERT INTO t SELECT n / 4.0 FROM generate_series(-100, 100) n")
    pair.there.execute("UPDATE t SET id = 100.125 WHERE id = 0.25")
    spaces = [KeySpace(0, None, ("0.250",)), KeySpace(1, ("0.25",), ("3",)), KeySpace(2, ("3",))]
    found = pair.receipts(spaces=spaces)
    assert [(each.rows, each.missing, each.extra) for each in found] == [
        (101, 0, 0),
        (11, 1, 0),
        (89, 0, 1),
    ]


def test_shares_of_the_hash_share_the_rows_out(pair: Pair) -> None:
    pair.both("CREATE TABLE t (id text PRIMARY KEY, v int)")
    pair.both("INSERT INTO t SELECT n::text, n FROM generate_series(1, 1000) n")
    pair.there.execute("UPDATE t SET v = 0 WHERE id = '17'")
    found = pair.receipts(spaces=[KeySpace(n, share=n, shares=3) for n in range(3)])
    assert sum(each.rows for each in found) == 1000
    assert all(each.rows > 200 for each in found)
    assert sum(each.different for each in found) == 1


def test_a_row_filter_is_the_source_s(pair: Pair) -> None:
    pair.both("CREATE TABLE t (id int PRIMARY KEY, v int)")
    pair.both("INSERT INTO t SELECT n, n % 2 FROM generate_series(1, 10) n")
    pair.there.execute("DELETE FROM t WHERE v = 0")
    assert pair.compare(pair.selection(row_filter="v = 1")).differing == 0


def test_a_table_under_another_name(pair: Pair) -> None:
    pair.here.execute("CREATE TABLE t (id int PRIMARY KEY)")
    pair.there.execute("CREATE TABLE u (id int PRIMARY KEY)")
    pair.here.execute("INSERT INTO t VALUES (1)")
    found = pair.compare(pair.selection(target=TableName("public", "u")))
    assert (found.table, found.missing) == ("public.t", 1)


def test_partitions_against_one_table(pair: Pair) -> None:
    pair.here.execute("CREATE TABLE t (id int PRIMARY KEY) PARTITION BY RANGE (id)")
    pair.here.execute("CREATE TABLE t_1 PARTITION OF t FOR VALUES FROM (0) TO (50)")
    pair.here.execute("CREATE TABLE t_2 PARTITION OF t FOR VALUES FROM (50) TO (100)")
    pair.there.execute("CREATE TABLE t (id int PRIMARY KEY)")
    pair.both("INSERT INTO t SELECT generate_series(0, 99)")
    assert pair.compare().differing == 0


def test_names_that_need_quotes(pair: Pair) -> None:
    pair.both('CREATE TABLE t ("a""; DROP TABLE t; --" int PRIMARY KEY, "{v} %s" text)')
    pair.both("INSERT INTO t VALUES (1, 'x')")
    pair.there.execute(sql.SQL("UPDATE t SET {} = 'y'").format(sql.Identifier("{v} %s")))
    [sample] = pair.compare().samples
    assert sample.key == {'a"; DROP TABLE t; --': "1"}


class TestWhatIsCompared:
    def test_generated_columns_are_not(self, pair: Pair) -> None:
        pair.both(
            "CREATE TABLE t (id int PRIMARY KEY, v int, w int GENERATED ALWAYS AS (v) STORED)"
        )
        [found] = pair.survey()
        assert found.table is not None
        assert found.table.names == ("id", "v")

    def test_a_column_that_the_target_lacks_is_named(self, pair: Pair) -> None:
        pair.here.execute("CREATE TABLE t (id int PRIMARY KEY, v int)")
        pair.there.execute("CREATE TABLE t (id int PRIMARY KEY)")
        [found] = pair.survey()
        assert found.lacks == ("v",)

    def test_a_column_of_the_target_alone_is_noted(self, pair: Pair) -> None:
        pair.here.execute("CREATE TABLE t (id int PRIMARY KEY)")
        pair.there.execute("CREATE TABLE t (id int PRIMARY KEY, v int)")
        [found] = pair.survey()
        assert found.lacks == ()
        assert "column v" in found.notes[0]

    def test_a_table_that_the_target_lacks_is_trouble(self, pair: Pair) -> None:
        pair.here.execute("CREATE TABLE t (id int PRIMARY KEY)")
        [found] = pair.survey()
        assert found.trouble is not None
        assert found.trouble.what == "there is no such table at the target"


class TestOrder:
    """Ranges of keys only where both sides sort alike."""

    def test_numbers(self, pair: Pair) -> None:
        pair.here.execute("CREATE TABLE t (a int, b numeric, PRIMARY KEY (b, a))")
        pair.there.execute("CREATE TABLE t (a bigint, b numeric(9,2), PRIMARY KEY (b, a))")
        assert pair.survey()[0].ordered

    def test_not_where_the_target_s_index_is_in_another_order(self, pair: Pair) -> None:
        pair.here.execute("CREATE TABLE t (a int, b int, PRIMARY KEY (b, a))")
        pair.there.execute("CREATE TABLE t (a int, b int, PRIMARY KEY (a, b))")
        [found] = pair.survey()
        assert not found.ordered
        assert found.table is not None
        assert found.table.key == ("b", "a")

    def test_texts_by_code_point(self, pair: Pair) -> None:
        pair.both('CREATE TABLE t (id text COLLATE "C" PRIMARY KEY)')
        assert pair.survey()[0].ordered

    @pytest.mark.parametrize(
        ("here", "there", "ordered"),
        [
            ("i de-DE 153.1", "i de-DE 153.1", True),
            ("i de-DE 153.1", "i de-DE 153.2", False),
            ("c en_US.utf8 2.36", "C", False),
            (None, None, False),
        ],
    )
    def test_texts_under_one_version_of_a_collation(
        self, pair: Pair, here: str | None, there: str | None, ordered: bool
    ) -> None:
        """The embedded servers know no other collations: what they say of them is made up."""
        pair.both("CREATE TABLE t (id text PRIMARY KEY)")
        selection = pair.selection()
        seen = [
            msgspec.structs.replace(
                look(url, [selection.table]), sorting={("public", "t", "id"): said}
            )
            for url, said in ((pair.source, here), (pair.target, there))
        ]
        assert paired(selection, *seen).ordered is ordered

    def test_not_enums(self, pair: Pair) -> None:
        pair.here.execute("CREATE TYPE mood AS ENUM ('a', 'b')")
        pair.there.execute("CREATE TYPE mood AS ENUM ('b', 'a')")
        pair.both("CREATE TABLE t (id mood PRIMARY KEY)", "INSERT INTO t VALUES ('a')")
        [found] = pair.survey()
        differing = pair.compare().differing
        pair.both("DROP TABLE t", "DROP TYPE mood")
        assert (found.ordered, differing) == (False, 0)
