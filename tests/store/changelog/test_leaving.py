"""Whether updates leave values as they are is known from the files' feet."""

from pathlib import Path

import pyarrow as pa
import pytest

from lockgate.endpoints.postgres.pgoutput.segments import segment_schema
from lockgate.model.ids import Token
from lockgate.model.tables import Column, TableName, TableShape
from lockgate.store.changelog import SegmentFiles, leaves_values

SHAPE = TableShape(TableName("public", "t"), (Column("id", "bigint", 20),), ("id",))


@pytest.mark.parametrize("unchanged", [[None, None], [None, b"\x01"]])
def test_a_segment_says_whether_an_update_leaves_a_value(
    tmp_path: Path, unchanged: list[bytes | None]
) -> None:
    schema = segment_schema(SHAPE)
    rows = [
        {"position": 8, "seq": n, "op": 85, "xid": 1, "time": 0, "unchanged": u, "new": {"id": n}}
        for n, u in enumerate(unchanged)
    ]
    files = SegmentFiles(str(tmp_path))
    writer = files.writer("feed", Token(1, 1, 1))
    segment = writer.write(pa.Table.from_pylist(rows, schema=schema))
    assert leaves_values([files.uri(segment.path)]) is (unchanged[1] is not None)
