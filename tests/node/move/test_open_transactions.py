"""Transactions that somebody leaves open: the slot of a feed waits for all of a server, whichever
database they are in. Each test but the last leaves the move as it found it."""

import threading
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from lockgate.endpoints.postgres.cutover import guards
from lockgate.model.errors import Conflict, LockgateError
from lockgate.model.moves import Command, MoveOrder, MoveState
from lockgate.node.service import NodeService
from lockgate.node.service.moves import RolledBack
from tests.support.databases import left_open
from tests.support.feeds import Pair
from tests.support.moves import CANCEL, CONFIG, REVERSE, SWITCH, Moved, left_behind, notes, order
from tests.support.waiting import until

SOON_S = 60.0
SHORT = order(Command.SWITCH, 6.0, max_lag_ms=60_000)
_OLD = "SELECT true FROM pg_stat_activity WHERE pid = %s AND xact_start < now() - interval '6 s'"


def _has_slots(url: str) -> bool:
    with psycopg.connect(url) as connection:
        query = "SELECT count(*) FROM pg_replication_slots WHERE database = current_database()"
        return connection.execute(query).fetchone() != (0,)


def _commanded(service: NodeService, asked: MoveOrder) -> str:
    """The verdict, however long it takes."""
    request = ""
    while True:
        outcome = service.moves.command("orders", asked, "test", request=request)
        if outcome.verdict != "under-way":
            return outcome.verdict
        request = outcome.request


def _goes_on(moved: Moved, note: str) -> None:
    """As before: what is written at the source comes to the target."""
    status = moved.service.moves.one("orders")
    assert (status.state, status.traffic, status.step) == (MoveState.RUNNING, "source", "")
    moved.pair.at_source(f"INSERT INTO orders (note) VALUES ('{note}')")
    until(lambda: notes(moved.pair.target)[-1] == note, SOON_S, 0.1)


def test_an_old_transaction_at_the_taking_server_is_refused_before_anybody_is_held_up(
    moved: Moved,
) -> None:
    with left_open(moved.pair.target) as holder:
        pid = holder.info.backend_pid
        with psycopg.connect(moved.pair.target, autocommit=True) as beside:
            until(lambda: beside.execute(_OLD, (pid,)).fetchone(), SOON_S, 0.1)
        with pytest.raises(Conflict, match=r"nightly job.* postgres") as refused:
            _commanded(moved.service, SHORT)
        assert not isinstance(refused.value, RolledBack)
        assert f"pg_terminate_backend({pid})" in refused.value.hint
        _goes_on(moved, "while it is open")


def test_a_prepared_transaction_at_the_taking_server_is_refused(moved: Moved) -> None:
    elsewhere = make_conninfo(moved.pair.target, dbname="postgres")
    with psycopg.connect(elsewhere, autocommit=True) as connection:
        connection.execute("BEGIN")
        connection.execute("SELECT pg_current_xact_id()")
        connection.execute("PREPARE TRANSACTION 'the nightly one'")
        try:
            with pytest.raises(Conflict, match=r"'the nightly one'.* postgres") as refused:
                _commanded(moved.service, SWITCH)
        finally:
            connection.execute("ROLLBACK PREPARED 'the nightly one'")
    assert not isinstance(refused.value, RolledBack)
    assert "ROLLBACK PREPARED" in refused.value.hint
    _goes_on(moved, "after the prepared one")


def test_one_that_begins_behind_the_check_has_the_switch_put_back_and_leaves_nothing_stuck(
    moved: Moved,
) -> None:
    with pytest.MonkeyPatch.context() as patch, left_open(moved.pair.target) as holder:
        holder.rollback()
        block = guards.block

        def blocked(*args: Any, **more: Any) -> int:
            holder.execute("SELECT pg_current_xact_id()")
            return block(*args, **more)

        patch.setattr(guards, "block", blocked)
        with pytest.raises(RolledBack, match=r"way-back .*nightly job"):
            _commanded(moved.service, SHORT)
        until(lambda: not moved.service.moves.one("orders").step, SOON_S, 0.1)
        assert not _has_slots(moved.pair.target)
        _goes_on(moved, "while it is open")
    assert _commanded(moved.service, SWITCH) == "done"
    assert _commanded(moved.service, REVERSE) == "done"
    _goes_on(moved, "there and back")


def test_a_create_that_waits_for_its_slot_says_for_whom_and_can_be_cancelled(
    service: NodeService, pair: Pair
) -> None:
    asked: list[LockgateError] = []

    def create() -> None:
        try:
            service.moves.create(CONFIG, "test")
        except LockgateError as error:
            asked.append(error)

    with left_open(pair.source):
        asking = threading.Thread(target=create, daemon=True)
        asking.start()
        until(lambda: any(each.error for each in service.moves.all()), SOON_S, 0.1)
        assert "nightly job" in service.moves.one("orders").error
        assert _commanded(service, CANCEL) == "done"
        assert service.moves.one("orders").state is MoveState.CANCELLED
        assert left_behind(pair) == {}
        assert pair.ask_target("SELECT to_regclass('orders')") == [(None,)]
        asking.join(SOON_S)
        assert not asking.is_alive()
        assert asked == []
        assert service.moves.one("orders").state is MoveState.CANCELLED, "whoever waited for it"
