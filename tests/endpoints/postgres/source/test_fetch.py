"""Fetching: each change once and in order, whichever way it comes and whoever dies."""

import random
import threading
from collections.abc import Iterator

import msgspec
import psycopg
import pytest

from lockgate.endpoints.postgres.embedded import EmbeddedPostgres
from lockgate.endpoints.postgres.source import publication, slot
from lockgate.endpoints.postgres.source.errors import PublicationLost, SlotLost, SourceLost
from lockgate.endpoints.postgres.source.fetch import Fetch, FetchOptions
from lockgate.endpoints.postgres.url import PostgresUrl
from tests.support.changes import Place, collect, inserts, messages, place, texts
from tests.support.waiting import until

SMALL = FetchOptions(backlog_bytes=100_000, grace_s=0.5)
STREAM_ONLY = msgspec.structs.replace(SMALL, backlog_bytes=0)
"""With which a few thousand rows are a backlog."""


def opened(
    here: Place,
    resolved: int | None = None,
    options: FetchOptions = SMALL,
    door: PostgresUrl | None = None,
) -> Fetch:
    return Fetch(
        here.url if door is None else door,
        here.slot,
        here.publication,
        here.start - 1 if resolved is None else resolved,
        options=options,
    )


def test_with_little_to_do_it_streams(here: Place, door: PostgresUrl) -> None:
    here.write(3)
    with opened(here, door=door) as fetch:
        assert fetch.way == "stream"
        assert len(texts(collect(fetch, inserts(3)))) == 3
        fetch.acknowledge(fetch.received - 1)
        until(lambda: here.state().confirmed == fetch.received)


def test_a_backlog_is_fetched_in_bulk_and_then_it_streams(here: Place, door: PostgresUrl) -> None:
    here.write(5000)
    with opened(here, door=door) as fetch:
        assert fetch.way == "backlog"
        assert len(texts(collect(fetch, inserts(5000)))) == 5000
        assert here.state().confirmed == here.start  # nothing of it is durable yet
        here.write(3, "more")
        assert fetch.read(0.01) is None  # the little that is left is the stream's
        assert fetch.way == "backlog"
        fetch.acknowledge(fetch.received - 1)
        assert len(texts(collect(fetch, inserts(3)))) == 3
        assert fetch.way == "stream"
        assert here.state().confirmed > here.start


def test_after_a_backlog_the_server_need_not_decode_it_again(here: Place) -> None:
    """The slot's restart position comes along, as far as the log has places to start from."""
    here.write(2500, "one")
    here.connection.execute("CHECKPOINT")
    here.write(2500, "two")
    here.connection.execute("CHECKPOINT")
    end = slot.log_end(here.connection)
    with opened(here) as fetch:
        assert len(texts(collect(fetch, inserts(5000)))) == 5000
        fetch.acknowledge(fetch.received - 1)
        until(lambda: [fetch.read(0.05)] and fetch.way == "stream", 60.0)
        assert end - here.state().restart < 1000


def test_a_large_transaction_is_taken_out_of_the_stream(here: Place) -> None:
    with opened(here) as fetch:
        here.write(3, "small")
        here.write(10_000, "large")
        found = texts(collect(fetch, inserts(10_003)))
        assert fetch.way == "backlog"
    assert found[:4] == [b"small1", b"small2", b"small3", b"large1"]
    assert len(set(found)) == len(found) == 10_003


def test_a_stream_that_falls_behind_becomes_a_backlog(
    here: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lockgate.endpoints.postgres.source.fetch._LOOK_S", 0.0)
    with opened(here) as fetch:
        here.connection.execute(
            "DO $$ BEGIN FOR i IN 1..2000 LOOP INSERT INTO t (text) SELECT i || '/' || j "
            "FROM generate_series(1, 5) j; COMMIT; END LOOP; END $$"
        )
        ways = set()

        def watched(found: list[bytes]) -> bool:
            ways.add(fetch.way)
            return inserts(10_000)(found)

        found = texts(collect(fetch, watched))
    assert found == [f"{i}/{j}".encode() for i in range(1, 2001) for j in range(1, 6)]
    assert "backlog" in ways


def test_it_can_be_told_to_stream_only(here: Place) -> None:
    here.write(5000)
    with opened(here, options=FetchOptions(backlog_bytes=0)) as fetch:
        assert fetch.way == "stream"
        assert len(texts(collect(fetch, inserts(5000)))) == 5000
        assert fetch.way == "stream"


def test_without_room_for_a_backlog_it_streams(here: Place) -> None:
    database = psycopg.sql.Identifier(here.connection.info.dbname)
    here.connection.execute(
        psycopg.sql.SQL("ALTER DATABASE {} SET temp_file_limit TO '1MB'").format(database)
    )
    options = msgspec.structs.replace(SMALL, chunk_work_mem="64kB")
    here.write(20_000, "some text that takes room " * 5)
    try:
        with opened(here, options=options) as fetch:
            assert fetch.way == "backlog"
            assert len(texts(collect(fetch, inserts(20_000)))) == 20_000
            assert fetch.way == "stream"
    finally:
        here.connection.execute(psycopg.sql.SQL("ALTER DATABASE {} RESET ALL").format(database))


@pytest.mark.parametrize("rows", [3, 5000])
def test_closing_confirms_what_is_durable_and_no_more(here: Place, rows: int) -> None:
    here.write(rows)
    with opened(here) as fetch:
        collect(fetch, inserts(rows))
        durable = fetch.received
        fetch.acknowledge(durable - 1)
        here.write(1, "later")
        collect(fetch, inserts(1))
    until(lambda: here.state().active_pid is None)
    assert here.state().confirmed == durable


def test_a_former_owner_is_put_aside(here: Place) -> None:
    here.write(1, "first")
    with opened(here) as former:
        assert texts(collect(former, inserts(1))) == [b"first1"]
        with opened(here) as successor:
            here.write(1, "second")
            assert texts(collect(successor, inserts(2))) == [b"first1", b"second1"]
        with pytest.raises(SourceLost):
            collect(former, inserts(9))


def test_a_former_owner_is_put_aside_before_a_backlog(here: Place) -> None:
    with opened(here) as former:
        here.write(5000)
        with opened(here) as successor:
            assert successor.way == "backlog"
            assert here.state().active_pid is None
        with pytest.raises(SourceLost):
            collect(former, inserts(5001))


# --- what must not be passed over ---------------------------------------------------------------


def test_a_slot_that_somebody_moved_is_lost(here: Place) -> None:
    here.write(1)
    slot.advance(here.connection, here.slot, here.end())
    with pytest.raises(SlotLost, match="somebody else moved it"):
        opened(here)


def test_a_slot_that_is_gone_is_lost(here: Place) -> None:
    slot.drop(here.connection, here.slot, 0.0)
    with pytest.raises(SlotLost):
        opened(here)


def test_a_publication_that_is_gone_is_said_at_once(here: Place) -> None:
    publication.drop(here.connection, here.publication)
    with pytest.raises(PublicationLost):
        opened(here)


def test_nothing_stays_open_after_a_failed_start(here: Place) -> None:
    publication.drop(here.connection, here.publication)
    with pytest.raises(PublicationLost):
        opened(here)
    until(
        lambda: (
            not here.connection.execute(
                "SELECT 1 FROM pg_stat_activity WHERE application_name LIKE 'lockgate capture%%' "
                "AND datname = current_database()"
            ).fetchone()
        )
    )


# --- all of it ----------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [1, 2])
def test_whoever_dies_each_row_comes_once_and_in_order(here: Place, seed: int) -> None:
    """One writer; readers that go back to what is durable, closed or killed at random."""
    chance = random.Random(seed)
    sizes = [chance.choice([1, 3, 20, 400, 4000]) for _ in range(80)]
    expected = [f"{i}/{j}".encode() for i, size in enumerate(sizes) for j in range(1, size + 1)]

    def write(first: int, last: int) -> None:
        with psycopg.connect(here.url.to_wire().decode(), autocommit=True) as connection:
            for i, size in enumerate(sizes[first:last], first):
                connection.execute(
                    "INSERT INTO t (text) SELECT %s || '/' || j FROM generate_series(1, %s) j",
                    (i, size),
                )

    # The first reader meets a backlog, the second takes none: so both ways are gone.
    write(0, 40)
    writer = threading.Thread(target=write, args=(40, 80))
    durable: list[bytes] = []
    resolved, ways, lives = here.start - 1, set(), 0
    while len(durable) < len(expected):
        lives += 1
        assert lives < 300
        if lives == 2:
            writer.start()
        fetch = opened(here, resolved, STREAM_ONLY if lives == 2 else SMALL)
        pending: list[bytes] = []
        for _ in range(chance.randint(1, 12)):
            chunk = fetch.read(0.1)
            ways.add(fetch.way)
            if chunk is not None:
                pending += messages(chunk)
            if chance.random() < 0.5 and not fetch._open:
                durable += texts(pending)
                pending, resolved = [], fetch.received - 1
                fetch.acknowledge(resolved)
        if chance.random() < 0.5:
            fetch.close()
        else:
            _kill(fetch)
    writer.join()
    assert durable == expected
    assert ways == {"stream", "backlog"}


def _kill(fetch: Fetch) -> None:
    """As a dead process: connections are cut, nothing is said."""
    fetch._end_reader()
    fetch._control.close()


# --- a server with one slot ---------------------------------------------------------------------


@pytest.fixture(scope="module")
def narrow() -> Iterator[EmbeddedPostgres]:
    settings = {"wal_level": "logical", "fsync": "off", "max_replication_slots": 1}
    with EmbeddedPostgres(18, settings=settings) as server:
        yield server


def test_without_a_slot_to_spare_it_streams(narrow: EmbeddedPostgres) -> None:
    with place(narrow.url()) as here:
        here.write(5000)
        with opened(here) as fetch:
            assert fetch.way == "stream"
            assert len(texts(collect(fetch, inserts(5000)))) == 5000


def test_a_large_transaction_is_streamed_then(narrow: EmbeddedPostgres) -> None:
    """What came before it is not durable yet, and does not come again."""
    with place(narrow.url()) as here, opened(here) as fetch:
        here.write(3, "small")
        here.write(10_000, "large")
        found = texts(collect(fetch, inserts(10_003)))
        assert fetch.way == "stream"
    assert len(set(found)) == len(found) == 10_003
