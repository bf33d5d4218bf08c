"""What a driver hands to its tasks is what they get, or it is said."""

from pathlib import Path

import pyarrow as pa
import pytest

from lockgate.endpoints.delta.parts import PartDamaged, read_part, write_parts
from lockgate.endpoints.delta.place import Place

TABLES = [
    pa.table({"k": pa.array([1, None, 3]), "v": ["a", None, ""]}),
    pa.table({"k": pa.array([], pa.int64()), "v": pa.array([], pa.string())}),
    pa.table({"k": pa.array(range(1000)), "v": ["ä" * 30] * 1000}),
]


def test_every_part_is_read_as_it_was_written(place: Place) -> None:
    parts = write_parts(place, TABLES)
    assert [read_part(place, part) for part in reversed(parts)] == TABLES[::-1]
    assert {part.path for part in parts} == {path.name for path in Path(place.url).iterdir()}


@pytest.mark.parametrize("number", [0, 2])
def test_one_bit_that_differs_is_said_by_whose_part_it_is(place: Place, number: int) -> None:
    parts = write_parts(place, TABLES)
    file = Path(place.url, parts[0].path)
    content = bytearray(file.read_bytes())
    content[parts[number].start + parts[number].size // 2] ^= 1
    file.write_bytes(content)
    for other, part in enumerate(parts):
        if other != number:
            assert read_part(place, part) == TABLES[other]
    with pytest.raises(PartDamaged):
        read_part(place, parts[number])


def test_a_file_that_was_cut_off_is_said(place: Place) -> None:
    parts = write_parts(place, TABLES)
    file = Path(place.url, parts[-1].path)
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(PartDamaged):
        read_part(place, parts[-1])


def test_what_cannot_be_written_leaves_no_file(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise RuntimeError

    monkeypatch.setattr(pa.ipc, "new_stream", fails)
    with pytest.raises(RuntimeError):
        write_parts(place, TABLES)
    assert not list(Path(place.url).iterdir())
