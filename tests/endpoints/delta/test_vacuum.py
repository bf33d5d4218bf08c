"""A vacuum deletes what nobody needs, and never what a reader holds fast (L10)."""

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from lockgate.endpoints.delta import pins, vacuum
from lockgate.endpoints.delta.faults import FileCorrupt
from lockgate.endpoints.delta.fenced import TableDead
from lockgate.endpoints.delta.files import live_files, write_file
from lockgate.endpoints.delta.layered import LayeredTable
from lockgate.endpoints.delta.missing import FilesMoved
from lockgate.endpoints.delta.pins import Pinned, holding
from lockgate.endpoints.delta.place import Place
from lockgate.endpoints.delta.travel import snapshot_at
from lockgate.endpoints.delta.vacuum import Vacuumed
from lockgate.model.errors import DidNotLand
from lockgate.model.ids import Token
from tests.support.lake_files import age, data_files
from tests.support.lakes import DELETE, DISPATCHER, LEADER, ROWS, Writer, rows_in
from tests.support.waiting import until

DAY_S = 86_400.0
ROW = pa.table({"id": [9], "part": ["a"], "v": [1]}, schema=ROWS)


@pytest.fixture
def writer(place: Place) -> Writer:
    """Three states of one file each, of which the last is there."""
    writer = Writer(LayeredTable.create(place, "h", ROWS, ["id", "part"], LEADER, DISPATCHER))
    for v in range(3):
        _round(writer, v)
    return writer


def _round(writer: Writer, v: int) -> None:
    writer.put(1, 2, v=v)
    writer.table.drain(LEADER)
    writer.table.prune(DISPATCHER)


def _stable(place: Place) -> set[str]:
    return data_files(f"{place.url}/stable")


def _ingest(place: Place) -> set[str]:
    return data_files(f"{place.url}/ingest-h")


def test_old_files_of_both_layers_go_and_the_newest_state_stays(
    writer: Writer, place: Place
) -> None:
    before = [*Path(place.url).glob("*/*.parquet")]
    size = sum(path.stat().st_size for path in before)
    age(place.url, 30 * DAY_S)
    done = vacuum.vacuum(place)
    assert len(_stable(place)) == 1
    assert _ingest(place) == set()
    [left] = Path(place.url).glob("*/*.parquet")
    assert (done.files, done.bytes) == (5, size - left.stat().st_size)
    assert rows_in(writer.table.read()) == writer.rows
    assert vacuum.vacuum(place) == Vacuumed(), "there is nothing left to do"


def test_states_within_the_retention_stay_readable(writer: Writer, place: Place) -> None:
    age(place.url, 30 * DAY_S)
    then, seen = dict(writer.rows), writer.table.snapshot()
    _round(writer, 7)
    done = vacuum.vacuum(place)
    assert done.files == 5
    assert rows_in(writer.table.read(seen)) == then, "it was the newest state a moment ago"
    assert DeltaTable(f"{place.url}/stable", version=seen.stable_version).to_pyarrow_table()


def test_of_every_home_what_is_drained_is_taken_out_first_and_stays_readable(place: Place) -> None:
    """Nothing comes to them any more, and the leader prunes his own alone."""
    homes = [
        Writer(
            LayeredTable.create(place, home, ROWS, ["id", "part"], LEADER, DISPATCHER, settled=1)
        )
        for home in ("h", "other")
    ]
    for writer in homes:
        writer.put(1, 2)
    before = [writer.table.snapshot() for writer in homes]
    homes[0].table.drain(LEADER)
    age(place.url, 30 * DAY_S)
    assert vacuum.vacuum(place).files == 0, "a moment ago it was the newest state"
    for writer, seen in zip(homes, before, strict=True):
        writer.table.ingest.look()
        assert live_files(writer.table.ingest.handle) == []
        assert rows_in(writer.table.read(seen)) == writer.rows
        assert rows_in(writer.table.read(snapshot_at(writer.table, 10))) == {(1, "a"): 0}
    age(place.url, 30 * DAY_S)
    assert vacuum.vacuum(place).files == 2


def test_an_ingest_that_another_program_wrote_to_is_left_alone(place: Place) -> None:
    writer = Writer(LayeredTable.create(place, "h", ROWS, ["id", "part"], LEADER, DISPATCHER))
    writer.put(1, 2)
    writer.table.drain(LEADER)
    DeltaTable(f"{place.url}/ingest-h").delete("id = 1")
    version = writer.table.ingest.look().version
    vacuum.vacuum(place)
    assert writer.table.ingest.look().version == version


def _torn(log: Path) -> None:
    newest = max(log.glob("*.json"))
    newest.write_bytes(newest.read_bytes()[:40])


def _emptied(log: Path) -> None:
    max(log.glob("*.json")).write_bytes(b"")


def _no_checkpoint(log: Path) -> None:
    (log / "_last_checkpoint").write_text('{"version":0,"size":1}')


def _gone(log: Path) -> None:
    for path in log.glob("*"):
        path.unlink()


@pytest.mark.parametrize("harm", [_torn, _emptied, _no_checkpoint, _gone])
def test_a_damaged_ingest_is_left_alone_and_keeps_no_other_files(
    writer: Writer, place: Place, harm: Callable[[Path], None]
) -> None:
    """Of a feed that was removed, say."""
    others = Writer(LayeredTable.create(place, "gone", ROWS, ["id", "part"], LEADER, DISPATCHER))
    others.put(5)
    write_file(place.child("ingest-gone"), ROW, [])
    age(place.url, 30 * DAY_S)
    harm(Path(place.url, "ingest-gone", "_delta_log"))
    log = sorted(Path(place.url, "ingest-gone", "_delta_log").glob("*"))
    theirs = data_files(f"{place.url}/ingest-gone")
    assert vacuum.vacuum(place).files == 5
    assert len(_stable(place)) == 1
    assert data_files(f"{place.url}/ingest-gone") == theirs
    assert sorted(Path(place.url, "ingest-gone", "_delta_log").glob("*")) == log
    assert rows_in(writer.table.read()) == writer.rows


def test_an_ingest_that_is_damaged_before_its_files_go_keeps_them(
    writer: Writer, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    age(place.url, 30 * DAY_S)
    said = vacuum.condemn

    def condemn(*args: Any) -> str:
        _torn(Path(place.url, "ingest-h", "_delta_log"))
        return said(*args)

    monkeypatch.setattr(vacuum, "condemn", condemn)
    before = _ingest(place)
    assert vacuum.vacuum(place).files == 2
    assert _ingest(place) == before


def test_where_stable_is_damaged_nothing_goes_and_it_is_said(writer: Writer, place: Place) -> None:
    age(place.url, 30 * DAY_S)
    _torn(Path(place.url, "stable", "_delta_log"))
    before = _stable(place), _ingest(place)
    with pytest.raises(FileCorrupt):
        vacuum.vacuum(place)
    assert (_stable(place), _ingest(place)) == before


def test_what_was_just_written_is_not_taken_for_left_over(writer: Writer, place: Place) -> None:
    age(place.url, 30 * DAY_S)
    left_over = write_file(place.child("stable"), ROW, ["id"])
    age(f"{place.url}/stable", 30 * DAY_S)
    written = write_file(place.child("stable"), ROW, ["id"])
    (Path(place.url) / "work" / "states").write_bytes(b"x")
    vacuum.vacuum(place)
    assert written.path in _stable(place)
    assert left_over.path not in _stable(place)
    assert (Path(place.url) / "work" / "states").exists()
    age(f"{place.url}/work", 30 * DAY_S)
    assert vacuum.vacuum(place).files == 1, "the work of a drain that broke off"


def test_a_first_copy_that_takes_long_is_left_alone(place: Place) -> None:
    table = LayeredTable.create(place, "h", ROWS, ["id", "part"], LEADER, DISPATCHER)
    file = write_file(place.child("stable"), ROW, ["id"])
    age(place.url, 300 * DAY_S)
    assert vacuum.vacuum(place).files == 0
    table.land_copy(LEADER, [file], 5, 5)
    assert rows_in(table.read()) == {(9, "a"): 1}


def test_of_a_table_that_has_lost_all_its_rows_the_files_go_too(place: Place) -> None:
    """A queue is empty most of the time: its files would lie there for ever."""
    writer = Writer(
        LayeredTable.create(
            place, "h", ROWS, ["id", "part"], LEADER, DISPATCHER, settled=1, awaits_copy=True
        )
    )
    _round(writer, 1)
    writer.land((DELETE, 1, "a", None), (DELETE, 2, "a", None))
    writer.table.drain(LEADER)
    writer.table.prune(DISPATCHER)
    assert writer.table.snapshot().stable == ()
    age(place.url, 30 * DAY_S)
    assert vacuum.vacuum(place).files == 3
    assert _stable(place) == _ingest(place) == set()


def test_a_layer_that_another_program_wrote_to_is_left_alone(writer: Writer, place: Place) -> None:
    write_deltalake(f"{place.url}/stable", ROW, mode="overwrite")
    age(place.url, 30 * DAY_S)
    vacuum.vacuum(place)
    assert rows_in(writer.table.read()) == writer.rows


def test_the_log_of_a_layer_that_another_program_wrote_to_is_left_alone(
    writer: Writer, place: Place
) -> None:
    """Of all that it said the state before is wanted alone, which its newest checkpoint has not."""
    stable = f"{place.url}/stable"
    for _ in range(55):
        write_deltalake(stable, ROW, mode="append")
    age(place.url, 30 * DAY_S)
    assert vacuum.vacuum(place).log_files == 0
    table = LayeredTable.open(place, "h")
    assert rows_in(table.read()) == writer.rows
    DeltaTable(stable).restore(table.stable.look().foreign - 1)
    assert table.stable.look().foreign == 0
    assert rows_in(table.read()) == writer.rows
    # Undone, it is told by the same state, until there is a commit of ours.
    age(place.url, 30 * DAY_S)
    vacuum.vacuum(place)
    assert LayeredTable.open(place, "h").stable.look().foreign == 0


def test_what_another_program_did_without_harm_stays_without_harm(
    writer: Writer, place: Place
) -> None:
    for number in range(52):
        stable = DeltaTable(f"{place.url}/stable")
        stable.alter.set_table_properties({"delta.checkpointInterval": str(10 + number % 2)})
    age(place.url, 30 * DAY_S)
    vacuum.vacuum(place)
    table = LayeredTable.open(place, "h")
    assert table.stable.look().foreign == 0
    assert rows_in(table.read()) == writer.rows
    writer.put(7)
    assert table.drain(LEADER) is not None


def test_undone_after_it_got_a_new_owner_it_stays_undone(writer: Writer, place: Place) -> None:
    """The owner's commit is ours, and says by which state what came before it is judged."""
    stable = f"{place.url}/stable"
    sound = writer.table.stable.look().version
    for _ in range(55):
        write_deltalake(stable, ROW, mode="append")
    writer.table.stable.claim(Token(9, 1, 1))
    DeltaTable(stable).restore(sound)
    DeltaTable(stable).create_checkpoint()
    age(place.url, 30 * DAY_S)
    vacuum.vacuum(place)
    table = LayeredTable.open(place, "h")
    assert table.stable.look().foreign == 0
    assert rows_in(table.read()) == writer.rows


def test_a_dead_table_is_no_vacuum_s(writer: Writer, place: Place) -> None:
    writer.table.kill(LEADER)
    with pytest.raises(TableDead):
        vacuum.vacuum(place)


# --- pins -----------------------------------------------------------------------------------------


def test_a_pinned_reader_keeps_its_files_until_it_lets_go(writer: Writer, place: Place) -> None:
    writer.put(3)
    seen, then = writer.table.snapshot(), dict(writer.rows)
    with holding(place, "h", seen, "a reader"):
        _round(writer, 8)
        age(f"{place.url}/stable", 30 * DAY_S)
        age(f"{place.url}/ingest-h", 30 * DAY_S)
        assert vacuum.vacuum(place).files == 6
        assert rows_in(writer.table.read(seen)) == then
        assert vacuum.vacuum(place).files == 0
    assert vacuum.vacuum(place).files == 2, "one of stable, one of ingest"
    with pytest.raises(FilesMoved):
        writer.table.read(seen)
    assert not list(Path(place.url, "_pins").iterdir()), "nothing is left of it"


def test_the_pin_of_a_reader_that_died_lets_go_by_itself(writer: Writer, place: Place) -> None:
    Pinned.take(place, "h", writer.table.snapshot(), "a reader", hold_s=60)
    _round(writer, 8)
    age(place.url, 100)
    assert _round_of_vacuum(place) == 0, "half as long again it is waited for"
    age(place.url, 30)
    assert _round_of_vacuum(place) == 7
    age(place.url, 30 * DAY_S)
    vacuum.vacuum(place)
    assert not list(Path(place.url, "_pins").iterdir())


@pytest.mark.parametrize("said", [b"", b"\0" * 40], ids=["empty", "torn"])
@pytest.mark.parametrize("name", ["pin-1", "condemned-1", "half-1"])
def test_what_a_power_failure_left_of_a_pin_holds_nothing_and_goes(
    writer: Writer, place: Place, name: str, said: bytes
) -> None:
    left = Path(place.url, "_pins", name)
    left.parent.mkdir()
    left.write_bytes(said)
    with holding(place, "h", writer.table.snapshot(), "a reader"):
        vacuum.vacuum(place)
        assert left.exists(), "somebody may be about to write it"
    age(place.url, 30 * DAY_S)
    vacuum.vacuum(place)
    assert not list(left.parent.iterdir())


def test_half_a_note_of_a_layer_goes_too(writer: Writer, place: Place) -> None:
    halves = [Path(place.url, layer, "_lockgate_log", "half-1") for layer in ("stable", "ingest-h")]
    for half in halves:
        half.parent.mkdir(exist_ok=True)
        half.write_bytes(b"")
    vacuum.vacuum(place)
    assert all(half.exists() for half in halves)
    age(place.url, 30 * DAY_S)
    vacuum.vacuum(place)
    assert not any(half.exists() for half in halves)


def _round_of_vacuum(place: Place) -> int:
    """Of what a pin alone can hold."""
    if any(one for one in pins.live_pins(place, time.time())):
        return 0
    return vacuum.vacuum(place, retention_s=0, grace_s=0).files


def test_a_pin_is_renewed_while_it_is_held(writer: Writer, place: Place) -> None:
    with holding(place, "h", writer.table.snapshot(), "a reader", hold_s=0.3):
        [pin] = Path(place.url, "_pins").iterdir()
        age(pin.parent, 1_000)
        until(lambda: pin.stat().st_mtime > time.time() - 100, 60)


def test_what_is_gone_cannot_be_pinned(writer: Writer, place: Place) -> None:
    seen = writer.table.snapshot()
    _round(writer, 8)
    age(place.url, 30 * DAY_S)
    vacuum.vacuum(place)
    with pytest.raises(FilesMoved):
        Pinned.take(place, "h", seen, "a reader")
    assert not list(Path(place.url, "_pins").iterdir())


def test_pinned_after_it_was_condemned_is_refused(
    writer: Writer, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between what the vacuum says and its look at the pins: the reader gives way."""
    seen = writer.table.snapshot()
    _round(writer, 8)
    age(place.url, 30 * DAY_S)
    said = []

    def condemn(*arguments: object) -> str:
        name = pins.condemn(*arguments)  # type: ignore[arg-type]
        with pytest.raises(FilesMoved, match="being deleted"):
            Pinned.take(place, "h", seen, "a reader")
        said.append(name)
        return name

    monkeypatch.setattr(vacuum, "condemn", condemn)
    assert vacuum.vacuum(place).files == 7
    assert len(said) == 1


def test_pinned_before_it_was_condemned_is_kept(
    writer: Writer, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the vacuum's first look and before what it says: the vacuum gives way."""
    seen, then = writer.table.snapshot(), dict(writer.rows)
    _round(writer, 8)
    age(place.url, 30 * DAY_S)

    def condemn(*arguments: object) -> str:
        Pinned.take(place, "h", seen, "a reader")
        return pins.condemn(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(vacuum, "condemn", condemn)
    assert vacuum.vacuum(place).files == 6
    assert rows_in(writer.table.read(seen)) == then


def test_a_vacuum_that_was_killed_is_finished_by_the_next(
    writer: Writer, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    age(place.url, 30 * DAY_S)
    with monkeypatch.context() as patched:
        patched.setattr(vacuum, "delete_all", _die)
        with pytest.raises(KeyboardInterrupt):
            vacuum.vacuum(place)
    assert list(Path(place.url, "_pins").iterdir()), "what was condemned stays said"
    assert vacuum.vacuum(place).files == 5
    assert not list(Path(place.url, "_pins").iterdir())


def _die(*_: object) -> None:
    raise KeyboardInterrupt


# --- clocks, and the log --------------------------------------------------------------------------


def test_a_clock_that_was_set_back_does_not_make_old(writer: Writer, place: Place) -> None:
    """The commit that took a file out seems to be of 1970; the one before it was not."""
    seen, then = writer.table.snapshot(), dict(writer.rows)
    _round(writer, 8)
    newest = max(Path(place.url, "stable", "_delta_log").glob("*.json"))
    os.utime(newest, (1, 1))
    vacuum.vacuum(place, grace_s=0)
    assert rows_in(writer.table.read(seen)) == then


def test_a_clock_that_ran_ahead_keeps_only_what_it_stamped(writer: Writer, place: Place) -> None:
    age(place.url, 30 * DAY_S)
    ahead = time.time() + 300 * DAY_S
    commits = sorted(Path(place.url, "stable", "_delta_log").glob("*.json"))
    os.utime(commits[1], (ahead, ahead))
    vacuum.vacuum(place)
    assert len(_stable(place)) == 1, "that commit took nothing out"


def test_a_drain_whose_files_seemed_old_is_done_again(writer: Writer, place: Place) -> None:
    """The clock was wrong while it wrote, and a vacuum came in between: nothing is committed."""
    writer.put(1, v=9)
    plan = writer.table.plan_drain()
    assert plan is not None
    file = write_file(place.child("stable"), ROW, ["id"])
    os.utime(Path(place.url, "stable", file.path), (1, 1))
    vacuum.vacuum(place)
    with pytest.raises(DidNotLand, match="not there any more"):
        writer.table.land_drain(LEADER, plan, [file])
    assert rows_in(writer.table.read()) == writer.rows


def test_the_log_is_shortened_to_what_the_retention_needs(writer: Writer, place: Place) -> None:
    for _ in range(60):
        writer.put(5)
    age(place.url, 30 * DAY_S)
    for _ in range(60):
        writer.put(6)
    log = Path(place.url, "ingest-h", "_delta_log")
    done = vacuum.vacuum(place)
    assert done.log_files > 40
    assert len(list(log.glob("*.json"))) < 130 - 40
    old = LayeredTable.open(place, "h")
    assert rows_in(old.read()) == writer.rows
    assert rows_in(writer.table.read()) == writer.rows, "a handle from before"
    first_recent = writer.table.ingest.look().version - 60
    DeltaTable(f"{place.url}/ingest-h", version=first_recent)
    writer.put(7)
    old.drain(LEADER)
    assert rows_in(old.read()) == writer.rows
