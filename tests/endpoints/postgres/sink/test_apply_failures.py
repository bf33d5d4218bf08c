"""What apply answers when something is wrong: with a row, with the target, with the connection."""

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pyarrow as pa
import pytest

from lockgate.endpoints.postgres.sink import few, staging
from lockgate.endpoints.postgres.sink.apply import apply
from lockgate.endpoints.postgres.sink.reuse import session_for
from lockgate.endpoints.postgres.url import PostgresUrl
from lockgate.model.floors import Refusal
from lockgate.model.spans import KeyRange
from tests.endpoints.postgres.sink.place import DDL, Place, Places, started
from tests.support.histories import History
from tests.support.proxy import FaultProxy

# --- rows -------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 1000])
def test_a_row_that_is_refused_is_named(places: Places, count: int) -> None:
    place = places(DDL.replace("name text", "name text CHECK (name <> 'bad')"))
    history = started(place, count)
    for n in range(count):
        history.insert(id=10_000 + n, name="bad" if n == count // 3 else "good")
    history.commit()
    receipt = place.try_(history)
    assert receipt.error is not None
    assert f"id={10_000 + count // 3}" in receipt.error.object
    assert "t_name_check" in receipt.error.cause
    assert not receipt.error.retryable
    assert place.holds(history, 1)


def test_an_update_that_is_refused_is_named(places: Places) -> None:
    place = places(DDL.replace("name text", "name varchar(5)"))
    history = started(place, 100)
    for n in range(1, 101):
        history.update(n, name="toolong" if n == 77 else "fits")
    history.commit()
    error = place.try_(history).error
    assert error is not None
    assert "id=77" in error.object
    assert "too long" in error.cause
    assert place.holds(history, 1)


@pytest.mark.parametrize("size", [1, 9], ids=["too little", "too much"])
def test_what_is_wrong_only_in_binary_form_goes_as_text(
    place: Place, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    history = started(place)
    history.insert(id=9, name="x").update(1, name="y").commit()
    key = bytes([0, 0, 0, size]) + bytes(size)
    wrong = b"\0\4" + key + b"\0\0\0\1x" * 3
    monkeypatch.setattr(staging, "binary_bytes", lambda *_: memoryview(wrong))
    place.apply(history)
    assert place.holds(history)


def test_a_unique_value_that_a_stranger_holds_is_refused(place: Place) -> None:
    history = started(place)
    place.admin.execute("INSERT INTO t VALUES (99, 'a stranger', '', 50)")
    for n in range(100, 200):
        history.insert(id=n, u=n if n != 150 else 50)
    history.commit()
    error = place.try_(history).error
    assert error is not None
    assert "id=150" in error.object
    assert error.code == "data-refused"
    assert not error.retryable


def test_a_unique_value_of_another_span_may_come_free(places: Places) -> None:
    """By their hashes, 1 belongs to the lower span and 2 to the upper one."""
    place = places(ranges=(KeyRange(b"", b"\x80"), KeyRange(b"\x80", None)))
    history = History(place.shape).insert(id=1, u=5).commit()
    for span in place.spans:
        place.apply(history, 1, span)
    history.delete(1).insert(id=2, u=5).commit()
    error = place.try_(history, 2, "s1").error
    assert error is not None
    assert error.retryable
    assert "id=2" in error.object
    place.apply(history, 2, "s0")
    place.apply(history, 2, "s1")
    assert place.holds(history)


def test_a_missing_table_is_said(place: Place) -> None:
    history = started(place)
    history.insert(id=9).commit()
    place.admin.execute("DROP TABLE t")
    error = place.try_(history).error
    assert error is not None
    assert error.code == "object-missing"
    assert not error.retryable


def test_a_server_that_is_not_there_may_be_tried_again(place: Place) -> None:
    history = started(place)
    history.insert(id=9).commit()
    receipt = apply(
        place.item(2), "postgresql://nobody@127.0.0.1:1/x", read=lambda *_: history.segment()
    )
    assert receipt.error is not None
    assert receipt.error.retryable


def test_rows_that_the_target_has_lost_are_counted(place: Place) -> None:
    history = started(place)
    place.admin.execute("DELETE FROM t WHERE id IN (1, 2)")
    history.update(1, name="x").delete(2).update(3, name="y").commit()
    assert place.apply(history).missing == 2


# --- connections ----------------------------------------------------------------------------------


@contextmanager
def through_proxy(place: Place) -> Iterator[FaultProxy]:
    info = place.admin.info
    with FaultProxy(info.host, info.port) as proxy:
        place.url = place.url.replace(f":{info.port}/", f":{proxy.port}/")
        yield proxy


@pytest.mark.parametrize("word", [b"COPY", b"INSERT", b"UPDATE", b"pg_advisory"])
def test_a_connection_that_is_lost_on_the_way_may_be_tried_again(
    place: Place, word: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    if word == b"COPY":
        monkeypatch.setattr(few, "ROWS_MAX", 0)
    history = started(place)
    history.insert(id=9).update(1, name="x").commit()
    with through_proxy(place) as proxy:
        proxy.cut_at(word, forward=False)
        error = place.try_(history).error
        assert proxy.hits == 1
        assert error is not None
        assert error.code == "endpoint-unavailable"
        assert error.retryable
        assert place.holds(history, 1)
        place.apply(history)
    assert place.holds(history)


@pytest.mark.parametrize("landed", [False, True])
def test_a_commit_that_nobody_answers_is_neither_done_nor_undone(
    place: Place, landed: bool
) -> None:
    history = started(place)
    history.insert(id=9).commit()
    with through_proxy(place) as proxy:
        proxy.cut_at(b"COMMIT", forward=landed)
        error = place.try_(history).error
        assert error is not None
        assert error.code == "outcome-unknown"
        assert error.retryable
        again = place.try_(history)
    assert again.refusal is (Refusal.MOVED if landed else None)
    assert place.holds(history)


# --- sessions that are kept -----------------------------------------------------------------------


def pid_of_next(place: Place) -> int:
    with session_for(PostgresUrl.parse(place.url), place.feed, "s0") as session:
        return session.info.backend_pid


def test_a_session_serves_the_next_task(place: Place) -> None:
    assert pid_of_next(place) == pid_of_next(place)


def test_a_session_that_was_ended_is_not_handed_out(place: Place) -> None:
    history = started(place)
    pid = pid_of_next(place)
    place.admin.execute("SELECT pg_terminate_backend(%s, 10000)", (pid,))
    history.insert(id=9).commit()
    place.apply(history)
    assert pid_of_next(place) != pid


def test_a_session_that_failed_is_not_handed_out(place: Place) -> None:
    pid = pid_of_next(place)
    with (
        pytest.raises(psycopg.Error),
        session_for(PostgresUrl.parse(place.url), place.feed, "s0") as session,
    ):
        session.execute("no such statement")
    assert pid_of_next(place) != pid


def test_what_arrow_cannot_hold_is_answered_too(place: Place) -> None:
    def broken(*_: object) -> pa.Table:
        raise pa.ArrowInvalid("offset overflow while concatenating arrays")

    error = apply(place.item(1), place.url, read=broken).error
    assert error is not None
    assert "offset overflow" in error.cause
    assert not error.retryable


def test_what_is_no_address_is_answered_too(place: Place) -> None:
    receipt = apply(place.item(1), "postgres://", read=lambda *_: History(place.shape).segment())
    assert receipt.error is not None
    assert receipt.error.code == "usage"
