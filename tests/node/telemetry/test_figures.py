"""The figures of a node tell what its feed does."""

import pytest

from lockgate.node.telemetry.catalogue import METRICS, Kind
from tests.node.telemetry.conftest import Story

ALONE = {"lockgate_link_messages_total"}
"""What a node without others has no figures of."""
LAKE = {name for metric in METRICS if "lake" in metric.labels for name in [metric.name]}
"""What a node without a lake has none of."""


def _names() -> set[str]:
    return {
        f"{metric.name}_count" if metric.kind is Kind.HISTOGRAM else metric.name
        for metric in METRICS
    }


def test_every_metric_has_samples_while_a_feed_runs(story: Story) -> None:
    seen = story.scrapes["mended"].names
    assert _names() - seen == ALONE | LAKE


def test_nothing_is_exported_that_is_not_in_the_catalogue(story: Story) -> None:
    ends = ("_bucket", "_sum", "_count")
    for scrape in story.scrapes.values():
        plain = {name for name in scrape.names if not name.endswith(ends)}
        assert plain <= _names()


def test_every_series_says_of_which_node_it_is(story: Story) -> None:
    for samples in story.scrapes["mended"].samples.values():
        assert all(labels["node"] == "one" for labels, _ in samples)


def test_rows_of_the_copy_and_changes_are_counted_apart(story: Story) -> None:
    copied, applied = story.scrapes["copied"], story.scrapes["applied"]
    assert copied.value("lockgate_copy_rows_total", feed="feed") == 500
    assert copied.value("lockgate_copy_done_rows", feed="feed") == 500
    assert copied.value("lockgate_apply_rows_total", feed="feed") == 0
    assert applied.value("lockgate_apply_rows_total", feed="feed") == 40
    assert applied.value("lockgate_capture_changes_total", feed="feed") == 40


@pytest.mark.parametrize(
    "name",
    [
        "lockgate_apply_read_bytes_total",
        "lockgate_apply_round_seconds_count",
        "lockgate_apply_round_seconds_sum",
        "lockgate_capture_transactions_total",
        "lockgate_changelog_segments_total",
        "lockgate_changelog_written_bytes_total",
        "lockgate_feed_checkpoint_bytes",
        "lockgate_feed_resolved_bytes",
    ],
)
def test_what_is_done_makes_it_rise(story: Story, name: str) -> None:
    before = story.scrapes["copied"].value(name, feed="feed")
    after = story.scrapes["applied"].value(name, feed="feed")
    assert after > before


def test_the_checkpoint_is_never_ahead_of_what_is_captured(story: Story) -> None:
    for moment in ("copied", "applied", "altered", "mended", "resumed"):
        scrape = story.scrapes[moment]
        # The checkpoint was looked at first, so it may only be the older of the two.
        captured = scrape.value("lockgate_feed_resolved_bytes", feed="feed")
        assert scrape.value("lockgate_feed_checkpoint_bytes", feed="feed") <= captured


def test_the_state_of_a_feed_is_the_one_that_people_see(story: Story) -> None:
    states = {
        moment: scrape.one_of("lockgate_feed_state", feed="feed")
        for moment, scrape in story.scrapes.items()
        if moment != "removed"
    }
    assert states == {
        "copied": "normal",
        "applied": "normal",
        "altered": "normal",
        "refused": "warning",
        "mended": "normal",
        "paused": "stopped",
        "resumed": "normal",
    }


def test_a_refused_row_is_an_error_with_its_code_and_a_span_that_retries(story: Story) -> None:
    before, refused = story.scrapes["altered"], story.scrapes["refused"]
    assert before.all("lockgate_errors_total", code="data-refused") == []
    assert refused.value("lockgate_errors_total", feed="feed", code="data-refused") >= 1
    assert refused.value("lockgate_feed_spans", feed="feed", state="retrying") == 1
    assert refused.value("lockgate_feed_worries", feed="feed") == 1
    assert refused.value("lockgate_feed_lag_seconds", feed="feed") > 0
    mended = story.scrapes["mended"]
    assert mended.value("lockgate_feed_spans", feed="feed", state="running") == 2
    assert mended.value("lockgate_feed_worries", feed="feed") == 0


def test_a_paused_feed_keeps_its_counts_and_has_no_present(story: Story) -> None:
    mended, paused = story.scrapes["mended"], story.scrapes["paused"]
    for name in ("lockgate_apply_rows_total", "lockgate_capture_changes_total"):
        assert paused.value(name, feed="feed") == mended.value(name, feed="feed")
    gone = ("lockgate_feed_lag_seconds", "lockgate_source_retained_wal_bytes")
    assert [paused.all(name) for name in gone] == [[], []]


def test_a_resumed_feed_has_a_higher_epoch_and_goes_on_counting(story: Story) -> None:
    mended, resumed = story.scrapes["mended"], story.scrapes["resumed"]
    epochs = [scrape.value("lockgate_feed_epoch", feed="feed") for scrape in (mended, resumed)]
    assert epochs[1] > epochs[0]
    counts = [
        scrape.value("lockgate_capture_changes_total", feed="feed") for scrape in (mended, resumed)
    ]
    assert counts[1] >= counts[0]


def test_a_removed_feed_has_no_state(story: Story) -> None:
    assert story.scrapes["removed"].all("lockgate_feed_state") == []


def test_the_slot_has_one_state_and_its_log_a_limit(story: Story) -> None:
    copied = story.scrapes["copied"]
    assert copied.one_of("lockgate_source_slot_state", feed="feed") == "reserved"
    kept = copied.value("lockgate_source_retained_wal_bytes", feed="feed")
    assert 0 <= kept < copied.value("lockgate_source_retained_wal_limit_bytes", feed="feed")


def test_a_lone_node_is_coordinator_with_a_lease(story: Story) -> None:
    copied = story.scrapes["copied"]
    assert copied.value("lockgate_node_joined") == 1
    assert copied.value("lockgate_node_coordinator") == 1
    assert copied.value("lockgate_node_members") == 1
    assert 0 < copied.value("lockgate_node_lease_seconds") <= 10
    assert copied.value("lockgate_node_dispatchers") == 3
    assert copied.all("lockgate_scrape_incomplete") == [0, 0]


def test_requests_are_counted_by_what_was_asked(story: Story) -> None:
    scrapes = len(story.scrapes)
    removed = story.scrapes["removed"]
    asked = removed.value("lockgate_api_requests_total", operation="metrics", status="200")
    assert asked >= scrapes - 1
    assert removed.value("lockgate_api_request_seconds_count", operation="metrics") == asked


def test_the_metastore_is_asked_and_answers(story: Story) -> None:
    copied, removed = story.scrapes["copied"], story.scrapes["removed"]
    for verb in ("renew", "commit"):
        before = copied.value("lockgate_metastore_calls_total", verb=verb, outcome="ok")
        after = removed.value("lockgate_metastore_calls_total", verb=verb, outcome="ok")
        assert after > before > 0
        assert removed.value("lockgate_metastore_call_seconds_count", verb=verb) >= after


def test_no_password_and_no_token_is_in_any_figure(story: Story) -> None:
    assert all(len(word) > 8 for word in story.secrets)
    for scrape in story.scrapes.values():
        assert not any(word in scrape.text for word in story.secrets)
