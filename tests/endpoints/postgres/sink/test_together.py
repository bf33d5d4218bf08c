"""Small items of many tables in one transaction: all land together, and trouble stays one's own."""

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest
from psycopg import sql

from lockgate.endpoints.postgres.embedded import EmbeddedPostgres
from lockgate.endpoints.postgres.sink import together
from lockgate.endpoints.postgres.sink.fence import PostgresSink
from lockgate.endpoints.postgres.sink.reuse import close_idle
from lockgate.endpoints.postgres.sink.session import Limits
from lockgate.endpoints.postgres.sink.together import Ask, apply_all
from lockgate.model.apply import ApplyItem, Receipt
from lockgate.model.errors import ObjectMissing
from lockgate.model.floors import Floors, Refusal
from lockgate.model.ids import Token
from lockgate.model.spans import TRIGGER_SPEC, Birth, SpanSpec
from lockgate.model.tables import TableName
from tests.endpoints.postgres.sink.place import TOKEN
from tests.support.databases import fresh_database
from tests.support.histories import History, shape_of
from tests.support.proxy import FaultProxy
from tests.support.roles import role
from tests.support.waiting import until

COLUMNS = ("id bigint", "name text", "u integer")
DDL = "(id bigint PRIMARY KEY, name text, u int UNIQUE CHECK (u < 100))"
SHORT = Limits(grace_s=0.5, patience_s=1.0)


class Crowd:
    """A feed of several tables, each one span, with a history each."""

    def __init__(self, url: str, *ddls: str) -> None:
        self.url = url
        self.admin = psycopg.connect(url, autocommit=True)
        self.sink = PostgresSink(url, Limits(grace_s=0.2, patience_s=30.0))
        self.sink.prepare()
        self.names = [f"t{n}" for n in range(len(ddls))]
        self.shapes = [shape_of(*COLUMNS, name=name) for name in self.names]
        self.specs = [SpanSpec(f"s{n}", shape.table.id) for n, shape in enumerate(self.shapes)]
        for name, ddl in zip(self.names, ddls, strict=True):
            self.admin.execute(f"CREATE TABLE {name} {ddl}")
        birth = Birth(0, tuple(self.specs))
        assert self.sink.claim("feed", TRIGGER_SPEC, TOKEN, None, birth)
        self.histories = [History(shape) for shape in self.shapes]
        self.floors: list[Floors] = []
        self.claim()

    def close(self) -> None:
        close_idle()
        self.sink.disconnect()
        self.admin.close()

    def claim(self, token: Token = TOKEN) -> None:
        found = [self.sink.claim("feed", spec, token, None, None) for spec in self.specs]
        self.floors = [floors for floors in found if isinstance(floors, tuple)]

    def item(self, n: int) -> ApplyItem:
        return ApplyItem(
            "feed",
            self.specs[n],
            TOKEN,
            self.floors[n],
            self.histories[n].position - 1,
            TableName("public", self.names[n]),
            self.shapes[n],
            segments=(str(n),),
        )

    def apply(
        self, order: Sequence[int] | None = None, limits: Limits | None = None, url: str = ""
    ) -> list[Receipt]:
        """All tables' changes as one task; a history is read instead of files."""
        order = range(len(self.names)) if order is None else order
        return apply_all(
            [Ask(self.item(n)) for n in order],
            url or self.url,
            read=lambda paths, *_: self.histories[int(paths[0])].segment(),
            limits=limits,
        )

    def write(self, **values: Any) -> None:
        """Insert a row into every table at the source."""
        for history in self.histories:
            history.insert(**values).commit()

    def rows(self, n: int) -> list[tuple[Any, ...]]:
        return self.admin.execute(f"SELECT id, name, u FROM t{n} ORDER BY id").fetchall()

    def holds(self, *numbers: int) -> bool:
        """True when these tables, or all, have the histories' rows."""
        return all(
            self.rows(n) == sorted(tuple(row.values()) for row in self.histories[n].rows)
            for n in numbers or range(len(self.names))
        )

    def transactions(self) -> set[str]:
        """By which transactions the rows were written."""
        union = " UNION ".join(f"SELECT xmin::text FROM t{n}" for n in range(len(self.names)))
        return {xmin for (xmin,) in self.admin.execute(union).fetchall()}

    def positions(self) -> list[int]:
        found = self.admin.execute("SELECT position FROM lockgate.progress ORDER BY span")
        return [position for (position,) in found.fetchall()]


@pytest.fixture
def url(pg18: EmbeddedPostgres) -> Iterator[str]:
    with fresh_database(pg18) as found:
        yield found


@pytest.fixture
def crowd(url: str) -> Iterator[Crowd]:
    made = Crowd(url, DDL, DDL, DDL, DDL)
    yield made
    made.close()


# --- what lands -----------------------------------------------------------------------------------


def test_all_tables_land_in_one_transaction(crowd: Crowd) -> None:
    crowd.write(id=1, name="a", u=1)
    receipts = crowd.apply()
    assert [(r.applied, r.rows, r.changes, r.missing) for r in receipts] == [(True, 1, 1, 0)] * 4
    assert crowd.holds()
    assert len(crowd.transactions()) == 1
    assert crowd.positions() == [1, 1, 1, 1]


def test_inserts_updates_and_deletes_land_and_what_is_missing_is_counted(crowd: Crowd) -> None:
    crowd.write(id=1, name="a\\N\t", u=1)
    crowd.write(id=2, name="b", u=2)
    assert all(receipt.applied for receipt in crowd.apply())
    crowd.claim()
    crowd.admin.execute("DELETE FROM t2 WHERE id = 1")
    crowd.histories[0].update(1, name=None).delete(2).insert(id=3).commit()
    crowd.histories[1].update(1, id=7, unchanged=["name"]).commit()
    crowd.histories[2].update(1, name="gone").delete(2).commit()
    crowd.histories[3].commit()
    assert [(r.applied, r.missing) for r in crowd.apply()] == [
        (True, 0), (True, 0), (True, 1), (True, 0)
    ]  # fmt: skip
    assert crowd.holds(0, 1, 3)
    assert crowd.rows(2) == []


def test_a_value_that_is_kept_stays(crowd: Crowd) -> None:
    crowd.write(id=1, name="kept", u=1)
    assert all(receipt.applied for receipt in crowd.apply())
    crowd.claim()
    for history in crowd.histories:
        history.update(1, u=9, unchanged=["name"]).commit()
    assert all(receipt.applied for receipt in crowd.apply())
    assert crowd.holds()
    assert crowd.rows(0) == [(1, "kept", 9)]


def test_a_large_batch_among_small_ones_lands_too(crowd: Crowd) -> None:
    crowd.write(id=1)
    for n in range(2, 500):
        crowd.histories[1].insert(id=n)
    crowd.histories[1].commit()
    assert [r.rows for r in crowd.apply()] == [1, 499, 1, 1]
    assert crowd.holds()


# --- who is refused, and what does not fit --------------------------------------------------------


def test_a_newer_owner_of_one_span_keeps_out_that_span_only(crowd: Crowd) -> None:
    crowd.write(id=1)
    crowd.sink.claim("feed", crowd.specs[2], Token(2, 1, 1), None, None)
    receipts = crowd.apply()
    assert [r.refusal for r in receipts] == [None, None, Refusal.NEWER, None]
    assert crowd.holds(0, 1, 3)
    assert crowd.rows(2) == []
    assert crowd.positions() == [1, 1, 0, 1]


def test_nothing_lands_twice(crowd: Crowd) -> None:
    crowd.write(id=1)
    crowd.apply()
    assert [r.refusal for r in crowd.apply()] == [Refusal.MOVED] * 4
    assert crowd.holds()


def test_a_row_that_one_table_refuses_is_named_and_holds_up_nobody(crowd: Crowd) -> None:
    crowd.write(id=1, u=1)
    crowd.histories[1].insert(id=5, u=500).commit()
    receipts = crowd.apply()
    assert [r.applied for r in receipts] == [True, False, True, True]
    error = receipts[1].error
    assert error is not None
    assert (error.code, error.object) == ("data-refused", "public.t1, row id=5")
    assert crowd.holds(0, 2, 3)
    assert crowd.positions() == [1, 0, 1, 1]


def test_rows_that_swap_a_unique_value_land(crowd: Crowd) -> None:
    for id_ in (1, 2):
        crowd.write(id=id_, u=id_)
    crowd.apply()
    crowd.claim()
    for history in crowd.histories:
        history.update(1, u=None).update(2, u=1).update(1, u=2).commit()
    assert all(receipt.applied for receipt in crowd.apply())
    assert crowd.holds()


def test_a_table_with_a_rule_goes_its_own_way(url: str) -> None:
    crowd = Crowd(url, DDL, DDL, DDL)
    try:
        crowd.admin.execute("CREATE RULE r AS ON INSERT TO t1 DO INSTEAD NOTHING")
        crowd.admin.execute("ALTER TABLE t1 ENABLE ALWAYS RULE r")
        crowd.write(id=1)
        assert all(receipt.applied for receipt in crowd.apply())
        assert crowd.holds()
        assert len(crowd.transactions()) == 2
    finally:
        crowd.close()


def test_where_triggers_would_act_each_goes_alone(crowd: Crowd, url: str) -> None:
    with role(url) as (name, humble):
        everything = sql.SQL("GRANT ALL ON ALL TABLES IN SCHEMA lockgate, public TO {}")
        crowd.admin.execute(everything.format(sql.Identifier(name)))
        usage = sql.SQL("GRANT USAGE ON SCHEMA lockgate TO {}")
        crowd.admin.execute(usage.format(sql.Identifier(name)))
        crowd.write(id=1)
        assert all(receipt.applied for receipt in crowd.apply(url=humble))
        assert crowd.holds()
        assert len(crowd.transactions()) == 4
        close_idle()


def test_two_items_of_one_span_are_not_mixed(crowd: Crowd) -> None:
    crowd.write(id=1)
    receipts = crowd.apply([0, 0, 1])
    assert [r.refusal for r in receipts] == [None, Refusal.MOVED, None]
    assert crowd.holds(0, 1)


# --- the target's tables change -------------------------------------------------------------------


def test_a_column_that_becomes_the_feeds_is_written_from_then_on(url: str) -> None:
    """Remembered as generated, it would never be written again, and nobody would notice."""
    ddl = "(id bigint PRIMARY KEY, name text GENERATED ALWAYS AS ('made') STORED, u int)"
    crowd = Crowd(url, DDL, ddl)
    try:
        crowd.write(id=1, name="a")
        assert all(receipt.applied for receipt in crowd.apply())
        assert crowd.rows(1) == [(1, "made", None)]
        crowd.claim()
        crowd.admin.execute("ALTER TABLE t1 ALTER COLUMN name DROP EXPRESSION")
        crowd.write(id=2, name="b")
        assert all(receipt.applied for receipt in crowd.apply())
        assert crowd.rows(1) == [(1, "made", None), (2, "b", None)]
    finally:
        crowd.close()


@pytest.mark.parametrize(
    "change",
    [
        "ALTER TABLE t1 RENAME COLUMN name TO other; ALTER TABLE t1 ADD COLUMN name text",
        "ALTER TABLE t1 DROP COLUMN name; ALTER TABLE t1 ADD COLUMN name varchar(9)",
        "ALTER TABLE t1 ALTER COLUMN name TYPE varchar(40)",
        "ALTER TABLE t1 ADD COLUMN mine int DEFAULT 7",
        "ALTER TABLE t1 ALTER COLUMN u ADD GENERATED ALWAYS AS IDENTITY",
        "DROP TABLE t1; CREATE TABLE t1 (u int, name text, id bigint PRIMARY KEY)",
        "ALTER TABLE t1 RENAME TO gone; CREATE TABLE t1 (LIKE gone INCLUDING ALL)",
    ],
)
def test_whatever_is_done_to_a_table_the_next_rows_land_in_it(crowd: Crowd, change: str) -> None:
    crowd.admin.execute("ALTER TABLE t1 ALTER COLUMN u SET NOT NULL")
    crowd.write(id=1, name="a", u=1)
    assert all(receipt.applied for receipt in crowd.apply())
    crowd.claim()
    crowd.admin.execute(change)
    crowd.write(id=2, name="b", u=2)
    assert all(receipt.applied for receipt in crowd.apply())
    assert crowd.rows(1)[-1] == (2, "b", 2)
    assert crowd.holds(0, 2, 3)


def test_a_table_that_is_gone_holds_up_itself_only(crowd: Crowd) -> None:
    crowd.write(id=1)
    crowd.admin.execute("DROP TABLE t1")
    receipts = crowd.apply()
    assert [r.applied for r in receipts] == [True, False, True, True]
    assert receipts[1].error is not None
    assert receipts[1].error.code == ObjectMissing.code
    assert crowd.holds(0, 2, 3)


def test_what_is_remembered_is_not_asked_again(
    crowd: Crowd, monkeypatch: pytest.MonkeyPatch
) -> None:
    crowd.write(id=1)
    crowd.apply()
    monkeypatch.setattr("lockgate.endpoints.postgres.sink.known.inspect", None)
    for id_ in range(2, 4):
        crowd.claim()
        crowd.write(id=id_)
        assert all(receipt.applied for receipt in crowd.apply())
    assert crowd.holds()


# --- others at the target -------------------------------------------------------------------------


def test_a_table_that_somebody_locks_holds_up_itself_only(crowd: Crowd) -> None:
    crowd.write(id=1)
    with psycopg.connect(crowd.url) as person:
        person.execute("LOCK TABLE t1 IN ACCESS EXCLUSIVE MODE")
        receipts = crowd.apply(limits=SHORT)
        assert [r.applied for r in receipts] == [True, False, True, True]
        error = receipts[1].error
        assert error is not None
        assert error.retryable
        assert crowd.holds(0, 2, 3)
    assert [r.applied for r in crowd.apply([1, 2])] == [True, False]
    assert crowd.holds()


def test_a_claim_ends_what_is_in_flight_and_the_rest_lands_alone(
    crowd: Crowd, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A transaction of four spans waits for a lock; the new owner of one does not wait for it."""
    monkeypatch.setattr(together, "_LOCK_MS", 60_000)
    crowd.write(id=1)
    newer = Token(2, 1, 1)
    with psycopg.connect(crowd.url) as person, ThreadPoolExecutor(1) as pool:
        person.execute("LOCK TABLE t3 IN ACCESS EXCLUSIVE MODE")
        applying = pool.submit(crowd.apply)
        until(lambda: _waiting(crowd), 60)
        assert crowd.sink.claim("feed", crowd.specs[0], newer, None, None) == crowd.floors[0]
        person.rollback()
        receipts = applying.result(60)
    assert [r.refusal for r in receipts] == [Refusal.NEWER, None, None, None]
    assert [r.applied for r in receipts] == [False, True, True, True]
    assert crowd.rows(0) == []
    assert crowd.holds(1, 2, 3)


def _waiting(crowd: Crowd) -> bool:
    found = crowd.admin.execute(
        "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' "
        "AND application_name = 'lockgate feed/*' AND datname = current_database()"
    ).fetchone()
    return found is not None and found[0] == 1


def test_two_tasks_with_the_same_spans_take_turns(crowd: Crowd) -> None:
    """In whatever order they have them: never in a circle, and each change lands once."""
    for id_ in range(1, 16):
        crowd.write(id=id_)
        start = threading.Barrier(3)

        def task(order: Sequence[int], start: threading.Barrier = start) -> list[Receipt]:
            start.wait(30)
            receipts = crowd.apply(order)
            return [receipts[order.index(n)] for n in range(4)]

        with ThreadPoolExecutor(3) as pool:
            orders = [[0, 1, 2, 3], [3, 2, 1, 0], [2, 0, 3, 1]]
            answers = [task.result(60) for task in [pool.submit(task, o) for o in orders]]
        for n in range(4):
            outcomes = [(a[n].applied, a[n].refusal) for a in answers]
            assert sorted(outcomes, key=str) == [
                (False, Refusal.MOVED), (False, Refusal.MOVED), (True, None)
            ]  # fmt: skip
        crowd.claim()
    assert crowd.holds()


# --- connections ----------------------------------------------------------------------------------


@pytest.mark.parametrize("landed", [False, True])
def test_a_commit_that_nobody_answers_is_found_out_by_each_alone(
    crowd: Crowd, landed: bool
) -> None:
    crowd.write(id=1)
    info = crowd.admin.info
    with FaultProxy(info.host, info.port) as proxy:
        proxy.cut_at(b"COMMIT", forward=landed)
        receipts = crowd.apply(url=crowd.url.replace(f":{info.port}/", f":{proxy.port}/"))
        assert proxy.hits == 1
        close_idle()
    if landed:
        assert [r.refusal for r in receipts] == [Refusal.MOVED] * 4
    else:
        assert all(receipt.applied for receipt in receipts)
    assert crowd.holds()


def test_without_a_server_all_have_the_same_error(crowd: Crowd) -> None:
    crowd.write(id=1)
    receipts = crowd.apply(url="postgresql://nobody@127.0.0.1:1/none")
    codes = {receipt.error.code for receipt in receipts if receipt.error is not None}
    assert codes == {"endpoint-unavailable"}
    assert crowd.positions() == [0, 0, 0, 0]
