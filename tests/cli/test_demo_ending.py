"""The demo's end is good only when all was so that it shows; else its command fails."""

from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from lockgate.demo.compare import Compared
from lockgate.demo.pond import Pond
from lockgate.demo.show import TABLES, Ending

GOOD = Ending(
    [Compared(table, table, 10, 10, equal=True) for table in TABLES],
    in_lake=10,
    lost=0,
    differing=0,
    troubles=[],
    seconds=1.0,
)


def test_an_end_at_which_all_was_so_is_good() -> None:
    assert GOOD.good


@pytest.mark.parametrize(
    "change",
    [
        {"in_lake": 9},
        {"lost": 1},
        {"differing": 1},
        {"troubles": ["it is back"]},
    ],
    ids=lambda change: next(iter(change)),
)
def test_an_end_at_which_something_was_not_so_is_not(change: dict[str, Any]) -> None:
    assert not GOOD._replace(**change).good


def test_a_lake_with_other_tables_than_it_has_to_have_is_trouble(tmp_path: Path) -> None:
    pond = Pond(Console(quiet=True), tmp_path / "lake")
    with pytest.raises(Exception, match="no such table"):
        pond.rows()
    assert pond.troubles == ["of the lake: in the end there were []"]
