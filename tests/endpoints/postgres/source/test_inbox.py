"""Frames come out of bytes whole and in order, however the bytes were cut on their way."""

import struct
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lockgate.endpoints.postgres.pgoutput.frames import Frames
from lockgate.endpoints.postgres.source import inbox as inbox_module
from lockgate.endpoints.postgres.source.errors import SourceLost
from lockgate.endpoints.postgres.source.inbox import Inbox, Report


@pytest.fixture(autouse=True, scope="module")
def _impatient() -> Iterator[None]:
    """No waiting for pieces that never come."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(inbox_module, "_ANSWER_S", 0.0)
        yield


class Pieces:
    """A wire over which bytes come in pieces of given sizes."""

    def __init__(self, data: bytes, sizes: list[int]) -> None:
        self._data, self._sizes = data, list(sizes)

    def send(self, frames: bytes) -> None:
        raise AssertionError

    def receive(self, into: memoryview, timeout_s: float, low_water: int = 1) -> int:
        assert 0 < low_water <= len(into)
        if not self._data:
            return 0
        size = min(self._sizes.pop(0) if self._sizes else len(self._data), len(into))
        piece, self._data = self._data[:size], self._data[size:]
        into[: len(piece)] = piece
        return len(piece)

    def close(self) -> None:
        raise AssertionError


def frame(kind: bytes, payload: bytes) -> bytes:
    return kind + struct.pack("!i", len(payload) + 4) + payload


def taken(inbox: Inbox, frames: Frames) -> Iterator[tuple[bytes, bytes]]:
    data = inbox.data.tobytes()
    pairs = zip(frames.starts.tolist(), frames.ends.tolist(), strict=True)
    rows = [(b"d", data[start:end]) for start, end in pairs]
    for other in reversed(frames.others):
        rows.insert(other.after, (other.kind.encode(), data[other.start : other.end]))
    return iter(rows)


FRAMES = st.lists(
    st.tuples(st.sampled_from([b"d", b"d", b"d", b"N", b"Z"]), st.binary(max_size=90)), max_size=30
)


@pytest.mark.parametrize("how", ["frames", "answer"])
@settings(max_examples=200, deadline=None)
@given(frames=FRAMES, sizes=st.lists(st.integers(1, 40), max_size=100))
def test_all_frames_come_out_as_they_went_in(
    how: str, frames: list[tuple[bytes, bytes]], sizes: list[int]
) -> None:
    wire = Pieces(b"".join(frame(*each) for each in frames), sizes)
    inbox = Inbox(wire, 64)  # smaller than the largest frame
    found: list[tuple[bytes, bytes]] = []
    nothing = 0
    while nothing < 2:
        got = inbox.frames(0.0, linger_s=0.0) if how == "frames" else inbox.answer(0.0)
        nothing = 0 if got is not None else nothing + 1
        found.extend(taken(inbox, got) if got is not None else ())
    assert found == frames


def test_a_buffer_that_grew_shrinks_again() -> None:
    wire = Pieces(frame(b"d", b"x" * 1000) + frame(b"d", b"y"), [])
    inbox = Inbox(wire, 64)
    found: list[bytes] = []
    while (frames := inbox.frames(0.0)) is not None:
        found.extend(payload for _, payload in taken(inbox, frames))
    assert found == [b"x" * 1000, b"y"]
    assert len(inbox.data) < 100


def test_an_answer_is_waited_for_to_its_end() -> None:
    whole = b"".join([frame(b"d", b"row"), frame(b"C", b"COPY 1\0"), frame(b"Z", b"I")])
    inbox = Inbox(Pieces(whole, [4, 4, 4, 4, 4, 4, 4]), 1024)
    frames = inbox.answer(10.0)
    assert frames is not None
    assert [kind for kind, _ in taken(inbox, frames)] == [b"d", b"C", b"Z"]


def test_a_report_is_read_with_its_state() -> None:
    payload = b"SFEHLER\0VERROR\0C42704\0MGibt es nicht\0DWirklich\0\0"
    inbox = Inbox(Pieces(frame(b"E", payload), []), 1024)
    frames = inbox.frames(0.0)
    assert frames is not None
    report = inbox.report(frames.others[0].start, frames.others[0].end)
    assert report == Report("ERROR", "42704", "Gibt es nicht", "Wirklich")
    assert report.as_error().sqlstate == "42704"


def test_a_state_that_the_driver_does_not_know_is_an_error_all_the_same() -> None:
    assert "odd" in str(Report("ERROR", "ZZ999", "odd", "").as_error())


class Broken(Pieces):
    def receive(self, into: memoryview, timeout_s: float, low_water: int = 1) -> int:
        if self._data:
            return super().receive(into, timeout_s, low_water)
        raise SourceLost("gone", object_="here", hint="")


@pytest.mark.parametrize("how", ["frames", "answer"])
def test_a_frame_that_was_cut_off_is_no_frame(how: str) -> None:
    inbox = Inbox(Broken(frame(b"d", b"half a row")[:-3], []), 1024)
    with pytest.raises(SourceLost):
        inbox.frames(1.0) if how == "frames" else inbox.answer(1.0)
