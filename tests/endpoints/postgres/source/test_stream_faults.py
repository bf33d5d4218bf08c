"""What happens to a stream when something is taken away from it."""

import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import cast

import pytest

from lockgate.endpoints.postgres.embedded import EmbeddedPostgres
from lockgate.endpoints.postgres.source import publication, slot
from lockgate.endpoints.postgres.source.errors import PublicationLost, SlotLost, SourceLost
from lockgate.endpoints.postgres.source.publication import Published
from lockgate.endpoints.postgres.source.stream import Stream
from lockgate.endpoints.postgres.url import PostgresUrl
from lockgate.model.errors import LockgateError, Transient
from tests.support.changes import TABLE, Place, collect, inserts, place, texts
from tests.support.waiting import until


def opened(here: Place, door: PostgresUrl | None = None) -> Stream:
    url = here.url if door is None else door
    return Stream(url, here.slot, here.publication, here.start)


def raised(stream: Stream) -> LockgateError:
    """What reading ends with."""

    def error() -> LockgateError | None:
        try:
            stream.read(0.05)
        except LockgateError as caught:
            return caught
        return None

    return cast(LockgateError, until(error, 60.0))


def test_a_terminated_sender_can_be_tried_again(here: Place, door: PostgresUrl) -> None:
    here.write(1)
    with opened(here, door) as stream:
        collect(stream, inserts(1))
        here.connection.execute("SELECT pg_terminate_backend(%s)", (here.state().active_pid,))
        error = raised(stream)
        assert isinstance(error, SourceLost)
        assert isinstance(error, Transient)
    with opened(here, door) as stream:
        assert len(texts(collect(stream, inserts(1)))) == 1


def test_a_dropped_slot_is_lost_for_good(here: Place, door: PostgresUrl) -> None:
    with opened(here, door) as stream:
        slot.drop(here.connection, here.slot, 0.0)
        assert isinstance(raised(stream), SourceLost)
    with pytest.raises(SlotLost):
        opened(here, door)


def test_a_dropped_publication_is_noticed_before_rows_are_missed(
    here: Place, door: PostgresUrl
) -> None:
    with opened(here, door) as stream:
        here.write(1, "before")
        assert texts(collect(stream, inserts(1))) == [b"before1"]
        publication.drop(here.connection, here.publication)
        here.write(1, "missed")
        error = raised(stream)
    assert isinstance(error, PublicationLost)
    assert error.object == here.publication


def test_a_publication_that_was_made_again_does_not_hide_the_gap(here: Place) -> None:
    publication.drop(here.connection, here.publication)
    here.write(1, "missed")
    publication.create(here.connection, here.publication, [Published(TABLE)])
    here.write(1, "after")
    with pytest.raises(PublicationLost), opened(here) as stream:
        collect(stream, inserts(2))


# --- servers of our own -------------------------------------------------------------------------


@pytest.fixture(params=[16, 18])
def own(request: pytest.FixtureRequest) -> Iterator[Callable[..., EmbeddedPostgres]]:
    """Starts a server that a test may kill."""
    servers: list[EmbeddedPostgres] = []

    def start(**settings: str | int) -> EmbeddedPostgres:
        given = {"wal_level": "logical", "fsync": "off", **settings}
        servers.append(EmbeddedPostgres(request.param, settings=given))
        return servers[-1].start()

    yield start
    for server in servers:
        server.remove()


def test_a_killed_server_loses_nothing(own: Callable[..., EmbeddedPostgres]) -> None:
    server = own()
    with place(server.url()) as here:
        here.write(1, "first")
        with opened(here) as stream:
            found = texts(collect(stream, inserts(1)))
            here.write(1, "second")
            here.connection.close()
            server.stop("kill")
            assert isinstance(raised(stream), SourceLost)
        assert found[:1] == [b"first1"]
        with pytest.raises(Transient):
            opened(here)
        server.start()
        with opened(here) as stream:
            assert texts(collect(stream, inserts(2))) == [b"first1", b"second1"]


def test_a_server_that_shuts_down_is_not_held_up(own: Callable[..., EmbeddedPostgres]) -> None:
    """It waits until its last words are confirmed: the keepalive that it asks for is enough."""
    server = own()
    with place(server.url()) as here, opened(here) as stream:
        here.write(1)
        collect(stream, inserts(1))
        here.connection.close()
        stream.acknowledge(here.start)

        def read_on() -> bool:
            try:
                chunk = stream.read(0.05)
            except SourceLost:
                return True
            if chunk is not None and chunk.wal_end:
                stream.acknowledge(chunk.wal_end - 1)
            return False

        stopping = threading.Thread(target=server.stop)
        stopping.start()
        until(read_on, 60.0)
        stopping.join(20)
        assert not stopping.is_alive()
        assert "shut down" in server.log_tail()


def test_a_slot_that_the_server_gave_up_is_lost(own: Callable[..., EmbeddedPostgres]) -> None:
    server = own(max_slot_wal_keep_size="1MB", min_wal_size="32MB", max_wal_size="32MB")
    with place(server.url()) as here:
        for _ in range(4):
            here.write(20_000, "much to be logged " * 5)
            here.connection.execute("SELECT pg_switch_wal()")
        here.connection.execute("CHECKPOINT")
        with pytest.raises(SlotLost) as checked:
            slot.check(here.connection, here.slot)
        with pytest.raises(SlotLost) as started:
            opened(here)
    assert "max_slot_wal_keep_size" in checked.value.hint + started.value.hint


def test_a_unix_socket_is_read_like_any_other(own: Callable[..., EmbeddedPostgres]) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as directory:
        Path(directory).chmod(0o777)
        server = own(unix_socket_directories=directory)
        with place(server.url()) as here:
            here.write(20_000)
            query = f"?host={directory}&port={server.port}"
            user = f"{server.user}:{server.password.reveal()}"
            url = PostgresUrl.parse(f"postgres://{user}@/postgres{query}")
            with Stream(url, here.slot, here.publication, here.start) as stream:
                assert len(texts(collect(stream, inserts(20_000)))) == 20_000
