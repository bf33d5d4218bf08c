"""A writer of changes to a layered table, which knows what the table has to be after them."""

from typing import Any

import pyarrow as pa

from lockgate.endpoints.delta.changes import DELETE, OP, POSITION, PUT, SEQ, WIPE, ingest_schema
from lockgate.endpoints.delta.layered import LayeredTable
from lockgate.model.ids import Token

__all__ = ["DELETE", "DISPATCHER", "LEADER", "PUT", "ROWS", "WIPE", "Rows", "Writer", "rows_in"]

ROWS = pa.schema([("id", pa.int64()), ("part", pa.string()), ("v", pa.int64())])
LEADER, DISPATCHER = Token(1, 1, 1), Token(5, 1, 1)
Rows = dict[tuple[int, str], int | None]


class Writer:
    """Lands changes, and keeps what a table would be after them."""

    def __init__(self, table: LayeredTable) -> None:
        self.table = table
        self.rows: Rows = {}
        self.position = self.seq = 0

    def land(self, *changes: tuple[str, int, str, int | None]) -> None:
        out = []
        for op, id_, part, v in changes:
            self.position += 10
            self.seq += 1
            row: dict[str, Any] = {"id": id_, "part": part, "v": v}
            if op == WIPE:
                row = dict.fromkeys(row)
                self.rows.clear()
            elif op == PUT:
                self.rows[id_, part] = v
            else:
                self.rows.pop((id_, part), None)
            out.append({**row, POSITION: self.position, SEQ: self.seq, OP: op})
        self.table.land(
            DISPATCHER, pa.Table.from_pylist(out, schema=ingest_schema(ROWS)), self.position
        )

    def put(self, *ids: int, v: int = 0) -> None:
        self.land(*((PUT, id_, "a", v) for id_ in ids))


def rows_in(found: pa.Table) -> Rows:
    rows = [tuple(row.values()) for row in found.to_pylist()]
    assert len({row[:2] for row in rows}) == len(rows), "a key is there twice"
    return {(id_, part): v for id_, part, v in rows}
