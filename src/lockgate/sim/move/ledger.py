"""What happened to a move, kept by the checkers alone: guards, fences and keepers are not asked.

Fence      two sides that writers can write to; a keeper that acts at a side where a later one was,
           or tells the hook, or changes the book of feeds when a later one has begun
Together   a write that does not see every write before it: one was lost, or came twice; a sequence
           that gives out a value which is in use; a kept table that is not as of its position
Drain      a feed that meets a table which was renamed or dropped under it; a table that goes while
           a feed could still apply to it
           and a side that is given up although it answers, or before anybody has looked
Record     traffic that changes hands before the giving side is sealed, or the taking side opened
           before it has; a command that takes it to the other side than it says; a flip that is
           put back by the record, and has left a guard or a hold

Every write adds one to a row. Whoever writes to it next sees how many there were, and how many
there were is kept here.
"""

from typing import TYPE_CHECKING

from lockgate.core.move.plans import CHECKS
from lockgate.model.ids import Millis
from lockgate.model.moves import Command, MoveRecord, Side
from lockgate.sim.violation import Law, LawBroken

if TYPE_CHECKING:
    from lockgate.sim.move.side import SimSide

__all__ = ["ABOUT", "MoveLedger"]

ABOUT = ("move",)
"""There is one move in a world: every story is about it."""


class MoveLedger:
    """The truth about writes, and who was where."""

    def __init__(self) -> None:
        self.sides: dict[Side, SimSide] = {}
        self.written: dict[int, int] = {}
        """How often each key was written, at whichever side."""
        self.guarded_once = False
        """The target's tables have been closed: before that nobody knows of them."""
        self._keepers: dict[Side, int] = {}
        self._hooked_by = 0
        self.traffic = Side.SOURCE
        """As the record says."""
        self._gone: set[Side] = set()
        """A check has found it gone, at some time."""

    # --- writers ------------------------------------------------------------------------------

    def commits(self, side: Side, key: int, seen: int | None) -> int:
        """A writer's transaction commits; it has seen the row so. How often it was written now."""
        there = self.written.get(key, 0)
        if seen is None and there:
            what = f"the sequence of the {side.value} gives out {key}, which is in use"
            raise LawBroken(Law.TOGETHER, what, ABOUT)
        if (seen or 0) != there:
            what = f"a write at the {side.value} sees {seen} writes of row {key}, not {there}"
            raise LawBroken(Law.TOGETHER, what, ABOUT)
        self.check_fence(f"somebody writes at the {side.value}")
        self.written[key] = there + 1
        return there + 1

    def check_fence(self, when: str) -> None:
        """At most one side lets writers through, until the move is over."""
        if any(side.over for side in self.sides.values()):
            return
        if self.guarded_once and all(side.writable for side in self.sides.values()):
            raise LawBroken(Law.FENCE, f"both sides let writers through when {when}", ABOUT)

    def has_all(self, side: Side) -> None:
        """Nothing is under way: every write is at this side, once."""
        rows = self.sides[side].rows or {}
        if rows != self.written:
            wrong = _differing(rows, self.written)
            what = f"the {side.value} has the traffic and not every write: rows {wrong}"
            raise LawBroken(Law.TOGETHER, what, ABOUT)

    # --- sides --------------------------------------------------------------------------------

    def acts_at(self, side: Side, keeper: int) -> None:
        """A keeper's verb takes effect."""
        newest = self._keepers.get(side, 0)
        if keeper < newest:
            what = f"keeper {keeper} acts at the {side.value}, where keeper {newest} was"
            raise LawBroken(Law.FENCE, what, ABOUT)
        self._keepers[side] = keeper

    def tells_hook(self, keeper: int) -> None:
        """A hook does what a keeper says."""
        if keeper < self._hooked_by:
            what = f"the hook obeys keeper {keeper}, and keeper {self._hooked_by} was there"
            raise LawBroken(Law.FENCE, what, ABOUT)
        self._hooked_by = keeper

    def changes_feeds(self, keeper: int, newest: int) -> None:
        """A keeper enters or removes a feed."""
        if keeper != newest:
            what = f"keeper {keeper} changes the book of feeds, and keeper {newest} has begun"
            raise LawBroken(Law.FENCE, what, ABOUT)

    def opened(self, side: Side) -> None:
        """A guard was taken away."""
        if side is not self.traffic:
            what = f"the {side.value} is opened, and traffic is recorded elsewhere"
            raise LawBroken(Law.RECORD, what, ABOUT)
        self.check_fence(f"the {side.value} is opened")

    def disposes(self, side: Side) -> None:
        """The table is about to go."""
        if side is self.traffic:
            what = f"the table of the {side.value} goes, and what was written is nowhere else"
            raise LawBroken(Law.TOGETHER, what, ABOUT)
        live = self.sides[side].live_feeds()
        if live:
            what = f"the table of the {side.value} goes, and {live[0][0]} can still apply to it"
            raise LawBroken(Law.DRAIN, what, ABOUT)

    def meets_no_table(self, side: Side, feed: str) -> LawBroken:
        """A feed's transaction was let through, and there is no table."""
        what = f"{feed} applies at the {side.value}, where its table is gone"
        return LawBroken(Law.DRAIN, what, ABOUT)

    def found_gone(self, side: Side, since: Millis) -> None:
        """A check that began then says that nobody answers there."""
        there = self.sides[side]
        if not there.lost and there.away_until <= since:
            raise LawBroken(Law.DRAIN, f"the {side.value} is given up, and it answers", ABOUT)
        self._gone.add(side)

    # --- the record ---------------------------------------------------------------------------

    def given_up(self, record: MoveRecord) -> None:
        """A record has landed. What has the traffic is never given up, and nothing goes by that a
        side is, before it was looked."""
        lost, acting = record.order.lost, [one.step for one in record.steps if one.started_ms]
        if lost is None or record.undoing or set(acting) <= CHECKS:
            return
        if lost is record.traffic:
            raise LawBroken(Law.DRAIN, f"the {lost.value} is given up with the traffic", ABOUT)
        if lost not in self._gone:
            raise LawBroken(Law.DRAIN, f"the {lost.value} is given up by word alone", ABOUT)

    def traffic_recorded(self, traffic: Side, command: Command, now: Millis) -> None:
        """A record that says where traffic is has landed."""
        if traffic is self.traffic:
            return
        if command is not (Command.SWITCH if traffic is Side.TARGET else Command.REVERSE):
            what = f"a {command.value} takes traffic to the {traffic.value}"
            raise LawBroken(Law.RECORD, f"{what}, at {now} ms", ABOUT)
        if not self.sides[self.traffic].sealed:
            what = f"traffic goes to the {traffic.value} and the {self.traffic.value} is not sealed"
            raise LawBroken(Law.RECORD, f"{what}, at {now} ms", ABOUT)
        self.traffic = traffic

    def put_back(self, record: MoveRecord) -> None:
        """A record has landed. If a flip is put back by it, nothing of it is left, and nothing of
        it can come any more: nobody would look again."""
        if not record.ended or not record.undoing:
            return
        for side in self.sides.values():
            frozen = side.is_frozen(record.facts.feed)
            if side.blocked or frozen:
                left = f"a hold of {record.facts.feed}" if frozen else "a guard"
                what = f"the {record.order.command.value} is put back, and has left {left}"
                raise LawBroken(Law.RECORD, f"{what} at the {side.side.value}", ABOUT)

    def kept_as_of(self, kept: dict[int, int], position: int) -> None:
        """The source's table is kept: it is what the target had at the position."""
        wanted = self.sides[Side.TARGET].as_of(position)
        if kept != wanted:
            wrong = _differing(kept, wanted)
            what = f"the kept table differs from the target as of {position}: rows {wrong}"
            raise LawBroken(Law.TOGETHER, what, ABOUT)


def _differing(one: dict[int, int], other: dict[int, int]) -> list[int]:
    """The first few."""
    return sorted(key for key in one | other if one.get(key) != other.get(key))[:5]
