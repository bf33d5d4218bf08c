"""What a file says of its rows: edges that are right, or none. How many files a stream becomes."""

import errno
import itertools
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lockgate.endpoints.delta import files as writing
from lockgate.endpoints.delta.files import DataFile, read_file, write_file, write_stream
from lockgate.endpoints.delta.place import Place
from lockgate.model.errors import StorageFull

INFINITY = 2**31 - 1
SCHEMA = pa.schema([("c", pa.int64())])


def written(place: Place, values: Any) -> DataFile:
    files, base = place.filesystem()
    files.create_dir(base)
    return write_file(place, pa.table({"c": values}), ["c"])


@pytest.mark.parametrize(
    "days", [[0, INFINITY], [-INFINITY - 1, 0], [-800_000], [2_932_897]], ids=str
)
def test_dates_that_cannot_be_written_out_leave_the_file_without_edges(
    place: Place, days: list[int]
) -> None:
    file = written(place, pa.array(days, pa.int32()).cast(pa.date32()))
    assert (file.rows, file.low, file.high) == (len(days), {}, {})


def test_other_edges_are_told(place: Place) -> None:
    file = written(place, pa.array([5, None, 3]))
    assert (file.low, file.high) == ({"c": 3}, {"c": 5})


def test_nulls_have_no_edges(place: Place) -> None:
    file = written(place, pa.array([None], pa.int64()))
    assert (file.low, file.high) == ({}, {})


# --- streams --------------------------------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(sizes=st.lists(st.integers(0, 12), max_size=8), rows_max=st.integers(1, 9))
def test_a_stream_is_cut_into_full_files_and_one_that_may_be_smaller(
    sizes: list[int], rows_max: int
) -> None:
    numbers = itertools.count()
    pieces = [pa.table({"c": pa.array([next(numbers) for _ in range(n)], "int64")}) for n in sizes]
    with tempfile.TemporaryDirectory() as folder:
        place = Place(folder, "t")
        found = write_stream(place, SCHEMA, iter(pieces), ["c"], rows_max)
        rows = [read_file(place, file.path)["c"].to_pylist() for file in found]
        assert {file.path for file in found} == {path.name for path in Path(folder).iterdir()}
    total = sum(sizes)
    assert [row for file in rows for row in file] == list(range(total))
    assert [file.rows for file in found] == list(map(len, rows))
    assert [len(file) for file in rows[:-1]] == [rows_max] * (len(rows) - 1)
    assert len(found) == -(-total // rows_max)
    assert [(file.low["c"], file.high["c"]) for file in found] == [(f[0], f[-1]) for f in rows]


def test_a_stream_is_not_read_ahead_of_what_is_written(place: Place) -> None:
    """A table of any size is rewritten: all of it in memory would be too much."""
    Path(place.url).mkdir()
    there: list[int] = []

    def pieces() -> Iterator[pa.Table]:
        for number in range(6):
            there.append(len(list(Path(place.url).iterdir())))
            yield pa.table({"c": pa.array([number], "int64")})

    write_stream(place, SCHEMA, pieces(), ["c"], 2)
    ahead = [number // 2 - files for number, files in enumerate(there)]
    assert max(ahead) <= 1, "files are written while rows are read"


@pytest.mark.parametrize("room", [0, 1, 2])
def test_of_a_stream_that_finds_no_room_no_file_is_left(
    place: Place, monkeypatch: pytest.MonkeyPatch, room: int
) -> None:
    Path(place.url).mkdir()
    real, begun = writing.pq.ParquetWriter, itertools.count()

    class Full(real):  # type: ignore[misc, valid-type]
        def write_table(self, *args: Any, **how: Any) -> None:
            super().write_table(*args, **how)
            if next(begun) >= room:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(writing.pq, "ParquetWriter", Full)
    pieces = (pa.table({"c": pa.array([number], "int64")}) for number in range(3))
    with pytest.raises(StorageFull):
        write_stream(place, SCHEMA, pieces, ["c"], 1)
    assert next(begun) == room + 1
    assert list(Path(place.url).iterdir()) == []
