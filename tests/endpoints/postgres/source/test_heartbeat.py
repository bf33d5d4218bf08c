"""A heartbeat moves the slot of an idle database, and nothing else."""

import psycopg
import pytest

from lockgate.endpoints.postgres.source.heartbeat import Heartbeat, beat
from lockgate.endpoints.postgres.source.stream import Stream
from lockgate.model.errors import Transient
from tests.support.changes import Place
from tests.support.waiting import until


def test_an_idle_slot_advances(here: Place) -> None:
    with Stream(here.url, here.slot, here.publication, here.start) as stream:
        at = beat(here.connection, "feed")
        rows = 0

        def passed() -> bool:
            nonlocal rows
            chunk = stream.read(0.05)
            if chunk is not None:
                rows += len(chunk.starts)
                if chunk.wal_end is not None:
                    stream.acknowledge(chunk.wal_end - 1)
            return here.state().confirmed >= at

        until(passed, 60.0)
    assert rows == 0


def test_a_beat_is_on_disk_when_it_is_done(here: Place) -> None:
    assert beat(here.connection, "feed") <= here.end()


def test_it_beats_when_it_is_time(here: Place) -> None:
    now = 100.0
    with Heartbeat(here.url, "feed", 10.0, now_s=lambda: now) as heartbeat:
        first = heartbeat.tick()
        assert heartbeat.tick() is None
        now = 109.9
        assert heartbeat.tick() is None
        now = 110.0
        second = heartbeat.tick()
    assert first is not None
    assert second is not None
    assert second > first


def test_a_lost_connection_is_opened_again(here: Place) -> None:
    now = 0.0
    with Heartbeat(here.url, "feed", 10.0, now_s=lambda: now) as heartbeat:
        heartbeat.tick()
        here.connection.execute(
            "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity "
            "WHERE application_name = 'lockgate feed heartbeat'"
        )
        now = 10.0
        with pytest.raises(Transient):
            heartbeat.tick()
        assert heartbeat.tick() is None
        now = 20.0
        assert heartbeat.tick() is not None


def test_the_message_is_in_no_table(here: Place) -> None:
    tables = "SELECT count(*) FROM pg_class"
    before = here.connection.execute(tables).fetchone()
    beat(here.connection, "feed")
    assert here.connection.execute(tables).fetchone() == before
    assert isinstance(here.connection, psycopg.Connection)
