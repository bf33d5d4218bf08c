"""Where the messages of a connection begin and end, in a buffer of many of them.

What a server sends is a chain of frames: a letter, a length (which counts itself), a payload. To
walk the chain frame by frame is a Python step per row. Instead, all places that look like a
data frame, `d` followed by a zero, are taken for one, and then the chain is checked for all of
them at once: each must end where the next begins. Payloads may hold such places too, and other
kinds of frames lie between; where the chain breaks, it is taken up again where it must go on.

    d····d····d··d·d····S··d····        places that look like a frame
    └────┴────┴─────┴───┴──┴────        the chain: `d` at the fourth is inside a payload

So the result is that of walking, for any bytes whatever; their kind decides only the speed.
"""

from typing import Final, NamedTuple

import numpy as np

from lockgate.endpoints.postgres.pgoutput.loads import Buffer, Bytes, Indexes, everywhere
from lockgate.endpoints.postgres.pgoutput.malformed import Malformed

__all__ = ["Frames", "OtherFrame", "find_frames"]

_DATA: Final = ord("d")
_HEAD: Final = 5
"""A letter and a length."""
_BLOCK: Final = 2**17
"""Bytes that are looked through at a time: what that makes stays in the cache."""
_BREAKS_MAX: Final = 64
"""So many breaks of the chain are repaired before it is looked for what makes them."""


class OtherFrame(NamedTuple):
    """A frame that is not data. Its payload lies at [start, end)."""

    kind: str
    start: int
    end: int
    after: int
    """So many data frames come before it."""


class Frames(NamedTuple):
    """The whole frames of a buffer."""

    starts: Indexes
    """Of the payloads of the data frames."""
    ends: Indexes
    consumed: int
    """Bytes up to the end of the last whole frame: what comes after belongs to a later buffer."""
    others: list[OtherFrame]


def find_frames(buffer: Buffer) -> Frames:
    """The frames of a buffer that begins with a frame."""
    data: Bytes = np.frombuffer(buffer, np.uint8)
    return _Search(data).frames()


class _Search:
    def __init__(self, data: Bytes) -> None:
        self.data = data
        self.lengths = everywhere(data, ">u4")
        self._look(_candidates(data))
        if len(self.breaks) > _BREAKS_MAX:
            self._sift()

    def _look(self, places: Indexes) -> None:
        """Take the places for frames, and see where that does not make a chain."""
        self.places = places
        self.nexts = places + 1 + self.lengths[places + 1]
        self.breaks = np.flatnonzero(self.nexts[:-1] != places[1:])

    def _sift(self) -> None:
        """Keep only places at which another one ends: one inside a payload hardly ever is."""
        number = np.searchsorted(self.places, self.nexts)
        number[number == len(self.places)] = 0
        reached = np.zeros(len(self.places), np.bool_)
        reached[number[self.places[number] == self.nexts]] = True
        self._look(self.places[reached])

    def frames(self) -> Frames:
        size = len(self.data)
        places: list[Indexes] = []
        others: list[OtherFrame] = []
        found = at = 0
        while at + _HEAD <= size:
            first = int(np.searchsorted(self.places, at))
            if first < len(self.places) and self.places[first] == at:
                last = self._unbroken(first)
                end = int(self.nexts[last])
                if end > size:
                    end, last = int(self.places[last]), last - 1
                chain = self.places[first : last + 1]
            else:
                end = at + 1 + int(self.lengths[at + 1])
                chain = np.array([at] if end <= size else [], np.int64)
            if end == at or end > size:
                break
            if self.data[at] == _DATA:
                places.append(chain)
                found += len(chain)
            else:
                others.append(OtherFrame(chr(self.data[at]), at + _HEAD, end, found))
            at = end
        starts = np.concatenate([np.zeros(0, np.int64), *places])
        ends = starts + 1 + self.lengths[starts + 1]
        if (ends < starts + _HEAD).any() or any(each.end < each.start for each in others):
            raise Malformed("a frame is shorter than its head", object_="connection")
        return Frames(starts + _HEAD, ends, at, others)

    def _unbroken(self, first: int) -> int:
        """The last place of the chain that begins at the place of this number."""
        number = int(np.searchsorted(self.breaks, first))
        return int(self.breaks[number]) if number < len(self.breaks) else len(self.places) - 1


def _candidates(data: Bytes) -> Indexes:
    """Where a `d` and a zero stand, with room for the rest of a head behind them."""
    found = [np.zeros(0, np.int64)]
    last = len(data) - _HEAD + 1
    for start in range(0, last, _BLOCK):
        end = min(start + _BLOCK, last)
        alike = data[start:end] == _DATA
        alike &= data[start + 1 : end + 1] == 0
        found.append(np.flatnonzero(alike) + start)
    return np.concatenate(found)
