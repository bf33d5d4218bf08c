"""Frames are found as by walking from one to the next, for any bytes whatever."""

import struct
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from lockgate.endpoints.postgres.pgoutput import frames as module
from lockgate.endpoints.postgres.pgoutput.frames import Frames, find_frames
from lockgate.endpoints.postgres.pgoutput.malformed import Malformed


def frame(kind: bytes, payload: bytes) -> bytes:
    return kind + struct.pack(">I", len(payload) + 4) + payload


def walked(buffer: bytes) -> tuple[list[tuple[int, int]], int, list[tuple[str, int, int, int]]]:
    """The same by a plain loop."""
    at = 0
    data: list[tuple[int, int]] = []
    others: list[tuple[str, int, int, int]] = []
    while at + 5 <= len(buffer):
        (length,) = struct.unpack_from(">I", buffer, at + 1)
        if length < 4 and at + 1 + length <= len(buffer):
            raise Malformed("too short")
        if at + 1 + length > len(buffer):
            break
        if buffer[at : at + 1] == b"d":
            data.append((at + 5, at + 1 + length))
        else:
            others.append((chr(buffer[at]), at + 5, at + 1 + length, len(data)))
        at += 1 + length
    return data, at, others


def plain(found: Frames) -> Any:
    data = list(zip(found.starts.tolist(), found.ends.tolist(), strict=True))
    return data, found.consumed, [tuple(other) for other in found.others]


# Payloads full of what looks like frames.
PAYLOADS = st.lists(
    st.sampled_from([b"d", b"\0", b"d\0", b"d\0\0\0", b"\x04", b"d\0\0\0\x05x", b"S", b"abc"]),
    max_size=12,
).map(b"".join)
CHAINS = st.lists(st.tuples(st.sampled_from([b"d", b"d", b"d", b"d", b"S", b"\0"]), PAYLOADS))


@given(CHAINS, st.data())
@settings(deadline=None, max_examples=150)
def test_a_chain_cut_anywhere_is_found_as_by_walking(chain: Any, data: st.DataObject) -> None:
    whole = b"".join(frame(kind, payload) for kind, payload in chain)
    buffer = whole[: data.draw(st.integers(0, len(whole)))]
    assert plain(find_frames(buffer)) == walked(buffer)


@given(CHAINS)
@settings(deadline=None, max_examples=100)
def test_it_is_the_same_where_the_chain_breaks_often(chain: Any) -> None:
    whole = b"".join(frame(kind, payload) for kind, payload in chain)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_BREAKS_MAX", 0)
        assert plain(find_frames(whole)) == walked(whole)


@given(st.lists(st.sampled_from([0, 0, 0, 4, 5, 6, ord("d"), ord("S")]), max_size=60).map(bytes))
@settings(deadline=None, max_examples=200)
def test_nonsense_is_refused_or_read_as_by_walking(nonsense: bytes) -> None:
    try:
        expected = walked(nonsense)
    except Malformed:
        with pytest.raises(Malformed):
            find_frames(nonsense)
    else:
        assert plain(find_frames(nonsense)) == expected


@given(CHAINS, st.integers(1, 9))
@settings(deadline=None, max_examples=100)
def test_it_is_the_same_in_blocks_of_any_size(chain: Any, size: int) -> None:
    whole = b"".join(frame(kind, payload) for kind, payload in chain)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_BLOCK", size)
        assert plain(find_frames(whole)) == walked(whole)


def test_a_frame_longer_than_16_mib_is_found_although_no_zero_follows_its_letter() -> None:
    big = frame(b"d", b"d\0" * 1000 + bytes(2**24))
    buffer = frame(b"d", b"one") + big + frame(b"d", b"two")
    assert big[1] != 0
    assert plain(find_frames(buffer)) == walked(buffer)


def test_many_frames_with_something_like_a_frame_in_each_are_found() -> None:
    # Positions in the log hold such bytes for a while: frame after frame.
    head = struct.pack(">qqq", 0x6400, 0x6400_0000, 0)
    buffer = b"".join(frame(b"d", b"w" + head + bytes([n % 256])) for n in range(5000))
    found = find_frames(memoryview(buffer))
    assert plain(found) == walked(buffer)
    assert len(found.starts) == 5000


def test_nothing_is_found_in_nothing() -> None:
    for size in range(5):
        found = find_frames(np.full(size, ord("d"), np.uint8))
        assert plain(found) == ([], 0, [])
