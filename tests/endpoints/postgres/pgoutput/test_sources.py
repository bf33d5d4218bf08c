"""The plugin's messages are found in both wrappings, whole and in pieces."""

import struct

import numpy as np
import pytest

from lockgate.endpoints.postgres.pgoutput.malformed import Malformed
from lockgate.endpoints.postgres.pgoutput.sources import CopyRows, Keepalive, xlog
from tests.support.pgoutput_bytes import joined

MESSAGES = [b"Bbegin", b"I", b"Ccommit"]
HEAD = b"PGCOPY\n\xff\r\n\0" + struct.pack(">II", 0, 0)
TRAILER = struct.pack(">h", -1)


def logged(message: bytes, wal_end: int = 0x1_0000_0001) -> bytes:
    return b"w" + struct.pack(">qqq", 1, wal_end, 3) + message


def keepalive(wal_end: int, reply: bool) -> bytes:
    return b"k" + struct.pack(">qqb", wal_end, 5, reply)


def row(message: bytes) -> bytes:
    return struct.pack(">hi", 1, len(message)) + message


def read(buffer: bytes, starts: np.ndarray, ends: np.ndarray) -> list[bytes]:
    return [buffer[start:end] for start, end in zip(starts, ends, strict=True)]


def test_xlog_data_is_unwrapped() -> None:
    buffer, starts, ends = joined(map(logged, MESSAGES), b"d....")
    found = xlog(buffer, starts, ends)
    assert read(buffer, found.starts, found.ends) == MESSAGES
    assert found.wal_end == 0x1_0000_0001
    assert found.keepalives == []


def test_keepalives_come_apart_with_their_place() -> None:
    payloads = [keepalive(9, False), logged(b"Bx"), logged(b"Cx", 8), keepalive(2**40, True)]
    buffer, starts, ends = joined(payloads)
    found = xlog(buffer, starts, ends)
    assert read(buffer, found.starts, found.ends) == [b"Bx", b"Cx"]
    assert found.wal_end == 8
    assert found.keepalives == [Keepalive(9, False, 0), Keepalive(2**40, True, 2)]


def test_keepalives_alone_have_no_messages() -> None:
    buffer, starts, ends = joined([keepalive(7, False)])
    found = xlog(buffer, starts, ends)
    assert len(found.starts) == 0
    assert found.wal_end is None


@pytest.mark.parametrize("payload", [b"", b"x" * 30, b"w" * 24, b"k" * 17])
def test_other_data_is_refused(payload: bytes) -> None:
    buffer, starts, ends = joined([logged(b"Bx"), payload])
    with pytest.raises(Malformed):
        xlog(buffer, starts, ends)


@pytest.mark.parametrize(
    "payloads",
    [
        [HEAD + row(MESSAGES[0]), row(MESSAGES[1]), row(MESSAGES[2]), TRAILER],
        [HEAD, row(MESSAGES[0]), row(MESSAGES[1]), row(MESSAGES[2]), TRAILER],
    ],
    ids=["head with first row", "head alone"],
)
def test_a_copy_is_unwrapped_in_one_buffer_or_many(payloads: list[bytes]) -> None:
    rows = CopyRows()
    buffer, starts, ends = joined(payloads)
    assert read(buffer, *rows.messages(buffer, starts, ends)) == MESSAGES
    assert rows.ended

    rows = CopyRows()
    found = []
    for payload in payloads:
        assert not rows.ended
        buffer, starts, ends = joined([payload])
        found += read(buffer, *rows.messages(buffer, starts, ends))
    assert found == MESSAGES
    assert rows.ended


def test_an_empty_copy_ends_at_once() -> None:
    rows = CopyRows()
    buffer, starts, ends = joined([HEAD + TRAILER])
    assert read(buffer, *rows.messages(buffer, starts, ends)) == []
    assert rows.ended


@pytest.mark.parametrize(
    "payloads",
    [
        [b"not a copy at all"],
        [HEAD[:-1]],
        [HEAD[:-1] + b"\x05"],
        [HEAD + b"\0"],
        [HEAD, struct.pack(">hi", 2, 1) + b"x"],
        [HEAD, struct.pack(">hi", 1, 2) + b"x"],
        [HEAD, struct.pack(">hi", 1, -1)],
        [HEAD, TRAILER, row(b"x")],
    ],
)
def test_another_copy_is_refused(payloads: list[bytes]) -> None:
    buffer, starts, ends = joined(payloads)
    with pytest.raises(Malformed):
        CopyRows().messages(buffer, starts, ends)


def test_nothing_comes_after_the_end() -> None:
    rows = CopyRows()
    rows.messages(*joined([HEAD + TRAILER]))
    with pytest.raises(Malformed):
        rows.messages(*joined([row(b"x")]))
