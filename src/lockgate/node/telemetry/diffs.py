"""What is counted of the diffs that this node works on."""

from collections.abc import Sequence
from typing import Final

from lockgate.model.diffs import DiffRecord, DiffState, RangeOutcome, RowKind
from lockgate.node.telemetry.counts import Tally
from lockgate.node.telemetry.families import Families

__all__ = ["DiffWatch", "add_diffs"]

_OUTCOMES: Final = ("equal", "unequal", "failed", "left")


class DiffWatch:
    """Counts since the process began."""

    def __init__(self) -> None:
        self.ends: Tally[str] = Tally()
        self.rows: Tally[str] = Tally()
        self.found: Tally[str] = Tally()

    def compared(self, outcomes: Sequence[RangeOutcome]) -> None:
        """These ranges are recorded."""
        for each in outcomes:
            self.rows.add("", each.rows)
            self.found.add(RowKind.MISSING.value, each.missing)
            self.found.add(RowKind.EXTRA.value, each.extra)
            self.found.add(RowKind.DIFFERENT.value, each.different)

    def ended(self, record: DiffRecord) -> None:
        """A diff is over."""
        if record.state is DiffState.FAILED:
            self.ends.add("failed")
        else:
            self.ends.add("equal" if record.equal else "unequal")

    def left(self) -> None:
        """One was stopped here; somebody else goes on with it."""
        self.ends.add("left")


def add_diffs(out: Families, watch: DiffWatch, running: int) -> None:
    """Zeros too: a rise from nothing is not seen."""
    out.add("lockgate_diffs_running", running)
    ends, found = watch.ends.snapshot(), watch.found.snapshot()
    for outcome in _OUTCOMES:
        out.add("lockgate_diffs_total", ends.get(outcome, 0), outcome)
    out.add("lockgate_diff_rows_total", watch.rows.snapshot().get("", 0))
    for kind in RowKind:
        out.add("lockgate_diff_found_rows_total", found.get(kind.value, 0), kind.value)
