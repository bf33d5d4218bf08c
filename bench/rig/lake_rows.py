"""The rows of the lake's benchmarks and changes to them: the same for everybody, from fixed seeds.

A row is like one of `orders`, in the types that a lake has: ten columns, some 120 bytes. Every
value follows from the key and a version, so a row that was changed differs from what it was. The
table has the even keys; odd ones are for inserts, which so lie as evenly between the rows as
updates and deletes do.
"""

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lockgate.endpoints.delta.changes import DELETE, OP, POSITION, PUT, SEQ, ingest_schema

__all__ = ["KEY", "SCHEMA", "Changes", "changes", "rows"]

KEY: Final = ["id"]
SCHEMA: Final = pa.schema(
    [
        ("id", pa.int64()),
        ("customer", pa.int32()),
        ("quantity", pa.int16()),
        ("name", pa.string()),
        ("amount", pa.decimal128(12, 2)),
        ("score", pa.float64()),
        ("active", pa.bool_()),
        ("created", pa.timestamp("us", tz="UTC")),
        ("ref", pa.string()),
        ("note", pa.string()),
    ]
)
UPDATES, INSERTS = 0.7, 0.15
"""Of all changes. The others are deletes."""

Keys = npt.NDArray[np.int64]
_STEP, _FIRST, _SECOND = (
    np.uint64(number) for number in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
)
_BEGAN_US: Final = 1_704_067_200_000_000
_HEX: Final = np.frombuffer(b"0123456789abcdef", dtype=np.uint8)
_UUID: Final = np.array([i for i in range(36) if i not in (8, 13, 18, 23)])


class Changes(NamedTuple):
    """Some changes, of distinct keys, in no order of them."""

    keys: Keys
    deleted: npt.NDArray[np.bool_]
    version: int

    def as_ingest(self, position: int) -> pa.Table:
        """As they land in a layered table, committed one after the other behind `position`."""
        count = len(self.keys)
        table = pa.Table.from_arrays(
            [
                column if name in KEY else pc.if_else(pa.array(~self.deleted), column, None)
                for name, column in zip(SCHEMA.names, self.as_rows().columns, strict=True)
            ],
            schema=SCHEMA,
        )
        numbers = pa.array(np.arange(position + 1, position + count + 1))
        ops = pc.if_else(pa.array(self.deleted), DELETE, PUT)
        for name, column in ((POSITION, numbers), (SEQ, numbers), (OP, ops)):
            table = table.append_column(name, column)
        wanted = ingest_schema(SCHEMA)
        return table.select(wanted.names).cast(wanted)

    def as_source(self) -> pa.Table:
        """As the source of a merge: rows, and which of them are to go."""
        return self.as_rows().append_column("gone", pa.array(self.deleted))

    def as_rows(self) -> pa.Table:
        return rows(self.keys, self.version)


def changes(rows_before: int, count: int, version: int, share: float = 1.0) -> Changes:
    """So many changes, spread evenly over the table, or over a share of it from its third on."""
    generator = np.random.default_rng([rows_before, count, version])
    first = 0 if share >= 1 else rows_before // 3
    stretch = max(count, int(rows_before * share))
    inserts = int(count * INSERTS)
    places = generator.choice(stretch, count, replace=False) + first
    keys = (places * 2).astype(np.int64)
    keys[:inserts] += 1
    deleted = np.zeros(count, dtype=np.bool_)
    deleted[inserts + int(count * UPDATES) :] = True
    order = generator.permutation(count)
    return Changes(keys[order], deleted[order], version)


def rows(keys: Keys, version: int = 0) -> pa.Table:
    """The rows of these keys, as the version has them."""
    # An array, for numbers alone warn when they overflow.
    mixed = _mixed(keys.view(np.uint64) + np.array([version], np.uint64) * _STEP)
    small = (mixed >> np.uint64(20)).astype(np.int64)
    texts = pa.array(keys).cast(pa.string())
    notes = pa.array(["n" * length for length in range(40)]).take(pa.array(small % 40))
    columns = [
        pa.array(keys),
        pa.array((small % 100_000).astype(np.int32)),
        pa.array((small % 30_000).astype(np.int16)),
        pc.binary_join_element_wise("name ", texts, ""),
        pa.array(small % 1_000_000).cast(pa.decimal128(19, 0)),
        pa.array(small / 3.0),
        pa.array(small % 2 == 0),
        pa.array(_BEGAN_US + keys * 617_283 + version).cast(pa.timestamp("us", tz="UTC")),
        _uuids(mixed),
        pc.if_else(pa.array(small % 3 > 0), notes, None),
    ]
    amount = pc.divide(columns[4], pa.scalar(7, pa.decimal128(1, 0)))
    columns[4] = pc.round(amount, 2).cast(pa.decimal128(12, 2), safe=False)
    return pa.Table.from_arrays(columns, schema=SCHEMA)


def _mixed(x: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Each number as another one that looks like chance."""
    x = x + _STEP
    x = (x ^ (x >> np.uint64(30))) * _FIRST
    x = (x ^ (x >> np.uint64(27))) * _SECOND
    out: npt.NDArray[np.uint64] = x ^ (x >> np.uint64(31))
    return out


def _uuids(mixed: npt.NDArray[np.uint64]) -> pa.Array:
    """Texts of 36 letters, all rows at once."""
    words = np.stack([mixed, _mixed(mixed)], axis=1).view(np.uint8)
    letters = np.full((len(mixed), 36), ord("-"), dtype=np.uint8)
    letters[:, _UUID[::2]] = _HEX[words >> 4]
    letters[:, _UUID[1::2]] = _HEX[words & 15]
    edges = np.arange(len(mixed) + 1, dtype=np.int32) * 36
    return pa.StringArray.from_buffers(
        len(mixed), pa.py_buffer(edges), pa.py_buffer(letters.reshape(-1))
    )
