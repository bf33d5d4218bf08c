"""A database in memory: a table with its log and sequence, a guard, and the move's row.

It keeps the rules of the real one. A verb's transaction looks at the move's row first and refuses
an older keeper. A guard is put on, or made permanent, only while nobody writes; a writer that met
none, or one that has run out, is let through. A feed's transaction compares its token and the
position that it goes on from, then writes rows and position at once.

All tables of a move are one here: what is done to them is done in one transaction.
"""

from typing import NamedTuple

from lockgate.model.ids import FeedId, Millis
from lockgate.model.moves import Side
from lockgate.model.positions import Position
from lockgate.sim.loop import Loop
from lockgate.sim.move.ledger import MoveLedger

__all__ = [
    "SOMEBODY",
    "Entry",
    "FeedKey",
    "Guard",
    "Hold",
    "NotNow",
    "NotSo",
    "SimSide",
    "StaleKeeper",
    "Sunk",
]

FeedKey = tuple[str, int]
"""A feed's name and birth."""

SEAL_MARGIN_MS = 5
SOMEBODY = 0
"""Who holds a feed for a comparison, and knows nothing of moves."""


class StaleKeeper(Exception):
    """The side has seen a later keeper."""


class NotNow(Exception):
    """It may work the next time."""


class NotSo(Exception):
    """A side does not do this as it is now."""


class Entry(NamedTuple):
    """One change in the log: the whole row."""

    position: Position
    key: int
    writes: int


class Guard(NamedTuple):
    """Nobody but feeds gets through, until a time of the side's own clock."""

    until: Millis | None
    block: int = 0
    """Which block it is of."""


class Hold(NamedTuple):
    """Nothing of a feed is applied beyond a position, whoever owns it."""

    holder: int
    """The number of a move's keeper, or `SOMEBODY`."""
    upto: Position
    until: Millis | None = None
    """By the sink's clock; None: it does not end by itself."""


class Sunk:
    """A feed's row at its sink."""

    __slots__ = ("epoch", "hold", "position", "void")

    def __init__(self) -> None:
        self.epoch = 0
        self.void = False
        self.position: Position | None = None
        """None: the copy is not over."""
        self.hold: Hold | None = None


class SimSide:
    """One of the two, at one moment."""

    def __init__(self, loop: Loop, side: Side, ledger: MoveLedger, *, rate: float) -> None:
        self._loop = loop
        self._ledger = ledger
        self._rate = rate
        self.side = side
        self.rows: dict[int, int] | None = {} if side is Side.SOURCE else None
        """How often each key was written; None: there is no such table."""
        self.old: dict[int, int] | None = None
        """The table under its other name."""
        self.log: list[Entry] = []
        self.sequence = 0
        self.guard: Guard | None = None
        self.sealed = False
        self.blocks = 0
        """They are numbered."""
        self.blocked_at: Position | None = None
        """Of the last block: everything that was ever written is below. None: not known yet, or
        nobody can seal it any more."""
        self.keeper = 0
        """In the move's row: the newest that was here."""
        self.over = False
        """The move's row says that it is over."""
        self.writing = 0
        """Transactions of writers that are under way."""
        self.wanted_until: Millis = 0
        """Somebody waits for the table: who wants to write now waits behind."""
        self.sunk: dict[FeedKey, Sunk] = {}
        self.away_until: Millis = 0
        self.lost = False
        """It never comes back."""

    # --- for everybody ------------------------------------------------------------------------

    @property
    def clock(self) -> Millis:
        """Its own: not quite as fast as others'."""
        return int(self._loop.now * self._rate)

    @property
    def head(self) -> Position:
        return len(self.log)

    @property
    def guarded(self) -> bool:
        guard = self.guard
        return guard is not None and (guard.until is None or self.clock < guard.until)

    @property
    def blocked(self) -> bool:
        """It has the traffic, and a guard with a deadline, which may be over."""
        return self.guard is not None and self.guard.until is not None

    @property
    def writable(self) -> bool:
        """A writer would be let through."""
        return self.rows is not None and not self.guarded

    def as_of(self, position: Position) -> dict[int, int]:
        """The table as it was."""
        rows: dict[int, int] = {}
        for entry in self.log[:position]:
            rows[entry.key] = entry.writes
        return rows

    def write(self, key: int, writes: int) -> None:
        """One row, and its line in the log."""
        assert self.rows is not None
        self.rows[key] = writes
        self.log.append(Entry(self.head + 1, key, writes))

    # --- the move's verbs: each is one transaction --------------------------------------------

    def visit(self, keeper: int) -> None:
        """How every verb begins. An older keeper gets no further."""
        if not self.admits(keeper):
            raise StaleKeeper
        self._ledger.acts_at(self.side, keeper)
        self.keeper = keeper

    def admits(self, keeper: int) -> bool:
        """The fence."""
        return keeper >= self.keeper and not self.over

    def block(self, keeper: int, left_ms: Millis) -> int | None:
        """Guard it for so long: the block's number. None: somebody writes."""
        if self.writing:
            return None
        self.visit(keeper)
        if self.guard is not None and self.guard.until is None:
            raise NotSo("the traffic is at the other side")
        self.blocks += 1
        self.blocked_at = None
        self.guard = Guard(self.clock + int(left_ms * self._rate), self.blocks)
        return self.blocks

    def locate(self, keeper: int, block: int) -> Position:
        """A position behind all that was written: nobody writes any more."""
        self.visit(keeper)
        if self.guard is None or self.guard.block != block or self.sealed:
            raise NotSo("somebody else ended this block")
        self.blocked_at = self.head
        return self.blocked_at

    def unblock(self, keeper: int) -> bool:
        """No guard. False: it is sealed, so this is not done."""
        self.visit(keeper)
        if self.sealed:
            return False
        self.guard = self.blocked_at = None
        self._ledger.opened(self.side)
        return True

    def seal(self, keeper: int, blocked_at: Position) -> bool:
        """Make the guard permanent. False: it is not, and for this block it never will be."""
        self.visit(keeper)
        if self.guard is None or self.blocked_at != blocked_at:
            return False
        if self.sealed:
            return True
        if not self.in_time(self.guard):
            self.blocked_at = None
            return False
        self.guard = Guard(None)
        self.sealed = True
        return True

    def in_time(self, guard: Guard) -> bool:
        """Nobody was let through yet, and nobody will be before this commits."""
        return guard.until is not None and self.clock < guard.until - SEAL_MARGIN_MS

    def close(self, keeper: int) -> None:
        """Guard it for good: it is not open yet."""
        self.visit(keeper)
        if self.rows is None:
            raise NotSo("the table is gone")
        self.guard = Guard(None)

    def open(self, keeper: int) -> None:
        """No guard: it has the traffic."""
        self.visit(keeper)
        self.guard = None
        self.sealed = False
        self._ledger.opened(self.side)

    def dispose(self, keeper: int, *, rename: bool) -> None:
        """The table is not there any more, under its name. Done again it changes nothing."""
        self.visit(keeper)
        if self.rows is None:
            return
        self._ledger.disposes(self.side)
        if rename:
            self.old = self.rows
        self.rows = None
        self.guard = None
        self.sealed = False

    def clean(self, keeper: int, *, keep_guard: bool) -> None:
        """Nothing of the move is left but the word that it is over. Done again it is the same."""
        if self.over:
            return
        self.visit(keeper)
        if not keep_guard:
            self.guard = None
            self.sealed = False
        self.over = True

    # --- feeds --------------------------------------------------------------------------------

    def claim(self, feed: FeedKey, epoch: int) -> Sunk | None:
        """A feed's owner has its number here before it applies. None: there is a later one."""
        sunk = self.sunk.setdefault(feed, Sunk())
        if epoch < sunk.epoch or (epoch == sunk.epoch and sunk.void):
            return None
        sunk.epoch, sunk.void = epoch, False
        return sunk

    def void(self, feed: FeedKey, epoch: int) -> bool:
        """From now on nobody applies under this epoch or an earlier one. False: a later one is."""
        sunk = self.sunk.setdefault(feed, Sunk())
        if epoch < sunk.epoch:
            return False
        sunk.epoch, sunk.void = epoch, True
        return True

    def hold(self, feed: FeedKey, hold: Hold) -> None:
        """Apply nothing of the feed beyond. A keeper takes over what one before it holds; NotNow
        while somebody else holds it."""
        if hold.holder != SOMEBODY:
            self._ledger.acts_at(self.side, hold.holder)
        sunk = self.sunk.setdefault(feed, Sunk())
        held = self.held(feed)
        if held is not None and SOMEBODY in {held.holder, hold.holder}:
            raise NotNow(f"{held.holder} holds the feed")
        if (sunk.position or 0) > hold.upto:
            raise NotSo("the feed is beyond where it is to be held")
        sunk.hold = hold

    def let_go(self, feed: FeedKey, keeper: int) -> None:
        """No keeper of the move holds it, a keeper says; anybody else's hold is left alone."""
        self._ledger.acts_at(self.side, keeper)
        sunk = self.sunk.get(feed)
        if sunk is not None and sunk.hold is not None and sunk.hold.holder != SOMEBODY:
            sunk.hold = None

    def held(self, feed: FeedKey) -> Hold | None:
        """The hold that is on."""
        sunk = self.sunk.get(feed)
        hold = None if sunk is None else sunk.hold
        over = hold is not None and hold.until is not None and self.clock >= hold.until
        return None if over else hold

    def is_frozen(self, name: FeedId) -> bool:
        """A keeper of the move holds the feed of this name."""
        held = [self.held(feed) for feed in self.sunk if feed[0] == name]
        return any(hold is not None and hold.holder != SOMEBODY for hold in held)

    def live_feeds(self) -> list[FeedKey]:
        """Feeds that could still apply something here."""
        return [feed for feed, sunk in self.sunk.items() if not sunk.void]
