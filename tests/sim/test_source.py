"""The fake source remembers exactly what was, at every position."""

from random import Random

import pytest

from lockgate.model.ddl import DdlKind
from lockgate.model.spans import WHOLE, KeyRange
from lockgate.sim.source import KEYS, Change, Source, keys_in


@pytest.fixture
def source() -> Source:
    return Source(Random(1), tables=3, ddl_share=0.1)


def test_equal_seeds_make_equal_logs() -> None:
    one, other = (Source(Random(7), 3, 0.1) for _ in range(2))
    one.grow(300)
    other.grow(300)
    assert one.ddls == other.ddls
    assert {t: log.changes for t, log in one.logs.items()} == {
        t: log.changes for t, log in other.logs.items()
    }


def test_the_past_of_a_row_is_kept(source: Source) -> None:
    source.head = 5
    source.logs["t00"].write(Change(3, 1, 3, 1))
    source.logs["t00"].write(Change(5, 1, None, 1))
    log = source.logs["t00"]
    assert [log.value_at(1, at) for at in range(6)] == [None, None, None, 3, 3, None]


def test_every_change_has_the_schema_of_its_moment(source: Source) -> None:
    source.grow(800)
    for log in source.logs.values():
        for change in log.changes:
            assert change.version == log.version_at(change.position) != 0


def test_a_name_that_comes_back_has_a_later_schema_and_no_rows(source: Source) -> None:
    source.logs["t00"].write(Change(1, 0, 1, 1))
    source.head = 1
    source.append(DdlKind.DROP, ("t00",))
    create = source.append(DdlKind.CREATE, ("t00",))
    log = source.logs["t00"]
    assert log.version_at(create.position) == 2
    assert log.value_at(0, create.position) is None


def test_an_entry_of_every_table_concerns_only_those_that_exist(source: Source) -> None:
    sync = source.append(DdlKind.SYNC, (), every_table=True)
    source.append(DdlKind.CREATE, ("t09",))
    assert source.next_ddl("t00", 0) == sync
    assert source.next_ddl("t09", 0) != sync
    assert source.next_ddl("t00", sync.position) is None
    assert source.next_ddl(None, 0) == sync


def test_changes_are_cut_by_position_and_range(source: Source) -> None:
    for position, key in ((1, 0), (2, 7), (3, 0), (4, 0)):
        source.logs["t00"].write(Change(position, key, position, 1))
    low = KeyRange(b"", b"\x80")
    assert [change.position for change in source.changes("t00", low, 1, 3)] == [3]
    assert [change.position for change in source.changes("t00", WHOLE, 1, 3)] == [2, 3]


def test_every_key_lies_in_exactly_one_part() -> None:
    parts = WHOLE.divided((b"\x10", b"\x55", b"\xf1"))
    assert sorted(key for part in parts for key in keys_in(part)) == list(range(len(KEYS)))
