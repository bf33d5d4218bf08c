"""A move one of whose databases is gone for ever is ended without it, and says what is left there.

The servers are stopped, and started again only when the move is over: what has turned up again by
then is held against what people were told."""

from collections.abc import Iterator
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import psycopg
import pytest
from psycopg import sql

from lockgate.endpoints.postgres.embedded import EmbeddedPostgres
from lockgate.model.errors import Conflict
from lockgate.model.findings import Finding
from lockgate.model.move_status import MoveOutcome
from lockgate.model.moves import Command, Disposal, MoveOrder, MoveState, Side
from lockgate.node.move import ending
from lockgate.node.service import NodeService
from lockgate.node.service import moves as desk
from tests.node.move.conftest import serving
from tests.support.bad_days import gone
from tests.support.feeds import Pair
from tests.support.moves import CANCEL, RENAME, SWITCH, copied, left_behind, notes, order
from tests.support.waiting import until

SOON_S = 180.0
WITHOUT_TARGET = order(Command.CANCEL, disposal=Disposal.DROP, lost=Side.TARGET)
WITHOUT_SOURCE = order(Command.COMPLETE, disposal=Disposal.RENAME, lost=Side.SOURCE)


class Losing(NamedTuple):
    """A move that is copied, between servers that may go away."""

    service: NodeService
    pair: Pair
    source: EmbeddedPostgres
    target: EmbeddedPostgres

    def ask(self, asked: MoveOrder, *, dry: bool = False) -> MoveOutcome:
        """Its end, however long that takes."""
        request = ""
        while True:
            told = self.service.moves.command("orders", asked, "test", dry=dry, request=request)
            if told.verdict != "under-way":
                return told
            request = told.request

    def waits(self, asked: MoveOrder, step: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """It is under way, and held up at this step by the database that is gone."""
        with monkeypatch.context() as patch:
            patch.setattr(desk, "PATIENCE_S", 2.0)
            assert self.service.moves.command("orders", asked, "test").verdict == "under-way"
        until(lambda: self.service.moves.one("orders").step == step, SOON_S, 0.1)
        until(lambda: bool(self.service.moves.one("orders").error), SOON_S, 0.1)


@pytest.fixture
def losing(
    fragile_pair: Pair, fragile: tuple[EmbeddedPostgres, EmbeddedPostgres]
) -> Iterator[Losing]:
    with serving(fragile_pair) as service:
        copied(service)
        yield Losing(service, fragile_pair, *fragile)


def _rows(url: str) -> list[tuple[str, ...]]:
    """What the side still says of the move."""
    with psycopg.connect(url) as connection:
        return connection.execute(
            "SELECT state FROM lockgate.moves WHERE state <> 'over'"
        ).fetchall()


def _at(pair: Pair, side: str) -> list[str]:
    return [what for what in left_behind(pair) if what.startswith(side)]


# --- the target -----------------------------------------------------------------------------------


def test_a_move_is_cancelled_without_a_target_that_is_gone(losing: Losing) -> None:
    service, pair = losing.service, losing.pair
    for dry in (True, False):
        with pytest.raises(Conflict, match="the target can be reached"):
            losing.ask(WITHOUT_TARGET, dry=dry)
    assert service.moves.one("orders").state is MoveState.RUNNING, "nothing was given up"
    with gone(losing.target, "immediate"):
        planned = {step.name: step.detail for step in losing.ask(WITHOUT_TARGET, dry=True).steps}
        assert "copy is gone: Connection refused" in planned["check-cancel"]
        assert service.moves.one("orders").state is MoveState.RUNNING
        told = losing.ask(WITHOUT_TARGET)
        status = told.status
        assert told.verdict == "done"
        assert status is not None
        assert status.state is MoveState.CANCELLED
        assert service.moves.routes().routes == ()
        assert service.feeds() == []
        pair.at_source("INSERT INTO orders (note) VALUES ('goes on')")
    assert _at(pair, "source") == []
    left = " ".join(status.notes)
    for what in ("feed orders--0 in lockgate.feeds", "lockgate_guard", "lockgate.moves"):
        assert what in left, status.notes
    assert "source" not in left
    assert _at(pair, "target") == ["target event triggers", "target guards"]
    with pytest.raises(psycopg.Error, match="not open here yet"):
        pair.at_target("INSERT INTO orders (note) VALUES ('late')")
    assert status.kept == ()
    assert "turn up again" in status.next_steps[0]


def test_a_cancel_that_waits_for_a_target_goes_on_without_it(
    losing: Losing, monkeypatch: pytest.MonkeyPatch
) -> None:
    with gone(losing.target, "immediate"):
        losing.waits(CANCEL, "stop", monkeypatch)
        status = losing.service.moves.one("orders")
        way = "if copy is gone for ever: lockgate move cancel orders --lost target"
        assert way in status.next_steps
        assert losing.ask(WITHOUT_TARGET).verdict == "done"
        assert losing.service.moves.one("orders").state is MoveState.CANCELLED
    assert _at(losing.pair, "source") == []
    assert _rows(losing.pair.source) == []


def test_a_cancel_that_goes_on_is_not_disturbed_by_who_takes_its_target_for_lost(
    losing: Losing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was away and is back: that is refused, and everything is drained and dropped."""
    with gone(losing.target, "immediate"):
        losing.waits(CANCEL, "stop", monkeypatch)
    try:
        told = losing.ask(WITHOUT_TARGET).verdict
    except Conflict as refused:
        told = refused.what
    assert told in {"the target can be reached, so it is not lost (copy)", "nothing-to-do"}
    until(lambda: losing.service.moves.one("orders").state is MoveState.CANCELLED, SOON_S, 0.1)
    assert left_behind(losing.pair) == {}
    assert losing.service.moves.one("orders").notes == ()


# --- the source -----------------------------------------------------------------------------------


def test_a_move_is_completed_without_a_source_that_is_gone(losing: Losing) -> None:
    service, pair = losing.service, losing.pair
    assert losing.ask(SWITCH).verdict == "done"
    pair.at_target("INSERT INTO orders (note) VALUES ('only here')")
    for dry in (True, False):
        with pytest.raises(Conflict, match="the source can be reached"):
            losing.ask(WITHOUT_SOURCE, dry=dry)
    with gone(losing.source, "immediate"):
        with pytest.raises(Conflict, match="does not answer"):
            losing.ask(RENAME)
        way = "if shop is gone for ever: lockgate move complete orders --rename --lost source"
        assert way in service.moves.one("orders").next_steps
        told = losing.ask(WITHOUT_SOURCE)
        status = told.status
        assert told.verdict == "done"
        assert status is not None
        assert status.state is MoveState.COMPLETED
        details = {step.name: step.detail for step in status.steps}
        assert details["dispose"] == "shop is given up: nothing is done to its tables"
        assert service.moves.routes().routes == ()
        assert _rows(pair.target) == []
        pair.at_target("INSERT INTO orders (note) VALUES ('goes on')")
        assert notes(pair.target)[-2:] == ["only here", "goes on"]
    assert _at(pair, "target") == []
    assert status.kept == ()
    assert "lockgate_guard" in " ".join(status.notes)
    with pytest.raises(psycopg.Error, match="has moved to copy"):
        pair.at_source("INSERT INTO orders (note) VALUES ('late')")


def test_a_complete_that_waits_for_a_source_goes_on_without_it(
    losing: Losing, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert losing.ask(SWITCH).verdict == "done"
    found = ending.followed_findings

    def checked(*asked: Any, **own: Any) -> list[Finding]:
        """The source goes right behind the last look of the check."""
        findings = found(*asked, **own)
        losing.source.stop("immediate")
        return findings

    monkeypatch.setattr(ending, "followed_findings", checked)
    try:
        losing.waits(RENAME, "run-out", monkeypatch)
        way = "if shop is gone for ever: lockgate move complete orders --rename --lost source"
        assert way in losing.service.moves.one("orders").next_steps
        assert losing.ask(WITHOUT_SOURCE).verdict == "done"
    finally:
        losing.source.start()
    assert _at(losing.pair, "target") == []
    assert _rows(losing.pair.target) == []


def test_what_has_the_traffic_is_not_given_up(losing: Losing) -> None:
    with gone(losing.source, "immediate"):
        with pytest.raises(Conflict, match="the source has the traffic") as caught:
            losing.ask(order(Command.CANCEL, disposal=Disposal.DROP, lost=Side.SOURCE))
        assert "restore it under the same URL" in caught.value.hint
    until(lambda: losing.service.moves.one("orders").state is MoveState.RUNNING, SOON_S, 0.1)


def test_a_database_that_was_dropped_is_gone(losing: Losing) -> None:
    name = urlsplit(losing.pair.target).path[1:]
    with psycopg.connect(losing.target.url(), autocommit=True) as admin:
        drop, make = (
            sql.SQL(text).format(sql.Identifier(name))
            for text in ("DROP DATABASE {} WITH (FORCE)", "CREATE DATABASE {}")
        )
        admin.execute(drop)
        try:
            assert losing.ask(WITHOUT_TARGET).verdict == "done"
        finally:
            admin.execute(make)
    assert left_behind(losing.pair) == {}
