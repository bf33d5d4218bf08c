"""The steps of complete and cancel when the side without the traffic is gone for ever.

The feed of a move goes from the side that has the traffic to the other, so what is lost is where it
ends. It is removed without that; its source, which stays, is cleared as ever. Whatever was made at
the lost side is named in the record, for the day on which it turns up again.

That the side is gone is looked at by the check, and by nothing behind it: one that comes back in
the middle has been given up by then, and is left as it is.
"""

from lockgate.endpoints.postgres.cutover.triggers import TRIGGER
from lockgate.endpoints.postgres.ddl.triggers import TRIGGERS
from lockgate.endpoints.postgres.gone import gone_why
from lockgate.model.errors import Conflict
from lockgate.model.moves import Side
from lockgate.node.move.ending import await_gone, clean_side
from lockgate.node.move.job import Done, Job

__all__ = [
    "check_lost",
    "clean_other",
    "end_feed",
    "lost_of",
    "nothing_runs_out",
    "nothing_stops",
    "tables_stay",
]


def lost_of(job: Job) -> Side:
    """The side that is given up."""
    lost = job.run.order.lost
    assert lost is job.taking, "what has the traffic is not given up"
    return lost


def check_lost(job: Job) -> Done:
    """Refuse while anybody answers there: what can be drained is drained."""
    lost = lost_of(job)
    why = gone_why(job.url(lost))
    if not why:
        raise Conflict(
            f"the {lost.value} can be reached, so it is not lost",
            object_=job.name(lost),
            hint=f"ask without --lost: the {lost.value} is waited for",
        )
    return Done(f"{job.name(lost)} is gone: {why}")


def nothing_runs_out(job: Job) -> Done:
    return Done(f"{job.name(lost_of(job))} is given up: there is nothing to run out to")


def nothing_stops(job: Job) -> Done:
    """The feed stops by being removed: there is nobody to be told that its tokens are void."""
    return Done(f"{job.name(lost_of(job))} is given up: nothing is stopped there")


def end_feed(job: Job) -> Done:
    """Remove the feed, also if nobody answers where it ends."""
    gone = [feed for feed in (job.facts.feed, job.facts.frozen) if feed]
    for feed in gone:
        job.feeds.begin_removal(job.entry, job.run.keeper, feed, gives_up_sink=True)
    left: list[str] = []
    for feed in gone:
        await_gone(job, feed)
        left += job.feeds.left_behind(feed)
    told = f"removed: {', '.join(gone)}" if gone else "there was no feed"
    return Done(told, job.facts.changed(left=tuple(left)))


def tables_stay(job: Job) -> Done:
    return Done(f"{job.name(lost_of(job))} is given up: nothing is done to its tables")


def clean_other(job: Job) -> Done:
    """Guards, rows and schemas of the move go at the side that stays."""
    lost = lost_of(job)
    stays = clean_side(job, lost.other, keep_guards=False)
    left = dict.fromkeys((*job.facts.left, *_left_at(job, lost)))
    return Done("; ".join(stays), job.facts.changed(left=tuple(left)))


def _left_at(job: Job, lost: Side) -> tuple[str, ...]:
    """What may be there of the move, beside what its feed has left."""
    where, tables = f"{lost.value} {job.url(lost).label}", ", ".join(job.entry.tables)
    return (
        f"{where}: tables {tables}, with guards (triggers {TRIGGER}) that refuse writes",
        f"{where}: the row of the move {job.entry.move} in lockgate.moves; if nothing else of "
        f"Lockgate's is there: event triggers {', '.join(TRIGGERS)}, schema lockgate",
    )
