"""What happens between the death of an owner and the next row at the target, moment by moment.

    killed ─ lease over ─ coordinator ─ owner ─ bootstrap ─ claims ─ capture ─ rows

Told by who knows: the lease by the metastore, coordinator, owner, bootstrap and capture by the
structured logs of the nodes that are left, claims and rows by the target. A moment that was not
needed (the coordinator lived, the capture was elsewhere) takes no time.
"""

import datetime
import json
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

__all__ = ["PHASES", "Moments", "durations", "first_line"]

PHASES: Final = (
    "lease runs out",
    "new coordinator",
    "new owner under a new epoch",
    "bootstrap",
    "spans claimed",
    "capture takes the slot",
    "first rows",
)


class Moments(NamedTuple):
    """Seconds since the kill; None for what was not needed."""

    lease: float
    coordinator: float | None
    owner: float
    bootstrap: float
    claims: float | None
    capture: float | None
    rows: float


def durations(moments: Moments) -> dict[str, float]:
    """How long each phase took. They overlap a little, and are counted one after the other: a phase
    that was over before the one in front of it takes no time. The sum is the whole."""
    at = 0.0
    found: dict[str, float] = {}
    for phase, moment in zip(PHASES, moments, strict=True):
        # Nothing of what comes before can end after the rows are there.
        end = at if moment is None else min(max(at, moment), max(at, moments.rows))
        found[phase] = end - at
        at = end
    return found


def first_line(
    logs: Iterable[str], event: str, after: datetime.datetime, **fields: object
) -> float | None:
    """Seconds from `after` to the first line of this event with these fields; None without one."""
    found: list[float] = []
    for log in logs:
        for line in log.splitlines():
            if event in line and (spent := _spent(line, event, after, fields)) is not None:
                found.append(spent)
    return min(found, default=None)


def _spent(
    line: str, event: str, after: datetime.datetime, fields: dict[str, object]
) -> float | None:
    try:
        said = json.loads(line)
    except ValueError:
        return None
    if said.get("event") != event or any(said.get(key) != value for key, value in fields.items()):
        return None
    spent = (datetime.datetime.fromisoformat(said["timestamp"]) - after).total_seconds()
    return spent if spent >= 0 else None


def median(values: Sequence[float]) -> float:
    """The middle one, or of the two in the middle the greater."""
    return sorted(values)[len(values) // 2]
