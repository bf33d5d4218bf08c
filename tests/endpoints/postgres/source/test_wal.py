"""Retained log is measured, warned about, and in the end a reason to stop."""

import pytest

from lockgate.endpoints.postgres.source import slot
from lockgate.endpoints.postgres.source.errors import SlotLost, WalLimitReached
from lockgate.endpoints.postgres.source.wal import (
    RetainedWal,
    WalLevel,
    WalLimits,
    judge,
    retained,
    stop_if_over,
)
from lockgate.model.errors import UsageError
from tests.support.changes import Place

MIB = 1 << 20
LIMITS = WalLimits(warn_bytes=10 * MIB, stop_bytes=20 * MIB)


def found(mib: float, status: str = "reserved", keep_mib: int | None = None) -> RetainedWal:
    keep = None if keep_mib is None else keep_mib * MIB
    return RetainedWal("lockgate_feed", int(mib * MIB), status, None, keep)


def test_what_is_written_is_retained_until_it_is_confirmed(here: Place) -> None:
    before = retained(here.connection, here.slot).bytes
    here.write(10_000)
    kept = retained(here.connection, here.slot)
    assert kept.bytes - before > 500_000
    assert (kept.status, kept.keep_bytes, kept.safe_bytes) == ("reserved", None, None)
    # The slot lets go of the log up to where the server last noted all running transactions.
    here.connection.execute("CHECKPOINT")
    slot.advance(here.connection, here.slot, here.end())
    assert retained(here.connection, here.slot).bytes < kept.bytes


def test_a_feed_stops_at_the_limit(here: Place) -> None:
    here.write(10_000)
    with pytest.raises(WalLimitReached) as caught:
        stop_if_over(retained(here.connection, here.slot), WalLimits(1, 100_000))
    assert caught.value.object == here.slot
    assert here.slot in caught.value.what
    assert "raise the limit" in caught.value.hint
    assert "remove the feed" in caught.value.hint


def test_a_lost_slot_retains_nothing_to_judge(here: Place) -> None:
    with pytest.raises(SlotLost):
        retained(here.connection, "lockgate_gone")


@pytest.mark.parametrize(
    ("wal", "level", "says"),
    [
        (found(9.9), WalLevel.FINE, ""),
        (found(10), WalLevel.WARN, "keeps 10.0 MiB"),
        (found(19.9), WalLevel.WARN, "keeps 19.9 MiB"),
        (found(20), WalLevel.STOP, "limit is 20.0 MiB"),
        (found(1, "extended"), WalLevel.FINE, ""),
        (found(1, "unreserved"), WalLevel.WARN, "next checkpoint"),
        (found(5, keep_mib=11), WalLevel.FINE, ""),
        (found(5, keep_mib=10), WalLevel.WARN, "gives slots up at 10.0 MiB"),
        (found(25, "unreserved", 1), WalLevel.STOP, "limit is 20.0 MiB"),
    ],
)
def test_how_bad_it_is(wal: RetainedWal, level: WalLevel, says: str) -> None:
    finding = judge(wal, LIMITS)
    assert finding.level is level
    assert says in finding.what
    assert bool(finding.hint) == (level is not WalLevel.FINE)


@pytest.mark.parametrize(("warn", "stop"), [(2, 1), (0, 1), (-1, 5)])
def test_limits_are_in_order(warn: int, stop: int) -> None:
    with pytest.raises(UsageError):
        WalLimits(warn, stop)
