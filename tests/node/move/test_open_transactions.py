"""Transactions that somebody leaves open: the slot of a feed waits for all of a server, whichever
database they are in. Each test but the last leaves the move as it found it."""

import threading
from typing import Any

import psycopg
import pytest

from lockgate.endpoints.postgres.cutover import guards
from lockgate.model.errors import LockgateError
from lockgate.model.moves import Command, MoveOrder, MoveState
from lockgate.node.service import NodeService
from lockgate.node.service.moves import RolledBack
from tests.support.databases import left_open
from tests.support.feeds import Pair
from tests.support.moves import CANCEL, CONFIG, REVERSE, SWITCH, Moved, left_behind, notes, order
from tests.support.waiting import until

SOON_S = 60.0
SHORT = order(Command.SWITCH, 6.0, max_lag_ms=60_000)


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
