"""The phases of a failover add up, and are read from logs as they are written."""

import datetime
import json

import pytest

from bench.rig.phases import PHASES, Moments, durations, first_line

KILLED = datetime.datetime(2030, 1, 1, 12, 0, 0, tzinfo=datetime.UTC)


def test_phases_add_up_to_the_whole() -> None:
    found = durations(Moments(9.0, 9.5, 9.7, 10.0, 10.5, 10.4, 12.0))
    assert list(found) == list(PHASES)
    assert sum(found.values()) == pytest.approx(12.0)
    assert found["capture takes the slot"] == 0.0  # it was there before the last span


def test_a_phase_that_was_not_needed_takes_no_time() -> None:
    found = durations(Moments(9.0, None, 9.7, 10.0, None, None, 12.0))
    assert found["new coordinator"] == found["spans claimed"] == 0.0
    assert found["first rows"] == pytest.approx(2.0)


def test_rows_that_come_first_end_it_all() -> None:
    found = durations(Moments(9.0, None, 9.7, 10.0, None, None, 0.2))
    assert sum(found.values()) == pytest.approx(0.2)


def _line(event: str, second: int, **more: str) -> str:
    at = KILLED + datetime.timedelta(seconds=second)
    return json.dumps({"event": event, "timestamp": at.isoformat(), **more})


def test_the_first_line_after_the_kill_counts() -> None:
    logs = [
        "\n".join([_line("owns the feed", -1, feed="a"), "owns the feed: no JSON"]),
        "\n".join([_line("owns the feed", 3, feed="b"), _line("owns the feed", 5, feed="a")]),
    ]
    assert first_line(logs, "owns the feed", KILLED, feed="a") == 5.0
    assert first_line(logs, "owns the feed", KILLED, feed="c") is None
