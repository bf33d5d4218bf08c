"""Rows of the target are made what the source has, in tables of every kind (D5)."""

from collections.abc import Iterator
from typing import Any

import msgspec
import psycopg
import pytest

from lockgate.endpoints.postgres.cutover import MoveMark, block, guard, seal
from lockgate.endpoints.postgres.diff import repair
from lockgate.endpoints.postgres.diff.finding import Difference
from lockgate.endpoints.postgres.diff.items import DiffItem, KeySpace
from lockgate.endpoints.postgres.diff.repair import repair_task
from lockgate.endpoints.postgres.diff.snapshots import apart
from lockgate.endpoints.postgres.embedded import EmbeddedPostgres
from lockgate.model.diffs import RangeOutcome
from lockgate.model.feed_config import Mask, MaskKind
from lockgate.model.tables import TableName
from tests.endpoints.postgres.diff.test_finding import KEYS
from tests.support.databases import fresh_database
from tests.support.diffs import Pair, pair_of, receipts_of
from tests.support.roles import role
from tests.support.waiting import until


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


def _numbers(found: RangeOutcome) -> tuple[int, int, int, int, int]:
    return found.missing, found.extra, found.different, found.repaired, found.left


def _is_equal(pair: Pair) -> bool:
    return pair.compare().differing == 0


@pytest.mark.parametrize(("columns", "key"), KEYS.values(), ids=KEYS)
def test_missing_extra_and_changed_rows_among_many(pair: Pair, columns: str, key: str) -> None:
    pair.both(f"CREATE TABLE t (v int, {columns})")
    names = "id" if columns.startswith("id") else "a, b"
    into = f"INSERT INTO t ({names}, v) SELECT {key}, n FROM generate_series"
    pair.both(f"{into}(1, 2000) n")
    pair.there.execute("DELETE FROM t WHERE v % 500 = 1")
    pair.there.execute(f"{into}(5001, 5003) n")
    pair.there.execute("UPDATE t SET v = -v WHERE v IN (700, 800)")
    assert _numbers(pair.repair()) == (4, 3, 2, 9, 0)
    assert _is_equal(pair)


def test_nothing_is_written_where_nothing_differs(pair: Pair) -> None:
    pair.both("CREATE TABLE t (id int PRIMARY KEY, v int)", "INSERT INTO t VALUES (1, 1)")
    [(before,)] = pair.there.execute("SELECT xmin::text FROM t").fetchall()
    assert _numbers(pair.repair()) == (0, 0, 0, 0, 0)
    assert pair.there.execute("SELECT xmin::text FROM t").fetchall() == [(before,)]


def test_a_repair_is_made_in_batches(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repair, "_BATCH", 7)
    pair.both("CREATE TABLE t (id int PRIMARY KEY, v text)")
    pair.both("INSERT INTO t SELECT n, 'v' || n FROM generate_series(1, 100) n")
    pair.there.execute("UPDATE t SET v = '' WHERE id % 4 = 0")
    assert _numbers(pair.repair()) == (0, 0, 25, 25, 0)
    [(transactions,)] = pair.there.execute("SELECT count(DISTINCT xmin::text) FROM t").fetchall()
    assert transactions == 5  # one inserted them all; four batches of at most seven
    assert _is_equal(pair)


def test_only_the_range_is_repaired(pair: Pair) -> None:
    pair.both("CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (1), (20)")
    pair.there.execute("DELETE FROM t")
    assert pair.repair(spaces=[KeySpace(0, None, ("10",))]).repaired == 1
    assert pair.there.execute("SELECT id FROM t").fetchall() == [(1,)]


def test_rows_without_a_key_are_deleted_and_inserted_by_number(pair: Pair) -> None:
    pair.both("CREATE TABLE t (v int, w text)")
    pair.both("INSERT INTO t SELECT n % 10, NULL FROM generate_series(1, 100) n")
    pair.here.execute("INSERT INTO t VALUES (3, NULL), (3, NULL), (77, 'x')")
    pair.there.execute("INSERT INTO t VALUES (4, NULL), (4, NULL), (5, '')")
    pair.there.execute("DELETE FROM t WHERE v = 9")
    assert _numbers(pair.repair()) == (13, 3, 0, 16, 0)
    counts = "SELECT v, w, count(*) FROM t GROUP BY v, w ORDER BY v, w"
    assert pair.there.execute(counts).fetchall() == pair.here.execute(counts).fetchall()


def test_partitions_without_a_key(pair: Pair) -> None:
    pair.both(
        "CREATE TABLE t (v int, w int) PARTITION BY LIST (w)",
        "CREATE TABLE t_0 PARTITION OF t FOR VALUES IN (0)",
        "CREATE TABLE t_1 PARTITION OF t FOR VALUES IN (1)",
        "INSERT INTO t SELECT n, n % 2 FROM generate_series(1, 20) n",
    )
    pair.there.execute("UPDATE t SET v = 1 WHERE v < 6")
    assert pair.repair().left == 0
    assert _is_equal(pair)


def test_values_that_changed_places_under_a_unique_index(pair: Pair) -> None:
    pair.both("CREATE TABLE t (id int PRIMARY KEY, u int UNIQUE, own text)")
    pair.both("INSERT INTO t SELECT n, n FROM generate_series(1, 10) n")
    pair.here.execute("ALTER TABLE t DROP own")
    pair.there.execute("UPDATE t SET own = 'own ' || id")
    pair.there.execute("UPDATE t SET u = -u")
    pair.there.execute("UPDATE t SET u = 11 + u")
    pair.there.execute("DELETE FROM t WHERE id = 1")
    pair.there.execute("INSERT INTO t VALUES (50, 99, 'new')")
    assert _numbers(pair.repair()) == (1, 1, 9, 11, 0)
    assert pair.there.execute("SELECT id, u, own FROM t ORDER BY id").fetchall() == [
        (1, 1, None),
        *((n, n, f"own {n}") for n in range(2, 11)),
    ]


def test_triggers_and_foreign_keys_do_not_act(pair: Pair) -> None:
    pair.both(
        "CREATE TABLE u (id int PRIMARY KEY)",
        "CREATE TABLE t (id int PRIMARY KEY, u int REFERENCES u, v text)",
        "INSERT INTO u VALUES (1)",
        "INSERT INTO t SELECT n, 1, 'v' FROM generate_series(1, 10) n",
    )
    pair.there.execute(
        "CREATE OR REPLACE FUNCTION spoil() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN NEW.v = 'spoilt'; RETURN NEW; END $$"
    )
    pair.there.execute("DELETE FROM t")
    pair.there.execute("DELETE FROM u")
    pair.there.execute(
        "CREATE TRIGGER spoil BEFORE INSERT OR UPDATE ON t FOR EACH ROW EXECUTE FUNCTION spoil()"
    )
    assert _numbers(pair.repair()) == (10, 0, 0, 10, 0)
    assert pair.repair(pair.selection("u")).repaired == 1
    assert _is_equal(pair)


def test_identity_and_generated_columns(pair: Pair) -> None:
    pair.both(
        "CREATE TABLE t (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, v int, "
        "w int GENERATED ALWAYS AS (v * 2) STORED)",
        "INSERT INTO t (v) SELECT n FROM generate_series(1, 10) n",
    )
    pair.there.execute("UPDATE t SET v = 0 WHERE id < 4")
    pair.there.execute("DELETE FROM t WHERE id = 9")
    assert _numbers(pair.repair()) == (1, 0, 3, 4, 0)
    assert pair.there.execute("SELECT sum(w), count(*) FROM t").fetchall() == [(110, 10)]


def test_an_identity_beside_the_key_is_written_with_a_new_row(pair: Pair) -> None:
    pair.both(
        "CREATE TABLE t (id int PRIMARY KEY, no int GENERATED ALWAYS AS IDENTITY, v int)",
        "INSERT INTO t (id, v) SELECT n, n FROM generate_series(1, 10) n",
    )
    pair.there.execute("DELETE FROM t WHERE id = 5")
    pair.there.execute("INSERT INTO t (id, v) VALUES (5, 5)")  # its `no` is 11
    assert _numbers(pair.repair()) == (0, 0, 1, 1, 0)
    assert _is_equal(pair)


def test_what_the_target_refuses_is_left_and_said(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(repair, "_BATCH", 1)
    pair.both("CREATE TABLE t (id int PRIMARY KEY, v int)")
    pair.here.execute("INSERT INTO t SELECT n, n FROM generate_series(1, 5) n")
    pair.there.execute("ALTER TABLE t ADD CHECK (v <> 3)")
    found = pair.repair()
    assert _numbers(found) == (5, 0, 0, 4, 1)
    assert "t_v_check" in found.reason
    assert pair.there.execute("SELECT id FROM t ORDER BY id").fetchall() == [(1,), (2,), (4,), (5,)]


@pytest.fixture
def moving(pair: Pair) -> Iterator[MoveMark]:
    """A move may have the target's table; nothing of it is left."""
    yield MoveMark("m", 1, 1)
    pair.there.execute("DROP TABLE t; DROP SCHEMA lockgate CASCADE")


@pytest.mark.parametrize(("key", "left"), [("PRIMARY KEY", 3), ("", 6)], ids=["key", "no key"])
def test_without_a_feed_a_guard_holds_a_repair_up(
    pair: Pair, moving: MoveMark, key: str, left: int
) -> None:
    pair.both(f"CREATE TABLE t (id int {key}, v int)")
    pair.both("INSERT INTO t SELECT n, n FROM generate_series(1, 10) n")
    pair.there.execute("UPDATE t SET v = 0 WHERE id < 4")
    guard(pair.target, moving, [TableName("public", "t")], at="shop")
    found = pair.repair()
    assert (found.repaired, found.left) == (0, left)
    assert "public.t is not open here yet: it is at shop" in found.reason
    assert pair.there.execute("SELECT count(*) FROM t WHERE v = 0").fetchall() == [(3,)]


def test_a_repair_does_not_go_on_beyond_the_seal(
    pair: Pair, moving: MoveMark, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It began when the table was nobody's but its own."""
    monkeypatch.setattr(repair, "_BATCH", 1)
    pair.both("CREATE TABLE t (id int PRIMARY KEY, v int)")
    pair.here.execute("INSERT INTO t SELECT n, n FROM generate_series(1, 5) n")
    found, tables = repair.differences, [TableName("public", "t")]

    def differences(*asked: Any) -> Iterator[Difference]:
        for number, each in enumerate(found(*asked)):
            if number == 2:
                there = {"moved_to": "copy", "deadline_s": 60.0, "patience_s": 9.0}
                at = block(pair.target, moving, tables, **there)
                assert seal(pair.target, moving, tables, blocked_at=at)
            yield each

    monkeypatch.setattr(repair, "differences", differences)
    outcome = pair.repair()
    assert (outcome.repaired, outcome.left) == (2, 3)
    assert "public.t has moved to copy" in outcome.reason
    assert pair.there.execute("SELECT id FROM t ORDER BY id").fetchall() == [(1,), (2,)]


def test_a_value_that_the_target_cannot_hold_does_not_pass_for_repaired(pair: Pair) -> None:
    pair.here.execute("CREATE TABLE t (id int PRIMARY KEY, v numeric)")
    pair.there.execute("CREATE TABLE t (id int PRIMARY KEY, v numeric(10, 1))")
    pair.here.execute("INSERT INTO t VALUES (1, 1.25), (2, 2.5)")
    pair.there.execute("INSERT INTO t VALUES (1, 7)")
    assert _numbers(pair.repair()) == (1, 0, 1, 2, 1)
    assert pair.there.execute("SELECT v::text FROM t ORDER BY id").fetchall() == [
        ("1.3",),
        ("2.5",),
    ]


def test_values_of_other_types_and_masked_ones(pair: Pair) -> None:
    pair.here.execute("CREATE TABLE t (id int PRIMARY KEY, v int, secret text)")
    pair.there.execute("CREATE TABLE t (id bigint PRIMARY KEY, v text, secret text)")
    pair.here.execute("INSERT INTO t VALUES (1, 5, 'a'), (2, NULL, 'b')")
    pair.there.execute("INSERT INTO t VALUES (1, '6', 'a')")
    masked = pair.selection(masks={"secret": Mask(MaskKind.FIXED, "hidden")})
    assert _numbers(pair.repair(masked)) == (1, 0, 1, 2, 0)
    assert pair.there.execute("SELECT * FROM t ORDER BY id").fetchall() == [
        (1, "5", "hidden"),
        (2, None, "hidden"),
    ]


def test_rows_outside_of_the_filter_do_not_belong_there(pair: Pair) -> None:
    pair.both("CREATE TABLE t (id int PRIMARY KEY, v int)")
    pair.both("INSERT INTO t SELECT n, n FROM generate_series(1, 6) n")
    pair.there.execute("DELETE FROM t WHERE id IN (2, 3)")
    assert _numbers(pair.repair(pair.selection(row_filter="v % 2 = 0"))) == (1, 2, 0, 3, 0)
    assert pair.there.execute("SELECT id FROM t ORDER BY id").fetchall() == [(2,), (4,), (6,)]


def test_a_source_that_was_rewritten_does_not_empty_the_target(pair: Pair) -> None:
    """To an older snapshot it has no rows."""
    pair.both("CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (1), (2)")
    with apart(pair.source, pair.target) as held:
        item = pair.item(held)
        pair.here.execute("ALTER TABLE t ALTER id TYPE bigint")
        [receipt] = receipts_of(repair_task(item))
    assert receipt.error is not None
    assert (receipt.error.code, receipt.error.retryable) == ("table-rewritten", True)
    assert pair.there.execute("SELECT count(*) FROM t").fetchall() == [(2,)]


def test_without_a_feed_the_row_of_now_is_written(pair: Pair) -> None:
    """Found under a snapshot, it has changed since; and another one has become equal."""
    pair.both("CREATE TABLE t (id int PRIMARY KEY, v int)", "INSERT INTO t VALUES (1, 1), (2, 2)")
    pair.there.execute("UPDATE t SET v = 9")
    with apart(pair.source, pair.target) as held:
        item = pair.item(held)
        pair.here.execute("UPDATE t SET v = 5 WHERE id = 1")
        pair.there.execute("UPDATE t SET v = 2 WHERE id = 2")
        [receipt] = receipts_of(repair_task(item))
    assert receipt.outcome is not None
    assert _numbers(receipt.outcome) == (0, 0, 2, 1, 0)
    assert pair.there.execute("SELECT id, v FROM t ORDER BY id").fetchall() == [(1, 5), (2, 2)]


def test_a_role_that_may_not_silence_triggers_repairs_what_it_can(pair: Pair) -> None:
    pair.both("CREATE TABLE t (id int PRIMARY KEY, v int)")
    pair.both("INSERT INTO t SELECT n, n FROM generate_series(1, 9) n")
    pair.there.execute("DELETE FROM t WHERE id = 3")
    pair.there.execute("UPDATE t SET v = 0 WHERE id = 4")
    with role(pair.target.to_wire().decode()) as (name, url):
        quoted = '"' + name.replace('"', '""') + '"'
        pair.there.execute(f"GRANT ALL ON t TO {quoted}")
        with apart(pair.source, pair.target) as held:
            item = msgspec.msgpack.decode(pair.item(held), type=DiffItem)
            as_role = msgspec.structs.replace(item, target=url.encode())
            [receipt] = receipts_of(repair_task(msgspec.msgpack.encode(as_role)))
    assert receipt.outcome is not None, receipt.error
    assert _numbers(receipt.outcome) == (1, 0, 1, 2, 0)


def test_sessions_end_with_the_task(pair: Pair) -> None:
    pair.both("CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    pair.there.execute("DELETE FROM t")
    pair.repair()
    for url in (pair.source, pair.target):
        with psycopg.connect(url.to_wire().decode(), autocommit=True) as connection:
            # A server ends a session a moment after its client has.
            until(
                lambda connection=connection: (
                    not connection.execute(
                        "SELECT FROM pg_stat_activity WHERE datname = current_database() "
                        "AND application_name LIKE 'lockgate diff%'"
                    ).fetchall()
                )
            )
