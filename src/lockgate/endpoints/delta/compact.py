"""Putting small files of stable together: the same rows in fewer files.

Many drains of few keys leave many small files, and every reader pays for each of them. Neighbours
in the order of the key become one, so that a file still tells by its range which keys it has. What
is made of small files is not small any more or all there was: no row is written again and again.

    small ≤ SMALL rows:   [2][3]|900|[1][4][4][4]    of 16 at most →   [5]|900|[13]
"""

from collections.abc import Sequence
from typing import Any, Final

from lockgate.endpoints.delta import drain_plan
from lockgate.endpoints.delta.commit_files import taking_back
from lockgate.endpoints.delta.draining import exchange
from lockgate.endpoints.delta.files import DataFile
from lockgate.endpoints.delta.layered import LayeredTable
from lockgate.endpoints.delta.rewrite import RewriteOrder, rewrite
from lockgate.endpoints.delta.schemas import to_wire
from lockgate.model.errors import IllegalTransition
from lockgate.model.ids import Token
from lockgate.model.value import Value

__all__ = ["Compacted", "Compaction", "compact", "groups", "land_compaction", "plan_compaction"]

_SMALL: Final = 8
"""A file is small below this part of what a file may have."""


class Compaction(Value, frozen=True):
    """Which files become one, and how."""

    orders: tuple[RewriteOrder, ...]
    old: tuple[DataFile, ...]
    """The files that go."""


class Compacted(Value, frozen=True):
    """What it did."""

    version: int
    files_before: int
    files_after: int
    bytes_before: int
    bytes_after: int


def groups(files: Sequence[DataFile], column: str, rows_max: int) -> list[list[DataFile]]:
    """Which files become one, of at most `rows_max` rows: two or more neighbours each."""
    small = max(1, rows_max // _SMALL)
    out: list[list[DataFile]] = []
    run: list[DataFile] = []
    for file in sorted(files, key=lambda file: _place(file, column)):
        fits = file.rows < small and sum(one.rows for one in run) + file.rows <= rows_max
        if not fits:
            out.append(run)
            run = []
        if file.rows < small:
            run.append(file)
    return [run for run in [*out, run] if len(run) > 1]


def plan_compaction(table: LayeredTable) -> Compaction | None:
    """What there is to put together in stable. None: nothing."""
    table.stable.refuse_foreign(table.stable.look())
    seen = table.snapshot()
    found = groups(seen.stable, table.key[0], drain_plan.ROWS_MAX // 2)
    if not found:
        return None
    schema = to_wire(table.stable.schema)
    orders = tuple(
        RewriteOrder(
            tuple(file.path for file in group), None, tuple(table.key), schema, drain_plan.ROWS_MAX
        )
        for group in found
    )
    return Compaction(orders, tuple(file for group in found for file in group))


def land_compaction(
    table: LayeredTable, token: Token, plan: Compaction, new: list[DataFile]
) -> Compacted:
    """Put the new files in the place of the old ones, which have to be there still."""
    before, after = (sum(file.rows for file in files) for files in (plan.old, new))
    if before != after:
        raise IllegalTransition(
            f"{before} rows would become {after}", object_=table.label, operation="compact"
        )
    marks = exchange(table, token, plan.old, new)
    return Compacted(
        marks.version,
        len(plan.old),
        len(new),
        sum(file.bytes for file in plan.old),
        sum(file.bytes for file in new),
    )


def compact(table: LayeredTable, token: Token) -> Compacted | None:
    """All of it here and now: for tests and small tables. None: there was nothing."""
    plan = plan_compaction(table)
    if plan is None:
        return None
    new: list[DataFile] = []
    with taking_back(table.stable.place, new):
        for order in plan.orders:
            new += rewrite(table.place, order)
        return land_compaction(table, token, plan, new)


def _place(file: DataFile, column: str) -> tuple[bool, Any, str]:
    """Where in the order of the key; those that do not tell come last."""
    low = file.low.get(column)
    return (low is None, 0 if low is None else low, file.path)
