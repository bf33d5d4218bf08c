"""How much of its log the source keeps for a feed's slot, and when that is too much.

A slot keeps the log from `restart` on, also while its feed is stopped or cannot keep up. That has
filled many a disk and stopped many a database. So there are two limits: at the first somebody is
warned; at the second the feed stops, and what it would take to free the log is said. Stopping
alone frees nothing: only whoever owns the data may decide that the feed is copied anew.
"""

import enum
from typing import Final

import psycopg

from lockgate.endpoints.postgres.faults import faults
from lockgate.endpoints.postgres.source import slot as slots
from lockgate.endpoints.postgres.source.errors import WalLimitReached
from lockgate.model.errors import UsageError
from lockgate.model.value import Value

__all__ = [
    "RetainedWal",
    "WalFinding",
    "WalLevel",
    "WalLimits",
    "judge",
    "retained",
    "stop_if_over",
]

_GIB: Final = 1 << 30


class WalLimits(Value, frozen=True):
    """When retained log is worth a warning, and when it stops the feed."""

    warn_bytes: int = 8 * _GIB
    stop_bytes: int = 32 * _GIB

    def __post_init__(self) -> None:
        if not 0 < self.warn_bytes <= self.stop_bytes:
            raise UsageError(
                "the limits for retained WAL are not in order",
                object_=f"warn {self.warn_bytes}, stop {self.stop_bytes}",
                hint="both are numbers of bytes, and the warning comes first",
            )


class RetainedWal(Value, frozen=True):
    """What the server keeps for a slot."""

    slot: str
    bytes: int
    """From the slot's restart position to the end of the log."""
    status: str
    safe_bytes: int | None
    """What may still be written before the server itself gives up the slot; None without limit."""
    keep_bytes: int | None
    """The server's own limit, `max_slot_wal_keep_size`; None when it keeps everything."""


class WalLevel(enum.Enum):
    """How bad it is."""

    FINE = "fine"
    WARN = "warn"
    STOP = "stop"


class WalFinding(Value, frozen=True):
    """What there is to say about a slot's log."""

    level: WalLevel
    what: str = ""
    hint: str = ""


_RETAINED: Final = """
SELECT (CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END
        - '0/0'::pg_lsn)::bigint,
       (SELECT setting::bigint FROM pg_settings WHERE name = 'max_slot_wal_keep_size')
"""


def retained(connection: psycopg.Connection, slot: str) -> RetainedWal:
    """What the server keeps for the slot; SlotLost when it is of no use any more."""
    state = slots.check(connection, slot)
    with faults(object_=slot, operation="measure retained WAL"):
        row = connection.execute(_RETAINED).fetchone()
    assert row is not None
    end, keep_mib = row
    return RetainedWal(
        slot=slot,
        bytes=max(0, end - state.restart),
        status=state.wal_status or "",
        safe_bytes=state.safe_wal_bytes,
        keep_bytes=None if keep_mib is None or keep_mib < 0 else keep_mib << 20,
    )


def judge(found: RetainedWal, limits: WalLimits) -> WalFinding:
    """What there is to say about it."""
    if found.bytes >= limits.stop_bytes:
        return WalFinding(
            WalLevel.STOP,
            f"the slot {found.slot} keeps {_shown(found.bytes)} of WAL at the source, the limit is "
            f"{_shown(limits.stop_bytes)}",
            "if the source's disk has room, raise the limit and resume: the feed catches up and "
            "the WAL goes; if it has not, remove the feed (that drops the slot and frees the WAL "
            "at once) and create it anew",
        )
    if found.status == "unreserved":
        return WalFinding(
            WalLevel.WARN,
            f"the slot {found.slot} has fallen behind max_slot_wal_keep_size and is lost at the "
            "source's next checkpoint",
            "raise max_slot_wal_keep_size now (a reload is enough), or let the feed catch up",
        )
    if found.keep_bytes is not None and 2 * found.bytes >= found.keep_bytes:
        return WalFinding(
            WalLevel.WARN,
            f"the slot {found.slot} keeps {_shown(found.bytes)} of WAL, and the source gives slots "
            f"up at {_shown(found.keep_bytes)} (max_slot_wal_keep_size)",
            "let the feed catch up, or raise max_slot_wal_keep_size: a slot that is given up "
            "means a copy anew",
        )
    if found.bytes >= limits.warn_bytes:
        return WalFinding(
            WalLevel.WARN,
            f"the slot {found.slot} keeps {_shown(found.bytes)} of WAL at the source",
            f"the feed stops at {_shown(limits.stop_bytes)}; see why it is slow or stopped, and "
            "whether a transaction has been open for long at the source",
        )
    return WalFinding(WalLevel.FINE)


def stop_if_over(found: RetainedWal, limits: WalLimits) -> WalFinding:
    """The finding, unless it is one to stop at: then WalLimitReached."""
    finding = judge(found, limits)
    if finding.level is WalLevel.STOP:
        raise WalLimitReached(
            finding.what, object_=found.slot, hint=finding.hint, operation="watch retained WAL"
        )
    return finding


def _shown(bytes_: int) -> str:
    """Bytes for people."""
    size = float(bytes_)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"
