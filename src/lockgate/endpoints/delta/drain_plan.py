"""Which files a drain rewrites, and with which changes. Pure: files and states in, a plan out.

A file is told by the least and the greatest value of the key's first column. A change concerns
every file whose range it lies in; its row comes into one of them. Between the ranges there is no
row to replace: what is put there goes to a neighbour that has room, else into a file of its own. So
keys that only grow never make an old file be written again, and small files are filled up.

What becomes more than a file may have is cut into files alike in size, in the order of the key. So
a table whose keys come in any order, which begins as one file of all of them, has more and more of
them as it grows, each with a range of its own, and a drain is as many tasks.
"""

from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lockgate.endpoints.delta.changes import OP, PUT
from lockgate.endpoints.delta.files import DataFile

__all__ = ["ROWS_MAX", "Rewrite", "plan_rewrites"]

Index = npt.NDArray[np.int64]

ROWS_MAX: Final = 1_000_000
"""A file that has half of it is full."""


class Rewrite(NamedTuple):
    """These files go; others come, with what is kept of them and the states of these numbers."""

    files: tuple[DataFile, ...]
    rows: Index
    """Which of the states."""
    kept: tuple[DataFile, ...]
    """Of the files, those whose rows are kept; the others' were wiped."""
    file_rows: int = ROWS_MAX
    """Rows of a file that comes, at most."""


def plan_rewrites(
    files: list[DataFile], states: pa.Table, key: list[str], *, wiped: bool
) -> list[Rewrite]:
    """Every file that a change concerns is in one rewrite, every put is in one."""
    puts = np.asarray(pc.equal(states[OP], PUT))
    found = _rewrites(files, states, key, wiped=wiped)
    return [one._replace(file_rows=_file_rows(one, int(puts[one.rows].sum()))) for one in found]


def _file_rows(rewrite: Rewrite, puts: int) -> int:
    """Puts that replace a row are counted twice: a file may come out smaller, never larger."""
    rows = sum(file.rows for file in rewrite.kept) + puts
    files = -(-rows // ROWS_MAX)
    return -(-rows // files) if files > 1 else ROWS_MAX


def _rewrites(
    files: list[DataFile], states: pa.Table, key: list[str], *, wiped: bool
) -> list[Rewrite]:
    everything = np.arange(states.num_rows, dtype=np.int64)
    if wiped:
        return [Rewrite(tuple(files), everything, ())]
    if not states.num_rows:
        return []
    if not all(_told(file, key[0]) for file in files):
        return [Rewrite(tuple(files), everything, tuple(files))]
    return _by_range(files, states, key[0])


def _by_range(files: list[DataFile], states: pa.Table, column: str) -> list[Rewrite]:
    values = states[column].combine_chunks()
    order = np.asarray(pc.sort_indices(values))
    ranked = values.take(pa.array(order))
    puts = np.asarray(pc.equal(states[OP], PUT))
    files = sorted(files, key=lambda file: file.low[column])
    # The stretch of the ordered states that lies in each file's range.
    firsts = _places(ranked, [file.low[column] for file in files], side="left")
    ends = _places(ranked, [file.high[column] for file in files], side="right")
    groups = _overlapping(list(zip(files, firsts, ends, strict=True)))
    nexts = [first for _, first, _ in groups[1:]] + [len(order)]
    before = order[: groups[0][1]] if groups else order
    out = _anew(before[puts[before]])
    for (group, first, end), upto in zip(groups, nexts, strict=False):
        # Puts behind the group and before the next go along if there is room.
        behind = order[end:upto]
        behind = behind[puts[behind]]
        room = ROWS_MAX // 2 - sum(file.rows for file in group)
        along = len(behind) <= room
        rows = np.concatenate([order[first:end], behind]) if along else order[first:end]
        if len(rows):
            out.append(Rewrite(tuple(group), rows.astype(np.int64), tuple(group)))
        if not along:
            out += _anew(behind)
    return out


def _overlapping(
    ranges: list[tuple[DataFile, int, int]],
) -> list[tuple[list[DataFile], int, int]]:
    """Files whose stretches share a state are one: its old row may be in either."""
    out: list[tuple[list[DataFile], int, int]] = []
    for file, first, end in ranges:
        if out and first < out[-1][2]:
            group, start, until = out[-1]
            out[-1] = ([*group, file], start, max(until, end))
        else:
            out.append(([file], first, end))
    return out


def _anew(rows: Index) -> list[Rewrite]:
    return [
        Rewrite((), rows[at : at + ROWS_MAX].astype(np.int64), ())
        for at in range(0, len(rows), ROWS_MAX)
    ]


def _places(ranked: Any, edges: list[Any], side: str) -> list[int]:
    found = pc.search_sorted(ranked, pa.array(edges, type=ranked.type), side=side)
    return [int(place) for place in found.to_pylist()]


def _told(file: DataFile, column: str) -> bool:
    return column in file.low and column in file.high
