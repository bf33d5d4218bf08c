"""Changes in groups by their keys: each part of a batch finds what concerns it, and little else."""

import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lockgate.endpoints.postgres.capture.clusters import clustered
from lockgate.endpoints.postgres.sink.log import concerned
from lockgate.endpoints.postgres.sink.parts import part_range
from lockgate.endpoints.postgres.sink.window import Window
from lockgate.model.ids import Token
from lockgate.model.spans import WHOLE, KeyRange
from lockgate.model.tables import Identity, TableShape
from lockgate.store.changelog import SegmentFiles, read_segments
from tests.support.histories import History, shape_of

OWN = Token(1, 1, 1)
SHAPES = [
    shape_of("id bigint", "v text"),
    shape_of("a text", "b integer", "v text", key=("b", "a")),
    shape_of("id bigint", "v text", identity=Identity.FULL),
]


def lively(shape: TableShape) -> History:
    """Inserts, updates, deletes, keys that change, and a TRUNCATE."""
    dice = random.Random(7)
    history = History(shape)

    def row(number: int) -> dict[str, object]:
        return {
            column.name: number if column.type != "text" else f"text {number}"
            for column in shape.columns
        }

    for number in range(600):
        history.insert(**row(number))
    history.commit()
    for number, old in enumerate(dice.sample(history.rows, 300)):
        if number % 3 == 0:
            history.delete_row(old)
        elif number % 3 == 1:
            history.update_row(old, v="other")
        else:
            history.update_row(old, **{**row(1000 + number), "v": "moved"})
    history.commit().truncate().commit()
    for number in range(50):
        history.insert(**row(number))
    return history.commit()


def seqs(table: pa.Table) -> list[int]:
    return sorted(table["seq"].to_pylist())


@pytest.mark.parametrize("parts", [2, 3, 8, 20])
@pytest.mark.parametrize("shape", SHAPES, ids=["number", "two columns", "full identity"])
def test_a_part_reads_all_that_concerns_it(tmp_path: Path, shape: TableShape, parts: int) -> None:
    table = lively(shape).segment()
    files = SegmentFiles(str(tmp_path))
    segment = files.writer("feed", OWN).write(*clustered(table, shape, rows_min=1))
    assert seqs(read_segments([files.uri(segment.path)])) == seqs(table)
    read = 0
    for part in range(parts):
        keys = part_range(WHOLE, part, parts)
        window = Window(((keys, 0),), 99, parts)
        found = read_segments([files.uri(segment.path)], 0, 99, [keys])
        assert seqs(concerned(found, shape, window)) == seqs(concerned(table, shape, window))
        read += found.num_rows
    assert read < 0.8 * parts * table.num_rows


def test_every_row_group_says_which_keys_it_has(tmp_path: Path) -> None:
    shape = SHAPES[0]
    table, groups = clustered(lively(shape).segment(), shape, rows_min=1)
    assert sum(group.rows for group in groups) == table.num_rows
    assert [group.keys for group in groups[:2]] == [KeyRange(b"", b"\x20"), KeyRange(b" ", b"@")]
    assert groups[-1].keys is None
    files = SegmentFiles(str(tmp_path))
    segment = files.writer("feed", OWN).write(table, groups)
    found = pq.ParquetFile(files.uri(segment.path)).metadata
    rows = [found.row_group(number).num_rows for number in range(found.num_row_groups)]
    assert rows == [group.rows for group in groups]


def test_a_file_without_groups_is_read_whole(tmp_path: Path) -> None:
    table = lively(SHAPES[0]).segment()
    files = SegmentFiles(str(tmp_path))
    segment = files.writer("feed", OWN).write(table)
    found = read_segments([files.uri(segment.path)], 0, 99, [KeyRange(b"", b"\x01")])
    assert found.num_rows == table.num_rows


@pytest.mark.parametrize(
    ("shape", "rows_min"),
    [(SHAPES[0], 10_000), (shape_of("v text", key=(), identity=Identity.FULL), 1)],
    ids=["few", "without a key"],
)
def test_what_is_not_worth_it_stays_as_it_is(shape: TableShape, rows_min: int) -> None:
    table = lively(shape).segment()
    assert clustered(table, shape, rows_min) == (table, [])
