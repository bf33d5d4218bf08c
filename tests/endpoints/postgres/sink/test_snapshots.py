"""Which transactions a snapshot saw, from 32-bit ids."""

import numpy as np
import pytest

from lockgate.endpoints.postgres.sink.snapshots import BLIND, Snapshot

LAP = 2**32


def sees(text: str, *xids: int) -> list[bool]:
    return Snapshot.parse(text).sees(np.array([xid % LAP for xid in xids])).tolist()


def test_what_was_over_is_seen_and_what_ran_or_came_later_is_not() -> None:
    assert sees("10:20:12,15", 9, 10, 12, 14, 15, 19, 20, 21) == [
        *(True, True, False, True, False, True, False, False)
    ]


def test_a_snapshot_without_running_transactions() -> None:
    assert sees("20:20:", 19, 20) == [True, False]


def test_the_blind_snapshot_sees_no_transaction() -> None:
    assert not any(sees(BLIND, 0, 1, 3, 740, 2**31 - 1, 2**31, 2**31 + 1, LAP - 1))


@pytest.mark.parametrize("xmax", [2**32 + 5, 2**32 - 5, 7 * 2**32, 2**40 + 2**31])
def test_ids_are_meant_to_be_near_the_snapshot(xmax: int) -> None:
    text = f"{xmax - 3}:{xmax}:{xmax - 2}"
    near = [xmax - 2**30, xmax - 3, xmax - 2, xmax - 1, xmax, xmax + 2**30]
    assert sees(text, *near) == [True, True, False, True, False, False]


def test_ids_are_widened_to_what_they_were() -> None:
    snapshot = Snapshot(5, 2**33 + 10)
    wide = [2**33 + 10, 2**33 - 1, 2**33 + 2**31, 2**33 + 11]
    narrow = np.array([x % LAP for x in wide])
    assert snapshot.widened(narrow).tolist() == wide


@pytest.mark.parametrize("text", ["", "1:2", "a:b:c", "1:2:3:4", "1:2:x"])
def test_what_is_no_snapshot_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a snapshot"):
        Snapshot.parse(text)
