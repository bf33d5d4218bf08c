"""What a chunk says of transactions, without being decoded."""

import struct

import numpy as np
import pytest

from lockgate.endpoints.postgres.pgoutput.sources import Keepalive
from lockgate.endpoints.postgres.source.chunks import (
    Chunk,
    Marks,
    before_leap,
    marks,
    told_end,
)

ROW = b"I" + b"BC" * 8


def begin(commit: int) -> bytes:
    return struct.pack("!cqqI", b"B", commit, 0, 7)


def commit(at: int, end: int) -> bytes:
    return struct.pack("!cbqqq", b"C", 0, at, end, 0)


def chunk(*messages: bytes) -> Chunk:
    sizes = np.array([len(each) for each in messages], np.int64)
    ends = np.cumsum(sizes) + 3 * np.arange(1, len(messages) + 1)
    data = b"".join(b"***" + each for each in messages)
    return Chunk(np.frombuffer(data, np.uint8), ends - sizes, ends, None)


@pytest.mark.parametrize("was_open", [True, False])
def test_an_empty_chunk_changes_nothing(was_open: bool) -> None:
    assert marks(chunk(), was_open) == Marks(was_open, None)


def test_rows_alone_leave_it_open() -> None:
    assert marks(chunk(ROW, ROW), True) == Marks(True, None)


def test_the_last_commit_is_where_it_goes_on() -> None:
    first, second = (begin(10), ROW, commit(10, 20)), (begin(30), ROW, commit(30, 44))
    assert marks(chunk(*first, *second), False) == Marks(False, 44)
    assert marks(chunk(*first, *second[:2]), False) == Marks(True, 20)
    assert marks(chunk(*first[1:]), True) == Marks(False, 20)
    assert marks(chunk(begin(10)), False) == Marks(True, None)


def test_a_leap_is_the_first_begin_far_behind_what_came_before() -> None:
    near, far = (begin(110), ROW, commit(110, 120)), (begin(500), ROW, commit(500, 510))
    assert before_leap(chunk(*near, *far), 100, 379) == 3
    assert before_leap(chunk(*near, *far), 100, 380) is None
    assert before_leap(chunk(*far, *near), 100, 390) == 0
    assert before_leap(chunk(ROW, commit(400, 410), *far), 0, 89) == 2
    assert before_leap(chunk(ROW, ROW), 0, 0) is None
    assert before_leap(chunk(), 0, 0) is None


@pytest.mark.parametrize(
    ("after", "was_open", "told"),
    [
        ([0], False, 100),
        ([0], True, None),
        ([1], False, None),
        ([3], False, 100),
        ([3, 4], False, 100),
        ([0, 3], False, 101),
        ([4], False, None),
        ([5], False, 100),
        ([], False, None),
    ],
)
def test_the_end_of_the_log_is_told_between_transactions(
    after: list[int], was_open: bool, told: int | None
) -> None:
    messages = [begin(10), ROW, commit(10, 20), begin(30), commit(30, 44)]
    alive = [Keepalive(100 + number, False, each) for number, each in enumerate(after)]
    assert told_end(chunk(*messages[was_open:]), alive, was_open) == told


def test_a_transaction_from_before_ends_like_any_other() -> None:
    alive = [Keepalive(7, False, 0), Keepalive(8, False, 2)]
    assert told_end(chunk(ROW, commit(10, 20)), alive, True) == 8
