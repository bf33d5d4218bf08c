"""A move from its creation to its end, under writes: no row is lost, none is doubled."""

from typing import Any

import msgspec
import psycopg
import pytest

from lockgate.endpoints.postgres.cutover import prepare
from lockgate.endpoints.postgres.source import slot
from lockgate.model.errors import Conflict, EndpointRefused
from lockgate.model.move_events import StepEnded, StepOutcome
from lockgate.model.move_instructions import RunStep
from lockgate.model.moves import MoveState, Step
from lockgate.node.feed import setup
from lockgate.node.move.executing import MoveExecutor
from lockgate.node.move.job import Done
from lockgate.node.service import NodeService
from lockgate.store.feeds import FeedEntry
from tests.support.bad_days import built_no_further
from tests.support.feeds import Pair
from tests.support.moves import (
    CANCEL,
    CONFIG,
    ORDERS,
    RENAME,
    REVERSE,
    SWITCH,
    Writer,
    copied,
    left_behind,
    notes,
)
from tests.support.waiting import until


def test_there_and_back_and_there_again_and_completed(service: NodeService, pair: Pair) -> None:
    with Writer(pair.source, pair.target).running() as writer:
        assert copied(service).traffic == "source"
        writer.wrote_more()
        for command, traffic in ((SWITCH, "target"), (REVERSE, "source"), (SWITCH, "target")):
            outcome = service.moves.command("orders", command, "test")
            assert outcome.verdict == "done"
            assert service.moves.one("orders").traffic == traffic
            assert {each.endpoint for each in service.moves.routes().routes} == {
                "copy" if traffic == "target" else "shop"
            }
            writer.wrote_more()
        outcome = service.moves.command("orders", RENAME, "test")
        assert outcome.verdict == "done"
        writer.wrote_more()
    assert sorted(notes(pair.target, tag=writer.tag)) == sorted(writer.notes)
    status = service.moves.one("orders")
    assert status.state is MoveState.COMPLETED
    assert status.kept == ("shop: public._orders_old",)
    assert service.moves.command("orders", RENAME, "test").verdict == "nothing-to-do"
    assert service.moves.routes().routes == ()
    assert service.feeds() == []
    assert left_behind(pair) == {}
    kept = notes(pair.source, "_orders_old")
    assert kept == notes(pair.target)[: len(kept)]


def test_what_another_installation_has_left_of_a_move_of_that_name_holds_up_nobody(
    service: NodeService, pair: Pair
) -> None:
    for url, at in ((pair.source, pair.at_source), (pair.target, pair.at_target)):
        prepare(url)
        at(
            "INSERT INTO lockgate.moves (move, birth, keeper, state) "
            "SELECT 'orders', birth, 9, 'over' FROM generate_series(1, 100) birth"
        )
    assert copied(service).traffic == "source"
    assert service.moves.command("orders", SWITCH, "test").verdict == "done"
    assert service.moves.command("orders", REVERSE, "test").verdict == "done"
    assert service.moves.command("orders", CANCEL, "test").verdict == "done"
    assert left_behind(pair) == {}


def test_tables_without_a_key_and_identities_that_nobody_may_set_go_there_and_back(
    service: NodeService, pair: Pair
) -> None:
    pair.at_source(
        "CREATE TABLE visits (page text)",
        "ALTER TABLE visits REPLICA IDENTITY FULL",
        "INSERT INTO visits SELECT 'page ' || g FROM generate_series(1, 20) g",
        "CREATE TABLE guests (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text)",
        "INSERT INTO guests (name) SELECT 'guest ' || g FROM generate_series(1, 20) g",
    )
    copied(service)
    for command, at in ((SWITCH, pair.at_target), (REVERSE, pair.at_source)):
        assert service.moves.command("orders", command, "test").verdict == "done"
        at(
            "INSERT INTO visits VALUES ('new'), ('new')",
            "DELETE FROM visits WHERE page = 'page 3'",
            "INSERT INTO guests (name) VALUES ('new')",
            "UPDATE guests SET name = 'other' WHERE id = 2",
        )
    assert service.moves.command("orders", SWITCH, "test").verdict == "done"
    for table in ("visits", "guests"):
        query = f"SELECT t::text FROM {table} t ORDER BY 1"
        assert pair.ask_source(query) == pair.ask_target(query)
    assert pair.ask_target("SELECT count(*), max(id) FROM guests") == [(22, 22)]


def test_a_cancelled_move_leaves_nothing_but_the_source(service: NodeService, pair: Pair) -> None:
    copied(service)
    outcome = service.moves.command("orders", CANCEL, "test")
    assert outcome.verdict == "done"
    assert service.moves.one("orders").state is MoveState.CANCELLED
    assert service.moves.command("orders", CANCEL, "test").verdict == "nothing-to-do"
    assert pair.ask_target("SELECT to_regclass('orders')") == [(None,)]
    assert left_behind(pair) == {}
    pair.at_source("INSERT INTO orders (note) VALUES ('still mine')")


def test_what_is_not_copied_yet_is_not_switched_and_can_be_cancelled(
    service: NodeService, pair: Pair
) -> None:
    """M3, M10: the copy stands before the gate that builds its constraints."""
    with built_no_further(pair.target, "p", "public.orders"):
        service.moves.create(CONFIG, "test")
        with pytest.raises(Conflict, match=r"not finished|not built yet|still being set up"):
            service.moves.command("orders", SWITCH, "test")
        status = service.moves.one("orders")
        assert (status.state, status.traffic) == (MoveState.COPYING, "source")
    assert service.moves.command("orders", CANCEL, "test").verdict == "done"
    assert service.moves.one("orders").state is MoveState.CANCELLED
    assert pair.ask_target("SELECT to_regclass('orders')") == [(None,)]
    assert left_behind(pair) == {}


def test_a_table_that_somebody_loaded_before_the_feed_was_set_up_outlives_a_cancel(
    service: NodeService, pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = setup.make

    def held_up(*given: Any) -> FeedEntry:
        if not pair.ask_target("SELECT FROM pg_class WHERE relname = 'orders'"):
            pair.at_target(*ORDERS)
        return make(*given)

    monkeypatch.setattr(setup, "make", held_up)
    status = service.moves.create(CONFIG, "test")
    assert status.state is MoveState.ERROR
    assert "lockgate move cancel orders" in status.next_steps
    assert service.moves.command("orders", CANCEL, "test").verdict == "done"
    assert len(notes(pair.target)) == 200
    assert left_behind(pair) == {}
    [detail] = [one.detail for one in service.moves.one("orders").steps if "drop" in one.name]
    assert detail == "public.orders was not made by the move, and is left alone"


def test_of_tables_that_a_broken_off_set_up_has_made_a_cancel_drops_those_without_rows(
    service: NodeService, pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair.at_source("CREATE TABLE visits (id int PRIMARY KEY)")

    def out_of_slots(*_: object) -> slot.SlotState:
        pair.at_target("INSERT INTO orders (id, note) VALUES (1, 'mine')")
        raise EndpointRefused("all slots are in use", object_="shop", hint="drop one")

    monkeypatch.setattr(slot, "create", out_of_slots)
    assert service.moves.create(CONFIG, "test").state is MoveState.ERROR
    assert service.moves.command("orders", CANCEL, "test").verdict == "done"
    assert notes(pair.target) == ["mine"]
    assert pair.ask_target("SELECT to_regclass('visits')") == [(None,)]
    assert left_behind(pair) == {}


def test_a_cancel_whose_record_of_the_stop_is_lost_still_knows_what_the_move_has_made(
    service: NodeService, pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    def out_of_slots(*_: object) -> slot.SlotState:
        raise EndpointRefused("all slots are in use", object_="shop", hint="drop one")

    monkeypatch.setattr(slot, "create", out_of_slots)
    assert service.moves.create(CONFIG, "test").state is MoveState.ERROR
    book, done, lost = service._stores.feeds, MoveExecutor._done, []

    def lose(executor: MoveExecutor, run: RunStep, it: Done) -> StepEnded:
        if run.step is not Step.STOP or lost:
            return done(executor, run, it)
        lost.append(it)
        entry = book.read("orders--0")
        if entry is not None and entry.removing:  # and nobody waits for who has died
            until(lambda: book.read("orders--0") is None, 60.0)
        return StepEnded(run.number, run.step, StepOutcome.FAILED)

    monkeypatch.setattr(MoveExecutor, "_done", lose)
    assert service.moves.command("orders", CANCEL, "test").verdict == "done"
    assert lost
    assert pair.ask_target("SELECT to_regclass('orders')") == [(None,)]
    assert left_behind(pair) == {}


def test_a_move_whose_feed_has_failed_can_be_cancelled_and_says_so(
    service: NodeService, pair: Pair
) -> None:
    copied(service)
    entry = service._stores.feeds.read("orders--0")
    assert entry is not None
    with psycopg.connect(pair.source, autocommit=True) as connection:
        until(lambda: slot.drop(connection, entry.slot, 0.0), 60.0)
    until(lambda: service.moves.one("orders").state is MoveState.ERROR, 60.0, 0.1)
    assert "lockgate move cancel orders" in service.moves.one("orders").next_steps
    assert service.moves.command("orders", CANCEL, "test").verdict == "done"
    assert left_behind(pair) == {}


def test_a_hook_that_the_node_does_not_have_is_refused_before_anything_is_made(
    service: NodeService, pair: Pair
) -> None:
    config = msgspec.structs.replace(CONFIG, hook="bouncer")
    outcome = service.moves.plan(config)
    assert "it would be refused" in outcome.what
    with pytest.raises(EndpointRefused, match="no hook of this name"):
        service.moves.create(config, "test")
    assert service.moves.all() == []
    assert left_behind(pair) == {}
