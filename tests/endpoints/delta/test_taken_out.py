"""What many commits took out is read once, and then from a note (L10)."""

from pathlib import Path

import pytest

from lockgate.endpoints.delta import taken_out as module
from lockgate.endpoints.delta.commits import Commits
from lockgate.endpoints.delta.layered import LayeredTable
from lockgate.endpoints.delta.place import Place
from lockgate.endpoints.delta.taken_out import taken_out
from tests.support.lakes import DISPATCHER, LEADER, ROWS, Writer


@pytest.fixture
def ingest(place: Place, monkeypatch: pytest.MonkeyPatch) -> Place:
    """Of a table that was drained and pruned three times, with four commits to a note."""
    monkeypatch.setattr(module, "NOTED", 4)
    writer = Writer(LayeredTable.create(place, "h", ROWS, ["id", "part"], LEADER, DISPATCHER))
    for v in range(3):
        for key in range(3):
            writer.put(key, v=v)
        writer.table.drain(LEADER)
        writer.table.prune(DISPATCHER)
    return place.child("ingest-h")


def versions(ingest: Place) -> list[int]:
    return sorted(int(path.stem) for path in Path(ingest.url).glob("_delta_log/*.json"))


def notes(ingest: Place) -> list[Path]:
    return sorted(Path(ingest.url).glob("_lockgate_log/taken-out-*"))


def told(ingest: Place, wanted: list[int]) -> set[str]:
    """As the commits say one by one."""
    found = Commits(ingest).many(wanted)
    return {path for one in found if one is not None for path in one.removed}


class Reads:
    """Which commits are read."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.versions: list[int] = []
        load = Commits._load

        def noted(commits: Commits, version: int) -> object:
            self.versions.append(version)
            return load(commits, version)

        monkeypatch.setattr(Commits, "_load", noted)


def test_what_was_noted_is_not_read_again(ingest: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = versions(ingest)
    there = told(ingest, wanted)
    assert len(wanted) == 13
    assert len(there) == 9
    assert taken_out(ingest, wanted) == there
    assert len(notes(ingest)) == 3
    reads = Reads(monkeypatch)
    assert taken_out(ingest, wanted) == there
    assert reads.versions == [12]


def test_of_a_note_only_what_is_asked_for_counts(ingest: Place) -> None:
    wanted = versions(ingest)
    taken_out(ingest, wanted)
    for first in range(len(wanted)):
        assert taken_out(ingest, wanted[first:]) == told(ingest, wanted[first:])


def test_notes_of_before_go(ingest: Place) -> None:
    wanted = versions(ingest)
    taken_out(ingest, wanted)
    assert taken_out(ingest, wanted[8:]) == told(ingest, wanted[8:])
    assert len(notes(ingest)) == 1


@pytest.mark.parametrize("content", [b"", b"{", b"[1]"])
def test_a_torn_note_is_as_good_as_none(ingest: Place, content: bytes) -> None:
    wanted = versions(ingest)
    there = taken_out(ingest, wanted)
    notes(ingest)[1].write_bytes(content)
    assert taken_out(ingest, wanted) == there
    assert notes(ingest)[1].read_bytes() != content


def test_what_could_not_be_read_is_not_noted(ingest: Place) -> None:
    wanted = versions(ingest)
    (Path(ingest.url) / "_delta_log" / f"{wanted[5]:020d}.json").unlink()
    taken_out(ingest, wanted)
    assert [note.name[-20:] for note in notes(ingest)] == [f"{3:020d}", f"{11:020d}"]
