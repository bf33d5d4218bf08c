"""Figures of the lakes that are kept on this node, summed over tables: a lake may have many."""

from collections import Counter
from typing import Final

from lockgate.model.lake import LakeRole, WorkKind, WorkOutcome
from lockgate.model.lake_status import LakeStatus, TableState
from lockgate.node.telemetry.counts import Tally
from lockgate.node.telemetry.families import Families

__all__ = ["LakeWatch", "add_lake", "add_works"]

_ROLES: Final = tuple(role.value for role in LakeRole)
LakeWatch = Tally[tuple[str, str]]
"""Pieces of work that have ended, by kind and outcome."""


def add_lake(out: Families, lake: str, status: LakeStatus) -> None:
    """What is so now."""
    out.one_of("lockgate_lake_role", _ROLES, status.role.value, lake)
    out.add("lockgate_lake_epoch", status.epoch, lake)
    live = [each for each in status.tables if each.state is not TableState.DEAD]
    figures = [each.figures for each in live]
    states = Counter(each.state.value for each in status.tables)
    for state in TableState:
        out.add("lockgate_lake_tables", states.get(state.value, 0), lake, state.value)
    out.add("lockgate_lake_troubled_tables", sum(bool(t.trouble) for t in status.tables), lake)
    out.add("lockgate_lake_ingest_rows", sum(each.ingest_rows for each in figures), lake)
    out.add("lockgate_lake_ingest_bytes", sum(each.ingest_bytes for each in figures), lake)
    out.add("lockgate_lake_stable_rows", sum(each.stable_rows for each in figures), lake)
    out.add("lockgate_lake_stable_bytes", sum(each.stable_bytes for each in figures), lake)
    out.add("lockgate_lake_size_bytes", sum(each.size_bytes for each in figures), lake)
    oldest_ms = max((each.oldest_ms for each in figures), default=0)
    out.add("lockgate_lake_undrained_seconds", oldest_ms / 1000, lake)


def add_works(out: Families, watch: LakeWatch) -> None:
    """What has been done since the process began; zeros too: a rise from nothing is not seen."""
    counts = watch.snapshot()
    for kind in WorkKind:
        for outcome in WorkOutcome:
            count = counts.get((kind.value, outcome.value), 0)
            out.add("lockgate_lake_works_total", count, kind.value, outcome.value)
