"""What is due for a table, by its figures. Pure: what is known in, the next piece of work out.

Draining is due for any of four reasons: many changes, big ones, old ones, or so many of them
against what stable has that reading costs noticeably more. Work that failed is due again when its
rest is over, whatever the figures say by then.
"""

from lockgate.core.lake.entry import Entry, Life
from lockgate.model.ids import Millis, Token
from lockgate.model.lake import LakeSettings, WorkKind

__all__ = ["due", "pause_ms", "wants_drain"]

DOUBLINGS_MAX = 20
_BY_NEED = (WorkKind.DRAIN, WorkKind.COMPACT, WorkKind.VACUUM)


def due(entry: Entry, token: Token, now: Millis, settings: LakeSettings) -> WorkKind | None:
    """The work that the leader is to queue for the newest incarnation of a table, if any."""
    if entry.life is Life.DEAD:
        over = now >= entry.dead_at + settings.retention_ms
        return WorkKind.DELETE if over and not entry.rests(now, WorkKind.DELETE) else None
    if entry.life is not Life.LIVE:
        return None
    if entry.token != token:
        return None if entry.rests(now, WorkKind.CLAIM) else WorkKind.CLAIM
    for kind in _BY_NEED:
        if not entry.rests(now, kind) and _needs(entry, kind, now, settings):
            return kind
    return None


def _needs(entry: Entry, kind: WorkKind, now: Millis, settings: LakeSettings) -> bool:
    if kind in entry.failures:
        return True
    if kind is WorkKind.DRAIN:
        return wants_drain(entry, now, settings)
    if kind is WorkKind.COMPACT:
        return entry.figures.small_files >= settings.compact_files
    # A table without rows has files too: those that it had, and all of ingest's.
    return now >= entry.vacuumed_at + settings.vacuum_ms and entry.awaits is False


def wants_drain(entry: Entry, now: Millis, settings: LakeSettings) -> bool:
    """Enough has come in since the last drain."""
    figures = entry.figures
    rows = figures.ingest_rows
    if not rows:
        return False
    old = entry.oldest_at is not None and now >= entry.oldest_at + settings.drain_ms
    costly = rows >= settings.share_rows_min and rows >= figures.stable_rows * settings.drain_share
    return (
        old or costly or rows >= settings.drain_rows or figures.ingest_bytes >= settings.drain_bytes
    )


def pause_ms(entry: Entry, kind: WorkKind, settings: LakeSettings) -> Millis:
    """How long a kind of work rests that has failed once more: longer each time."""
    before = entry.failures.get(kind)
    doublings = min(before.attempts if before is not None else 0, DOUBLINGS_MAX)
    return min(settings.backoff_ms_min << doublings, settings.backoff_ms_max)
