"""Feeds between the two sides, as far as a move meets them: a book, owners, applies on their way.

A feed is entered and removed in the book under the number of the move's keeper. Its owners change,
each has a later epoch; what the one before has sent off lands, late, and finds its token or not.
A feed stands where its sink's row says, which changes in the transaction that writes the rows.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from lockgate.model.moves import Side
from lockgate.model.positions import Position
from lockgate.sim.move.probes import MoveProbe
from lockgate.sim.move.side import FeedKey, NotNow, SimSide, StaleKeeper, Sunk

if TYPE_CHECKING:
    from lockgate.sim.move.world import MoveWorld

__all__ = ["SLOW_MS", "SimFeed", "SimFeeds"]

PUMP_MS: Final = (8, 30)
APPLY_MS: Final = (2, 25)
SLOW_MS: Final = (150, 1_800)
COPY_MS: Final = (20, 200)
SET_UP_MS: Final = (5, 40)
BATCH: Final = 20


class SimFeed:
    """One, in the book."""

    __slots__ = (
        "birth",
        "busy",
        "copies",
        "epoch",
        "gives_up_sink",
        "name",
        "removing",
        "source",
        "start",
        "stopped",
    )

    def __init__(self, name: str, birth: int, source: Side, *, copies: bool) -> None:
        self.name = name
        self.birth = birth
        self.source = source
        self.copies = copies
        self.start: Position | None = None
        """Where it begins in its source's log; None: it is not set up yet."""
        self.epoch = 1
        self.stopped = False
        self.removing = False
        self.gives_up_sink = False
        """It is removed also if nobody answers where it ends."""
        self.busy = False
        """Its owner waits for an apply."""

    @property
    def key(self) -> FeedKey:
        return self.name, self.birth


class SimFeeds:
    """The book, and everybody who works by it."""

    def __init__(self, world: "MoveWorld") -> None:
        self._world = world
        self.book: dict[str, SimFeed] = {}
        self._births = 0

    # --- looking ------------------------------------------------------------------------------

    def source(self, feed: SimFeed) -> SimSide:
        return self._world.sides[feed.source]

    def sink(self, feed: SimFeed) -> SimSide:
        return self._world.sides[feed.source.other]

    def stands(self, feed: SimFeed) -> Position | None:
        """Where its sink's row says; None: not there yet."""
        sunk = self.sink(feed).sunk.get(feed.key)
        return None if sunk is None else sunk.position

    # --- what moves ask -----------------------------------------------------------------------

    def _kept_by(self, keeper: int) -> None:
        """In the transaction that changes the book."""
        if not self.admits(keeper):
            self._world.probes.hit(MoveProbe.MOVE_ZOMBIE_AT_FEEDS)
            raise StaleKeeper
        self._world.ledger.changes_feeds(keeper, self._world.store.record.keeper)

    def admits(self, keeper: int) -> bool:
        """The fence."""
        return self._world.store.keeps(keeper)

    def have(self, name: str, keeper: int, source: Side, *, copies: bool) -> SimFeed:
        """Enter it, if it is not there. Its set-up follows."""
        self._kept_by(keeper)
        if name in self.book and self.book[name].removing:
            raise NotNow(f"an earlier {name} is still being removed")
        if name not in self.book:
            self._births += 1
            feed = self.book[name] = SimFeed(name, self._births, source, copies=copies)
            self._after(SET_UP_MS, self._set_up, feed)
        return self.book[name]

    def pause(self, name: str) -> SimFeed | None:
        """Have it recorded that it is stopped. Its tokens are not void by that. Who does it knows
        of no keepers."""
        feed = self.book.get(name)
        if feed is not None:
            feed.stopped = True
        return feed

    def revoke(self, feed: SimFeed, epoch: int) -> bool:
        """Void its tokens at the sink, up to the epoch at which it was stopped. False: it was let
        go on meanwhile, under a later one."""
        return self.sink(feed).void(feed.key, epoch)

    def resume(self, name: str) -> None:
        """Let it go on, under a new owner: for whoever asks, also when it is to be removed."""
        feed = self.book.get(name)
        if feed is not None and feed.stopped:
            feed.stopped = False
            feed.epoch += 1
            feed.busy = False

    def begin_removal(self, name: str, keeper: int, *, gives_up_sink: bool = False) -> None:
        """Have it recorded that it is to go. That follows."""
        self._kept_by(keeper)
        feed = self.book.get(name)
        if feed is not None:
            feed.gives_up_sink = feed.gives_up_sink or gives_up_sink
        if feed is not None and not feed.removing:
            feed.removing = True
            self._after(SET_UP_MS, self._remove, feed)

    # --- who sees to it -----------------------------------------------------------------------

    def _after(
        self, span: tuple[int, int], action: Callable[[SimFeed], None], feed: SimFeed
    ) -> None:
        self._world.loop.after(self._world.loop.between(*span), action, feed)

    def _set_up(self, feed: SimFeed) -> None:
        """Its slot is made: from here on it follows. Tables are made for a copy."""
        source, sink = self.source(feed), self.sink(feed)
        if feed.removing:
            return
        if self._world.is_away(source) or self._world.is_away(sink):
            self._after(SET_UP_MS, self._set_up, feed)
            return
        feed.start = self.first_position(feed)
        if feed.copies:
            sink.rows = sink.rows if sink.rows is not None else {}
        else:
            sunk = sink.sunk.setdefault(feed.key, Sunk())
            sunk.position = feed.start
        self._after(PUMP_MS, self._pump, feed)

    def first_position(self, feed: SimFeed) -> Position:
        """Everything behind this is its business."""
        return self.source(feed).head

    def _remove(self, feed: SimFeed) -> None:
        without_sink = self._world.is_away(self.sink(feed))
        if self._world.is_away(self.source(feed)) or (without_sink and not feed.gives_up_sink):
            self._after(SET_UP_MS, self._remove, feed)
            return
        if not without_sink:
            self.revoke(feed, feed.epoch)
        if self.book.get(feed.name) is feed:
            del self.book[feed.name]

    def fail_over(self, feed: SimFeed) -> None:
        """It gets another owner; what the one before has sent off is still on its way."""
        if not feed.stopped:
            feed.epoch += 1
            feed.busy = False

    # --- an owner -----------------------------------------------------------------------------

    def _pump(self, feed: SimFeed) -> None:
        """Send the next changes off, if the last ones have landed."""
        if self.book.get(feed.name) is not feed:
            return
        self._after(PUMP_MS, self._pump, feed)
        if feed.stopped or feed.busy:
            return
        source, sink = self.source(feed), self.sink(feed)
        if self._world.is_away(source) or self._world.is_away(sink):
            return
        sunk = sink.claim(feed.key, feed.epoch)
        if sunk is None:
            return
        world, loop = self._world, self._world.loop
        floor = sunk.position
        upto = source.head if floor is None else min(source.head, floor + BATCH)
        held = sink.held(feed.key)
        # Whoever sends it off may not have heard of the hold yet: the sink knows.
        if held is not None and loop.chance(0.5):
            upto = min(upto, held.upto)
        if floor is not None and upto <= floor:
            return
        feed.busy = True
        slow = world.goes_wrong(world.faults.apply_slow)
        span = SLOW_MS if slow else (COPY_MS if floor is None else APPLY_MS)
        read = source.as_of(upto) if floor is None else None
        loop.after(loop.between(*span), self._land, feed, feed.epoch, floor, upto, read)

    def _land(
        self,
        feed: SimFeed,
        epoch: int,
        floor: Position | None,
        upto: Position,
        copy: dict[int, int] | None,
    ) -> None:
        """One transaction at the sink: token and position are compared, rows written."""
        world, sink = self._world, self.sink(feed)
        if feed.epoch == epoch:
            feed.busy = False
        if world.is_away(sink) or world.loop.chance(world.faults.apply_failed):
            world.faults.count += 1
            return
        sunk = sink.sunk[feed.key]
        if sunk.void or sunk.epoch != epoch or sunk.position != floor:
            world.probes.hit(MoveProbe.MOVE_STRAGGLER_FENCED)
            if sink.rows is None:
                world.probes.hit(MoveProbe.MOVE_STRAGGLER_AFTER_RENAME)
            return
        held = sink.held(feed.key)
        if held is not None and upto > held.upto:
            world.probes.hit(MoveProbe.MOVE_HELD_APPLY)
            return
        if sink.rows is None:
            raise world.ledger.meets_no_table(sink.side, feed.name)
        changes = copy.items() if copy is not None else self._changes(feed, floor or 0, upto)
        for key, count in changes:
            sink.write(key, count)
        sunk.position = upto

    def _changes(self, feed: SimFeed, floor: Position, upto: Position) -> list[tuple[int, int]]:
        """The last state of each key that changed."""
        log = self.source(feed).log[floor:upto]
        return list({entry.key: entry.writes for entry in log}.items())
