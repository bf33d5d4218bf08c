"""Histories of a table, in the segments' schema and as the rows that they leave behind.

    history = History(shape)
    history.insert(id=1, name="a").update(1, name="b").commit().delete(1).commit()
    history.segment()      # all of it as an Arrow table
    history.rows_at(2)     # the rows after the transaction at position 2, by key

Positions are 1, 2, 3, … by transaction. What a server would send is kept to: an update has an old
image only when the key changed or the identity is FULL, and may leave out what it did not touch.
"""

import random
from collections import Counter
from collections.abc import Iterable
from typing import Any, Self

import pyarrow as pa

from lockgate.endpoints.postgres.pgoutput.segments import old_columns, segment_schema
from lockgate.model.tables import Column, Identity, TableName, TableShape

Row = dict[str, Any]
Key = tuple[Any, ...]


def shape_of(
    *columns: str, key: Iterable[str] = ("id",), identity: Identity = Identity.KEY, name: str = "t"
) -> TableShape:
    """A shape from words like `id bigint`."""
    made = [Column(*column.split(" ", 1)) for column in columns]
    return TableShape(TableName("public", name), tuple(made), tuple(key), identity)


class History:
    """A table at a source, and everything that ever happened to it."""

    def __init__(self, shape: TableShape, *, first_xid: int = 1000) -> None:
        self.shape = shape
        self.position = 1
        """Of the transaction that is open."""
        self.xid = first_xid
        self.rows: list[Row] = []
        self.entries: list[Row] = []
        self._past: dict[int, list[Row]] = {0: []}
        self._names = [column.name for column in shape.columns]

    # --- what a client does -----------------------------------------------------------------------

    def insert(self, **values: Any) -> Self:
        row = {name: values.get(name) for name in self._names}
        self.rows.append(row)
        return self._log("I", new=row)

    def update(self, *key: Any, unchanged: Iterable[str] = (), **values: Any) -> Self:
        """Change a row by key; columns in `unchanged` are not sent."""
        return self.update_row(self._find(key), unchanged, **values)

    def update_row(self, old: Row, unchanged: Iterable[str] = (), **values: Any) -> Self:
        new = {**old, **values}
        self.rows[_index(self.rows, old)] = new
        moved = self.key_of(old) != self.key_of(new)
        told = moved or self.shape.identity is Identity.FULL
        return self._log("U", new=new, old=old if told else None, unchanged=unchanged)

    def delete(self, *key: Any) -> Self:
        return self.delete_row(self._find(key))

    def delete_row(self, old: Row) -> Self:
        del self.rows[_index(self.rows, old)]
        return self._log("D", old=old)

    def truncate(self) -> Self:
        self.rows = []
        return self._log("T")

    def commit(self) -> Self:
        """End the transaction."""
        self._past[self.position] = [dict(row) for row in self.rows]
        self.position += 1
        self.xid += 1
        return self

    # --- what comes of it -------------------------------------------------------------------------

    def segment(self, after: int = 0, to: int | None = None, *, shuffle: int = 0) -> pa.Table:
        """Changes with after < position <= to; with `shuffle`, in some other order."""
        picked = [
            entry
            for entry in self.entries
            if after < entry["position"] and (to is None or entry["position"] <= to)
        ]
        if shuffle:
            random.Random(shuffle).shuffle(picked)
        return pa.Table.from_pylist(picked, schema=segment_schema(self.shape))

    def rows_at(self, position: int) -> dict[Key, Row]:
        """The rows after a transaction, by key."""
        return {self.key_of(row): row for row in self._past[position]}

    def counted_at(self, position: int) -> Counter[Key]:
        """The rows after a transaction, counted: for tables without a key."""
        return Counter(tuple(row.values()) for row in self._past[position])

    def key_of(self, row: Row) -> Key:
        return tuple(row[name] for name in self.shape.key)

    def _find(self, key: Key) -> Row:
        return next(row for row in self.rows if self.key_of(row) == key)

    def _log(
        self,
        op: str,
        new: Row | None = None,
        old: Row | None = None,
        unchanged: Iterable[str] = (),
    ) -> Self:
        bits = sum(1 << self._names.index(name) for name in unchanged)
        size = (len(self._names) + 7) // 8
        self.entries.append(
            {
                "position": self.position,
                "seq": len(self.entries),
                "op": ord(op),
                "xid": self.xid % 2**32,
                "time": 0,
                "unchanged": bits.to_bytes(size, "little") if bits else None,
                "new": new and {k: None if k in unchanged else v for k, v in new.items()},
                "old": old and {c.name: old[c.name] for c in old_columns(self.shape)},
            }
        )
        return self


def _index(rows: list[Row], row: Row) -> int:
    return next(i for i, one in enumerate(rows) if one is row or one == row)


def wander(
    rng: random.Random, history: History, transactions: int, *, truncates: bool = True
) -> None:
    """Random transactions on few keys, so that they meet often.

    The shape has columns `id`, `name`, `big` and maybe `u`, which is unique where it is not null.
    """
    has_u = any(column.name == "u" for column in history.shape.columns)
    for _ in range(transactions):
        for _ in range(rng.randrange(1, 6)):
            _step(rng, history, has_u, truncates)
        history.commit()


def _step(rng: random.Random, history: History, has_u: bool, truncates: bool) -> None:
    rows = history.rows
    free = [n for n in range(6) if all(row["id"] != n for row in rows)]
    values: Row = {"name": rng.choice(["a", "b", None, "\\N", "\t"])}
    if has_u:
        taken = {row["u"] for row in rows}
        values["u"] = rng.choice([None, *(n for n in range(4) if n not in taken)])
    verb = rng.choice("iiiuuuuukks" + "dd" + "t" * (truncates and rng.random() < 0.2))
    if verb == "i" and free:
        history.insert(id=rng.choice(free), big=str(rng.random()), **values)
    elif verb == "t":
        history.truncate()
    elif not rows:
        return
    elif verb == "d":
        history.delete_row(rng.choice(rows))
    elif verb == "s" and has_u and len(rows) > 1:
        one, other = rng.sample(rows, 2)
        first, second = one["u"], other["u"]
        keys = history.key_of(one), history.key_of(other)
        history.update(*keys[0], unchanged=["big"], u=None)
        history.update(*keys[1], unchanged=["big"], u=first)
        history.update(*keys[0], unchanged=["big"], u=second)
    else:
        row = rng.choice(rows)
        if verb == "k" and free:
            values["id"] = rng.choice(free)
        kept = rng.random() < 0.6
        if not kept:
            values["big"] = str(rng.random())
        history.update_row(row, ["big"] if kept else [], **values)
