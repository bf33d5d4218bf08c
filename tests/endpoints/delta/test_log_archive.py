"""A long log of ingest is made shorter, and nothing is forgotten by that (L10)."""

from pathlib import Path

import pytest

from lockgate.endpoints.delta import pruning, vacuum
from lockgate.endpoints.delta.commits import Commits
from lockgate.endpoints.delta.fenced import FencedTable
from lockgate.endpoints.delta.layered import LayeredTable
from lockgate.endpoints.delta.log_archive import ARCHIVE, LOG, archive
from lockgate.endpoints.delta.place import Place
from lockgate.endpoints.delta.travel import snapshot_at
from tests.support.lake_files import age, data_files
from tests.support.lakes import DISPATCHER, LEADER, ROWS, Rows, Writer, rows_in

DAY_S = 86_400.0
COMMITS = 120
"""Two checkpoints, and some more."""


class Long:
    """An ingest of many commits, most of which are drained and pruned."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.layer = place.child("ingest-h")
        table = LayeredTable.create(place, "h", ROWS, ["id", "part"], LEADER, DISPATCHER, settled=1)
        self.writer = Writer(table)
        self.stale = FencedTable.open(self.layer)
        self.then: dict[int, Rows] = {}
        for number in range(COMMITS):
            self.writer.put(number % 7, v=number)
            self.then[self.writer.position] = dict(self.writer.rows)
            if number in {30, 60, 90}:
                table.drain(LEADER)
                table.prune(DISPATCHER)

    def in_log(self) -> list[int]:
        return _commits(Path(self.layer.url, LOG))

    def in_archive(self) -> list[int]:
        return _commits(Path(self.layer.url, ARCHIVE))

    def archive(self) -> int:
        return archive(self.layer, self.writer.table.ingest.look().version, kept=10)


def _commits(folder: Path) -> list[int]:
    return sorted(int(path.name[:20]) for path in folder.glob("*.json"))


@pytest.fixture
def long(place: Place) -> Long:
    return Long(place)


def test_what_lies_before_a_checkpoint_is_moved_and_the_rest_stays(long: Long) -> None:
    before = long.in_log()
    assert long.archive() > 0
    assert long.in_archive() + long.in_log() == before
    assert long.in_log()[0] == 99, "a checkpoint is there that it begins with"
    assert long.archive() == 0
    for handle in (long.stale, FencedTable.open(long.layer)):
        assert handle.look().position == long.writer.position
    assert rows_in(LayeredTable.open(long.place, "h").read()) == long.writer.rows
    long.writer.put(3, v=-1)
    assert rows_in(long.writer.table.read()) == long.writer.rows


def test_every_position_is_read_as_before(long: Long) -> None:
    long.archive()
    table = LayeredTable.open(long.place, "h")
    for position, rows in long.then.items():
        assert rows_in(table.read(snapshot_at(table, position))) == rows
    assert Commits(long.layer).position(0) == 0


def test_a_vacuum_keeps_what_archived_commits_took_out_and_then_forgets_them(long: Long) -> None:
    """Of what is archived too, it counts when it was committed."""
    long.archive()
    files = data_files(long.layer.url)
    age(long.place.url, 3 * DAY_S)
    vacuum.vacuum(long.place)
    assert data_files(long.layer.url) == files, "within the retention"
    age(long.place.url, 30 * DAY_S)
    long.writer.put(1, v=5)
    vacuum.vacuum(long.place)
    assert len(data_files(long.layer.url)) < len(files)
    assert long.in_archive() == []
    assert rows_in(LayeredTable.open(long.place, "h").read()) == long.writer.rows


def test_who_lands_changes_sees_to_it_from_time_to_time(
    long: Long, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pruning, "ARCHIVE_EVERY", 10)
    monkeypatch.setattr(archive, "__defaults__", (10,))
    table = long.writer.table
    for number in range(10):
        long.writer.put(number)
        table.prune_if_worth(DISPATCHER)
    assert long.in_archive()


def test_checkpoints_of_ingest_do_not_name_all_that_ever_was(place: Place) -> None:
    notes = Long(place).writer.table.ingest.notes
    assert notes["delta.deletedFileRetentionDuration"] == "interval 1 hours"
