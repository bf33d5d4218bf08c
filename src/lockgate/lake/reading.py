"""A layered table as one DataFrame: the stable rows that no change concerns, and what changed.

    files of stable ──┐              ┌─ of stable: those with no key that ingest knows
                      ├── the rows ──┤
    files of ingest ──┘              └─ of ingest: the last change of each key, puts
    files of ingest ───── the keys that ingest knows

The rows of both layers are one scan, for small files of ingest go into tasks together with others
there. Stable has none of our columns: where a row has no number, it is of stable. The keys of
ingest are sent to every task once, so that stable is read as if it stood alone. Which changes are
not the last of their key is found here, on keys and numbers only: mostly hardly any, and Spark
would have to group all of ingest to learn the same.

**Filters and columns** that are asked of the DataFrame reach the scan of the rows. That is right
for every filter, because neither which keys changed nor which change is the last hangs on what is
filtered: the keys that stable is compared with are a scan of their own, which Spark restricts by
conditions on the key at most, and the other question was answered before Spark was asked.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lockgate.endpoints.delta.changes import (
    OP,
    POSITION,
    PUT,
    SEQ,
    WIPE,
    in_order,
    ingest_schema,
    window,
)
from lockgate.endpoints.delta.files import DataFile, read_file
from lockgate.endpoints.delta.lake import INGEST, STABLE, Lake
from lockgate.endpoints.delta.layered import LayeredTable, Snapshot
from lockgate.endpoints.delta.place import Place
from lockgate.endpoints.delta.travel import snapshot_of
from lockgate.endpoints.keys import encode
from lockgate.lake.moments import AsOf
from lockgate.lake.opening import Options, homes_of, looked_up, only, place_of, readable, whole
from lockgate.lake.parquet import frame_of, quoted
from lockgate.model.errors import LockgateError, NotFound, UsageError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["frame_at", "read", "stable", "tables", "view"]

KEYS_SENT_MAX: Final = 10_000_000
"""Keys of ingest that every task is sent. Where there are more, Spark joins as it sees fit."""


def read(
    spark: "SparkSession",
    path: str,
    table: str,
    *,
    as_of: AsOf | None = None,
    version: int | None = None,
    columns: Sequence[str] | None = None,
    options: Options | None = None,
) -> "DataFrame":
    """The rows of a table: what is committed later does not show in this DataFrame.

    `as_of`    a position of the source's log, as a number or as text (0/16B3748), or a time: the
               table as it was there, exactly, or PositionGone, which says from where on it can be
               read. PositionAhead: the table has not come so far.
    `version`  of the stable table alone, as any reader of Delta sees it.
    `columns`  these only, in this order.
    `options`  what the lake's store wants to know, credentials among it; see `Place`.
    """
    root = place_of(path, options)
    if as_of is not None and version is not None:
        raise UsageError(
            "a version is of stable alone, a position of the whole table",
            object_=table,
            hint="ask for one of them",
        )
    with whole(Lake(root), table):
        if version is not None:
            layered = homes_of(root, table)[0]
            seen, handle = snapshot_of(layered, version)
            schema = pa.schema(handle.schema())
        else:
            layered, seen = looked_up(root, table, as_of)
            schema = layered.rows
        return frame_at(spark, layered, seen, schema, columns)


def view(
    spark: "SparkSession",
    path: str,
    table: str,
    name: str | None = None,
    *,
    as_of: AsOf | None = None,
    options: Options | None = None,
) -> str:
    """A temporary view for SQL, and its name: `public.orders` is `public_orders` unless told.

    It shows the table as of this call. Call again to see what has come since.
    """
    name = name or "".join(c if c.isalnum() and c.isascii() else "_" for c in table)
    read(spark, path, table, as_of=as_of, options=options).createOrReplaceTempView(name)
    return name


def tables(path: str, *, options: Options | None = None) -> list[str]:
    """The tables that there are. One that is damaged, or may not be looked at, is among them: who
    reads it is told so."""
    lake = Lake(place_of(path, options))
    return [table for table in lake.tables() if _is_live(lake, table)]


def _is_live(lake: Lake, table: str) -> bool:
    try:
        lake.live(table)
    except NotFound:
        return False
    except LockgateError:
        return True  # what is wrong with one hides no other
    return True


def stable(path: str, table: str, *, options: Options | None = None) -> str:
    """Where the table's stable layer is, for any other reader of Delta. NotFound: there is none.

    It is the living table's as of this call, so ask whenever it is opened: a table that is made or
    copied anew lies elsewhere from then on, and what it was before stays for a day, and does not
    change any more.
    """
    lake = Lake(place_of(path, options))
    with whole(lake, table):
        return readable(lake, table).child(STABLE).url


def frame_at(
    spark: "SparkSession",
    layered: LayeredTable,
    seen: Snapshot,
    schema: pa.Schema,
    columns: Sequence[str] | None = None,
) -> "DataFrame":
    """What a snapshot shows, in the columns of the schema or some of them."""
    frame = _merged(spark, layered, seen, schema)
    return frame if columns is None else frame.select(*quoted(only(schema, columns, layered.label)))


def _merged(
    spark: "SparkSession", layered: LayeredTable, seen: Snapshot, schema: pa.Schema
) -> "DataFrame":
    # Conditions are methods and SQL, hints are words: Spark's functions are of one kind of session.
    if not seen.ingest:
        return frame_of(spark, layered.place.child(STABLE), seen.stable, schema)
    layer = f"{INGEST}{layered.home}"
    known = _Known(layered.place.child(layer), seen, layered.key)
    form, ingest = ingest_schema(schema), _below(layer, seen.ingest)
    stable = _below(STABLE, seen.stable) if known.wiped_at < 0 else []
    keys = frame_of(spark, layered.place, ingest, form).where(known.counts)
    rows = frame_of(spark, layered.place, [*stable, *ingest], form)
    rows = rows.where(f"{SEQ} IS NULL OR ({OP} = '{PUT}' AND {known.counts})")
    if known.doubled:
        once = rows.where(f"{SEQ} IS NOT NULL").dropDuplicates([SEQ])
        rows = rows.where(f"{SEQ} IS NULL").unionByName(once)
    if known.superseded is not None:
        # In one partition: some sessions, our own among them, make a task of every row.
        numbers = spark.createDataFrame(pa.table({SEQ: known.superseded})).coalesce(1)
        rows = rows.join(numbers.hint("broadcast"), SEQ, "left_anti")
    if stable:
        names = quoted(only(schema, layered.key, layered.label))
        keys = keys.select(*names)
        if sum(file.rows for file in seen.ingest) <= KEYS_SENT_MAX:
            keys = keys.hint("broadcast")
        conditions = [rows[SEQ].isNull(), *(rows[name] == keys[name] for name in names)]
        rows = rows.join(keys, conditions, "left_anti")
    return rows.select(*quoted(schema))


def _below(layer: str, files: Sequence[DataFile]) -> list[DataFile]:
    return [msgspec.structs.replace(file, path=f"{layer}/{file.path}") for file in files]


class _Known:
    """What the keys of ingest tell: since when they count, and which are not the last."""

    def __init__(self, place: Place, seen: Snapshot, key: Sequence[str]) -> None:
        columns = [*key, POSITION, SEQ, OP]
        parts = [read_file(place, f.path, columns).select(columns) for f in seen.ingest]
        found = pa.concat_tables(parts)
        changes = window(found, seen.drained, seen.position)
        wipes = changes.filter(pc.equal(changes[OP], WIPE))[SEQ]
        self.wiped_at: int = pc.max(wipes).as_py() if len(wipes) else -1
        """The number of the last wipe; -1 when there is none."""
        if self.wiped_at >= 0:
            changes = changes.filter(pc.greater(changes[SEQ], self.wiped_at))
        self.counts = "true"
        """Which changes count, as SQL: all of them, mostly."""
        if changes.num_rows < found.num_rows:
            self.counts = (
                f"{POSITION} > {seen.drained} AND {POSITION} <= {seen.position}"
                f" AND {SEQ} > {self.wiped_at}"
            )
        changes = in_order(changes)
        self.superseded: Any = _superseded(changes, key)
        """The numbers of changes that later ones of the same key replace; None for none."""
        numbers = np.asarray(changes[SEQ])
        self.doubled = bool(np.any(numbers[1:] == numbers[:-1]))
        """A change is there twice, under its one number. Nobody lands one so; read it as one."""


def _superseded(changes: pa.Table, key: Sequence[str]) -> Any:
    if not changes.num_rows:
        return None
    last = encode([changes[name] for name in key]).last()
    if len(last) == changes.num_rows:
        return None
    mask = np.ones(changes.num_rows, dtype=np.bool_)
    mask[last] = False
    # By number: one that the last change has too, because it is there twice, is not replaced.
    numbers = np.asarray(changes[SEQ])
    mask &= ~np.isin(numbers, numbers[last])
    return pa.array(numbers[mask])
