"""What a step that waits for a feed tells: that it has failed, at once; or what keeps it."""

from typing import Any

import pytest

from lockgate.model.errors import Conflict
from lockgate.model.ids import FeedId
from lockgate.model.move_instructions import RunStep
from lockgate.model.moves import MoveFacts, Side, Step
from lockgate.node.move.job import Job, NotInTime, Stopped
from lockgate.store.moves import MoveEntry
from tests.support.moves import CONFIG, ENDS_S, SWITCH

FEED = "orders--0"


class Feeds:
    """Of one feed, whether it has failed, and what it has met."""

    def __init__(self, failed: bool, met: str) -> None:
        self.failed = failed
        self.met = met

    def refuse_if_failed(self, feed: FeedId) -> None:
        if self.failed:
            raise Conflict(f"the feed is failed: {self.met}", object_=feed, hint="mend it")

    def error(self, feed: FeedId) -> str:
        assert feed == FEED
        return self.met


def waits(left_s: float, *, failed: bool = False, met: str = "", stopped: bool = False) -> None:
    """For what never comes."""
    facts = MoveFacts(feed=FEED)
    run = RunStep(1, Step.CATCH_UP, 1, Side.SOURCE, SWITCH, facts, int(left_s * 1000))
    there: Any = Feeds(failed, met)
    nobody: Any = None
    job = Job(MoveEntry(CONFIG, 1, ()), run, nobody, there, nobody, lambda: stopped)
    job.wait_applied(lambda: False, "copy has not got everything yet", FEED)


def test_a_feed_that_has_failed_is_not_waited_for() -> None:
    with pytest.raises(Conflict, match="the feed is failed: no such column"):
        waits(ENDS_S, failed=True, met="no such column")


def test_who_has_waited_in_vain_is_told_what_keeps_the_feed() -> None:
    with pytest.raises(NotInTime, match="everything yet: the disk is full"):
        waits(0.01, met="the disk is full")
    with pytest.raises(NotInTime, match="everything yet: the disk is full"):
        waits(ENDS_S, met="the disk is full", stopped=True)


def test_where_nothing_keeps_it_nothing_is_made_up() -> None:
    with pytest.raises(NotInTime, match="not in time: copy has not got everything yet"):
        waits(0.01)
    with pytest.raises(Stopped):
        waits(ENDS_S, stopped=True)
