"""The backlog: the same changes as the stream's, in bulk, and the feed's slot stays where it is."""

from functools import partial

import psycopg
import pytest

from lockgate.endpoints.postgres.source import publication, slot
from lockgate.endpoints.postgres.source.backlog import Backlog, NoRoomForBacklog
from lockgate.endpoints.postgres.source.chunks import Chunk
from lockgate.endpoints.postgres.source.errors import (
    NoSlotLeft,
    PublicationLost,
    SlotLost,
    SourceLost,
)
from lockgate.endpoints.postgres.source.stream import Stream
from lockgate.endpoints.postgres.url import PostgresUrl
from tests.support.changes import Place, collect, inserts, messages, texts
from tests.support.waiting import until


class Reading:
    """A backlog, with a connection beside it."""

    def __init__(self, backlog: Backlog, control: psycopg.Connection) -> None:
        self.backlog, self._control = backlog, control

    def read(self, timeout_s: float) -> Chunk | None:
        return self.backlog.read(timeout_s, self._control)


def opened(here: Place, door: PostgresUrl | None = None, **more: object) -> Backlog:
    url = here.url if door is None else door
    return Backlog(url, here.slot, here.publication, here.start, **more)  # type: ignore[arg-type]


def fetched(here: Place, door: PostgresUrl | None = None, **more: object) -> list[bytes]:
    """Everything up to the end of the log."""
    with opened(here, door, **more) as backlog:
        reading = Reading(backlog, here.connection)
        return collect(reading, lambda _: backlog.caught_up)


def temporary_slots(here: Place) -> list[str]:
    rows = here.connection.execute(
        "SELECT slot_name FROM pg_replication_slots WHERE temporary AND slot_name LIKE %s",
        (f"{here.slot}%",),
    )
    return [str(name) for (name,) in rows]


@pytest.fixture
def busy(here: Place) -> Place:
    """Some transactions, large and small."""
    for rows in (3, 1, 3000, 2):
        here.write(rows)
    here.connection.execute("UPDATE t SET text = 'changed' WHERE id <= 5")
    here.connection.execute("DELETE FROM t WHERE id = 1")
    return here


def test_it_brings_what_the_stream_would_bring(busy: Place, door: PostgresUrl) -> None:
    with Stream(busy.url, busy.slot, busy.publication, busy.start) as stream:
        streamed = collect(stream, lambda found: b"D" in {each[:1] for each in found[:-1]})
    until(lambda: busy.state().active_pid is None)
    assert fetched(busy, door) == streamed


def test_it_moves_only_a_slot_of_its_own(busy: Place, door: PostgresUrl) -> None:
    before = busy.state()
    with opened(busy, door) as backlog:
        reading = Reading(backlog, busy.connection)
        collect(reading, lambda _: backlog.caught_up)
        assert temporary_slots(busy) == [backlog.temporary]
    assert busy.state() == before
    until(lambda: not temporary_slots(busy))


def test_chunks_begin_where_the_one_before_ended(here: Place, door: PostgresUrl) -> None:
    """Many chunks, and no change twice or not at all."""
    here.connection.execute(
        "DO $$ BEGIN FOR i IN 1..400 LOOP INSERT INTO t (text) SELECT i || '/' || j "
        "FROM generate_series(1, 10) j; COMMIT; END LOOP; END $$"
    )
    found = fetched(here, door, changes=50, buffer_bytes=20_000)
    expected = [f"{i}/{j}".encode() for i in range(1, 401) for j in range(1, 11)]
    assert texts(found) == expected


def test_it_starts_after_what_is_there_already(here: Place) -> None:
    here.write(1, "first")
    after = here.end()
    here.write(1, "second")
    with Backlog(here.url, here.slot, here.publication, after) as backlog:
        found = collect(Reading(backlog, here.connection), inserts(1))
    assert texts(found) == [b"second1"]


def test_the_end_of_the_log_is_told(busy: Place) -> None:
    busy.connection.execute("CREATE TABLE apart (a int)")  # in the log, and not published
    end = busy.end()
    with opened(busy) as backlog:
        chunks = []
        while not backlog.caught_up:
            chunks.append(backlog.read(5.0, busy.connection))
    assert chunks[-1] is not None
    assert (chunks[-1].wal_end or 0) >= end
    busy.connection.execute("DROP TABLE apart")


def test_at_the_end_it_can_be_asked_again(busy: Place, door: PostgresUrl) -> None:
    with opened(busy, door) as backlog:
        reading = Reading(backlog, busy.connection)
        collect(reading, lambda _: backlog.caught_up)
        assert reading.read(0.0) is None
        busy.write(2, "late")
        backlog.more()
        assert texts(collect(reading, lambda _: backlog.caught_up)) == [b"late1", b"late2"]


def test_a_transaction_larger_than_the_buffer_comes_in_pieces(here: Place) -> None:
    here.write(20_000)
    with opened(here, buffer_bytes=100_000) as backlog:
        sizes, found = [], []
        while not backlog.caught_up:
            chunk = backlog.read(5.0, here.connection)
            assert chunk is not None
            sizes.append(len(chunk.buffer))
            found.extend(messages(chunk))
    assert len(texts(found)) == 20_000
    assert len(sizes) > 5
    assert max(sizes) < 110_000


def test_a_value_larger_than_the_buffer(here: Place, door: PostgresUrl) -> None:
    here.connection.execute("INSERT INTO t (text) SELECT repeat('x', 3000000)")
    here.write(1, "after")
    found = texts(fetched(here, door, buffer_bytes=100_000))
    assert [len(each) for each in found] == [3_000_000, 6]


# --- bad days -----------------------------------------------------------------------------------


def test_without_the_publication_nothing_is_brought(busy: Place, door: PostgresUrl) -> None:
    publication.drop(busy.connection, busy.publication)
    busy.write(1, "missed")
    with pytest.raises(PublicationLost):
        fetched(busy, door)


def test_without_the_slot_it_does_not_begin(here: Place) -> None:
    with pytest.raises(SlotLost):
        Backlog(here.url, "lockgate_gone", here.publication, here.start)


def test_a_terminated_session_can_be_tried_again(busy: Place, door: PostgresUrl) -> None:
    with opened(busy, door) as backlog:
        reading = Reading(backlog, busy.connection)
        collect(reading, lambda _: backlog.caught_up)
        busy.connection.execute(
            "SELECT pg_terminate_backend(%s)", (backlog._connection.info.backend_pid,)
        )
        with pytest.raises(SourceLost):
            until(lambda: backlog.more() or reading.read(0.1))


def test_closing_in_the_middle_frees_the_slot(here: Place, door: PostgresUrl) -> None:
    here.write(100_000)
    opened(here, door).close()
    until(lambda: not temporary_slots(here), 60.0)


def test_no_slot_to_spare_is_said(here: Place) -> None:
    names = [f"lockgate_spare_{number}" for number in range(100)]
    try:
        with pytest.raises(NoSlotLeft):
            list(map(partial(slot.create, here.connection), names))
        with pytest.raises(NoSlotLeft, match="to spare"):
            opened(here)
    finally:
        for name in names:
            slot.drop(here.connection, name, 0.0)


def test_a_server_without_room_for_a_chunk_says_so(here: Place, door: PostgresUrl) -> None:
    here.write(20_000, "some text that takes room " * 5)
    with pytest.raises(NoRoomForBacklog) as caught:
        fetched(here, door, settings={"work_mem": "64kB", "temp_file_limit": "1MB"})
    assert "temp_file_limit" in caught.value.hint
