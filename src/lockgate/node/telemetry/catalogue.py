"""Every metric of a node: its name, its kind, its labels, and what it means. As data.

One table, so that a name is written once, tests can hold the documentation, the dashboard and the
alert rules against it, and nobody adds a label with a thousand values in passing. Every series has
the label `node` besides. There is no label for tables or spans: a feed may have a hundred thousand.

    cluster-wide   told by the coordinator's node alone: state of feeds
    of the owner   told by the node that owns the feed: epoch, checkpoint, operators, barrier
    of the node    told by each node for what runs on it: add them up
"""

import enum
from typing import Final, NamedTuple

__all__ = ["METRICS", "Kind", "Metric"]


class Kind(enum.Enum):
    """As Prometheus has them."""

    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"


class Metric(NamedTuple):
    """One of them, under the name by which its samples are asked for."""

    name: str
    kind: Kind
    labels: tuple[str, ...]
    help: str


_G, _C, _H = Kind.GAUGE, Kind.COUNTER, Kind.HISTOGRAM

# fmt: off
METRICS: Final = (
    # --- the node
    Metric("lockgate_build_info", _G, ("version", "python"), "Always 1; which build runs."),
    Metric("lockgate_node_joined", _G, (), "1 while the node has a life in the cluster."),
    Metric("lockgate_node_incarnation", _G, (),
           "The present life of the node; each join raises it."),
    Metric("lockgate_node_coordinator", _G, (), "1 while this node is the coordinator."),
    Metric("lockgate_node_term", _G, (), "The term of the coordinator that this node knows."),
    Metric("lockgate_node_draining", _G, (), "1 while the node is being emptied, or is empty."),
    Metric("lockgate_node_members", _G, (),
           "Nodes whose lease runs, by the metastore's last word to this node."),
    Metric("lockgate_node_lease_seconds", _G, (),
           "Until the node stops all work if its lease is not renewed."),
    Metric("lockgate_node_dispatchers", _G, (),
           "Dispatchers on this node, those of triggers included."),
    Metric("lockgate_node_feeds_owned", _G, (), "Feeds whose owner is here."),
    Metric("lockgate_core_instructions_total", _C, ("kind",), "What the node's core wanted done."),
    Metric("lockgate_scrape_incomplete", _G, ("part",),
           "1 when a part of these figures (core, feeds) could not be had in time."),
    Metric("lockgate_keeper_worries", _G, (),
           "Feeds whose set-up or removal does not succeed; told by the coordinator's node."),
    # --- feeds, as people see them
    Metric("lockgate_feed_state", _G, ("feed", "state"),
           "1 for the state that the feed is in; told by the coordinator's node."),
    # --- feeds, of their owner
    Metric("lockgate_feed_epoch", _G, ("feed",), "The epoch of the feed's owner."),
    Metric("lockgate_feed_checkpoint_bytes", _G, ("feed",),
           "Everything up to this position (LSN) is applied."),
    Metric("lockgate_feed_operators", _G, ("feed", "kind"), "Changes of placement under way."),
    Metric("lockgate_feed_barrier_waiting", _G, ("feed",),
           "1 while a schema change waits to be written at the target."),
    # --- feeds, of each node that has dispatchers of theirs
    Metric("lockgate_feed_spans", _G, ("feed", "state"),
           "Spans whose dispatcher is on this node, by what it does."),
    Metric("lockgate_feed_lag_seconds", _G, ("feed",),
           "Age of the oldest captured change that is not applied here; 0 when there is none."),
    Metric("lockgate_feed_worries", _G, ("feed",),
           "Things here that keep the feed from being well."),
    Metric("lockgate_apply_rows_total", _C, ("feed",), "Changes that are at the target."),
    Metric("lockgate_apply_read_bytes_total", _C, ("feed",),
           "Of change-log files that had to be read to apply them."),
    Metric("lockgate_apply_round_seconds", _H, ("feed",),
           "How long rounds took: Spark jobs that applied changes."),
    Metric("lockgate_copy_done_rows", _G, ("feed",),
           "Rows that the first copy has brought, of the run under way or the last one."),
    Metric("lockgate_copy_expected_rows", _G, ("feed",),
           "Rows that it is expected to bring; an estimate by the source's statistics."),
    Metric("lockgate_copy_rows_total", _C, ("feed",), "Rows copied by runs that have ended."),
    Metric("lockgate_copy_bytes_total", _C, ("feed",), "Bytes copied by runs that have ended."),
    Metric("lockgate_errors_total", _C, ("feed", "code"),
           "What failed and was tried again, or ended a dispatcher; `bug` is a bug."),
    Metric("lockgate_fenced_total", _C, ("feed", "kind"),
           "Who was stopped by a fence: request (of a stale owner), owner (told so), dispatcher "
           "(by the target), capture (by the change log)."),
    # --- feeds, of the node that captures
    Metric("lockgate_feed_resolved_bytes", _G, ("feed",),
           "Everything up to this position (LSN) is captured."),
    Metric("lockgate_feed_resolved_timestamp_seconds", _G, ("feed",),
           "When the last captured transaction was committed, by the source's clock."),
    Metric("lockgate_capture_running", _G, ("feed",),
           "1 while changes are captured here, 0 while that is tried again."),
    Metric("lockgate_capture_changes_total", _C, ("feed",), "Changes in the change log."),
    Metric("lockgate_capture_transactions_total", _C, ("feed",),
           "Transactions that have come from the source."),
    Metric("lockgate_capture_dropped_changes_total", _C, ("feed",),
           "Changes that came again and were in the log already."),
    Metric("lockgate_capture_buffered_bytes", _G, ("feed",), "Decoded, and in no file yet."),
    Metric("lockgate_changelog_segments_total", _C, ("feed",), "Files written to the change log."),
    Metric("lockgate_changelog_written_bytes_total", _C, ("feed",),
           "Bytes written to the change log."),
    Metric("lockgate_source_retained_wal_bytes", _G, ("feed",),
           "WAL that the source keeps for the feed."),
    Metric("lockgate_source_retained_wal_limit_bytes", _G, ("feed",),
           "At so much the feed stops (wal_stop_bytes)."),
    Metric("lockgate_source_slot_state", _G, ("feed", "state"),
           "1 for what the source says of the slot: reserved, extended, unreserved, lost, "
           "unknown."),
    # --- lakes, told by the node that keeps them: the coordinator's
    Metric("lockgate_lake_role", _G, ("lake", "role"),
           "1 for what this installation is to the lake: follower, stepping-up, leader, "
           "stepping-down."),
    Metric("lockgate_lake_epoch", _G, ("lake",),
           "Under which this installation leads the lake; 0 while it does not."),
    Metric("lockgate_lake_tables", _G, ("lake", "state"),
           "Tables: live, draining, dead and not deleted yet."),
    Metric("lockgate_lake_troubled_tables", _G, ("lake",),
           "Tables for which something does not succeed; `lockgate lake list` says what."),
    Metric("lockgate_lake_ingest_rows", _G, ("lake",), "Changes that are not drained."),
    Metric("lockgate_lake_ingest_bytes", _G, ("lake",), "The size of their files."),
    Metric("lockgate_lake_stable_rows", _G, ("lake",), "Rows of the stable layers."),
    Metric("lockgate_lake_stable_bytes", _G, ("lake",), "The size of their files."),
    Metric("lockgate_lake_size_bytes", _G, ("lake",),
           "The size of all files of both layers, also of changes that are drained already."),
    Metric("lockgate_lake_undrained_seconds", _G, ("lake",),
           "How long the oldest change that is known of waits to be drained."),
    Metric("lockgate_lake_works_total", _C, ("kind", "outcome"),
           "Pieces of work on tables that have ended, by what they were and how they ended."),
    # --- diffs, of the node that works on them
    Metric("lockgate_diffs_running", _G, (), "Diffs that this node works on."),
    Metric("lockgate_diffs_total", _C, ("outcome",),
           "Diffs that ended here: equal, unequal, failed, left (another node goes on with it)."),
    Metric("lockgate_diff_rows_total", _C, (), "Rows of sources that were compared."),
    Metric("lockgate_diff_found_rows_total", _C, ("kind",),
           "Rows that were found to be missing or extra at a target, or different there."),
    # --- Spark
    Metric("lockgate_spark_running", _G, (), "1 while there is a Spark session."),
    Metric("lockgate_spark_starts_total", _C, (),
           "Sessions started by this node; more than one: it was lost."),
    # --- metastore and link
    Metric("lockgate_metastore_calls_total", _C, ("verb", "outcome"),
           "Calls of the core: ok, refused (a newer owner), failed."),
    Metric("lockgate_metastore_call_seconds", _H, ("verb",), "How long they took."),
    Metric("lockgate_link_messages_total", _C, ("peer", "result"),
           "Messages between nodes: sent, failed (may have arrived), dropped, received, strayed."),
    # --- the HTTP interface
    Metric("lockgate_api_requests_total", _C, ("operation", "status"),
           "Requests answered; `none`: no such path."),
    Metric("lockgate_api_request_seconds", _H, ("operation",), "How long they took."),
    # --- the process
    Metric("lockgate_process_cpu_seconds_total", _C, (), "Of the Python process, without Spark's."),
    Metric("lockgate_process_resident_memory_bytes", _G, (),
           "Of the Python process, without Spark's."),
    Metric("lockgate_process_threads", _G, (), "Of the Python process."),
    Metric("lockgate_process_start_time_seconds", _G, (), "When the node was made, since 1970."),
)
# fmt: on
