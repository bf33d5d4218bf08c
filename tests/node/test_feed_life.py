"""A feed's life beside the ordinary: removed half-way, configured anew, met by a namesake."""

import threading
from typing import Any

import pytest

from lockgate.endpoints.postgres.sink.fence import PostgresSink
from lockgate.model.errors import Transient, UsageError
from lockgate.model.feeds import FeedState
from lockgate.model.spans import TRIGGER
from lockgate.node.feed import setup
from lockgate.node.feed.guard import CaptureGuard
from lockgate.node.feed.targets import postgres
from lockgate.pipeline.jobs import SparkLost
from tests.support.feeds import Pair, level
from tests.support.waiting import until


def _table(pair: Pair) -> None:
    pair.at_source(
        "CREATE TABLE t (v int)",
        "ALTER TABLE t REPLICA IDENTITY FULL",
        "INSERT INTO t SELECT n FROM generate_series(1, 100) n",
    )


def test_a_removal_that_was_broken_off_is_finished_by_the_next_start(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It must not bring the feed back, and copy its rows a second time."""
    _table(pair)

    def broken(*_: Any) -> None:
        raise Transient("the source went away", object_="source", hint="")

    with pair.running() as runner:
        level(runner)
        with monkeypatch.context() as patch:
            patch.setattr(setup, "clear", broken)
            with pytest.raises(Transient):
                runner.remove()
    with pytest.raises(UsageError, match="finished now"), pair.running():
        pass
    assert pair.slots() == []
    assert pair.ask_target("SELECT count(*) FROM t") == [(100,)]


def test_limits_may_change_and_what_is_taken_may_not(pair: Pair) -> None:
    _table(pair)
    with pair.running(wal_stop_bytes=2**40) as runner:
        level(runner)
    with pair.running(wal_stop_bytes=2**41) as runner:
        level(runner)
    with pytest.raises(UsageError, match="another configuration"), pair.running(copy=False):
        pass


def test_a_namesake_from_another_home_is_refused(pair: Pair) -> None:
    _table(pair)
    with pair.running() as runner:
        level(runner)
    pair.home = pair.home.with_name("other")
    with pytest.raises(UsageError, match="another home"), pair.running():
        pass


def test_a_span_that_is_let_in_late_misses_nothing(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stands further back than the others, which have read the log before it came."""
    pair.at_source(
        "CREATE TABLE good (id int PRIMARY KEY)", "CREATE TABLE bad (id int PRIMARY KEY)"
    )
    with pair.running() as runner:
        level(runner)
        pair.at_target("ALTER TABLE bad ADD CONSTRAINT small CHECK (id < 10)")
        pair.at_source("INSERT INTO bad VALUES (1), (70)")
        pair.at_source("INSERT INTO good VALUES (1)")
        until(lambda: pair.ask_target("SELECT count(*) FROM good") == [(1,)], 60)
        until(lambda: runner.status().state is FeedState.WARNING, 60)
    pair.at_target("ALTER TABLE bad DROP CONSTRAINT small")
    claim, refused = PostgresSink.claim, []

    def late(sink: PostgresSink, feed: str, spec: Any, *args: Any) -> Any:
        if "bad" in spec.table and not refused:
            refused.append(True)
            raise Transient("the connection was reset", object_="target", hint="")
        return claim(sink, feed, spec, *args)

    monkeypatch.setattr(PostgresSink, "claim", late)
    with pair.running() as runner:
        level(runner)
        assert refused
        pair.assert_equal("public.bad", "public.good")


def test_a_batch_that_landed_unheard_is_not_applied_from_files_that_are_gone(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever did not hear the answer asks the sink where it stands."""
    _table(pair)
    applied = postgres.apply_items
    lost: list[bool] = []

    def unheard(*args: Any, **more: Any) -> Any:
        receipts = applied(*args, **more)
        if not lost and receipts:
            lost.append(True)
            for folder in (pair.home / "changelog").rglob("*.parquet"):
                folder.unlink()
            raise SparkLost("the driver is gone", object_="feed", hint="")
        return receipts

    with pair.running() as runner:
        level(runner)
        monkeypatch.setattr(postgres, "apply_items", unheard)
        pair.at_source("INSERT INTO t VALUES (1000)")
        level(runner)
        assert lost
        pair.at_source("INSERT INTO t VALUES (1001)")
        level(runner)
        pair.assert_equal("public.t")


def test_stopped_while_it_claims_it_captures_nothing(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    _table(pair)
    claim, claiming, go_on = PostgresSink.claim, threading.Event(), threading.Event()

    def slow(sink: PostgresSink, feed: str, spec: Any, *args: Any) -> Any:
        answer = claim(sink, feed, spec, *args)
        if spec.id == TRIGGER:
            claiming.set()
            go_on.wait(60)
        return answer

    close = CaptureGuard.close

    def closed(guard: CaptureGuard) -> None:
        close(guard)
        go_on.set()

    monkeypatch.setattr(PostgresSink, "claim", slow)
    monkeypatch.setattr(CaptureGuard, "close", closed)
    with pair.running() as runner:
        assert claiming.wait(60)
        runner.stop()
        assert not [each for each in threading.enumerate() if each.name.startswith("capture ")]
