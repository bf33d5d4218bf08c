"""The steps of complete and cancel: nobody applies any more, then feeds and tables go.

complete   the feed runs exactly to a position and stops there, its tokens void; it is removed;
           only then is a table renamed or dropped, so nobody can meet it
cancel     the feed stops, its tokens void; it is removed; only then are the copies dropped
"""

import contextlib
from collections.abc import Collection

from lockgate.endpoints.postgres.cutover.checks import complete_findings, followed_findings
from lockgate.endpoints.postgres.cutover.clean import clean
from lockgate.endpoints.postgres.cutover.dispose import drop, rename
from lockgate.endpoints.postgres.cutover.guards import guard
from lockgate.endpoints.postgres.ddl import log as ddl_log
from lockgate.endpoints.postgres.sink.fence import PostgresSink
from lockgate.endpoints.postgres.source.slot import lsn_text
from lockgate.model.errors import Conflict, LockgateError, MissingPrivilege, Transient
from lockgate.model.feeds import FeedState
from lockgate.model.findings import Finding
from lockgate.model.ids import FeedId, TableId
from lockgate.model.moves import Command, Disposal, Side
from lockgate.model.positions import Position
from lockgate.model.tables import TableName
from lockgate.node.move.holding import hold
from lockgate.node.move.job import Done, Job, refuse_if_wrong
from lockgate.node.move.turns import turn_at
from lockgate.store.feeds import FeedEntry

__all__ = [
    "await_gone",
    "check_cancel",
    "check_complete",
    "clean_",
    "clean_side",
    "dispose_",
    "drop_copies",
    "end_feed",
    "run_out",
    "stop",
]


# --- complete -------------------------------------------------------------------------------------


def check_complete(job: Job) -> Done:
    """The feed back is healthy, and the tables can be disposed of. Changes nothing."""
    feed = job.facts.feed
    if why := job.feeds.trouble(feed):
        raise Conflict(
            why, object_=feed, hint=f"see `lockgate feed status {feed}` for what is to be done"
        )
    disposal = job.run.order.disposal
    own = [each for each in (feed, job.facts.frozen) if each]
    found = complete_findings(job.url(Side.SOURCE), job.tables, disposal, own=own)
    said = [
        refuse_if_wrong(found, job.entry.move),
        refuse_if_wrong(_followers(job, Side.SOURCE, job.tables), job.entry.move),
    ]
    warned = "; ".join(filter(None, said))
    return Done(warned or f"{len(job.tables)} tables can be {_past(disposal)}")


def run_out(job: Job) -> Done:
    """Have the feed stand at exactly one position, and stop it there.

    It stays held there until it is removed: should somebody let it go on, it goes nowhere.
    Partitions that came without a guard get theirs first: the tables may be kept, closed."""
    feed = job.facts.feed
    closed, at = job.url(job.taking), job.name(job.giving)
    guard(closed, job.mark, job.tables, at=at, skip_missing=True)
    with job.feeds.sink(feed) as sink:
        upto = hold(job.mark, sink, feed)
        if not _was_stopped_at(job, sink, upto):
            upto = _run_to(job, sink)
        job.feeds.pause(job.entry, job.run.keeper, feed)
        stands = sink.stands(feed)
    if stands is None or not stands.exactly(upto):
        raise Transient(
            "the feed did not stay where it was held", object_=feed, hint="it is tried again"
        )
    where = f"{job.name(job.taking)} has everything of {job.name(job.giving)} up to"
    return Done(f"{where} {lsn_text(upto)}", job.facts.changed(as_of=upto))


def _was_stopped_at(job: Job, sink: PostgresSink, position: Position) -> bool:
    """Somebody was here before, and had it stopped where it was to be."""
    record, stands = job.feeds.record(job.facts.feed), sink.stands(job.facts.feed)
    if record is None or record.state is not FeedState.STOPPED:
        return False
    return stands is not None and stands.exactly(position)


def _run_to(job: Job, sink: PostgresSink) -> Position:
    """Choose a position behind where the feed is held, and have everything of it stand there."""
    feed = job.facts.feed
    job.feeds.resume(job.entry, job.run.keeper, feed)  # whoever was here before may have stopped it
    # A commit record may begin where the log goes on; right before it no transaction is cut.
    upto = hold(job.mark, sink, feed, job.feeds.beat(feed) - 1)

    def is_there() -> bool:
        stands = sink.stands(feed)
        return stands is not None and stands.exactly(upto)

    job.wait_applied(is_there, f"the feed {feed} has not run out yet", feed)
    return upto


def end_feed(job: Job) -> Done:
    """Remove the feed: nobody can apply at its sink any more, whatever woke up."""
    gone = []
    for feed in filter(None, (job.facts.feed, job.facts.frozen)):
        job.feeds.begin_removal(job.entry, job.run.keeper, feed)
        gone.append(feed)
    for feed in gone:
        await_gone(job, feed)
    return Done(f"removed: {', '.join(gone)}" if gone else "there was no feed")


def await_gone(job: Job, feed: FeedId) -> None:
    job.wait(lambda: job.feeds.is_gone(feed), f"the feed {feed} is not removed yet")


def dispose_(job: Job) -> Done:
    """Rename, drop or keep the source's tables."""
    disposal = job.run.order.disposal
    if disposal is Disposal.KEEP:
        return Done(f"{len(job.tables)} tables are kept, closed for writers")
    refuse_if_wrong(_followers(job, Side.SOURCE, job.tables), job.entry.move)
    way = rename if disposal is Disposal.RENAME else drop
    return Done("; ".join(way(job.url(Side.SOURCE), job.mark, job.tables)))


def clean_(job: Job) -> Done:
    """Guards, rows and schemas of the move go, at both sides."""
    order = job.run.order
    keeps = order.command is Command.COMPLETE and order.disposal is Disposal.KEEP
    stays: list[str] = []
    for side in (Side.SOURCE, Side.TARGET):
        stays += clean_side(job, side, keep_guards=keeps and side is Side.SOURCE)
    return Done("; ".join(stays))


def clean_side(job: Job, side: Side, *, keep_guards: bool) -> list[str]:
    """The same at one side. Answers what stays there."""
    _remove_log(job, side)
    return clean(job.url(side), job.mark, job.tables, keep_guards=keep_guards)


def _remove_log(job: Job, side: Side) -> None:
    """Create has installed one at both sides, so that a flip finds it there. Feeds take theirs
    away; at a side from which none ever went it is still there. From now on no former keeper makes
    it, or anything else of that kind, anew."""
    with turn_at(job, side) as connection, contextlib.suppress(MissingPrivilege):
        ddl_log.remove_unused(connection)


# --- cancel ---------------------------------------------------------------------------------------


def check_cancel(job: Job) -> Done:
    """Traffic is at the source, which the record knows; but others may follow the copies."""
    copies, found = _copies(job), list[Finding]()
    made = _made(job.feeds.entry(job.facts.feed))
    with contextlib.suppress(LockgateError):  # a side that is away is waited for by what follows
        found = _followers(job, Side.TARGET, _among(copies, made))
    warned = refuse_if_wrong(found, job.entry.move)
    return Done(warned or f"{len(copies)} copies of tables at {job.name(Side.TARGET)}")


def _followers(job: Job, side: Side, tables: list[TableName]) -> list[Finding]:
    """Whom it would hurt that these tables are disposed of. It is asked for before anything is
    done, and once more right before they go: somebody may have come meanwhile."""
    own = job.feeds.publications(job.facts.feed, job.facts.frozen)
    stays = job.run.order.disposal is Disposal.KEEP
    return followed_findings(job.url(side), tables, own, stays=stays)


def stop(job: Job) -> Done:
    """Stop the feed, its tokens void: nobody applies any more. One that is not even set up has no
    tokens, and gets none. What it has made is recorded here: once it is removed, nobody knows."""
    feed = job.facts.feed
    entry = job.feeds.break_off(job.entry, job.run.keeper, feed)
    if entry is not None:
        job.feeds.end_attempts(entry)
    if (made := _made(entry)) is not None:
        what = "there is no feed" if entry is None else f"the feed {feed} was not set up"
        return Done(what, job.facts.changed(made=made))
    if job.feeds.record(feed) is not None:
        job.feeds.pause(job.entry, job.run.keeper, feed)
    return Done(f"the feed {feed} is stopped")


def drop_copies(job: Job) -> Done:
    """Drop the target's tables that the move has made, unless they are to be kept."""
    copies = _copies(job)
    if job.run.order.disposal is Disposal.KEEP or not copies:
        return Done(f"{len(copies)} copies are kept")
    made = job.facts.made
    refuse_if_wrong(_followers(job, Side.TARGET, _among(copies, made)), job.entry.move)
    return Done("; ".join(drop(job.url(Side.TARGET), job.mark, copies, made=made)))


def _made(feed: FeedEntry | None) -> tuple[TableId, ...] | None:
    """What a set-up that did not come to its end has made at the target. None: it did, and every
    copy is the move's."""
    if feed is None:
        return ()
    return feed.making if feed.start is None else None


def _among(copies: list[TableName], made: Collection[TableId] | None) -> list[TableName]:
    """Those that are dropped: what somebody else has made stays."""
    return copies if made is None else [each for each in copies if each.id in made]


def _copies(job: Job) -> list[TableName]:
    """Those that were not there before."""
    there = set(job.entry.there)
    return [each for each in job.tables if each.id not in there]


def _past(disposal: Disposal) -> str:
    return {"rename": "renamed", "drop": "dropped", "keep": "kept"}[disposal.value]
