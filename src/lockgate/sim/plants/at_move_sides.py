"""Bugs of what a move's keeper is promised: by the sides, their feeds and the hook.

What is hard is who may still act when. So most of these are a fence that lets somebody through.
"""

from typing import Any

from lockgate.model.ids import Millis
from lockgate.sim.move.feeds import SimFeed, SimFeeds
from lockgate.sim.move.hook import SimHook
from lockgate.sim.move.side import FeedKey, Guard, SimSide
from lockgate.sim.move.verbs import Acts, Verbs
from lockgate.sim.plants.registry import MOVE, plant
from lockgate.sim.violation import Law

# --- the sides --------------------------------------------------------------------------------


@plant(
    "move-no-keeper-fence",
    "a side does not compare the keeper's number with the last one that was there",
    Law.FENCE,
    SimSide,
    "admits",
    MOVE,
)
def _no_keeper_fence(_self: SimSide, _keeper: int) -> bool:
    return True


@plant(
    "move-no-revoke",
    "a feed is stopped and removed, and its tokens at the sink stay good",
    Law.DRAIN,
    SimSide,
    "void",
    MOVE,
)
def _no_revoke(_self: SimSide, _feed: FeedKey, _epoch: int) -> bool:
    return True


@plant(
    "move-seal-ignores-deadline",
    "a block is sealed although it has run out and writers were let through",
    Law.TOGETHER,
    SimSide,
    "in_time",
    MOVE,
)
def _seal_ignores_deadline(_self: SimSide, _guard: Guard) -> bool:
    return True


@plant(
    "move-block-without-end",
    "a block does not end by itself",
    Law.LIVENESS,
    SimSide,
    "block",
    MOVE,
)
def _block_without_end(self: SimSide, keeper_: int, left_ms: Millis) -> int | None:
    number = _block(self, keeper_, left_ms)
    if number is not None:
        self.guard = Guard(self.clock + 1_000_000, number)
    return number


@plant(
    "move-block-does-not-wait",
    "a block does not wait for those who are writing",
    Law.TOGETHER,
    SimSide,
    "block",
    MOVE,
)
def _block_does_not_wait(self: SimSide, keeper_: int, left_ms: Millis) -> int | None:
    writing, self.writing = self.writing, 0
    try:
        return _block(self, keeper_, left_ms)
    finally:
        self.writing = writing


_block = SimSide.block


# --- feeds ------------------------------------------------------------------------------------


@plant(
    "move-way-back-late",
    "the way back begins where the log is when it first runs, not where nobody wrote yet",
    Law.TOGETHER,
    SimFeeds,
    "_set_up",
    MOVE,
)
def _way_back_late(self: SimFeeds, feed: SimFeed) -> None:
    _set_up(self, feed)
    sunk = self.sink(feed).sunk.get(feed.key)
    if feed.copies or sunk is None:
        return

    def first_runs(row: Any) -> None:
        if not row.void:
            row.position = self.source(feed).head

    self._world.loop.after(400, first_runs, sunk)


_set_up = SimFeeds._set_up


@plant(
    "move-no-fence-at-feeds",
    "a former keeper's step enters or removes a feed",
    Law.FENCE,
    SimFeeds,
    "admits",
    MOVE,
)
def _no_fence_at_feeds(_self: SimFeeds, _keeper: int) -> bool:
    return True


@plant(
    "move-no-fence-at-hold",
    "a freeze does not look at the move's row, and comes after its undoing",
    Law.FENCE,
    Verbs,
    "_may_hold",
    MOVE,
)
def _no_fence_at_hold(_self: Verbs, _sink: SimSide) -> None:
    pass


@plant(
    "move-hold-seen-too-early",
    "who holds a feed is looked at before the move's row is had: a freeze comes in between",
    Law.RECORD,
    Verbs,
    "_undo_freeze",
    MOVE,
)
def _hold_seen_too_early(self: Verbs) -> Acts:
    feed = self._feeds.book.get(self._run.facts.feed)
    if feed is None:
        return None
    sink = self._feeds.sink(feed)
    yield self._quick()
    seen = self._side(sink.side).held(feed.key)
    yield self._world.loop.between(1, 1_000)
    self._may_hold(self._side(sink.side))
    if seen is not None:
        sink.let_go(feed.key, self._run.keeper)
    return None


@plant(
    "move-no-fence-at-hook",
    "a hook does what a former keeper says",
    Law.FENCE,
    SimHook,
    "admits",
    MOVE,
)
def _no_fence_at_hook(_self: SimHook, _keeper: int) -> bool:
    return True


@plant(
    "move-as-of-guessed",
    "a complete takes the end of the log for where the way back was stopped",
    Law.TOGETHER,
    Verbs,
    "_run_out",
    MOVE,
)
def _as_of_guessed(self: Verbs) -> Acts:
    facts = yield from _run_out(self)
    assert facts is not None
    return facts.changed(as_of=self._giving.head)


_run_out = Verbs._run_out
