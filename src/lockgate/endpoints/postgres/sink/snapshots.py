"""Which changes a copied row already holds.

A chunk of the initial copy was read under a snapshot. The stream brings every transaction since
the slot was made, also those that the snapshot saw; applied again, they would do harm. So a
change is left out when its transaction is visible in the snapshot of its key's chunk.

A snapshot is recorded as PostgreSQL's text `xmin:xmax:xip,…` of 64-bit transaction ids. The
stream has 32-bit ids: an id is meant to be the one nearest to xmax, which is right as long as
fewer than 2^31 transactions lie between the two, and PostgreSQL itself allows no more.
"""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

__all__ = ["BLIND", "ChunkOf", "Snapshot"]

ChunkOf = Callable[[list[Any]], npt.NDArray[np.int64]]
"""Which snapshot covers each key: key columns as Arrow arrays → numbers into the snapshots.

Needed only when a copy went on under a second snapshot. The order of keys is the source's own,
so whoever knows the chunks asks the source; here it is only called, once for all distinct keys.
"""

BLIND: Final = "0:0:"
"""A snapshot that sees no transaction: of rows that are there, and no change of them is to be left
out. No server has such a one."""

_HALF: Final = 2**31
_LAP: Final = 2**32


class Snapshot(NamedTuple):
    """What one transaction could see."""

    xmin: int
    xmax: int
    running: tuple[int, ...] = ()
    """Between the two, the ones that were not over yet."""

    @classmethod
    def parse(cls, text: str) -> "Snapshot":
        """PostgreSQL's text of it. Raises ValueError when it is none."""
        try:
            xmin, xmax, running = text.split(":")
            return cls(int(xmin), int(xmax), tuple(int(x) for x in running.split(",") if x))
        except ValueError:
            raise ValueError(f"not a snapshot: {text!r}") from None

    def sees(self, xids: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Which of the transactions, by their 32-bit ids, are visible."""
        wide = self.widened(xids)
        out: npt.NDArray[np.bool_] = wide < self.xmax
        if self.running:
            out &= ~np.isin(wide, np.array(self.running, dtype=np.int64))
        return out

    def widened(self, xids: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The 64-bit ids nearest to xmax."""
        ahead = (xids - self.xmax) % _LAP
        wide: npt.NDArray[np.int64] = self.xmax + np.where(ahead < _HALF, ahead, ahead - _LAP)
        # Before the first lap is over there is nothing to look back to.
        return np.where(wide < 0, wide + _LAP, wide)
