"""A lake with one table, its writer, and how the table is read there."""

from pathlib import Path

import pytest

from lockgate.endpoints.delta.lake import Lake
from lockgate.endpoints.delta.layered import LayeredTable
from lockgate.endpoints.delta.place import Place
from tests.support.lakes import DISPATCHER, LEADER, ROWS, Writer

TABLE = 'public."Order/ß"'


@pytest.fixture
def root(tmp_path: Path) -> Place:
    return Place(str(tmp_path / "lake"), "lake")


@pytest.fixture
def writer(root: Place) -> Writer:
    place = Lake(root).place(TABLE, 1)
    return Writer(
        LayeredTable.create(place, "h", ROWS, ["id", "part"], LEADER, DISPATCHER, 1, settled=1)
    )
