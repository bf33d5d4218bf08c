"""A drain: what ingest has comes into stable.

One commit does it: the files that hold keys of the window go, rewritten ones come, `drained` moves
from where the drain began to the end of its window. Found moved at the commit, it lands nothing. So
a drain that is run twice, or by two, is done once.
"""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np
import pyarrow as pa

from lockgate.endpoints.delta.changes import POSITION, ingest_schema, last_states
from lockgate.endpoints.delta.drain_plan import Rewrite, plan_rewrites
from lockgate.endpoints.delta.files import (
    DataFile,
    added,
    check_there,
    live_files,
    removed,
)
from lockgate.endpoints.delta.lake import WORK
from lockgate.endpoints.delta.marks import Marks
from lockgate.endpoints.delta.parts import Part, write_parts
from lockgate.endpoints.delta.rewrite import RewriteOrder
from lockgate.endpoints.delta.schemas import to_wire
from lockgate.model.errors import Transient
from lockgate.model.ids import Token
from lockgate.model.positions import Position
from lockgate.model.value import Value

if TYPE_CHECKING:
    from lockgate.endpoints.delta.layered import LayeredTable

__all__ = [
    "DRAIN_BYTES_MAX",
    "DRAIN_ROWS_MAX",
    "ChangesMissing",
    "DrainOvertaken",
    "DrainPlan",
    "Drained",
    "Snapshot",
    "exchange",
    "land",
    "plan",
]

DRAIN_ROWS_MAX: Final = 2_000_000
"""Changes of one drain: the driver has them in memory. What is left is the next one's."""
DRAIN_BYTES_MAX: Final = 512 << 20
"""The same in bytes, as they lie in memory. For a moment they are there up to three times: their
last states, those once more by the files that they go to, and what is written of them for tasks."""


class DrainOvertaken(Transient):
    """Somebody else has drained meanwhile. Nothing was landed."""

    code = "drain-overtaken"


class ChangesMissing(Transient):
    """Between stable and this home's ingest there are changes that it never had."""

    code = "changes-missing"


class Snapshot(Value, frozen=True):
    """What one reader sees: the stable files, and the changes of ingest in (drained, position]."""

    stable: tuple[DataFile, ...]
    ingest: tuple[DataFile, ...]
    stable_version: int
    drained: Position
    position: Position
    settled: Position = 0
    """While the position is below it, the rows of the first copy are not level yet."""


class DrainPlan(Value, frozen=True):
    """What a drain from one position to another takes."""

    after: Position
    upto: Position
    changes: int
    orders: tuple[RewriteOrder, ...]
    old: tuple[DataFile, ...]
    """The files that go."""
    states: str
    """The file that the orders read; empty when there is none."""


class Drained(Value, frozen=True):
    """What a drain did."""

    version: int
    to: Position
    changes: int
    """Rows of ingest that it took in."""
    written_bytes: int
    removed_bytes: int


def plan(
    table: "LayeredTable", rows_max: int = DRAIN_ROWS_MAX, bytes_max: int = DRAIN_BYTES_MAX
) -> DrainPlan | None:
    """What bringing ingest into stable takes, of so many changes at most, or of one batch if that
    has more. None: nothing.

    The states are written beside the layers, so that whoever rewrites a file finds its part.
    """
    table.stable.refuse_foreign(table.stable.look())
    table.ingest.refuse_foreign(table.ingest.look())
    seen = table.snapshot()
    if seen.position == seen.drained:
        return None
    if table.begins > seen.drained:
        raise ChangesMissing(
            f"this home has the table's changes from {table.begins} on, and stable stands at "
            f"{seen.drained}",
            object_=table.label,
            hint="its feed copies the table anew; or `lockgate lake step-up` where it was led",
            operation="drain",
        )
    if set(table.rows.names) - set(table.stable.schema.names):
        # Between `follow_ingest` and this look. What is written has stable's columns: values of
        # the new ones would be passed by, for ever.
        raise DrainOvertaken(
            "the table has got columns meanwhile that stable has not",
            object_=table.label,
            hint="nothing: stable gets them, and then it is drained",
            operation="drain",
        )
    seen, states, wiped = _states(table, seen, rows_max, bytes_max)
    rewrites = plan_rewrites(list(seen.stable), states, table.key, wiped=wiped)
    parts = _written(table, states, rewrites)
    key, schema = tuple(table.key), to_wire(table.stable.schema)
    orders = tuple(
        RewriteOrder(
            tuple(file.path for file in rewrite.kept), part, key, schema, rewrite.file_rows
        )
        for part, rewrite in zip(parts, rewrites, strict=True)
    )
    old = tuple(file for rewrite in rewrites for file in rewrite.files)
    path = parts[0].path if parts else ""
    return DrainPlan(seen.drained, seen.position, states.num_rows, orders, old, path)


def _written(table: "LayeredTable", states: pa.Table, rewrites: list[Rewrite]) -> list[Part]:
    """Where every rewrite finds its states."""
    if not rewrites:
        return []
    # Taken once and cut: one go over all columns, not one for each rewrite.
    states = states.take(pa.array(np.concatenate([rewrite.rows for rewrite in rewrites])))
    ends = np.cumsum([len(rewrite.rows) for rewrite in rewrites]).tolist()
    cuts = zip([0, *ends], ends, strict=False)
    tables = [states.slice(start, end - start) for start, end in cuts]
    return write_parts(table.place.child(WORK), tables)


def land(table: "LayeredTable", token: Token, plan: DrainPlan, new: list[DataFile]) -> Drained:
    """Put the rewritten files in the place of the old ones, if nobody was there before."""
    marks = exchange(table, token, plan.old, new, after=plan.after, upto=plan.upto)
    return Drained(
        marks.version,
        plan.upto,
        plan.changes,
        sum(file.bytes for file in new),
        sum(file.bytes for file in plan.old),
    )


def exchange(
    table: "LayeredTable",
    token: Token,
    old: Iterable[DataFile],
    new: list[DataFile],
    *,
    after: Position | None = None,
    upto: Position | None = None,
) -> Marks:
    """Put files of stable in the place of others, which have to be there still.

    With `after` and `upto`, those of a drain between the two; without, the rows are the same.
    """
    old = list(old)
    gone = {file.path for file in old}
    changes = upto is not None

    def actions(marks: Marks) -> list[Any]:
        there = {file.path for file in live_files(table.stable.handle)}
        if (after is not None and marks.position != after) or not gone <= there:
            # Delta would take the removal of a file that is not there for done.
            raise DrainOvertaken(
                f"stable has gone on meanwhile, to position {marks.position}",
                object_=table.label,
                hint="nothing: what is left is done next time",
                operation="drain" if changes else "compact",
            )
        check_there(table.stable.place, new)
        goes = [removed(file, changes=changes) for file in old]
        return [*goes, *(added(file, changes=changes) for file in new)]

    return table.stable.commit(token, actions, position=upto)


def _states(
    table: "LayeredTable", seen: Snapshot, rows_max: int, bytes_max: int
) -> tuple[Snapshot, pa.Table, bool]:
    """The last states of a drain, see `last_states`, and the snapshot up to where it goes."""
    if not all(POSITION in file.high for file in seen.ingest):  # no telling where one ends
        return seen, *last_states(table.changes(seen), table.key)
    taken = list(_taken(table, seen, rows_max, bytes_max))
    if len(taken) < len(seen.ingest):
        # Batches follow each other in the log: the next one begins behind these.
        files = tuple(file for file, _ in taken)
        position = max(file.high[POSITION] for file in files)
        seen = msgspec.structs.replace(seen, ingest=files, position=position)
    empty = ingest_schema(table.rows).empty_table()
    return seen, *last_states(
        pa.concat_tables([empty, *(changes for _, changes in taken)]), table.key
    )


def _taken(
    table: "LayeredTable", seen: Snapshot, rows_max: int, bytes_max: int
) -> Iterator[tuple[DataFile, pa.Table]]:
    """As many files of ingest as one drain takes, with their changes; one at least."""
    rows = size = 0
    for file in sorted(seen.ingest, key=lambda file: file.low[POSITION]):
        # On the disk it is mostly smaller than in memory: what is too much there is not even read.
        if size and (rows + file.rows > rows_max or size + file.bytes > bytes_max):
            return
        changes = table.changes(msgspec.structs.replace(seen, ingest=(file,)))
        # How much smaller, only reading tells: a value that many rows have lies there once.
        if size and size + changes.nbytes > bytes_max:
            return
        rows += file.rows
        size += changes.nbytes
        yield file, changes
