"""Copying a table anew, for people who do not trust its rows any more.

The rows go, and that they are to be copied is written, in one transaction at the sink under the
token of the span; so whoever runs the span from then on copies it, whatever happens to the node
that was asked. The way there is like that of any verb: to the node that runs the span.

Its engine takes orders between rounds, and a round may last. An order that nobody waits for any
more is taken back: what is told to have not begun must not begin behind somebody's back.
"""

from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotInTime
from typing import Final

from lockgate.model.errors import Conflict, LockgateError, NotFound, OutcomeUnknown, Transient
from lockgate.model.ids import FeedId, SpanId
from lockgate.model.instructions import Answer
from lockgate.model.spans import WHOLE
from lockgate.node.executor import FeedExecutor
from lockgate.node.link.wire import ResyncSpan
from lockgate.node.service.cluster import BUSY, HERE_S
from lockgate.node.service.contexts import config_of
from lockgate.node.service.statuses import Statuses

__all__ = ["RESYNC_S", "span_to_resync", "start_here"]

RESYNC_S: Final = 60.0
"""How long it is asked for, again and again: most rounds are over by then, whatever they apply."""
BEGIN_S: Final = HERE_S - 2.0
END_S: Final = HERE_S - BEGIN_S
"""Emptying the table at the sink, once it has begun."""


def span_to_resync(statuses: Statuses, feed: FeedId, table: str) -> tuple[SpanId, str]:
    """The span that is the whole table, and the node it is placed on."""
    if not config_of(statuses.entry(feed)).copy:
        raise Conflict(
            "the feed was created without a copy: the rows at the target are not its own",
            object_=feed,
            hint="remove it and create it anew with a copy",
        )
    spans = [record for record in statuses.spans(feed) if record.span.table == table]
    if not spans:
        raise NotFound(
            "the feed has no table of this name",
            object_=table,
            hint=f"`lockgate feed tables {feed}` shows its tables",
        )
    if len(spans) > 1 or spans[0].span.range != WHOLE:
        names = " ".join(record.id for record in spans)
        raise Conflict(
            "the table is split",
            object_=table,
            hint=f"merge its spans first: lockgate feed span-merge {feed} {names}",
        )
    node = spans[0].node
    if node is None:
        raise Transient("the table has no place just now", object_=table, hint="ask again soon")
    return spans[0].id, node.node


def start_here(executor: FeedExecutor, asked: ResyncSpan) -> Answer:
    """Begin it on this node, and answer as a core would."""
    done = executor.copy_anew(asked.feed, asked.span)
    try:
        _result(done)
    except NotInTime:
        hint = "ask again when its lag is less: `lockgate feed status` tells"
        return Answer(asked.request, BUSY, "the feed is in the middle of a long round", hint)
    except Transient as error:
        return Answer(asked.request, "not-owner", str(error), error.hint)
    except LockgateError as error:
        return Answer(asked.request, error.code, str(error), error.hint)
    return Answer(asked.request)


def _result(done: "Future[None]") -> None:
    """Raises NotInTime when it has not begun, and never will."""
    try:
        done.result(BEGIN_S)
    except NotInTime:
        if done.cancel():
            raise
    else:
        return
    try:
        done.result(END_S)
    except NotInTime:
        raise OutcomeUnknown(
            "the target has not said in time whether the table's rows are gone",
            object_="resync",
            hint="`lockgate feed tables` shows the table as copying if it has begun",
        ) from None
