"""What has to be so when nothing goes wrong any more: the move is at rest, nothing is left.

created      the side with the traffic takes writes, the other is closed; one feed, from here to
             there, runs, and what it has brought is exactly what was there at its position
completed    the target takes writes; the source's table is gone, renamed, or kept closed
cancelled    the source takes writes
given up     of a side that was, and of the feed to one that is lost, nothing is asked; the other
             is as after any end
at all       no feed, guard, hold or hook of a command that is over; every answer given
"""

from typing import TYPE_CHECKING

from lockgate.core.move.stages import Stage
from lockgate.model.moves import Command, Disposal, MoveRecord, Side
from lockgate.sim.move.ledger import ABOUT
from lockgate.sim.violation import Law, LawBroken

if TYPE_CHECKING:
    from lockgate.sim.move.world import MoveWorld

__all__ = ["missing"]


def missing(world: "MoveWorld") -> str:
    """What is still to be done, or nothing."""
    keeper, record = world.keeper, world.store.record
    if keeper is None or keeper.core.stage is not Stage.RESTING:
        return f"the keeper is {keeper.core.stage.value if keeper is not None else 'nobody'}"
    if not record.ended:
        return f"{record.order.command.value} is under way"
    if world.hook.holds:
        return "the hook holds the traffic"
    left = _sides(world, record) or _feeds(world, record) or world.requests.unanswered()
    if not left:
        world.ledger.has_all(record.traffic)
    return left


def _is_over(record: MoveRecord, command: Command) -> bool:
    return record.order.command is command and not record.undoing


def _sides(world: "MoveWorld", record: MoveRecord) -> str:
    having = world.sides[record.traffic]
    other = world.sides[record.traffic.other]
    if not having.writable:
        return f"the {having.side.value} has the traffic and takes no writes"
    if having.guard is not None:
        return f"a guard is left at the {having.side.value}"
    if _is_over(record, record.order.command) and record.order.lost is other.side:
        return "" if having.over else f"something is left at the {having.side.value}"
    if _is_over(record, Command.COMPLETE):
        kept = record.order.disposal is Disposal.KEEP
        closed = other.rows is not None and other.guarded if kept else other.rows is None
        return "" if closed and other.over else "something is left at the source"
    if _is_over(record, Command.CANCEL):
        kept = record.order.disposal is Disposal.KEEP
        gone = other.guard is None and (kept or other.rows is None)
        return "" if gone and other.over else "something is left at the target"
    if other.rows is not None and (other.guard is None or other.guard.until is not None):
        return f"the {other.side.value} is not closed"
    return ""


def _feeds(world: "MoveWorld", record: MoveRecord) -> str:
    book, name = world.feeds.book, record.facts.feed
    if set(book) != ({name} if name else set()):
        return f"the feeds are {sorted(book)}, not {name or 'none'}"
    known = {feed.key for feed in book.values()}
    asked = [side for side in Side if side is not record.order.lost]
    live = [feed for side in asked for feed in world.sides[side].live_feeds() if feed not in known]
    if live:
        raise LawBroken(Law.DRAIN, f"{live[0][0]} is removed, and could still apply", ABOUT)
    if not name or world.lost is not None:
        return ""
    feed = book[name]
    if feed.source is not record.traffic or feed.stopped:
        return f"{name} does not run from where the traffic is"
    if world.feeds.sink(feed).held(feed.key) is not None:
        return f"{name} is held"
    stands = world.feeds.stands(feed)
    if stands is None or world.feeds.source(feed).head - stands > 5:
        return f"{name} is behind"
    sink = world.feeds.sink(feed).rows
    if sink != world.feeds.source(feed).as_of(stands):
        raise LawBroken(Law.TOGETHER, f"{name} stands at {stands} and the rows differ", ABOUT)
    return ""
