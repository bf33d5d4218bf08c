"""How columns are written: small where that is cheap, else plain; and read back alike."""

from pathlib import Path

import numpy as np
import polars as pl
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
            "amount": pa.array(generator.integers(0, 10**12, ROWS)).cast(pa.decimal128(19, 0)),
            "price": pa.array(np.arange(ROWS) % 700)
            .cast(pa.decimal128(19, 0))
            .cast(pa.decimal128(12, 2)),
        }
    )


def test_what_compression_hardly_makes_smaller_is_left_plain(rows: pa.Table) -> None:
    codecs = options(rows, ["id"])["compression"]
    assert codecs["ref"] == codecs["noise"] == "none"
    assert codecs["a.b"] == "snappy"


def test_few_values_go_into_a_dictionary(rows: pa.Table) -> None:
    assert options(rows, [])["use_dictionary"] == ["state"]


def test_numbers_that_lie_close_are_written_as_differences(rows: pa.Table) -> None:
    assert list(options(rows, [])["column_encoding"]) == ["id", "price"]


def test_a_few_rows_are_not_tried_out(rows: pa.Table) -> None:
    how = options(rows.slice(0, 100), [])
    assert (how["compression"], how["column_encoding"]) == ("snappy", {})


def test_how_a_column_is_written_does_not_depend_on_how_it_is_in_memory(rows: pa.Table) -> None:
    at = rows.column_names.index("state")
    coded = rows.set_column(at, "state", rows["state"].dictionary_encode())
    assert options(coded, ["id"]) == options(rows, ["id"])


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


# --- what every reader gets -----------------------------------------------------------------------

FAR = [-(2**63), 2**63 - 1, 0, -1]


def _with_far(values: list[int], far: list[int]) -> list[int | None]:
    """Values that lie close, with some behind the sample that are as far apart as can be."""
    return [*values, None, *far]


def _numbers() -> pa.Table:
    close = list(range(60_000))
    short = [-(2**31), 2**31 - 1, 0, -1]
    digits = 10**18 - 1
    return pa.table(
        {
            "long": pa.array(_with_far(close, FAR), pa.int64()),
            "short": pa.array(_with_far(close, short), pa.int32()),
            "small": pa.array(_with_far([n % 30_000 for n in close], [-(2**15), 7, 0, 1]), "int16"),
            "at": pa.array(_with_far(close, FAR[2:] * 2), pa.timestamp("us", tz="UTC")),
            "day": pa.array(_with_far(close, [0, -700_000, 1, 2]), pa.int32()).cast(pa.date32()),
            "exact": pa.array(_with_far(close, [-digits, digits, 0, 1]), pa.int64())
            .cast(pa.decimal128(19, 0))
            .cast(pa.decimal128(18, 0)),
        }
    )


def test_numbers_of_every_size_are_read_alike_by_strangers(place: Place) -> None:
    """Differences run over where numbers lie as far apart as can be; every reader has to agree."""
    files, base = place.filesystem()
    files.create_dir(base)
    numbers = _numbers()
    file = write_file(place, numbers, ["long"])
    found = pq.read_metadata(f"{base}/{file.path}").row_group(0)
    for number in range(numbers.num_columns):
        assert "DELTA_BINARY_PACKED" in found.column(number).encodings
    assert read_file(place, file.path).equals(numbers)
    strange = pl.read_parquet(f"{base}/{file.path}").to_arrow().cast(numbers.schema)
    assert strange.equals(numbers)


# --- dictionaries ---------------------------------------------------------------------------------


def test_a_dictionary_stays_one_from_file_to_file(place: Place, rows: pa.Table) -> None:
    files, base = place.filesystem()
    files.create_dir(base)
    states = pa.array([None, "new", "paid", *(["sent"] * 7)] * (ROWS // 10))
    rows = rows.set_column(rows.column_names.index("state"), "state", states)
    first = write_file(place, rows, ["id"])
    pieces = list(stream_file(place, first.path, rows.schema, ["state", "ref", "id"]))
    kinds = {name: pieces[0][name].type for name in rows.column_names}
    assert [name for name, kind in kinds.items() if pa.types.is_dictionary(kind)] == ["state"]
    # Then rows that were never in a dictionary, as changes are that come behind all others.
    more = rows.slice(0, 5)
    [second] = write_stream(place, rows.schema, [*pieces, more], ["id"], 2 * ROWS)
    group = pq.read_metadata(f"{base}/{second.path}").row_group(0)
    assert group.column(rows.column_names.index("state")).has_dictionary_page
    assert read_file(place, second.path).equals(pa.concat_tables([rows, more]))


def test_rows_without_a_dictionary_come_first_and_with_one_behind(place: Place) -> None:
    files, base = place.filesystem()
    files.create_dir(base)
    plain = pa.table({"c": ["a", None, "b"]})
    coded = pa.table({"c": pa.array(["b", "c", None]).dictionary_encode()})
    [file] = write_stream(place, plain.schema, [plain, coded], [], 10)
    assert read_file(place, file.path)["c"].to_pylist() == ["a", None, "b", "b", "c", None]


def test_two_dictionaries_in_one_group_become_one(place: Place) -> None:
    """Of two, the writer would spell the second one out, value by value."""
    files, base = place.filesystem()
    files.create_dir(base)
    pieces = [pa.table({"c": pa.array([text * 100] * 5_000).dictionary_encode()}) for text in "xy"]
    plain = pa.schema([("c", pa.string())])
    [file] = write_stream(place, plain, pieces, [], 100_000)
    assert pq.read_metadata(f"{base}/{file.path}").num_row_groups == 1
    assert file.bytes < 10_000
    assert read_file(place, file.path).equals(
        pa.concat_tables(piece.cast(plain) for piece in pieces)
    )


def test_of_a_dictionary_only_what_rows_have_is_written(place: Place) -> None:
    """What somebody had deleted would be in the files for ever."""
    files, base = place.filesystem()
    files.create_dir(base)
    rows = pa.table({"id": range(1_000), "name": ["somebody"] * 999 + ["Erika Mustermann"]})
    first = write_file(place, rows, ["id"])
    pieces = list(stream_file(place, first.path, rows.schema, ["name"]))
    assert pa.types.is_dictionary(pieces[0]["name"].type)
    kept = (piece.filter(pa.compute.less(piece["id"], 999)) for piece in pieces)
    [second] = write_stream(place, rows.schema, kept, ["id"], 2_000)
    assert read_file(place, second.path).equals(rows.slice(0, 999))
    written = [Path(base, file.path).read_bytes() for file in (first, second)]
    assert [b"Erika" in each for each in written] == [True, False]


def test_a_file_does_not_grow_with_what_it_once_had(place: Place) -> None:
    files, base = place.filesystem()
    files.create_dir(base)
    texts = [f"{n:0100}" for n in range(300)]
    rows = pa.table({"id": range(60_000), "v": [texts[n % 300] for n in range(60_000)]})
    file = write_file(place, rows, ["id"])
    first = file.bytes
    for number in range(4):
        pieces = list(stream_file(place, file.path, rows.schema, ["v"]))
        others = pa.array([f"{number} {n % 300:098}" for n in range(60_000)])
        coded = pa.table({"id": rows["id"], "v": others.dictionary_encode()})
        # Every row is another one now, and the dictionary still knows those of before.
        mixed = pa.concat_tables([pieces[0], coded]).unify_dictionaries().slice(len(pieces[0]))
        [file] = write_stream(place, rows.schema, [mixed], ["id"], 100_000)
    assert file.bytes < 1.1 * first
