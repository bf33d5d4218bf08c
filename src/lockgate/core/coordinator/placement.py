"""Which node gets a maintainer, and which maintainers change places. Plain functions.

The least loaded node gets the next feed. Balance moves only when a node has more than
`slack` feeds above the least loaded one, and each move must make the two more alike: a move
costs the feed a takeover, so a small difference is not worth it, and without the slack two
nodes would play a feed back and forth.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from lockgate.model.ids import FeedId, NodeRef

Loads = dict[NodeRef, int]


class Move(NamedTuple):
    """One feed, to another owner."""

    feed: FeedId
    to: NodeRef


def loads(usable: Iterable[NodeRef], owners: Iterable[NodeRef | None]) -> Loads:
    """How many feeds each usable node has."""
    counted = dict.fromkeys(usable, 0)
    for owner in owners:
        if owner in counted:
            counted[owner] += 1
    return counted


def least_loaded(counted: Loads) -> NodeRef | None:
    """Who gets the next feed; of equals, the first by name, so that equal runs are equal."""
    return min(counted, key=lambda ref: (counted[ref], ref), default=None)


def most_loaded(counted: Loads, movable: Mapping[NodeRef, list[FeedId]]) -> NodeRef | None:
    """Who gives a feed away; of those who can."""
    able = [ref for ref in counted if movable.get(ref)]
    return max(able, key=lambda ref: (counted[ref], ref), default=None)


def balanced(
    counted: Loads, movable: Mapping[NodeRef, list[FeedId]], *, slack: int, moves_max: int
) -> list[Move]:
    """The moves that bring the nodes within the slack of each other, at most `moves_max`."""
    counted = dict(counted)
    movable = {ref: sorted(feeds) for ref, feeds in movable.items()}
    moves: list[Move] = []
    while len(moves) < moves_max:
        giver, taker = most_loaded(counted, movable), least_loaded(counted)
        if giver is None or taker is None:
            break
        if counted[giver] - counted[taker] <= max(slack, 1):
            break
        moves.append(Move(movable[giver].pop(), taker))
        counted[giver] -= 1
        counted[taker] += 1
    return moves
