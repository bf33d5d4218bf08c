"""The bytes of COPY, text and binary, where they can be looked at without a server."""

import pyarrow as pa
import pytest

from lockgate.endpoints.postgres.sink.copybinary import Unfit, binary_bytes, encodes
from lockgate.endpoints.postgres.sink.copytext import copy_bytes
from lockgate.endpoints.postgres.sink.staging import blocks


def test_text_has_tabs_and_newlines_only_between_values() -> None:
    columns = [pa.array([1, None]), pa.array(["a\tb\nc\r\\", "\\N"]), pa.array(["", None])]
    assert bytes(copy_bytes(columns)) == b"1\ta\\tb\\nc\\r\\\\\t\n\\N\t\\\\N\t\\N\n"


def test_text_of_a_slice_is_the_slice() -> None:
    column = pa.array(["no", "a\\", "b", "no\t"]).slice(1, 2)
    assert bytes(copy_bytes([column])) == b"a\\\\\nb\n"


def test_binary_rows() -> None:
    rows = binary_bytes(
        ["int4", "text", "bool"],
        [
            pa.array([1, None], pa.int32()),
            pa.array(["ab", None]),
            pa.array([None, True]),
        ],
    )
    assert bytes(rows) == (
        b"\0\3"
        b"\0\0\0\4\0\0\0\1"
        b"\0\0\0\2ab"
        b"\xff\xff\xff\xff"
        b"\0\3"
        b"\xff\xff\xff\xff"
        b"\xff\xff\xff\xff"
        b"\0\0\0\1\1"
    )


def test_jsonb_has_its_version_in_front_unless_it_is_null() -> None:
    some, all_ = pa.array(["{}", None]), pa.array(["{}"])
    assert bytes(binary_bytes(["jsonb"], [some])) == b"\0\1\0\0\0\3\1{}\0\1\xff\xff\xff\xff"
    assert bytes(binary_bytes(["jsonb"], [all_])) == b"\0\1\0\0\0\3\1{}"


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("uuid", "not a uuid"),
        ("uuid", "00000000-0000-0000-0000-00000000000g"),
        ("uuid", "00000000x0000-0000-0000-000000000000"),
        ("numeric", "1e5"),
        ("numeric", ""),
        ("numeric", "-"),
        ("numeric", ".5"),
        ("numeric", "1.2.3"),
        ("numeric", "9" * 1000),
    ],
)
def test_what_is_not_of_the_type_s_form_is_left_to_the_server(kind: str, text: str) -> None:
    with pytest.raises(Unfit):
        binary_bytes([kind], [pa.array([text])])


def test_a_type_is_made_of_nothing_that_might_not_fit() -> None:
    assert encodes("int8", pa.int16())
    assert not encodes("int2", pa.int64())
    assert not encodes("timestamp", pa.timestamp("us", "UTC"))
    assert not encodes("text", pa.int64())
    assert not encodes("inet", pa.string())
    assert not encodes("", pa.string())


def test_blocks_cover_all_rows_and_weigh_little() -> None:
    light, heavy = ["x"] * 30_000, ["y" * 3_000_000] * 5
    column = pa.array([*light, *heavy, *light])
    found = list(blocks(lambda start, stop: [column.slice(start, stop - start)], 0, len(column)))
    assert pa.concat_arrays([block[0] for block in found]).equals(column)
    assert max(block[0].nbytes for block in found) < 9 * 2**20
