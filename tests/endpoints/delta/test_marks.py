"""What a commit says of its table is what Delta finds in the whole log; and it is asked only when
the commit is ours."""

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, write_deltalake

from lockgate.endpoints.delta.marks import Marks, marks_in, marks_of, transactions
from lockgate.endpoints.delta.place import Place
from lockgate.model.ids import Token

ROWS = pa.table({"id": [1]})
MARKS = [
    Marks(0, Token(1, 2, 3), position=7, settled=5),
    Marks(1, Token(4, 0, 1), position=9, dead=True),
    Marks(2, Token(4, 0, 1), position=9, dead=True, dropped=True, foreign=2),
    Marks(3, Token(4, 0, 1), position=9, pruned=6),
]


def commit(table: Path, *marks: Marks) -> None:
    for each in marks:
        ours = CommitProperties(app_transactions=transactions(each))
        write_deltalake(table, ROWS, mode="append", commit_properties=ours)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return tmp_path / "table"


def test_a_commit_of_ours_says_all(table: Path) -> None:
    commit(table, *MARKS)
    for each in MARKS:
        assert marks_in(Place(str(table), "t"), each.version) == each
        assert marks_of(DeltaTable(table, version=each.version)) == each


def test_one_from_before_it_was_kept_what_is_pruned_says_all_else(table: Path) -> None:
    each = Marks(0, Token(1, 2, 3), position=7)
    older = [one for one in transactions(each) if one.app_id != "lockgate.pruned"]
    assert len(older) < len(transactions(each))
    write_deltalake(table, ROWS, commit_properties=CommitProperties(app_transactions=older))
    assert marks_in(Place(str(table), "t"), 0) == each
    assert marks_of(DeltaTable(table)) == each


def test_one_of_somebody_else_says_nothing(table: Path) -> None:
    commit(table, MARKS[0])
    write_deltalake(table, ROWS, mode="append")
    assert marks_in(Place(str(table), "t"), 1) is None
    assert marks_of(DeltaTable(table)).position == MARKS[0].position


def test_nor_does_one_that_bears_the_number_of_another(table: Path) -> None:
    commit(table, MARKS[0], MARKS[0])
    assert marks_in(Place(str(table), "t"), 1) is None


@pytest.mark.parametrize("text", ["", "{", '{"txn":{"appId":"lockgate.epoch"}}'])
def test_nor_does_one_that_is_damaged_or_gone(table: Path, text: str) -> None:
    commit(table, MARKS[0])
    (table / "_delta_log" / f"{0:020}.json").write_text(text)
    assert marks_in(Place(str(table), "t"), 0) is None
    assert marks_in(Place(str(table), "t"), 1) is None
