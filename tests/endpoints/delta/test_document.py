"""Documents in a lake: one change at a time, whoever makes it."""

import errno
import multiprocessing
import os
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError

from lockgate.endpoints.delta import document
from lockgate.endpoints.delta.document import Document
from lockgate.endpoints.delta.faults import FileCorrupt
from lockgate.endpoints.delta.files import write_file
from lockgate.endpoints.delta.head import Head, LakeHead
from lockgate.endpoints.delta.place import Place
from lockgate.endpoints.delta.store_time import Found, files_in
from lockgate.model.errors import (
    EndpointUnavailable,
    LockgateError,
    ObjectMissing,
    StorageFull,
)
from lockgate.model.lake import Leadership
from lockgate.model.value import Value
from tests.support.lake_files import age, data_files


class Counter(Value, frozen=True):
    count: int = 0


def _document(directory: Path) -> Document[Counter]:
    return Document(Place(str(directory), "counter"), Counter, Counter())


def _add(directory: Path, times: int) -> None:
    document = _document(directory)
    for _ in range(times):
        document.change(lambda counter: Counter(counter.count + 1))


def test_it_says_what_was_written_last_to_whoever_asks(tmp_path: Path) -> None:
    one, two = _document(tmp_path / "d"), _document(tmp_path / "d")
    assert two.read() == Counter()
    one.change(lambda _: Counter(1))
    assert two.read() == Counter(1)
    two.change(lambda counter: Counter(counter.count + 1))
    assert one.read() == two.read() == Counter(2)


def test_a_step_that_raises_leaves_it_as_it_was(tmp_path: Path) -> None:
    document = _document(tmp_path / "d")
    document.change(lambda _: Counter(1))

    def refuse(_: Counter) -> Counter:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        document.change(refuse)
    assert document.read() == Counter(1)


@pytest.mark.parametrize("kind", [FileCorrupt, ObjectMissing])
def test_that_something_else_is_damaged_is_not_said_of_the_document(
    tmp_path: Path, kind: type[LockgateError]
) -> None:
    """A step may look at other things of the lake; and while it does, another may change this."""
    document = _document(tmp_path)
    asked = 0

    def step(_: Counter) -> Counter:
        nonlocal asked
        asked += 1
        if asked == 1:
            _add(tmp_path, 1)
        raise kind("a file of a table is damaged", object_="public.t", hint="copy it anew")

    with pytest.raises(kind) as caught:
        document.change(step)
    assert (caught.value.object, caught.value.hint) == ("public.t", "copy it anew")
    assert caught.value.__cause__ is None
    assert asked == 1
    assert document.read().count == 1


def test_the_same_state_again_writes_nothing(tmp_path: Path) -> None:
    document = _document(tmp_path / "d")
    document.change(lambda _: Counter(1))
    before = sorted((tmp_path / "d").rglob("*"))
    document.change(lambda counter: counter)
    assert sorted((tmp_path / "d").rglob("*")) == before


def test_of_what_was_replaced_no_file_is_left(tmp_path: Path) -> None:
    _add(tmp_path / "d", 5)
    assert len(list((tmp_path / "d").glob("*.parquet"))) == 1


def test_a_commit_that_landed_and_was_told_to_clash_is_kept_and_not_done_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = _document(tmp_path / "d")
    document.change(lambda _: Counter(1))
    write = DeltaTable.create_write_transaction

    def land_and_deny(*args: Any, **named: Any) -> None:
        monkeypatch.undo()
        write(*args, **named)
        raise CommitFailedError("the answer was lost, and the second try met the first")

    monkeypatch.setattr(DeltaTable, "create_write_transaction", land_and_deny)
    assert document.change(lambda counter: Counter(counter.count + 1)) == Counter(2)
    assert document.read() == _document(tmp_path / "d").read() == Counter(2)
    assert len(list((tmp_path / "d").glob("*.parquet"))) == 1


def _fail_to_commit(patched: pytest.MonkeyPatch, error: OSError) -> None:
    """Nothing of it comes to the store."""

    def fail(*_: Any, **__: Any) -> None:
        raise error

    patched.setattr(DeltaTable, "create_write_transaction", fail)


def test_a_change_that_the_store_refuses_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _add(tmp_path / "d", 1)
    before = data_files(tmp_path / "d")
    with monkeypatch.context() as patched:
        _fail_to_commit(patched, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
        with pytest.raises(StorageFull):
            _add(tmp_path / "d", 1)
    assert data_files(tmp_path / "d") == before
    assert _document(tmp_path / "d").read() == Counter(1)


def test_a_change_that_may_be_there_keeps_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _add(tmp_path / "d", 1)
    with monkeypatch.context() as patched:
        _fail_to_commit(patched, OSError(errno.EIO, "the connection was lost"))
        with pytest.raises(EndpointUnavailable):
            _add(tmp_path / "d", 1)
    assert len(data_files(tmp_path / "d")) == 2
    _add(tmp_path / "d", 1)
    assert _document(tmp_path / "d").read() == Counter(2)


def _left_over(directory: Path) -> tuple[str, str]:
    """An old file that nobody knows of, and a young one."""
    place = Place(str(directory), "counter")
    rows = pa.table({"state": [b""]}, schema=document._SCHEMA)
    old = write_file(place, rows, []).path
    age(directory, 30 * 86_400)
    return old, write_file(place, rows, []).path


def test_what_was_left_over_goes_once_it_is_old_with_the_first_change_of_another(
    tmp_path: Path,
) -> None:
    """A document that says who leads is hardly ever changed."""
    _add(tmp_path / "d", 1)
    old, young = _left_over(tmp_path / "d")
    _add(tmp_path / "d", 1)
    assert {old, young} & data_files(tmp_path / "d") == {young}
    assert len(data_files(tmp_path / "d")) == 2
    assert _document(tmp_path / "d").read() == Counter(2)


def test_who_changes_it_for_long_looks_for_that_from_time_to_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(document, "_TIDY_EVERY", 4)
    mine = _document(tmp_path / "d")
    mine.change(lambda _: Counter(1))
    old, young = _left_over(tmp_path / "d")
    mine.change(lambda _: Counter(2))
    mine.change(lambda _: Counter(3))
    assert {old, young} < data_files(tmp_path / "d")
    mine.change(lambda _: Counter(4))
    assert {old, young} & data_files(tmp_path / "d") == {young}
    assert _document(tmp_path / "d").read() == Counter(4)


def test_what_seems_left_over_and_comes_to_be_the_state_meanwhile_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Listed before its commit, and the clock was wrong when it was written."""
    monkeypatch.setattr(document, "_TIDY_EVERY", 2)
    _add(tmp_path / "d", 1)

    def listed_before_another_commit(place: Place) -> list[Found]:
        monkeypatch.undo()
        mine = files_in(place)
        _add(tmp_path / "d", 1)
        return [*mine, *(msgspec.structs.replace(one, changed_s=1.0) for one in files_in(place))]

    monkeypatch.setattr(document, "files_in", listed_before_another_commit)
    _add(tmp_path / "d", 1)
    assert _document(tmp_path / "d").read() == Counter(3)


def test_no_change_of_several_processes_is_lost(tmp_path: Path) -> None:
    _document(tmp_path / "d").change(lambda _: Counter())
    spawn = multiprocessing.get_context("spawn")  # forked, delta-rs hangs
    writers = [spawn.Process(target=_add, args=(tmp_path / "d", 20)) for _ in range(3)]
    for one in writers:
        one.start()
    for one in writers:
        one.join(60)
        assert one.exitcode == 0
    assert _document(tmp_path / "d").read() == Counter(60)


def test_the_first_home_of_a_lake_leads_it_and_the_next_follows(tmp_path: Path) -> None:
    lake = Place(str(tmp_path), "lake")
    one, two = LakeHead(lake, "one"), LakeHead(lake, "two")
    one.join()
    two.join()
    assert one.token() is not None
    assert two.token() is None


def test_who_takes_part_in_a_lake_whose_leader_has_stepped_down_does_not_lead_it(
    tmp_path: Path,
) -> None:
    lake = Place(str(tmp_path), "lake")
    one, two = LakeHead(lake, "one"), LakeHead(lake, "two")
    one.give_up(one.join().epoch)
    assert one.join().leader == two.join().leader == ""
    assert two.read().epoch == 1


def test_who_takes_over_has_a_higher_token_than_whoever_led(tmp_path: Path) -> None:
    lake = Place(str(tmp_path), "lake")
    one, two = LakeHead(lake, "one"), LakeHead(lake, "two")
    one.join()
    before = one.token()
    assert two.take(1, 1, two.read().epoch) is not None
    after = two.token()
    assert before is not None
    assert after is not None
    assert after > before
    assert one.token() is None


def test_two_who_take_over_at_once_do_not_both_lead(tmp_path: Path) -> None:
    lake = Place(str(tmp_path), "lake")
    one, two = LakeHead(lake, "one"), LakeHead(lake, "two")
    one.join()
    seen = one.read().epoch
    assert two.take(1, 1, seen) is not None
    assert one.take(1, 1, seen) is None
    assert one.read() == Head(1, Leadership(seen + 1, "two", 1, 1), {"one": 1, "two": 2})


def test_who_was_deposed_gives_up_nothing_of_the_successor(tmp_path: Path) -> None:
    lake = Place(str(tmp_path), "lake")
    one, two = LakeHead(lake, "one"), LakeHead(lake, "two")
    mine = one.join().epoch
    two.take(1, 1, mine)
    one.give_up(mine)
    assert two.token() is not None
