"""What keeps tables from being in a lake, told before anything is made."""

from pathlib import Path

import pytest

from lockgate.endpoints.delta.url import LakeUrl
from lockgate.endpoints.postgres.schema.definitions import TableDefinition
from lockgate.model.feed_config import FeedConfig
from lockgate.model.secret import Secret
from lockgate.model.selection import TableSelection
from lockgate.model.tables import TableName
from lockgate.node.feed.chosen import Chosen
from lockgate.node.feed.preparing import lake_obstacles


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
    told = lake_obstacles(LakeUrl.parse(url), config, tables, "h")
    assert len(told) == len(found)
    for error, text in zip(told, found, strict=True):
        assert text in str(error)
