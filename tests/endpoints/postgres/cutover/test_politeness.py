"""Tables that others hold: nobody is ended for our sake, and an autovacuum gives way."""

import threading

import psycopg
import pytest

from lockgate.endpoints.postgres.cutover import block, guard
from lockgate.endpoints.postgres.embedded import EmbeddedPostgres
from lockgate.model.errors import EndpointBusy
from tests.endpoints.postgres.cutover.side import Side
from tests.support.waiting import until

_EAGER = {
    "fsync": "off",
    "wal_level": "logical",
    "autovacuum_naptime": "1s",
    "autovacuum": "on",
    "deadlock_timeout": "200ms",
}


def test_an_autovacuum_gives_way() -> None:
    with EmbeddedPostgres(18, settings=_EAGER) as server:
        side = Side(server.url())
        side.do(
            "ALTER TABLE {} SET (autovacuum_vacuum_cost_delay = 100, "
            "autovacuum_vacuum_cost_limit = 1)",
            side.orders,
        )
        side.do(
            "INSERT INTO {} (note) SELECT repeat('x', 900) FROM generate_series(1, 5000)",
            side.orders,
        )
        side.do("DELETE FROM {} WHERE id % 2 = 0", side.orders)
        until(lambda: _vacuums(side), 30.0)
        block(side.url, side.mark, side.tables, moved_to="x", deadline_s=30.0, patience_s=20.0)
        with pytest.raises(psycopg.Error, match="is moving"):
            side.insert()
        side.admin.close()


def _vacuums(side: Side) -> bool:
    """It has the table, and will for long."""
    return bool(
        side.do(
            "SELECT 1 FROM pg_locks l JOIN pg_stat_activity a USING (pid) "
            "WHERE a.backend_type = 'autovacuum worker' AND l.relation = '{}'::regclass",
            side.orders,
        )
    )


def test_who_vacuums_by_hand_is_waited_for_and_named(here: Side) -> None:
    with here.person() as other:
        here.do("LOCK TABLE {} IN SHARE UPDATE EXCLUSIVE MODE", here.tables[1], by=other)
        with pytest.raises(EndpointBusy, match=rf"session {other.info.backend_pid} \(app"):
            block(here.url, here.mark, here.tables, moved_to="x", deadline_s=9.0, patience_s=1.0)
    # What was guarded one by one, while that one was waited for, is open again.
    for table in here.tables:
        here.insert(table)
    assert here.guards() == []


def test_writers_of_one_table_go_on_while_another_is_waited_for(here: Side) -> None:
    """The held table comes first, so nobody is refused at the others for its sake."""
    refused: list[str] = []
    over = threading.Event()

    def write() -> None:
        with here.person(autocommit=True) as person:
            while not over.is_set():
                try:
                    here.insert(here.tables[0], by=person)
                except psycopg.Error as error:
                    refused.append(error.sqlstate or "")

    thread = threading.Thread(target=write)
    thread.start()
    with here.holding(here.tables[1]), pytest.raises(EndpointBusy):
        block(here.url, here.mark, here.tables, moved_to="x", deadline_s=9.0, patience_s=1.5)
    over.set()
    thread.join(20.0)
    assert refused == []


def test_a_copy_that_writes_for_a_while_is_waited_for_by_a_guard(here: Side) -> None:
    with here.holding() as copy:
        thread = threading.Thread(target=lambda: guard(here.url, here.mark, here.tables, at="x"))
        thread.start()
        until(lambda: here.admin.execute("SELECT FROM pg_locks WHERE NOT granted").fetchall())
        copy.commit()
        thread.join(20.0)
    assert len(here.guards()) == 2
