"""Names of tables, and the directories that a lake has for them."""

from pathlib import Path

import pytest

from lockgate.endpoints.delta.lake import Lake
from lockgate.endpoints.delta.place import Place
from lockgate.model.errors import UsageError
from lockgate.model.tables import TableName

NAMES = [
    TableName("_priv", "t"),
    TableName(".priv", "t"),
    TableName("public", "_t"),
    TableName("Größe", "~~a/b c"),
    TableName("ü" * 31, "ü" * 31),
    TableName("€" * 21, "€" * 21),
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "lake"


@pytest.fixture
def lake(folder: Path) -> Lake:
    return Lake(Place(str(folder), "lake"))


@pytest.mark.parametrize("name", NAMES, ids=str)
def test_a_table_of_any_name_that_postgresql_takes_is_listed_under_it(
    name: TableName, lake: Lake
) -> None:
    Path(lake.place(name.id, 5).url).mkdir(parents=True)
    assert lake.tables() == [name.id]
    assert lake.incarnations(name.id) == [5]


@pytest.mark.parametrize("name", NAMES, ids=str)
def test_no_table_is_hidden_from_readers_of_files(name: TableName, lake: Lake) -> None:
    assert not Path(lake.place(name.id, 5).url).parent.name.startswith((".", "_"))


def test_a_name_that_no_directory_can_have_is_refused(lake: Lake) -> None:
    with pytest.raises(UsageError, match="too long"):
        lake.place(TableName('"' * 63, '"' * 63).id, 5)


def test_a_directory_of_somebody_else_is_no_obstacle(folder: Path, lake: Lake) -> None:
    for name in ("~~0189", "~~ff", "~~", "old stuff"):
        (folder / name).mkdir(parents=True)
    for name in lake.tables():
        assert not lake.incarnations(name)


def test_a_directory_that_no_table_has_is_none(folder: Path, lake: Lake) -> None:
    """It may be one that we may not even list."""
    for name in ("lost+found", "old stuff", "public.t"):
        (folder / name).mkdir(parents=True)
    assert lake.tables() == ["public.t"]
