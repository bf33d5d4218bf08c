"""Bad days of a lake's storage: said clearly, on that table alone, and nothing is lost."""

import contextlib
import errno
import multiprocessing
import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from multiprocessing.queues import Queue
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from lockgate.endpoints.delta import delete as deleting
from lockgate.endpoints.delta import files, parts
from lockgate.endpoints.delta.delete import delete
from lockgate.endpoints.delta.faults import FileCorrupt
from lockgate.endpoints.delta.fenced import TableDead
from lockgate.endpoints.delta.lake import Lake
from lockgate.endpoints.delta.layered import LayeredTable
from lockgate.endpoints.delta.place import Place
from lockgate.model.errors import LockgateError, NotFound, StorageFull
from tests.support.bad_days import SmallDisk, small_disk
from tests.support.lake_files import age
from tests.support.lakes import DISPATCHER, LEADER, PUT, ROWS, Writer, rows_in


def _writer(place: Place) -> Writer:
    return Writer(LayeredTable.create(place, "h", ROWS, ["id", "part"], LEADER, DISPATCHER))


# --- damage ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("layer", ["stable", "ingest-h"])
@pytest.mark.parametrize("damage", ["a byte", "its end", "all of it"])
def test_a_damaged_file_is_found_and_nothing_is_drained(
    place: Place, layer: str, damage: str
) -> None:
    writer = _writer(place)
    writer.put(*range(500))
    writer.table.drain(LEADER)
    writer.table.prune(DISPATCHER)
    writer.put(*range(500), v=3)
    seen = writer.table.snapshot()
    [file] = seen.stable if layer == "stable" else seen.ingest
    path = Path(place.url, layer, file.path)
    whole = path.read_bytes()
    if damage == "a byte":
        hurt = bytearray(whole)
        hurt[len(whole) // 3] ^= 1
        path.write_bytes(bytes(hurt))
    else:
        path.write_bytes(whole[:-30] if damage == "its end" else b"")
    with pytest.raises(FileCorrupt, match=path.name) as caught:
        writer.table.drain(LEADER)
    assert "resync" in caught.value.hint
    path.write_bytes(whole)
    writer.table.drain(LEADER)
    assert rows_in(writer.table.read()) == writer.rows


def _cut(log: Path) -> None:
    newest = max(log.glob("*.json"))
    newest.write_bytes(newest.read_bytes()[:50])


def _emptied(log: Path) -> None:
    min(log.glob("*.json")).write_bytes(b"")


def _gap(log: Path) -> None:
    sorted(log.glob("*.json"))[1].unlink()


def _no_checkpoint(log: Path) -> None:
    DeltaTable(log.parent).create_checkpoint()
    for path in log.glob("*.checkpoint.parquet"):
        path.unlink()


LOGS = [_cut, _emptied, _gap, _no_checkpoint]


@pytest.mark.parametrize("layer", ["stable", "ingest-h"])
@pytest.mark.parametrize("damage", LOGS)
def test_a_damaged_log_is_said(place: Place, layer: str, damage: Callable[[Path], None]) -> None:
    writer = _writer(place)
    for n in range(2):
        writer.put(n)
        writer.table.drain(LEADER)
    damage(Path(place.url, layer, "_delta_log"))
    with pytest.raises(FileCorrupt) as caught:
        LayeredTable.open(place, "h")
    assert "resync" in caught.value.hint


@pytest.mark.parametrize("layer", ["stable", "ingest-h"])
@pytest.mark.parametrize("damage", LOGS)
def test_a_table_whose_log_is_damaged_can_be_ended(
    tmp_path: Path, layer: str, damage: Callable[[Path], None]
) -> None:
    """Nothing can be written into it any more, nor that it is dead."""
    lake = Lake(Place(str(tmp_path), "lake"))
    place = lake.place("public.t", 7)
    writer = _writer(place)
    for n in range(2):
        writer.put(n)
        writer.table.drain(LEADER)
    damage(Path(place.url, layer, "_delta_log"))
    lake.end("public.t", 7)
    with pytest.raises(TableDead):
        LayeredTable.open(place, "h")
    with pytest.raises(NotFound):
        lake.live("public.t")
    # Those who read it go on, as with any that has died, and no end that is told again is younger.
    assert "retention" in delete(lake, "public.t", 7, 86_400).waits_for
    [grave] = Path(tmp_path, "_lockgate", "graves").rglob("7")
    age(grave.parent, 86_400)
    with contextlib.suppress(TableDead):
        lake.end("public.t", 7)
    assert delete(lake, "public.t", 7, 86_400).files, "and then its files go"
    assert not Path(place.url).exists()


def test_of_a_table_with_a_damaged_log_what_has_begun_to_go_goes_on_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = Lake(Place(str(tmp_path), "lake"))
    place = lake.place("public.t", 7)
    _writer(place).put(1)
    _cut(Path(place.url, "stable", "_delta_log"))
    lake.end("public.t", 7)

    def die(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(deleting, "_remove_file", die)
        with pytest.raises(KeyboardInterrupt):
            delete(lake, "public.t", 7, 0)
    with contextlib.suppress(TableDead):
        lake.end("public.t", 7)
    assert delete(lake, "public.t", 7, 86_400).files
    assert not Path(place.url).exists()


@pytest.mark.parametrize("left", [None, 0, 100])
def test_a_damaged_checkpoint_is_said_and_can_be_done_without(
    place: Place, left: int | None
) -> None:
    writer = _writer(place)
    for key in range(50):
        writer.put(key)
    [checkpoint] = Path(place.url, "ingest-h", "_delta_log").glob("*.checkpoint.parquet")
    if left is None:
        checkpoint.unlink()
    else:
        checkpoint.write_bytes(checkpoint.read_bytes()[:left])
    with pytest.raises(FileCorrupt):
        LayeredTable.open(place, "h")
    checkpoint.with_name("_last_checkpoint").unlink()
    checkpoint.unlink(missing_ok=True)
    assert rows_in(LayeredTable.open(place, "h").read()) == writer.rows


# --- no room --------------------------------------------------------------------------------------


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    with small_disk(tmp_path / "disk", "4m") as disk:
        yield disk


def test_a_disk_that_is_full_stops_a_drain_and_loses_nothing(disk: SmallDisk) -> None:
    writer = _writer(Place(str(disk.path / "t"), "lake/public.t"))
    writer.put(*range(200))
    writer.table.drain(LEADER)
    writer.put(*range(0, 200, 2), v=1)
    disk.fill()
    for work in (lambda: writer.table.drain(LEADER), lambda: writer.table.kill(LEADER)):
        with pytest.raises(StorageFull) as caught:
            work()
        assert "free some space" in caught.value.hint
    assert rows_in(writer.table.read()) == writer.rows, "it is still read"
    disk.clear()
    assert rows_in(LayeredTable.open(writer.table.place, "h").read()) == writer.rows
    writer.table.drain(LEADER)
    assert rows_in(writer.table.read()) == writer.rows


@pytest.mark.parametrize(
    ("writes", "name"),
    [(parts.pa.ipc, "new_stream"), (files.pq, "ParquetWriter")],
    ids=["states", "rewritten file"],
)
def test_no_room_at_any_write_of_a_drain_is_said_the_same(
    place: Place, monkeypatch: pytest.MonkeyPatch, writes: Any, name: str
) -> None:
    writer = _writer(place)
    writer.put(1, 2)

    def full(*_: Any, **__: Any) -> Any:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(writes, name, full)
        with pytest.raises(StorageFull):
            writer.table.drain(LEADER)
    writer.table.drain(LEADER)
    assert rows_in(writer.table.read()) == writer.rows


# --- no permission --------------------------------------------------------------------------------


def test_a_directory_without_permission_is_said_and_all_is_there_after() -> None:
    # Not below pytest's directory, which is its user's alone.
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        place = Place(str(folder / "t"), "lake/public.t")
        writer = _writer(place)
        writer.put(1, 2)
        _grant(folder, writable=False)
        assert _drained_by_another(place) == "missing-privilege"
        _grant(folder, writable=True)
        assert _drained_by_another(place) == ""
        assert rows_in(writer.table.read()) == writer.rows
        assert not LayeredTable.open(place, "h").snapshot().ingest


def _grant(folder: Path, *, writable: bool) -> None:
    for path in [folder, *folder.rglob("*")]:
        mode = stat.S_IRWXU | stat.S_IRWXG | stat.S_IRWXO
        path.chmod(mode if writable else mode & ~0o222)


def _drained_by_another(place: Place) -> str:
    """The code of what went wrong for somebody who is not root."""
    context = multiprocessing.get_context("spawn")
    answers: Queue[str] = context.Queue()
    child = context.Process(target=_drain_as_nobody, args=(place.url, answers))
    child.start()
    try:
        return answers.get(timeout=120)
    finally:
        child.join(60)


def _drain_as_nobody(url: str, answers: "Queue[str]") -> None:
    # Once before: what is imported late lies where nobody may read.
    table = LayeredTable.open(Place(url, "lake/public.t"), "h")
    pa.table({"a": [1]}).filter([True])
    table.read()
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)
    try:
        LayeredTable.open(Place(url, "lake/public.t"), "h").drain(LEADER)
        answers.put("")
    except LockgateError as error:
        answers.put(error.code)


# --- alone ----------------------------------------------------------------------------------------


def test_the_other_tables_go_on(tmp_path: Path) -> None:
    lost, sound = (_writer(Place(str(tmp_path / name), name)) for name in ("lost", "sound"))
    for writer in (lost, sound):
        writer.land((PUT, 1, "a", 1))
        writer.table.drain(LEADER)
        writer.put(1, v=2)
    for path in Path(lost.table.place.url, "stable").glob("*.parquet"):
        path.unlink()
    with pytest.raises(LockgateError):
        lost.table.drain(LEADER)
    assert sound.table.drain(LEADER) is not None
    assert rows_in(sound.table.read()) == sound.rows
