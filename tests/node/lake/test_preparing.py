"""What keeps tables from being in a lake, told before anything is made."""

from pathlib import Path

import pytest

from lockgate.endpoints.delta.delete import delete
from lockgate.endpoints.delta.head import LakeHead
from lockgate.endpoints.delta.lake import Lake
from lockgate.endpoints.delta.layered import LayeredTable
from lockgate.endpoints.delta.origins import Origin
from lockgate.endpoints.delta.place import Place
from lockgate.endpoints.delta.url import LakeUrl
from lockgate.endpoints.postgres.schema.definitions import TableDefinition
from lockgate.model.feed_config import FeedConfig
from lockgate.model.secret import Secret
from lockgate.model.selection import TableSelection
from lockgate.model.tables import TableName
from lockgate.node.feed.chosen import Chosen
from lockgate.node.feed.preparing import SourceLog, lake_obstacles
from tests.support.lakes import LEADER, ROWS

LOG = SourceLog("source", 500)


@pytest.fixture(autouse=True)
def any_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Chosen, "lake_schema", lambda _: None)


def chosen(target: TableName) -> Chosen:
    fields = dict.fromkeys(TableDefinition.__struct_fields__)
    return Chosen(
        TableDefinition(**fields),  # type: ignore[arg-type]
        TableSelection(TableName("public", "t"), target, ("id",)),
    )


@pytest.mark.parametrize(("length", "found"), [(63, []), (150, ["too long"])])
def test_a_name_that_no_directory_can_have_is_an_obstacle(
    length: int, found: list[str], tmp_path: Path
) -> None:
    url = Secret(f"delta:{tmp_path}")
    config = FeedConfig(name="f", source=Secret("postgres://s/s"), target=url, tables=("*.*",))
    tables = [chosen(TableName('"' * 10, "ü" * (length // 2)))]
    told = lake_obstacles(LakeUrl.parse(url), config, tables, "h", LOG)
    assert len(told) == len(found)
    for error, text in zip(told, found, strict=True):
        assert text in str(error)


T = "public.t"


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(str(tmp_path), "lake")


def make(place: Place, incarnation: int, source: str = "source") -> None:
    """A table that is to be read."""
    LayeredTable.create(
        Lake(place).place(T, incarnation),
        "leader",
        ROWS,
        ["id", "part"],
        LEADER,
        LEADER,
        incarnation,
        settled=incarnation,
        origin=Origin(source, "leader-1"),
    )


def told(place: Place) -> list[str]:
    """Why the table cannot be in the lake, and what helps."""
    url = Secret(f"delta:{place.url}")
    config = FeedConfig(name="f", source=Secret("postgres://s/s"), target=url, tables=("*.*",))
    tables = [chosen(TableName("public", "t"))]
    found = lake_obstacles(LakeUrl.parse(url), config, tables, "h", LOG)
    return [f"{error} {error.hint}" for error in found]


def test_a_table_that_is_there_is_an_obstacle_until_it_is_dropped(place: Place) -> None:
    make(place, 400)
    [error] = told(place)
    assert "such a table already" in error
    Lake(place).end(T, 400)
    assert told(place) == [], "its files are there for a day"


def test_after_a_drop_only_what_would_be_older_than_the_files_that_are_left_has_to_wait(
    place: Place,
) -> None:
    """What is older is ended with them."""
    make(place, 600, "another")
    Lake(place).end(T, 600)
    [error] = told(place)
    assert "still there" in error
    assert "wait" in error
    delete(Lake(place), T, 600, 0)
    assert told(place) == []


def test_who_follows_is_told_at_once_that_the_leaders_table_is_of_another_source(
    place: Place,
) -> None:
    LakeHead(place, "leader").join()
    make(place, 400)
    assert told(place) == [], "it takes part in that"
    Lake(place).end(T, 400)
    make(place, 450, "another")
    [error] = told(place)
    assert "another source" in error
