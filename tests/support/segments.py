"""Changes in the schema of segments, made by hand: every row tells its position and seq."""

from collections.abc import Sequence

import msgspec
import numpy as np
import pyarrow as pa

from lockgate.model.tables import Column, TableName, TableShape


def shape_of_table(schema: str, table: str) -> TableShape:
    """A table of a number and a text."""
    columns = (
        Column("id", "bigint", 20, nullable=False, number=1),
        Column("note", "text", 25, number=2),
    )
    return TableShape(TableName(schema, table), columns, ("id",))


def changes(
    positions: Sequence[int], first_seq: int, *, table: str = "t", noise: bool = False
) -> pa.Table:
    """Inserts at these positions; with `noise` they do not compress."""
    count = len(positions)
    shape = shape_of_table("public", table)
    seqs = np.arange(first_seq, first_seq + count, dtype=np.int64)
    notes = (
        [np.random.default_rng(int(seq)).bytes(16).hex() for seq in seqs]
        if noise
        else [f"note {seq}" for seq in seqs.tolist()]
    )
    new = pa.StructArray.from_arrays(
        [pa.array(seqs), pa.array(notes, pa.string())], names=["id", "note"]
    )
    schema = pa.schema(
        [
            ("position", pa.int64()),
            ("seq", pa.int64()),
            ("op", pa.uint8()),
            ("xid", pa.int64()),
            ("time", pa.timestamp("us", "UTC")),
            ("unchanged", pa.binary()),
            ("new", new.type),
            ("old", pa.struct([("id", pa.int64())])),
        ],
        metadata={b"lockgate.shape": msgspec.json.encode(shape)},
    )
    old = pa.nulls(count, schema.field("old").type)
    return pa.Table.from_arrays(
        [
            pa.array(positions, pa.int64()),
            pa.array(seqs),
            pa.array(np.full(count, ord("I"), np.uint8)),
            pa.array(np.full(count, 700, np.int64)),
            pa.array(np.full(count, 10**15)).cast(pa.timestamp("us", "UTC")),
            pa.nulls(count, pa.binary()),
            new,
            old,
        ],
        schema=schema,
    )
