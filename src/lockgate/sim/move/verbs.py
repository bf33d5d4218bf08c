"""What each step does in the fake world, in as many transactions as in the real one.

A verb is a generator: between two `yield`s is one transaction, or one look; what is yielded is how
long the next one takes to come. So a keeper dies, pauses or is followed by another between any two.
Each can be done again from any point at which it was left.
"""

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Final

from lockgate.core.move.plans import UNDO_ORDER
from lockgate.model.ids import FeedId
from lockgate.model.move_config import feed_name
from lockgate.model.move_instructions import RunStep
from lockgate.model.moves import Command, Disposal, MoveFacts, Side, Step
from lockgate.model.positions import Position
from lockgate.sim.move.feeds import SLOW_MS, SimFeed
from lockgate.sim.move.hook import HANG_MS
from lockgate.sim.move.probes import MoveProbe
from lockgate.sim.move.side import SOMEBODY, Hold, NotNow, NotSo, SimSide

if TYPE_CHECKING:
    from lockgate.sim.move.world import MoveWorld

__all__ = ["Acts", "Verbs"]

Acts = Generator[int, None, MoveFacts | None]

POLL_MS: Final = 15
POLITE_MS: Final = 20
RUN_OUT_MS: Final = 1_500
LAG_MAX: Final = 60
REFUSABLE: Final = frozenset(
    {
        Step.CHECK_CREATE,
        Step.FORWARD,
        Step.CHECK,
        Step.HOOK_BEFORE,
        Step.BLOCK,
        Step.WAY_BACK,
        Step.HOOK_AFTER,
        Step.CHECK_COMPLETE,
        Step.DISPOSE,
        Step.CHECK_CANCEL,
        Step.DROP_COPIES,
    }
)
"""Steps that may need somebody to act first."""


class Verbs:
    """Of one attempt at one step."""

    def __init__(self, world: "MoveWorld", run: RunStep) -> None:
        self._world = world
        self._run = run
        self._began = world.loop.now
        self._feeds = world.feeds

    def act(self) -> Acts:
        """The step, or its undoing, or what it would do."""
        run = self._run
        if run.dry:
            return self._dry()
        acts: Acts = getattr(self, _method(run.step, undo=run.undo))()
        return acts

    # --- small things -------------------------------------------------------------------------

    def _side(self, side: Side) -> SimSide:
        """A side that answers."""
        found = self._world.sides[side]
        if self._world.is_away(found):
            raise NotNow("the server is away")
        return found

    @property
    def _giving(self) -> SimSide:
        return self._side(self._run.giving)

    @property
    def _taking(self) -> SimSide:
        return self._side(self._run.giving.other)

    @property
    def _left_ms(self) -> int:
        return self._run.left_ms - (self._world.loop.now - self._began)

    def _wait(self, is_so: Callable[[], bool], what: str) -> Generator[int, None, None]:
        """Look again and again, for as long as there is time."""
        while not is_so():
            if self._run.left_ms and self._left_ms <= 0:
                raise NotNow(what)
            yield POLL_MS

    def _quick(self) -> int:
        return self._world.loop.between(1, 8)

    def _refuse_by_chance(self) -> None:
        world = self._world
        if self._run.step in REFUSABLE and world.goes_wrong(world.faults.refused):
            raise NotSo("somebody has to act first")

    def _feed(self, name: FeedId) -> SimFeed:
        found = self._feeds.book.get(name)
        if found is None:
            raise NotSo("the feed is gone")
        return found

    def _dry(self) -> Acts:
        yield self._quick()
        self._refuse_by_chance()
        return None

    # --- create -------------------------------------------------------------------------------

    def _check_create(self) -> Acts:
        yield self._quick()
        self._refuse_by_chance()
        return None

    def _forward(self) -> Acts:
        yield self._quick()
        self._refuse_by_chance()
        feed = self._feeds.have(self._run.facts.feed, self._run.keeper, Side.SOURCE, copies=True)
        yield from self._wait(lambda: feed.start is not None, "the feed is not set up")
        return None

    def _guard(self) -> Acts:
        yield self._quick()
        self._side(Side.TARGET).close(self._run.keeper)
        self._world.ledger.guarded_once = True
        return None

    # --- switch and reverse -------------------------------------------------------------------

    def _check(self) -> Acts:
        yield self._quick()
        self._refuse_by_chance()
        feed = self._feed(self._run.facts.feed)
        stands = self._feeds.stands(feed)
        if feed.stopped or stands is None or self._giving.head - stands > LAG_MAX:
            raise NotSo("the feed is not level")
        self._side(self._run.giving.other)
        return None

    def _hook_before(self) -> Acts:
        self._refuse_by_chance()
        yield from self._tell_hook(holds=True)
        return None

    def _undo_hook_before(self) -> Acts:
        yield from self._tell_hook(holds=False)
        return None

    def _tell_hook(self, *, holds: bool) -> Generator[int, None, None]:
        hook, loop = self._world.hook, self._world.loop
        yield self._quick()
        if hook.hangs():
            until = loop.now + min(HANG_MS, self._run.left_ms or HANG_MS)
            while loop.now < until:
                yield POLL_MS
        elif not hook.fails():
            hook.tell(self._run.keeper, holds=holds)
            return
        if loop.chance(0.5):
            hook.tell(self._run.keeper, holds=holds)
        raise NotNow("the hook did not end well")

    def _block(self) -> Acts:
        loop = self._world.loop
        yield self._quick()
        self._refuse_by_chance()
        while True:
            side = self._giving
            side.wanted_until = loop.now + POLITE_MS
            yield loop.between(1, POLITE_MS)
            if self._left_ms <= 0:
                raise NotNow("somebody has the tables")
            block = self._giving.block(self._run.keeper, self._left_ms)
            if block is not None:
                break
            yield POLL_MS
        yield self._quick()
        blocked_at = self._giving.locate(self._run.keeper, block)
        yield self._quick()
        return self._run.facts.changed(blocked_at=blocked_at)

    def _undo_block(self) -> Acts:
        yield self._quick()
        if not self._giving.unblock(self._run.keeper):
            raise NotSo("it is sealed")
        return None

    def _catch_up(self) -> Acts:
        yield self._quick()
        feed, upto = self._feed(self._run.facts.feed), self._run.facts.blocked_at
        yield from self._wait(
            lambda: (self._feeds.stands(feed) or 0) >= upto,
            "the feed is behind",
        )
        return None

    def _freeze(self) -> Acts:
        yield self._quick()
        yield from self._hold(self._feed(self._run.facts.feed))
        return None

    def _undo_freeze(self) -> Acts:
        yield self._quick()
        feed = self._feeds.book.get(self._run.facts.feed)
        if feed is not None:
            sink = self._side(self._feeds.sink(feed).side)
            self._may_hold(sink)
            sink.let_go(feed.key, self._run.keeper)
        return None

    def _hold(self, feed: SimFeed, upto: Position | None = None) -> Generator[int, None, Position]:
        """Apply nothing beyond `upto`, or beyond where the feed is. Who is inside is waited for."""
        if self._world.goes_wrong(self._world.faults.hold_slow):
            yield self._world.loop.between(*SLOW_MS)
        sink = self._side(self._feeds.sink(feed).side)
        held = sink.held(feed.key)
        if held is not None and held.holder == SOMEBODY:
            self._world.probes.hit(MoveProbe.MOVE_HELD_BY_OTHERS)
        if upto is None:
            upto = self._feeds.stands(feed) or 0
        self._may_hold(sink)
        sink.hold(feed.key, Hold(self._run.keeper, upto))
        return upto

    def _may_hold(self, sink: SimSide) -> None:
        """In the transaction that holds, or lets go: also when there is nothing to let go."""
        sink.visit(self._run.keeper)

    def _stop_feed(self, name: FeedId) -> Generator[int, None, None]:
        """Stopped in the book, then its tokens void at the sink."""
        feed = self._feeds.pause(name)
        if feed is None:
            return
        epoch = feed.epoch
        yield self._quick()
        self._side(feed.source.other)
        if not self._feeds.revoke(feed, epoch):
            raise NotNow("the feed was let go on")

    def _sequences(self) -> Acts:
        yield self._quick()
        value = self._giving.sequence
        yield self._quick()
        self._taking.sequence = max(self._taking.sequence, value)
        return None

    def _way_back(self) -> Acts:
        yield self._quick()
        self._refuse_by_chance()
        run = self._run
        feed = self._feeds.have(self._back, run.keeper, run.giving.other, copies=False)
        yield from self._wait(lambda: feed.start is not None, "the way back is not set up")
        return run.facts.changed(back_from=feed.start)

    @property
    def _back(self) -> FeedId:
        return feed_name("m", self._run.facts.flips + 1)

    def _undo_way_back(self) -> Acts:
        yield self._quick()
        yield from self._remove(self._back)
        return None

    def _remove(self, name: FeedId) -> Generator[int, None, None]:
        self._feeds.begin_removal(name, self._run.keeper)
        yield from self._wait(lambda: name not in self._feeds.book, "the feed is not removed yet")

    def _seal(self) -> Acts:
        yield self._quick()
        if not self._giving.seal(self._run.keeper, self._run.facts.blocked_at):
            self._world.probes.hit(MoveProbe.MOVE_SEAL_REFUSED)
            raise NotSo("it is too late")
        yield self._quick()
        return None

    def _open(self) -> Acts:
        yield self._quick()
        self._taking.open(self._run.keeper)
        yield self._quick()
        return None

    def _hook_after(self) -> Acts:
        self._refuse_by_chance()
        yield from self._tell_hook(holds=False)
        return None

    def _retire(self) -> Acts:
        yield self._quick()
        if self._run.facts.frozen:
            yield from self._remove(self._run.facts.frozen)
        return None

    # --- complete and cancel ------------------------------------------------------------------

    def _check_complete(self) -> Acts:
        yield self._quick()
        self._refuse_by_chance()
        if self._feed(self._run.facts.feed).stopped:
            raise NotSo("the feed does not run")
        return None

    def _run_out(self) -> Acts:
        """It stays held there: should a former keeper let it go on, it goes nowhere."""
        yield self._quick()
        feed = self._feed(self._run.facts.feed)
        upto = yield from self._hold(feed)
        if not (feed.stopped and self._feeds.stands(feed) == upto):
            yield self._quick()
            self._feeds.resume(feed.name)
            yield self._quick()
            upto = yield from self._hold(feed, self._giving.head)
            until = self._world.loop.now + RUN_OUT_MS
            while self._feeds.stands(feed) != upto:
                if self._world.loop.now >= until:
                    raise NotNow("the feed has not run out")
                yield POLL_MS
        yield from self._stop_feed(feed.name)
        if self._feeds.stands(feed) != upto:
            raise NotNow("the feed did not stay where it was held")
        return self._run.facts.changed(as_of=upto)

    def _end_feed(self) -> Acts:
        yield self._quick()
        for name in filter(None, (self._run.facts.feed, self._run.facts.frozen)):
            yield from self._remove(name)
        return None

    def _dispose(self) -> Acts:
        yield self._quick()
        self._refuse_by_chance()
        disposal, source = self._run.order.disposal, self._side(Side.SOURCE)
        kept = source.rows
        if disposal is not Disposal.KEEP:
            source.dispose(self._run.keeper, rename=disposal is Disposal.RENAME)
        if kept is not None and not source.over:
            self._world.ledger.kept_as_of(kept, self._run.facts.as_of)
        return None

    def _clean(self) -> Acts:
        order = self._run.order
        keeps = order.command is Command.COMPLETE and order.disposal is Disposal.KEEP
        for side in Side:
            yield self._quick()
            self._side(side).clean(self._run.keeper, keep_guard=keeps and side is Side.SOURCE)
        return None

    def _check_cancel(self) -> Acts:
        yield self._quick()
        self._refuse_by_chance()
        return None

    def _stop(self) -> Acts:
        yield self._quick()
        feed = self._feeds.book.get(self._run.facts.feed)
        if feed is None:
            return None
        if feed.start is None:
            self._feeds.begin_removal(feed.name, self._run.keeper)
        elif self._feeds.stands(feed) is None:
            self._world.probes.hit(MoveProbe.MOVE_CANCELLED_COPYING)
        yield from self._stop_feed(feed.name)
        return None

    def _drop_copies(self) -> Acts:
        yield self._quick()
        self._refuse_by_chance()
        if self._run.order.disposal is not Disposal.KEEP:
            self._side(Side.TARGET).dispose(self._run.keeper, rename=False)
        return None


def _method(step: Step, *, undo: bool) -> str:
    """What does it is called by its name."""
    return ("_undo_" if undo else "_") + step.value.replace("-", "_")


assert all(hasattr(Verbs, _method(step, undo=False)) for step in Step if step is not Step.FLIP)
assert all(hasattr(Verbs, _method(step, undo=True)) for step in UNDO_ORDER)
