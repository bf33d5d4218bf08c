"""How columns are written: small where that is cheap, else plain; and read back alike."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import fs

from lockgate.endpoints.delta.encoding import options
from lockgate.endpoints.delta.files import read_file, stream_file, write_file, write_stream
from lockgate.endpoints.delta.place import Place

ROWS = 300_000


@pytest.fixture(scope="module")
def rows() -> pa.Table:
    generator = np.random.default_rng(7)
    noise = generator.bytes(16 * ROWS).hex()
    return pa.table(
        {
            "id": pa.array(np.arange(ROWS)),
            "ref": [noise[at : at + 32] for at in range(0, 32 * ROWS, 32)],
            "noise": generator.random(ROWS),
            "state": ["new", "paid", "sent"] * (ROWS // 3),
            "a.b": [f"row {n} of some table" for n in range(ROWS)],
        }
    )


def test_what_compression_hardly_makes_smaller_is_left_plain(rows: pa.Table) -> None:
    codecs = options(rows, ["id"])["compression"]
    assert codecs["ref"] == codecs["noise"] == "none"
    assert codecs["id"] == codecs["a.b"] == "snappy"


def test_few_values_go_into_a_dictionary(rows: pa.Table) -> None:
    assert options(rows, [])["use_dictionary"] == ["state"]


def test_a_few_rows_are_not_tried_out(rows: pa.Table) -> None:
    assert options(rows.slice(0, 100), [])["compression"] == "snappy"


def test_a_stream_is_written_in_groups_and_read_back_in_order(place: Place, rows: pa.Table) -> None:
    files, base = place.filesystem()
    files.create_dir(base)
    pieces = (rows.slice(at, 40_000) for at in range(0, ROWS, 40_000))
    [file] = write_stream(place, rows.schema, pieces, ["id"], rows.num_rows)
    assert file is not None
    assert (file.rows, file.low, file.high) == (ROWS, {"id": 0}, {"id": ROWS - 1})
    assert pq.read_metadata(f"{base}/{file.path}").num_row_groups == 2
    assert read_file(place, file.path).equals(rows)
    assert pa.concat_tables(stream_file(place, file.path, rows.schema)).equals(rows)


def test_a_stream_of_nothing_leaves_no_file(place: Place, rows: pa.Table) -> None:
    files, base = place.filesystem()
    files.create_dir(base)
    assert write_stream(place, rows.schema, iter([rows.slice(0, 0)]), ["id"], 10) == []
    assert not files.get_file_info(fs.FileSelector(base))


def test_edges_are_those_of_all_groups(place: Place) -> None:
    files, base = place.filesystem()
    files.create_dir(base)
    ids = pa.array([*range(ROWS, 0, -1)])
    file = write_file(place, pa.table({"id": ids}), ["id"])
    assert (file.low, file.high) == ({"id": 1}, {"id": ROWS})
