"""A dead incarnation goes in the end: all of it, never sooner, and never half alive (L4, L5)."""

from pathlib import Path
from typing import Any

import pytest
from deltalake.exceptions import DeltaError

from lockgate.endpoints.delta import delete as deleting
from lockgate.endpoints.delta.delete import delete
from lockgate.endpoints.delta.fenced import FencedTable, TableDead
from lockgate.endpoints.delta.files import write_file
from lockgate.endpoints.delta.lake import Lake
from lockgate.endpoints.delta.layered import LayeredTable
from lockgate.endpoints.delta.pins import Pinned, holding
from lockgate.endpoints.delta.place import Place
from lockgate.model.errors import Conflict, NotFound
from lockgate.model.ids import Token
from tests.support.lake_files import age
from tests.support.lakes import DISPATCHER, LEADER, ROWS, Writer, rows_in

T = "public.t"
newest = Lake.newest
DAY_S = 86_400.0


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(Place(str(tmp_path / "lake"), "lake"))


@pytest.fixture
def writer(lake: Lake) -> Writer:
    writer = Writer(_make(lake, 7))
    writer.put(1, 2)
    writer.table.drain(LEADER)
    writer.put(3)
    return writer


def _make(lake: Lake, incarnation: int, home: str = "h") -> LayeredTable:
    return LayeredTable.create(
        lake.place(T, incarnation), home, ROWS, ["id", "part"], LEADER, DISPATCHER
    )


def test_dropped_long_ago_it_is_gone_with_its_directory(lake: Lake, writer: Writer) -> None:
    root = Path(writer.table.place.url)
    writer.table.kill(LEADER)
    age(root, 30 * DAY_S)
    files = sum(path.is_file() for path in root.rglob("*"))
    done = delete(lake, T, 7)
    assert done.waits_for == ""
    assert done.files == files
    assert not root.exists()
    assert lake.tables() == []
    assert delete(lake, T, 7).files == 0, "told again"


def test_a_live_table_is_not_deleted(lake: Lake, writer: Writer) -> None:
    with pytest.raises(Conflict, match="not dropped"):
        delete(lake, T, 7, 0)
    assert rows_in(writer.table.read()) == writer.rows


def test_it_is_kept_for_the_retention(lake: Lake, writer: Writer) -> None:
    writer.table.kill(LEADER)
    assert "retention" in delete(lake, T, 7).waits_for
    assert rows_in(writer.table.read()) == writer.rows


def test_it_is_kept_while_somebody_reads_it(lake: Lake, writer: Writer) -> None:
    seen = writer.table.snapshot()
    with holding(writer.table.place, "h", seen, "a reader"):
        writer.table.kill(LEADER)
        assert delete(lake, T, 7, 0).waits_for == "readers: a reader"
        assert rows_in(writer.table.read(seen)) == writer.rows
    assert delete(lake, T, 7, 0).waits_for == ""


def test_who_holds_it_fast_between_judgement_and_burial_keeps_it(
    lake: Lake, writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = writer.table.snapshot()
    writer.table.kill(LEADER)
    taken = []

    def bury(place: Place) -> None:
        taken.append(Pinned.take(place, "h", seen, "late"))
        bury_(place)

    bury_ = deleting.bury
    monkeypatch.setattr(deleting, "bury", bury)
    assert delete(lake, T, 7, 0).waits_for == "readers: late"
    assert rows_in(writer.table.read(seen)) == writer.rows
    taken[0].release()
    assert delete(lake, T, 7, 0).waits_for == ""


def test_what_is_buried_cannot_be_held_fast(lake: Lake, writer: Writer) -> None:
    seen = writer.table.snapshot()
    writer.table.kill(LEADER)
    deleting.bury(writer.table.place)
    with pytest.raises(TableDead), holding(writer.table.place, "h", seen, "late"):
        pass


@pytest.mark.parametrize("step", range(1, 12))
def test_broken_off_anywhere_it_is_neither_alive_nor_none_and_goes_on(
    lake: Lake, writer: Writer, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    place = writer.table.place
    writer.table.kill(LEADER)
    with monkeypatch.context() as patched:
        _break_off_at(patched, step)
        with pytest.raises(KeyboardInterrupt):
            delete(lake, T, 7, 0)
    with pytest.raises(NotFound):
        lake.live(T)
    with pytest.raises(TableDead):
        LayeredTable.open(place, "h").drain(LEADER)
    with pytest.raises(TableDead):
        writer.put(9)
    with pytest.raises(TableDead):
        writer.table.drain(LEADER)
    with pytest.raises(TableDead):
        _make(lake, 7)
    assert delete(lake, T, 7, 0).waits_for == ""
    assert not Path(place.url).exists()


def _break_off_at(patched: pytest.MonkeyPatch, step: int) -> None:
    steps = iter(range(1, 1_000))

    def counted(work: Any) -> Any:
        def run(*arguments: Any) -> Any:
            if next(steps) == step:
                raise KeyboardInterrupt
            return work(*arguments)

        return run

    for name in ("bury", "_remove_file"):
        patched.setattr(deleting, name, counted(getattr(deleting, name)))


def test_there_are_as_many_steps_as_are_broken_off(
    lake: Lake, writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer.table.kill(LEADER)
    _break_off_at(monkeypatch, 12)
    assert delete(lake, T, 7, 0).files == 10


def test_what_a_zombie_makes_in_its_place_is_no_table(lake: Lake, writer: Writer) -> None:
    writer.table.kill(LEADER)
    delete(lake, T, 7, 0)
    FencedTable.create(lake.place(T, 7).child("stable"), ROWS, LEADER)
    with pytest.raises(NotFound):
        lake.live(T)
    with pytest.raises(TableDead):
        _make(lake, 7)
    delete(lake, T, 7, 0)
    assert lake.tables() == []


def test_the_next_incarnation_is_not_touched(lake: Lake, writer: Writer) -> None:
    writer.table.kill(LEADER)
    again = Writer(_make(lake, 9))
    again.put(5)
    delete(lake, T, 7, 0)
    assert lake.incarnations(T) == [9]
    assert lake.live(T) == again.table.place
    assert rows_in(again.table.read()) == again.rows


def test_what_it_replaced_does_not_come_back(lake: Lake, writer: Writer) -> None:
    """Made anew without an end of the old one, then dropped and deleted."""
    _make(lake, 9).kill(LEADER)
    delete(lake, T, 9, 0)
    with pytest.raises(NotFound):
        lake.live(T)
    with pytest.raises(TableDead):
        writer.put(9)


def test_one_that_was_never_copied_replaced_nothing(lake: Lake, writer: Writer) -> None:
    LayeredTable.create(
        lake.place(T, 9), "h", ROWS, ["id", "part"], LEADER, DISPATCHER, awaits_copy=True
    ).kill(LEADER)
    delete(lake, T, 9, 0)
    assert lake.live(T) == writer.table.place


def test_what_was_dropped_with_its_name_takes_the_older_one_along(
    lake: Lake, writer: Writer
) -> None:
    """Who dropped it was lost between the two."""
    copy = LayeredTable.create(
        lake.place(T, 9), "h", ROWS, ["id", "part"], LEADER, DISPATCHER, awaits_copy=True
    )
    assert copy.stable.kill(LEADER, dropped=True).dropped
    delete(lake, T, 9, 0)
    with pytest.raises(TableDead):
        writer.put(9)


def test_dropped_it_is_dead_in_every_layer(lake: Lake, writer: Writer) -> None:
    other = _make(lake, 7, "other")
    writer.table.kill(Token(3, 0, 2))
    for table in (writer.table, other):
        with pytest.raises(TableDead):
            table.note_position(DISPATCHER, 1_000)
    with pytest.raises(TableDead):
        _make(lake, 7, "third")


def test_an_end_by_the_lake_is_the_same(lake: Lake, writer: Writer) -> None:
    lake.end(T, 7)
    lake.end(T, 7)
    with pytest.raises(TableDead):
        writer.put(9)
    with pytest.raises(NotFound):
        lake.live(T)


def test_who_finds_a_table_that_ends_because_its_successor_is_there_is_given_that(
    lake: Lake, writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The copy lands, and the older one ends, between two looks of one reader."""
    found = lake.newest(T)
    again = _make(lake, 9)
    writer.table.kill(LEADER)
    looks = [found]
    monkeypatch.setattr(
        Lake, "newest", lambda self, table: looks.pop() if looks else newest(self, table)
    )
    assert lake.live(T) == again.place


def test_who_asks_for_a_table_whose_files_are_just_going_is_told_that_there_is_none(
    lake: Lake, writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """He looked for its grave before it was there."""
    writer.table.kill(LEADER)
    _delete_partly(lake, monkeypatch, upto="00000000000000000001.json")
    monkeypatch.setattr("lockgate.endpoints.delta.lake.is_buried", lambda _: False)
    with pytest.raises(NotFound):
        lake.live(T)


def test_a_layer_whose_files_are_just_going_is_dead_to_who_opens_it(
    lake: Lake, writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer.table.kill(LEADER)
    _delete_partly(lake, monkeypatch, upto="00000000000000000001.json")
    with pytest.raises(TableDead):
        FencedTable.open(lake.place(T, 7).child("stable"))


def test_who_comes_to_make_it_while_its_files_are_just_going_is_told_that_it_is_dead(
    lake: Lake, writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """He looked for its grave before it was there, and Delta found a log that went away."""
    writer.table.kill(LEADER)
    delete(lake, T, 7, 0)
    monkeypatch.setattr("lockgate.endpoints.delta.layered.is_buried", lambda _: False)

    def create(*_: object, **__: object) -> None:
        raise DeltaError("Kernel error: File not found: 00000000000000000000.json")

    monkeypatch.setattr("lockgate.endpoints.delta.fenced.DeltaTable.create", create)
    with pytest.raises(TableDead):
        _make(lake, 7)


def test_what_is_written_where_its_files_are_gone_is_told_that_it_is_dead(
    lake: Lake, writer: Writer
) -> None:
    """A batch, a copy, a drain: the directory went away after they had looked."""
    table = writer.table
    table.kill(LEADER)
    delete(lake, T, 7, 0)
    with pytest.raises(TableDead):
        write_file(table.place.child("stable"), ROWS.empty_table(), [])


def _delete_partly(lake: Lake, monkeypatch: pytest.MonkeyPatch, upto: str) -> None:
    remove = deleting._remove_file

    def part(files: Any, path: str) -> None:
        if path.endswith(f"stable/_delta_log/{upto}"):
            raise KeyboardInterrupt
        remove(files, path)

    with monkeypatch.context() as patched:
        patched.setattr(deleting, "_remove_file", part)
        with pytest.raises(KeyboardInterrupt):
            delete(lake, T, 7, 0)
