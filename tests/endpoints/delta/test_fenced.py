"""Only the newest owner commits, and nobody to a table that is dead (L5, L6)."""

import errno
import multiprocessing
import os
import shutil
import time
from multiprocessing.synchronize import Barrier
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from deltalake.transaction import AddAction

from lockgate.endpoints.delta.faults import faults
from lockgate.endpoints.delta.fenced import FencedTable, TableDead
from lockgate.endpoints.delta.marks import Marks, marks_of
from lockgate.endpoints.delta.place import Place
from lockgate.model.errors import (
    EndpointUnavailable,
    LockgateError,
    MissingPrivilege,
    NotFound,
    ObjectMissing,
    StaleOwner,
    StorageFull,
)
from lockgate.model.ids import Token

SCHEMA = pa.schema([("id", pa.int64()), ("epoch", pa.int64())])
FIRST, SECOND, THIRD = Token(1, 1, 1), Token(2, 1, 1), Token(2, 2, 1)


def _file(place: Place, name: str, *rows: tuple[int, int]) -> AddAction:
    path = Path(place.url, name)
    pq.write_table(
        pa.table({"id": [r[0] for r in rows], "epoch": [r[1] for r in rows]}, schema=SCHEMA), path
    )
    return AddAction(name, path.stat().st_size, {}, 0, True, f'{{"numRecords": {len(rows)}}}')


def _rows(place: Place) -> list[tuple[int, int]]:
    table = DeltaTable(place.url).to_pyarrow_table()
    return sorted(zip(*(table[name].to_pylist() for name in ("id", "epoch")), strict=True))


def test_rows_and_position_land_together(place: Place) -> None:
    table = FencedTable.create(place, SCHEMA, FIRST)
    assert table.look() == Marks(0, FIRST)
    landed = table.commit(FIRST, lambda _: [_file(place, "a.parquet", (1, 1))], position=7)
    assert landed == Marks(1, FIRST, 7)
    assert _rows(place) == [(1, 1)]


def test_a_commit_without_a_position_keeps_it(place: Place) -> None:
    table = FencedTable.create(place, SCHEMA, FIRST, 5)
    assert table.commit(FIRST, lambda _: ()).position == 5
    assert table.claim(SECOND).position == 5


def test_what_is_sound_is_said_while_somebody_shortens_the_log(place: Place) -> None:
    table = FencedTable.create(place, SCHEMA, FIRST)
    for _ in range(3):
        table.commit(FIRST, lambda _: ())
    fresh = FencedTable.open(place)
    fresh.look()
    Path(place.url, "_delta_log", f"{3:020}.json").unlink()
    with pytest.raises(DeltaError):
        marks_of(fresh.handle)
    assert fresh.sound_at == 3


@pytest.mark.parametrize("newer", [SECOND, THIRD, Token(1, 1, 2)])
def test_whoever_had_it_before_commits_nothing(place: Place, newer: Token) -> None:
    old = FencedTable.create(place, SCHEMA, FIRST)
    old.look()
    FencedTable.open(place).claim(newer)
    for handle in (old, FencedTable.open(place)):  # a fresh handle is no way around
        with pytest.raises(StaleOwner, match="owns the table now"):
            handle.commit(FIRST, lambda _: [_file(place, "late.parquet", (1, 1))])
        with pytest.raises(StaleOwner):
            handle.claim(FIRST)
    assert _rows(place) == []


def test_a_position_never_goes_back(place: Place) -> None:
    table = FencedTable.create(place, SCHEMA, FIRST, 20)
    assert table.commit(FIRST, lambda _: (), position=10).position == 20


@pytest.mark.parametrize("token", [FIRST, SECOND])
def test_a_table_that_nobody_owns_is_claimed_first(place: Place, token: Token) -> None:
    DeltaTable.create(place.url, SCHEMA)  # as other programs make them
    table = FencedTable.open(place)
    with pytest.raises(StaleOwner):
        table.commit(token, lambda _: ())
    assert table.claim(token).token == token


@pytest.mark.parametrize(
    ("number", "error"),
    [
        (errno.EACCES, MissingPrivilege),
        (errno.ENOSPC, StorageFull),
        (errno.ENOENT, ObjectMissing),
        (errno.EIO, EndpointUnavailable),
    ],
)
def test_what_a_file_system_says_has_a_name(
    place: Place, number: int, error: type[LockgateError]
) -> None:
    with pytest.raises(error, match="lake/public"), faults("write", place):
        raise OSError(number, os.strerror(number))


def test_an_owner_that_did_not_claim_commits_nothing(place: Place) -> None:
    table = FencedTable.create(place, SCHEMA, FIRST)
    with pytest.raises(StaleOwner):
        table.commit(SECOND, lambda _: ())


def test_claimed_between_the_look_and_the_commit_it_is_compared_again(place: Place) -> None:
    table = FencedTable.create(place, SCHEMA, FIRST)
    asked = []

    def actions(marks: Marks) -> list[AddAction]:
        asked.append(marks.token)
        FencedTable.open(place).claim(SECOND)
        return [_file(place, "late.parquet", (1, 1))]

    with pytest.raises(StaleOwner):
        table.commit(FIRST, actions)
    assert asked == [FIRST]
    assert _rows(place) == []


def test_to_a_dead_table_nobody_commits(place: Place) -> None:
    table = FencedTable.create(place, SCHEMA, FIRST)
    other = FencedTable.open(place)
    assert other.kill(FIRST).dead
    for token in (FIRST, SECOND):
        with pytest.raises(TableDead):
            table.commit(token, lambda _: ())
        with pytest.raises(TableDead):
            table.claim(token)
    assert other.kill(SECOND) == Marks(1, FIRST, dead=True), "killed once"


def test_a_stale_owner_kills_nothing(place: Place) -> None:
    FencedTable.create(place, SCHEMA, SECOND)
    with pytest.raises(StaleOwner):
        FencedTable.open(place).kill(FIRST)
    assert not FencedTable.open(place).look().dead


def test_made_twice_it_is_opened(place: Place) -> None:
    FencedTable.create(place, SCHEMA, FIRST).commit(FIRST, lambda _: (), position=3)
    assert FencedTable.create(place, SCHEMA, SECOND).look() == Marks(1, FIRST, 3)


def test_a_table_that_is_not_there_is_said(place: Place) -> None:
    with pytest.raises(NotFound, match="no such table"):
        FencedTable.open(place)


def test_a_directory_that_was_deleted_by_hand_is_said(place: Place) -> None:
    table = FencedTable.create(place, SCHEMA, FIRST)
    table.commit(FIRST, lambda _: ())
    shutil.rmtree(place.url)
    with pytest.raises((ObjectMissing, NotFound)):
        table.commit(FIRST, lambda _: ())
    assert not Path(place.url).exists(), "it is not made anew behind anybody's back"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_directory_without_permission_is_said(place: Place) -> None:
    table = FencedTable.create(place, SCHEMA, FIRST)
    Path(place.url, "_delta_log").chmod(0o500)
    with pytest.raises(MissingPrivilege):
        table.commit(FIRST, lambda _: ())


# --- several processes ----------------------------------------------------------------------------


def _fight(url: str, me: int, all_here: Barrier) -> None:
    """Take the table again and again, and commit until somebody else has taken it."""
    place = Place(url, "fight")
    table = FencedTable.open(place)
    number = 0
    all_here.wait(120)  # on a busy machine one would be done before another has begun
    until_s = time.monotonic() + 6
    while time.monotonic() < until_s:
        try:
            epoch = table.look().token.epoch + 1
            token = Token(epoch, 1, me)
            table.claim(token)
            for _ in range(5):
                number += 1
                name = f"{me}-{number}.parquet"
                table.commit(token, lambda _, n=name, e=epoch: [_file(place, n, (me, e))])
        except StaleOwner:
            continue


@pytest.mark.slow
def test_processes_that_fight_commit_only_as_the_newest_owner(place: Place) -> None:
    """Along the log, tokens never go back: no stale owner came after its successor."""
    FencedTable.create(place, SCHEMA, FIRST)
    spawn = multiprocessing.get_context("spawn")  # forked, delta-rs hangs
    all_here = spawn.Barrier(3)
    fighters = [spawn.Process(target=_fight, args=(place.url, n, all_here)) for n in (1, 2, 3)]
    for one in fighters:
        one.start()
    for one in fighters:
        one.join(180)
        assert one.exitcode == 0
    seen: list[Token] = []
    owners: set[int] = set()
    last = FencedTable.open(place).look().version
    for version in range(last + 1):
        token = _marks_at(place, version)
        assert not seen or token >= seen[-1], f"{token} after {seen[-1]}"
        seen.append(token)
        owners.add(token.incarnation)
    assert owners == {1, 2, 3}
    assert len(set(seen)) > 10, "they took turns"


def _marks_at(place: Place, version: int) -> Token:
    return marks_of(DeltaTable(place.url, version=version)).token
