"""Figures of one feed on this node: what its engine shows, and what its watch has counted."""

from collections import Counter
from typing import Final

from lockgate.model.ids import FeedId
from lockgate.node.feed.engine import FeedEngine
from lockgate.node.telemetry.families import Families
from lockgate.node.telemetry.feed import FeedWatch

__all__ = ["add_counts", "add_engine"]

SPAN_STATES: Final = ("starting", "copying", "running", "blocked", "held", "retrying")
SLOT_STATES: Final = ("reserved", "extended", "unreserved", "lost", "unknown")
FENCES: Final = ("request", "owner", "dispatcher", "capture")


def add_counts(out: Families, feed: FeedId, watch: FeedWatch) -> None:
    """What has been done since the process began."""
    applied, copied = watch.applied.snapshot(), watch.copied.snapshot()
    out.add("lockgate_apply_rows_total", applied.get("rows", 0), feed)
    out.add("lockgate_apply_read_bytes_total", applied.get("bytes", 0), feed)
    out.add("lockgate_apply_round_seconds", watch.rounds.snapshot(), feed)
    out.add("lockgate_copy_rows_total", copied.get("rows", 0), feed)
    out.add("lockgate_copy_bytes_total", copied.get("bytes", 0), feed)
    captured = watch.captured.total()
    out.add("lockgate_capture_changes_total", captured.rows, feed)
    out.add("lockgate_capture_transactions_total", captured.transactions, feed)
    out.add("lockgate_capture_dropped_changes_total", captured.dropped, feed)
    out.add("lockgate_changelog_segments_total", captured.segments, feed)
    out.add("lockgate_changelog_written_bytes_total", captured.bytes, feed)
    fenced = watch.fenced.snapshot()
    for kind in FENCES:
        out.add("lockgate_fenced_total", fenced.get(kind, 0), feed, kind)
    for code, count in watch.errors.snapshot().items():
        out.add("lockgate_errors_total", count, feed, code)


def add_engine(out: Families, feed: FeedId, engine: FeedEngine, watch: FeedWatch) -> None:
    """What is so now."""
    running = engine.view()
    states = Counter(one.state for one in running if not one.is_trigger)
    for state in SPAN_STATES:
        out.add("lockgate_feed_spans", states.get(state, 0), feed, state)
    out.add("lockgate_feed_lag_seconds", engine.applying.lag_s(), feed)
    parked = [*engine.capture.troubles, *(one.parked for one in running if one.parked)]
    out.add("lockgate_feed_worries", len({each.what for each in parked}), feed)
    copy = engine.copying.progress
    out.add("lockgate_copy_done_rows", copy.rows_done, feed)
    out.add("lockgate_copy_expected_rows", copy.rows_total, feed)
    if not any(one.is_trigger for one in running):
        return
    captured = watch.captured.total()
    out.add("lockgate_capture_running", float(engine.capture.trouble is None), feed)
    out.add("lockgate_capture_buffered_bytes", captured.buffered_bytes, feed)
    out.add("lockgate_feed_resolved_bytes", engine.capture.resolved, feed)
    if captured.commit_time is not None:
        out.add("lockgate_feed_resolved_timestamp_seconds", captured.commit_time / 1e6, feed)
    retained, limits = watch.retained, watch.wal_limits
    if retained is not None and limits is not None:
        out.add("lockgate_source_retained_wal_bytes", retained.bytes, feed)
        out.add("lockgate_source_retained_wal_limit_bytes", limits.stop_bytes, feed)
    if watch.slot:
        out.one_of("lockgate_source_slot_state", SLOT_STATES, watch.slot, feed)
