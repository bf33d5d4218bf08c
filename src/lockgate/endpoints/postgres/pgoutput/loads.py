"""Big-endian numbers out of bytes, at any places, for all places at once.

NumPy has no unaligned load. A view that starts a number at *every* byte is one, and then one
indexing operation reads a number per row, where reading byte by byte takes eight.
"""

from typing import Any, Final

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import as_strided

__all__ = ["SPARE", "Buffer", "Bytes", "Indexes", "Loads", "everywhere"]

Buffer = bytes | bytearray | memoryview | npt.NDArray[np.uint8]
Bytes = npt.NDArray[np.uint8]
Indexes = npt.NDArray[np.int64]

SPARE: Final = 8
"""A buffer with this many bytes after its last message is read in place; others are copied."""


def everywhere(data: Bytes, kind: str) -> npt.NDArray[Any]:
    """A view of the bytes as numbers of this kind, one that starts at each byte."""
    size = np.dtype(kind).itemsize
    if len(data) < size:
        return np.zeros(0, kind)
    return as_strided(
        data[:size].view(kind), shape=(len(data) - size + 1,), strides=(1,), writeable=False
    )


class Loads:
    """A buffer that can be read at any place up to `end`, eight bytes at a time."""

    def __init__(self, buffer: Buffer, end: int) -> None:
        data: Bytes = np.frombuffer(buffer, np.uint8)
        if len(data) < end:
            raise ValueError(f"messages end at {end}, the buffer at {len(data)}")
        if len(data) < end + SPARE:
            data = np.concatenate([data[:end], np.zeros(SPARE, np.uint8)])
        self.data = data
        self._words = everywhere(data, ">i8")

    def i64(self, at: Indexes) -> Indexes:
        """The eight bytes at each place as a signed number."""
        return self._words[at].astype(np.int64)

    def u32(self, at: Indexes) -> Indexes:
        """The four bytes at each place as an unsigned number."""
        words = self.i64(at)
        words >>= 32
        words &= 0xFFFFFFFF
        return words

    def u16(self, at: Indexes) -> Indexes:
        """The two bytes at each place as an unsigned number."""
        words = self.i64(at)
        words >>= 48
        words &= 0xFFFF
        return words

    def bytes_(self, start: int, end: int) -> bytes:
        """The bytes from `start` to before `end`."""
        return self.data[start:end].tobytes()
