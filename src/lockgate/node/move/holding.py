"""Holding a feed of a move at its sink: nothing is applied beyond where it is, whoever wakes up.

A hold outlives owners, epochs and pauses, and it is checked by the very transactions that would
apply something. So a feed that a move has frozen stays so, also when somebody who slept through the
end of his time asks for it to go on.

A hold bears the number of the keeper that put it on, and is put on and taken off under the move's
row at that side. So a keeper takes over those of the keepers before it, and one that was followed
by another changes nothing any more. Letting go leaves the number there also when nothing was held:
a freeze that was on its way would else come after its undoing, and nobody would ever undo it again.
For the same reason it is found out who holds the feed when the row is had, and not before: whoever
had the row until then may have held it in the same moment.
"""

from typing import Final

from lockgate.endpoints.postgres.cutover.row import MoveMark, taken
from lockgate.endpoints.postgres.sink.fence import PostgresSink
from lockgate.endpoints.postgres.sink.hold import take_over
from lockgate.endpoints.postgres.sink.rows import Cursor
from lockgate.model.ids import FeedId
from lockgate.model.positions import Position

__all__ = ["hold", "let_go"]

LONG_S: Final = 10 * 365 * 86_400.0
"""A frozen feed ends by being removed, or by being let go; not by itself."""


def hold(
    mark: MoveMark, sink: PostgresSink, feed: FeedId, upto: Position | None = None
) -> Position:
    """Apply nothing beyond `upto`, or beyond where the feed is: where that is. StaleOwner when a
    later keeper of the move was at this side."""
    return sink.hold(feed, _name(mark), upto, LONG_S, lambda cursor: _take(cursor, mark, feed))


def let_go(mark: MoveMark, sink: PostgresSink, feed: FeedId) -> None:
    """Let the feed go on, if this move holds it; from now on no keeper before this one can hold it.
    StaleOwner when a later one was at this side."""
    sink.release(feed, _name(mark), lambda cursor: _take(cursor, mark, feed))


def _take(cursor: Cursor, mark: MoveMark, feed: FeedId) -> None:
    """The move's row, and then what a keeper before this one holds."""
    taken(cursor, mark, f"the sink of {feed}")
    take_over(cursor, feed, _prefix(mark), _name(mark))


def _prefix(mark: MoveMark) -> str:
    return f"move {mark.move} {mark.birth} "


def _name(mark: MoveMark) -> str:
    return f"{_prefix(mark)}{mark.keeper}"
