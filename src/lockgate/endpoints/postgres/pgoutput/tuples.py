"""Where each value of many tuples is: the walk over the columns, for all rows at once.

A tuple is a count of columns, then for each column a letter (`t` text, `n` null, `u` unchanged
and not sent, because it is stored apart) and, for `t`, a length and that many bytes:

    rows:   |2|t|3|abc|t|1|7|        one load per column and row reads letter and length;
            |2|n|t|2|42|             rows are at different places after the first column, and
            |2|u|t|1|9|              each steps on by its own length

The lengths make every column depend on the one before, so the walk goes column by column. It
costs a load and a few additions per value, on arrays that stay in the processor's cache as
long as not too many rows are walked at once (`batches.ROWS`).
"""

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from lockgate.endpoints.postgres.pgoutput.loads import Indexes, Loads
from lockgate.endpoints.postgres.pgoutput.malformed import Malformed

__all__ = ["Cells", "Flags", "spread", "walk"]

Flags = npt.NDArray[np.bool_]

_TEXT: Final = ord("t")
_NULL: Final = ord("n")
_UNCHANGED: Final = ord("u")
_HEAD: Final = 5
"""A letter and a length."""


class Cells(NamedTuple):
    """The values of one column: where each begins, how long it is, which ones are there."""

    starts: Indexes
    lengths: Indexes
    missing: Flags | None = None
    """Null, or not sent. None when no value is."""
    unchanged: Flags | None = None
    """Not sent because unchanged. None when no value is."""


def walk(
    loads: Loads, at: Indexes, columns: int, wanted: frozenset[int], table: str
) -> tuple[dict[int, Cells], Indexes]:
    """The cells of the wanted columns of the tuples that begin at `at`, and where each ends.

    A tuple whose count of columns is another is refused. Places beyond the buffer raise
    IndexError.
    """
    if (loads.u16(at) != columns).any():
        raise Malformed("a row has not as many columns as its table", object_=table)
    found: dict[int, Cells] = {}
    at = at + 2
    for column in range(columns):
        words = loads.i64(at)
        letters = words >> 56
        words >>= 24
        words &= 0xFFFFFFFF
        text = letters == _TEXT
        if text.all():
            starts = at + _HEAD
            if column in wanted:
                found[column] = Cells(starts, words)
            at = starts + words
            continue
        null = letters == _NULL
        unchanged = letters == _UNCHANGED
        if not (text | null | unchanged).all():
            raise Malformed("a value is neither text nor null nor unchanged", object_=table)
        words *= text
        if column in wanted:
            found[column] = Cells(at + _HEAD, words, ~text, unchanged if unchanged.any() else None)
        at = at + np.where(text, words + _HEAD, 1)
    return found, at


def spread(cells: Cells, rows: Indexes, messages: Indexes) -> Cells:
    """The same cells as those of some rows among all; the others have no value.

    `messages` are where the messages of all rows begin: cells stay in the buffer's order.
    """
    starts = messages.copy()
    lengths = np.zeros(len(messages), np.int64)
    missing = np.ones(len(messages), np.bool_)
    starts[rows] = cells.starts
    lengths[rows] = cells.lengths
    missing[rows] = False if cells.missing is None else cells.missing
    unchanged = None
    if cells.unchanged is not None:
        unchanged = np.zeros(len(messages), np.bool_)
        unchanged[rows] = cells.unchanged
    return Cells(starts, lengths, missing, unchanged)
