"""The first copy lands in stable once, and says from where on it is level."""

import pyarrow as pa
import pytest

from lockgate.endpoints.delta.fenced import FencedTable
from lockgate.endpoints.delta.files import DataFile, delete_file, write_file
from lockgate.endpoints.delta.layered import LayeredTable
from lockgate.endpoints.delta.place import Place
from lockgate.model.errors import Conflict, DidNotLand, StaleOwner
from lockgate.model.ids import Token
from tests.support.lakes import DISPATCHER, LEADER, ROWS, Writer, rows_in


@pytest.fixture
def table(place: Place) -> LayeredTable:
    return LayeredTable.create(place, "h", ROWS, ["id", "part"], LEADER, DISPATCHER, 5)


def _written(place: Place, *ids: int) -> DataFile:
    rows = pa.table({"id": ids, "part": ["a"] * len(ids), "v": [7] * len(ids)}, schema=ROWS)
    return write_file(place.child("stable"), rows, ["id"])


def test_it_lands_with_its_position(table: LayeredTable, place: Place) -> None:
    table.land_copy(LEADER, [_written(place, 1, 2), _written(place, 3)], 8, 12)
    seen = table.snapshot()
    assert (seen.drained, seen.settled, len(seen.stable)) == (8, 12, 2)
    assert rows_in(table.read()) == {(1, "a"): 7, (2, "a"): 7, (3, "a"): 7}


@pytest.mark.parametrize("at", [5, 8])
def test_landed_again_it_changes_nothing(table: LayeredTable, place: Place, at: int) -> None:
    files = [_written(place, 1, 2)]
    landed = table.land_copy(LEADER, files, at, 12)
    assert table.land_copy(LEADER, files, at, 12) == landed


def test_landed_again_after_a_drain_it_changes_nothing(table: LayeredTable, place: Place) -> None:
    files = [_written(place, 1, 2)]
    table.land_copy(LEADER, files, 8, 12)
    writer = Writer(table)
    writer.position = 20
    writer.put(1, 3)
    table.drain(LEADER)
    table.land_copy(LEADER, files, 8, 12)
    assert sorted(rows_in(table.read())) == [(1, "a"), (2, "a"), (3, "a")]


def test_a_copy_of_nothing_is_level_too(table: LayeredTable) -> None:
    assert table.land_copy(LEADER, [], 8, 12).settled == 12
    assert table.land_copy(LEADER, [], 8, 12).version == 1, "told again"


def test_stable_that_has_rows_takes_no_copy(table: LayeredTable, place: Place) -> None:
    table.land_copy(LEADER, [_written(place, 1)], 8, 12)
    with pytest.raises(Conflict, match="not empty"):
        table.land_copy(LEADER, [_written(place, 2)], 9, 13)


def test_who_does_not_lead_lands_no_copy(table: LayeredTable, place: Place) -> None:
    table.stable.claim(Token(2, 0, 1))
    with pytest.raises(StaleOwner):
        table.land_copy(LEADER, [_written(place, 1)], 8, 12)


def test_a_file_that_is_gone_by_then_is_not_named(table: LayeredTable, place: Place) -> None:
    file = _written(place, 1)
    delete_file(place.child("stable"), file.path)
    with pytest.raises(DidNotLand, match="not there any more"):
        table.land_copy(LEADER, [file], 8, 12)
    assert table.stable.look().version == 0


def test_settled_only_rises(place: Place) -> None:
    table = FencedTable.create(place, ROWS, LEADER, settled=9)
    assert table.look().settled == 9
    assert table.commit(LEADER, lambda _: [], settled=4).settled == 9
    assert table.claim(Token(2, 0, 1)).settled == 9


def test_a_position_with_nothing_before_it_is_noted_once(table: LayeredTable) -> None:
    assert table.note_position(DISPATCHER, 30).position == 30
    version = table.ingest.look().version
    assert table.note_position(DISPATCHER, 30).version == version
    assert table.snapshot().position == 30
    with pytest.raises(StaleOwner):
        table.note_position(Token(4, 1, 1), 40)
