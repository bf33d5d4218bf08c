"""A feed's slot: made once, read, moved, taken over, dropped; and never anybody else's."""

from contextlib import closing
from functools import partial

import psycopg
import pytest

from lockgate.endpoints.postgres.source import slot
from lockgate.endpoints.postgres.source.errors import NoSlotLeft, NotOurs, SlotBusy, SlotLost
from lockgate.endpoints.postgres.source.stream import Stream
from lockgate.model.errors import StaleOwner
from tests.support.changes import Place
from tests.support.waiting import until


def test_a_new_slot_stands_where_the_log_was(here: Place) -> None:
    state = here.state()
    assert (state.plugin, state.temporary, state.wal_status) == ("pgoutput", False, "reserved")
    assert 0 < state.restart <= state.confirmed <= here.end()
    assert state.active_pid is None


def test_making_it_again_finds_it(here: Place) -> None:
    here.write(1)
    assert slot.create(here.connection, here.slot).confirmed == here.start


def test_a_slot_that_nobody_wants_any_more_is_not_waited_for(here: Place) -> None:
    asked = []

    def still_wanted() -> None:
        asked.append(True)
        if len(asked) > 1:
            raise StaleOwner("the feed is removed", object_="x", hint="x")

    name = f"{here.slot}_2"
    with psycopg.connect(here.url.to_wire().decode(), dbname="postgres") as holder:
        holder.execute("SELECT pg_current_xact_id()")
        with pytest.raises(StaleOwner, match="removed"):
            slot.create(here.connection, name, still_wanted)
        assert len(asked) == 2
        assert slot.read(here.connection, name) is None


def test_it_advances_and_does_not_go_back(here: Place) -> None:
    here.write(1)
    to = here.end()
    slot.advance(here.connection, here.slot, to)
    slot.advance(here.connection, here.slot, here.start)
    assert here.state().confirmed == to


def test_a_slot_that_is_not_there_is_lost(here: Place) -> None:
    assert slot.read(here.connection, "lockgate_gone") is None
    with pytest.raises(SlotLost, match="not there") as caught:
        slot.check(here.connection, "lockgate_gone")
    assert "create it anew" in caught.value.hint


def test_dropping_it_twice_is_dropping_it(here: Place) -> None:
    assert slot.drop(here.connection, here.slot, 0.0)
    assert not slot.drop(here.connection, here.slot, 0.0)


@pytest.mark.parametrize(
    ("name", "plugin"), [("somebodys_{}", "pgoutput"), ("lockgate_physical_{}", "test")]
)
def test_what_is_not_ours_is_left_alone(here: Place, name: str, plugin: str) -> None:
    name = name.format(here.connection.info.dbname)
    if plugin == "pgoutput":
        here.connection.execute(
            "SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", (name,)
        )
    else:
        here.connection.execute("SELECT pg_create_physical_replication_slot(%s)", (name,))
    try:
        with pytest.raises(NotOurs, match=plugin if plugin == "pgoutput" else "None"):
            slot.drop(here.connection, name, 0.0)
        with pytest.raises(NotOurs):
            slot.create(here.connection, name)
        assert slot.read(here.connection, name) is not None
    finally:
        here.connection.execute("SELECT pg_drop_replication_slot(%s)", (name,))


def test_a_slot_of_another_database_is_not_ours(here: Place) -> None:
    with (
        psycopg.connect(here.url.to_wire().decode(), dbname="postgres", autocommit=True) as other,
        pytest.raises(NotOurs, match="database test_"),
    ):
        slot.drop(other, here.slot, 0.0)


def test_a_reader_of_a_dead_owner_is_ended(here: Place) -> None:
    with Stream(here.url, here.slot, here.publication, here.start) as stale:
        pid = here.state().active_pid
        assert pid is not None
        slot.release(here.connection, here.slot, 0.1)
        assert here.state().active_pid is None
        with Stream(here.url, here.slot, here.publication, here.start):
            assert here.state().active_pid not in {None, pid}
        stale.abandon()


def test_dropping_ends_a_reader_too(here: Place) -> None:
    stale = Stream(here.url, here.slot, here.publication, here.start)
    assert slot.drop(here.connection, here.slot, 0.0)
    stale.abandon()


def test_somebody_elses_reader_is_not_ended(here: Place) -> None:
    with closing(
        psycopg.connect(
            here.url.to_wire().decode(), replication="database", application_name="theirs"
        )
    ) as theirs:
        theirs.pgconn.send_query(
            f"START_REPLICATION SLOT {here.slot} LOGICAL 0/0 "
            f"(proto_version '1', publication_names '{here.publication}')".encode()
        )
        pid = until(lambda: here.state().active_pid)
        with pytest.raises(SlotBusy, match=f"'theirs', process {pid}"):
            slot.release(here.connection, here.slot, 0.1)
        assert here.state().active_pid == pid
        here.write(1)
        with pytest.raises(SlotBusy):
            slot.advance(here.connection, here.slot, here.end())
    until(lambda: here.state().active_pid is None)


def test_waiting_for_a_reader_that_goes_by_itself(here: Place) -> None:
    leaving = Stream(here.url, here.slot, here.publication, here.start)
    leaving.close()
    slot.release(here.connection, here.slot, 30.0)
    assert here.state().active_pid is None


def test_no_slot_left_says_which_setting(here: Place) -> None:
    names = [f"lockgate_{here.connection.info.dbname}_{number}" for number in range(100)]
    try:
        with pytest.raises(NoSlotLeft) as caught:
            list(map(partial(slot.create, here.connection), names))
    finally:
        dropped = [slot.drop(here.connection, name, 0.0) for name in names]
    assert any(dropped)
    assert "max_replication_slots" in caught.value.hint
