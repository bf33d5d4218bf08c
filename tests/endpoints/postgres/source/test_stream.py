"""The stream: every change once, in order, until the server is told that it is durable."""

from collections.abc import Iterator
from datetime import datetime

import pytest

from lockgate.endpoints.postgres.source import stream as streams
from lockgate.endpoints.postgres.source.errors import SlotBusy, SlotLost
from lockgate.endpoints.postgres.source.inbox import Inbox
from lockgate.endpoints.postgres.source.stream import Stream
from lockgate.endpoints.postgres.source.wire import RawWire
from lockgate.endpoints.postgres.source.wire_libpq import LibpqWire
from lockgate.endpoints.postgres.url import PostgresUrl
from tests.support.changes import Place, collect, inserts, messages, texts
from tests.support.waiting import until


def opened(here: Place, door: PostgresUrl | None = None, **more: object) -> Stream:
    url = here.url if door is None else door
    return Stream(url, here.slot, here.publication, here.start, **more)  # type: ignore[arg-type]


def test_it_is_read_as_directly_as_encryption_allows(here: Place, door: PostgresUrl) -> None:
    with opened(here, door) as stream:
        kind = LibpqWire if door.options else RawWire
        assert isinstance(stream._wire, kind)


def test_changes_come_in_order(here: Place, door: PostgresUrl) -> None:
    here.write(3, "a")
    with opened(here, door) as stream:
        here.write(2000, "b")
        here.connection.execute("UPDATE t SET text = 'c' WHERE id = 1; DELETE FROM t WHERE id = 2")
        found = collect(stream, lambda found: b"D" in {each[:1] for each in found[:-1]})
    kinds = b"".join(each[:1] for each in found)
    assert kinds == b"BRIIIC" + b"B" + b"I" * 2000 + b"C" + b"BUDC"
    expected = [*(f"a{i}" for i in range(1, 4)), *(f"b{i}" for i in range(1, 2001))]
    assert texts(found) == [each.encode() for each in expected]


def test_what_comes_together_with_the_consent_is_not_lost(
    here: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    here.write(3)
    at_once = Inbox.frames
    monkeypatch.setattr(Inbox, "frames", lambda *a, **_: at_once(*a, linger_s=0.2))
    with opened(here) as stream:
        monkeypatch.undo()
        assert len(texts(collect(stream, inserts(3)))) == 3


def test_what_was_not_acknowledged_comes_again(here: Place, door: PostgresUrl) -> None:
    here.write(1, "first")
    here.write(1, "second")
    with opened(here, door) as stream:
        found = collect(stream, inserts(2))
        first_end = int.from_bytes(found[3][10:18], "big")
        stream.acknowledge(first_end - 1)
        until(lambda: here.state().confirmed == first_end)
    with opened(here, door) as stream:
        assert texts(collect(stream, inserts(1))) == [b"second1"]


def test_what_is_given_as_a_start_is_where_it_starts(here: Place) -> None:
    here.write(1, "first")
    after = here.end()
    here.write(1, "second")
    with Stream(here.url, here.slot, here.publication, after) as stream:
        assert texts(collect(stream, inserts(1))) == [b"second1"]
    assert here.state().confirmed == here.start  # received is not durable


def test_the_end_of_the_log_is_told_outside_of_transactions(here: Place) -> None:
    with opened(here) as stream:
        here.connection.execute("CREATE TABLE apart (a int)")  # in the log, and not published
        end = here.end()

        def told() -> bool:
            chunk = stream.read(0.05)
            return chunk is not None and (chunk.wal_end or 0) >= end

        until(told)
    here.connection.execute("DROP TABLE apart")


@pytest.mark.parametrize("size", [3 << 20, 17 << 20])
def test_a_value_larger_than_any_buffer(here: Place, door: PostgresUrl, size: int) -> None:
    here.write(1, "small")
    here.connection.execute("INSERT INTO t (text) SELECT repeat('x', %s)", (size,))
    here.write(1, "after")
    with opened(here, door) as stream:
        found = texts(collect(stream, inserts(3)))
    assert [len(each) for each in found] == [6, size, 6]
    assert set(found[1]) == {ord("x")}


@pytest.mark.parametrize("wire", [RawWire, LibpqWire])
def test_a_server_is_told_that_we_live_while_nobody_reads(
    here: Place, wire: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody reads for several times as long as the server waits for a silent client."""
    monkeypatch.setattr(streams, "open_wire", wire)
    with opened(here, settings={"wal_sender_timeout": "1s"}) as stream:
        here.write(50_000, "a text that is long enough to fill all buffers on the way" * 4)
        replies = _replies(here)
        until(lambda: _span(next(replies)) > 2.5, 60.0)
        assert len(texts(collect(stream, inserts(50_000)))) == 50_000


def test_a_server_that_asks_is_answered(here: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the regular status it is the answers alone that keep the stream alive."""
    monkeypatch.setattr(Stream, "_beat", lambda *_: None)
    # Long enough for a busy machine to answer in: the server asks after half of it.
    with opened(here, settings={"wal_sender_timeout": "4s"}) as stream:
        replies = _replies(here)

        def long_after() -> bool:
            stream.read(0.05)
            return _span(next(replies)) > 5.0

        until(long_after, 60.0)


def _replies(here: Place) -> Iterator[list[datetime]]:
    """When the server heard from us, so far."""
    heard: list[datetime] = []
    while True:
        row = here.connection.execute(
            "SELECT reply_time FROM pg_stat_replication r JOIN pg_replication_slots s "
            "ON s.active_pid = r.pid WHERE slot_name = %s AND reply_time IS NOT NULL",
            (here.slot,),
        ).fetchone()
        heard.extend(row or ())
        assert here.state().active_pid, "the server has given us up"
        yield heard


def _span(times: list[datetime]) -> float:
    return (times[-1] - times[0]).total_seconds() if times else 0.0


def test_two_cannot_read_at_once(here: Place, door: PostgresUrl) -> None:
    with opened(here), pytest.raises(SlotBusy):
        opened(here, door)


def test_without_a_slot_there_is_nothing_to_read(here: Place, door: PostgresUrl) -> None:
    with pytest.raises(SlotLost, match="not there"):
        Stream(door, "lockgate_gone", here.publication, here.start)


def test_closing_lets_go_of_the_slot(here: Place, door: PostgresUrl) -> None:
    stream = opened(here, door)
    here.write(10)
    collect(stream, inserts(10))
    stream.close()
    stream.close()
    until(lambda: here.state().active_pid is None)


def test_settings_are_of_this_session_alone(here: Place) -> None:
    with opened(here, settings={"logical_decoding_work_mem": "64kB"}) as stream:
        here.write(5000)
        collect(stream, inserts(5000))
        row = until(
            lambda: here.connection.execute(
                "SELECT spill_txns FROM pg_stat_replication_slots WHERE slot_name = %s "
                "AND spill_txns > 0",
                (here.slot,),
            ).fetchone()
        )
        assert row is not None


def test_a_chunk_holds_many_rows(here: Place) -> None:
    """A busy stream does not wake its reader for every row."""
    here.write(50_000)
    chunks = rows = 0
    with opened(here) as stream:
        while rows < 50_000:
            chunk = stream.read(5.0)
            assert chunk is not None
            chunks += 1
            rows += len(texts(messages(chunk)))
    assert rows / chunks > 500
