"""What a person is told when a span verb is fulfilled or cannot be."""

from lockgate.model.ids import FeedId
from lockgate.model.instructions import Answer

REFUSALS: dict[str, tuple[str, str]] = {
    "unknown-span": (
        "no such span",
        "it may have been split, merged or dropped; list the feed's tables and spans",
    ),
    "unknown-node": (
        "no such node, or it does not answer",
        "list the nodes and name one that is up",
    ),
    "trigger-span": (
        "the trigger span can be moved, not cut or joined",
        "name a span of a table",
    ),
    "bad-split-points": (
        "the split keys must rise and lie inside the span",
        "look up the span's key range",
    ),
    "not-neighbours": (
        "only neighbouring spans of one table can be merged",
        "name them in the order of their keys",
    ),
    "span-busy": (
        "it was not begun: the span was not free in time, or does not run",
        "see the spans' states and operators in `lockgate feed spans`, and ask again",
    ),
    "owner-lost": (
        "the feed's owner was replaced before this was certain",
        "look at the feed's status: what was recorded is taken up by the new owner",
    ),
    "not-running": (
        "the feed's owner is not running yet, or closing",
        "try again in a moment; resume the feed if it is stopped",
    ),
}


def explain(request: str, code: str, feed: FeedId) -> Answer:
    """The answer for a person; an empty code means done."""
    if not code:
        return Answer(request)
    what, hint = REFUSALS[code]
    return Answer(request, code, f"{what} (feed {feed})", hint)
