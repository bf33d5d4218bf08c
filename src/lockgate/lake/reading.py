"""A layered table as one DataFrame: the stable rows that no change concerns, and what changed.

    stable ── without the keys that ingest knows ──┐
                                                   ├── union
    ingest ── the last change of each key, puts ───┘

The keys of ingest are sent to every task once, so that stable is read as if it stood alone. Which
changes are not the last of their key is found here, on keys and numbers only: mostly hardly any,
and Spark would have to group all of ingest to learn the same.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lockgate.endpoints.delta.changes import OP, POSITION, PUT, SEQ, WIPE, window
from lockgate.endpoints.delta.files import DataFile, read_file
from lockgate.endpoints.delta.lake import INGEST, STABLE, Lake
from lockgate.endpoints.delta.layered import LayeredTable, Snapshot
from lockgate.endpoints.delta.place import Place
from lockgate.endpoints.keys import encode
from lockgate.model.errors import NotFound

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["read"]


def read(spark: "SparkSession", lake: str, table: str) -> "DataFrame":
    """All rows of a table, as of now: what is committed later does not show in this DataFrame."""
    root = Place(lake.removeprefix("delta:").rstrip("/"), lake)
    place = Lake(root).live(table)
    layered = _furthest(Lake(root), place)
    return _merged(spark, place, layered, layered.snapshot())


def _furthest(lake: Lake, place: Place) -> LayeredTable:
    """The table with the ingest, of one home or another, that has come furthest."""
    tables = [LayeredTable.open(place, home) for home in lake.homes(place)]
    if not tables:
        raise NotFound(
            "nobody has brought changes for this table yet",
            object_=place.label,
            hint="its feed makes it; see `lockgate feed status`",
        )
    return max(tables, key=lambda one: one.ingest.look().position)


def _merged(
    spark: "SparkSession", place: Place, layered: LayeredTable, seen: Snapshot
) -> "DataFrame":
    # Imported here: whoever reads has Spark, and whoever imports Lockgate need not.
    from pyspark.sql import functions as sf

    schema = layered.stable.schema
    stable = _files(spark, place.child(STABLE), seen.stable, schema)
    if not seen.ingest:
        return stable
    ingest_place = place.child(f"{INGEST}{layered.home}")
    known = _Known(ingest_place, seen, layered.key)
    ingest = _files(spark, ingest_place, seen.ingest, layered.ingest.schema)
    ingest = ingest.where(
        (sf.col(POSITION) > seen.drained)
        & (sf.col(POSITION) <= seen.position)
        & (sf.col(SEQ) > known.wiped_at)
    )
    if known.wiped_at >= 0:
        stable = stable.where(sf.lit(False))
    if known.superseded is not None:
        numbers = spark.createDataFrame(pa.table({SEQ: known.superseded}))
        ingest = ingest.join(sf.broadcast(numbers), SEQ, "left_anti")
    keys = sf.broadcast(ingest.select(*layered.key))
    kept = stable.join(keys, layered.key, "left_anti")
    return kept.select(*schema.names).unionByName(
        ingest.where(sf.col(OP) == PUT).select(*schema.names)
    )


class _Known:
    """What the keys of ingest tell: since when they count, and which are not the last."""

    def __init__(self, place: Place, seen: Snapshot, key: Sequence[str]) -> None:
        columns = [*key, POSITION, SEQ, OP]
        changes = pa.concat_tables([read_file(place, f.path, columns) for f in seen.ingest])
        changes = window(changes, seen.drained, seen.position)
        wipes = changes.filter(pc.equal(changes[OP], WIPE))[SEQ]
        self.wiped_at: int = pc.max(wipes).as_py() if len(wipes) else -1
        """The number of the last wipe; -1 when there is none."""
        changes = changes.filter(pc.greater(changes[SEQ], self.wiped_at)).sort_by(SEQ)
        self.superseded: Any = _superseded(changes, key)
        """The numbers of changes that later ones of the same key replace; None for none."""


def _superseded(changes: pa.Table, key: Sequence[str]) -> Any:
    if not changes.num_rows:
        return None
    last = encode([changes[name] for name in key]).last()
    if len(last) == changes.num_rows:
        return None
    mask = np.ones(changes.num_rows, dtype=np.bool_)
    mask[last] = False
    return changes[SEQ].filter(pa.array(mask)).combine_chunks()


def _files(
    spark: "SparkSession", place: Place, files: Sequence[DataFile], schema: pa.Schema
) -> "DataFrame":
    from pyspark.sql.pandas.types import from_arrow_schema

    wanted = from_arrow_schema(schema)
    if not files:
        return spark.createDataFrame([], wanted)
    return spark.read.schema(wanted).parquet(*(f"{place.url}/{file.path}" for file in files))
