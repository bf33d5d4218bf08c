"""What a survey makes of tables that are not there yet, or not any more."""

from pathlib import Path

import pytest
from pyarrow import fs

from lockgate.endpoints.delta.delete import delete
from lockgate.endpoints.delta.graves import bury
from lockgate.endpoints.delta.lake import Lake
from lockgate.endpoints.delta.layered import LayeredTable
from lockgate.endpoints.delta.place import Place
from lockgate.endpoints.delta.store_time import store_now_s
from lockgate.model.errors import MissingPrivilege
from lockgate.model.lake import TableSeen
from lockgate.node.lake.surveying import Surveyor
from tests.support.lake_files import age, bytes_named
from tests.support.lakes import DISPATCHER, LEADER, ROWS, Writer

T = "public.t"


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(str(tmp_path / "lake"), "lake")


def make(place: Place, incarnation: int, *, awaits_copy: bool = False) -> LayeredTable:
    where = Lake(place).place(T, incarnation)
    return LayeredTable.create(
        where, "h", ROWS, ["id", "part"], LEADER, DISPATCHER, awaits_copy=awaits_copy
    )


def survey(place: Place) -> dict[int, TableSeen]:
    _, found, _ = Surveyor(place, "h").survey(None)
    return {one.incarnation: one for one in found}


def test_one_that_awaits_its_rows_is_told_from_one_that_has_them(place: Place) -> None:
    make(place, 1)
    new = make(place, 2, awaits_copy=True)
    assert [one.awaits for one in survey(place).values()] == [False, True]
    new.land_copy(LEADER, [], 2, 2)
    assert not survey(place)[2].awaits


def test_one_that_died_before_it_had_rows_is_told_so(place: Place) -> None:
    make(place, 2, awaits_copy=True).kill(LEADER)
    assert (survey(place)[2].dead, survey(place)[2].awaits) == (True, True)


def test_a_directory_that_somebody_made_again_after_its_deletion_is_dead(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(place, 1).kill(LEADER)
    delete(Lake(place), T, 1, 0)
    monkeypatch.setattr("lockgate.endpoints.delta.layered.is_buried", lambda _: False)
    make(place, 1)
    assert survey(place)[1].dead
    delete(Lake(place), T, 1, 0)
    assert survey(place) == {}


@pytest.mark.parametrize("again", [True, False])
def test_one_whose_log_is_damaged_is_dead_since_its_end(place: Place, again: bool) -> None:
    """Its files stay as long as those of any other; then they go at once."""
    table = make(place, 1)
    table.note_position(DISPATCHER, 5)
    surveyor = Surveyor(place, "h")
    surveyor.survey(None)
    newest = max(Path(table.stable.place.url, "_delta_log").glob("*.json"))
    newest.write_bytes(newest.read_bytes()[:50])
    Lake(place).end(T, 1)
    age(Path(place.url, "_lockgate", "graves"), 100)
    _, [seen], _ = (surveyor if again else Surveyor(place, "h")).survey(None)
    assert seen.dead
    assert 100_000 <= seen.dead_ms < 160_000
    bury(table.place)
    assert survey(place)[1].dead_ms > 10**11


def test_the_size_is_that_of_all_files_that_are_live_drained_ones_too(place: Place) -> None:
    table = make(place, 1)
    writer = Writer(table)
    for key in range(3):
        writer.put(key)
    for _ in range(2):
        on_disk = sum(path.stat().st_size for path in Path(table.place.url).glob("*/*.parquet"))
        assert survey(place)[1].figures.size_bytes == on_disk
        table.drain(LEADER)
    table.prune(DISPATCHER)
    assert survey(place)[1].figures.size_bytes == bytes_named(table) < on_disk


def test_asking_for_the_time_brings_no_directory_back(place: Place) -> None:
    table = make(place, 1)
    table.kill(LEADER)
    delete(Lake(place), T, 1, 0)
    store_now_s(table.place)
    assert not Path(table.place.url).exists()


def test_a_table_whose_directory_cannot_be_listed_hides_no_other(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(place, 1)
    (Path(place.url) / "public.secret").mkdir()
    listed = Place.listed

    def refuse(self: Place, *, recursive: bool = False) -> list[fs.FileInfo]:
        if self.url.endswith("public.secret"):
            raise PermissionError(13, "no", self.url)
        return listed(self, recursive=recursive)

    monkeypatch.setattr(Place, "listed", refuse)
    surveyor = Surveyor(place, "h")
    _, seen, unseen = surveyor.survey(None)
    assert [one.key for one in seen] == [(T, 1)]
    assert list(unseen) == ["public.secret"]
    with pytest.raises(MissingPrivilege):
        surveyor.survey("public.secret")
