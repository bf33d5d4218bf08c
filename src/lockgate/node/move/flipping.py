"""The steps of switch and reverse, which are one plan: traffic goes from one side to the other.

Everything before the seal can be undone, and what is undone was perhaps never done: each `undo_…`
works from any state. While writes are blocked every moment counts; so whatever can be known before
is looked at in `check`, and waits are short ones.
"""

import time

from lockgate.endpoints.postgres.cutover import guards
from lockgate.endpoints.postgres.cutover.checks import flip_findings
from lockgate.endpoints.postgres.cutover.sequences import carry
from lockgate.model.errors import Conflict, LockgateError, StaleOwner
from lockgate.model.feed_config import FeedConfig
from lockgate.model.findings import Severity
from lockgate.model.move_config import feed_name
from lockgate.model.moves import MoveOrder, Side
from lockgate.node.move.feeds import feed_config
from lockgate.node.move.holding import hold, let_go
from lockgate.node.move.job import Done, Job, refuse_if_wrong

__all__ = [
    "NotSealed",
    "block",
    "catch_up",
    "check",
    "freeze",
    "hook_after",
    "hook_before",
    "open_",
    "retire",
    "seal",
    "sequences_",
    "undo_block",
    "undo_freeze",
    "undo_hook_before",
    "undo_way_back",
    "way_back",
]

LAG_POLL_S = 0.1


class NotSealed(Conflict):
    """The giving side says that the seal is not on, and by this block never will be."""

    code = "not-sealed"


# --- before anybody is blocked --------------------------------------------------------------------


def check(job: Job) -> Done:
    """Lag, states, privileges, sequences, hooks. Changes nothing."""
    feed = job.facts.feed
    if why := job.feeds.trouble(feed):
        raise Conflict(
            why, object_=feed, hint=f"see `lockgate feed status {feed}` for what is to be done"
        )
    with job.feeds.sink(feed) as sink:
        if not sink.copies_over(feed):
            raise Conflict(
                "the copy is not finished",
                object_=feed,
                hint=f"wait for it: lockgate move watch {job.entry.move}",
            )
    entry = job.feeds.entry(feed)
    if entry is None or (job.giving is Side.SOURCE and not job.facts.flips and not entry.finished):
        raise Conflict(
            "indexes and constraints at the target are not built yet",
            object_=feed,
            hint=f"wait for it: lockgate move watch {job.entry.move}",
        )
    job.feeds.refuse_if_taken(_back_feed(job))
    giving, taking = job.url(job.giving), job.url(job.taking)
    within_s = job.run.order.timeout_ms / 1000
    found = flip_findings(giving, taking, job.tables, own=[feed], within_s=within_s)
    if not any(each.severity is Severity.ERROR for each in found):
        # What would refuse the feed back is said now, and not when writers wait for it.
        found += job.feeds.obstacles(_back_config(job))
    warned = refuse_if_wrong(found, job.entry.move)
    hooked = job.hook.check(job.hooked())
    lag_s = _lag_s(job, job.run.order)
    said = [f"the feed is {lag_s:.1f} s behind", warned, hooked if job.entry.config.hook else ""]
    return Done("; ".join(filter(None, said)))


def _lag_s(job: Job, order: MoveOrder) -> float:
    """How long the feed takes to be level with a position of now. Conflict when it is longer than
    people allow: writers would be blocked for as long."""
    most_s = order.max_lag_ms / 1000
    began = time.monotonic()
    upto = job.feeds.beat(job.facts.feed)
    with job.feeds.sink(job.facts.feed) as sink:
        while True:
            stands = sink.least_position(job.facts.feed)
            spent = time.monotonic() - began
            if stands is not None and stands >= upto - 1:
                return spent
            if spent > most_s:
                raise Conflict(
                    f"the feed is more than {most_s:g} s behind",
                    object_=job.facts.feed,
                    hint="wait until it has caught up, or allow more: --max-lag",
                )
            job.check()
            time.sleep(LAG_POLL_S)


def hook_before(job: Job) -> Done:
    """Have whoever routes the traffic hold it. What fails is not tried again while people wait for
    it: the flip is put back, and they ask again when they like. Before anybody waits, partitions
    that came to the closed side without a guard get theirs."""
    taking, at = job.url(job.taking), job.name(job.giving)
    guards.guard(taking, job.mark, job.tables, at=at, patience_s=job.left_s)
    try:
        return Done(job.hook.before(job.hooked()))
    except StaleOwner:
        raise
    except LockgateError as error:
        raise Conflict(
            error.what, object_=error.object, hint=error.hint, cause=error.cause
        ) from error


def undo_hook_before(job: Job) -> Done:
    return Done(job.hook.undo(job.hooked()))


# --- blocked --------------------------------------------------------------------------------------


def block(job: Job) -> Done:
    """Guard the giving side until a deadline by its own clock, and wait for who writes there."""
    position = guards.block(
        job.url(job.giving),
        job.mark,
        job.tables,
        moved_to=job.name(job.taking),
        deadline_s=job.left_s,
        patience_s=job.left_s,
    )
    return Done(
        f"writes to {job.name(job.giving)} are blocked", job.facts.changed(blocked_at=position)
    )


def undo_block(job: Job) -> Done:
    guards.unblock(job.url(job.giving), job.mark, job.tables)
    return Done(f"writes to {job.name(job.giving)} go on")


def catch_up(job: Job) -> Done:
    """Wait until the taking side has everything that was written at the giving side."""
    feed, upto = job.facts.feed, job.facts.blocked_at
    with job.feeds.sink(feed) as sink:

        def is_level() -> bool:
            stands = sink.least_position(feed)
            return stands is not None and stands >= upto - 1

        job.wait_applied(is_level, f"{job.name(job.taking)} has not got everything yet", feed)
    return Done(f"{job.name(job.taking)} has everything that was written")


def freeze(job: Job) -> Done:
    """Hold the feed at its sink: nothing is applied at the taking side any more."""
    feed = job.facts.feed
    with job.feeds.sink(feed) as sink:
        hold(job.mark, sink, feed)
    return Done(f"the feed {feed} is frozen")


def undo_freeze(job: Job) -> Done:
    feed = job.facts.feed
    with job.feeds.sink(feed) as sink:
        let_go(job.mark, sink, feed)
    return Done(f"the feed {feed} goes on")


def sequences_(job: Job) -> Done:
    """Set the taking side's sequences beyond the giving side's."""
    giving, taking = job.url(job.giving), job.url(job.taking)
    set_ = carry(giving, taking, job.tables, mark=job.mark)
    return Done(f"{len(set_)} sequences are set")


def way_back(job: Job) -> Done:
    """Have the feed from the taking to the giving side, from where the taking side is now. Nobody
    writes there before this has begun to follow: not the frozen feed, and nobody else."""
    feed = _back_feed(job)
    job.feeds.have(job.entry, job.run.keeper, _back_config(job))
    job.wait(lambda: job.feeds.is_set_up(feed), f"the feed {feed} is not set up yet")
    made = job.feeds.entry(feed)
    assert made is not None, "it is made"
    assert made.start is not None, "it is set up"
    return Done(f"the feed {feed} goes back", job.facts.changed(back_from=made.start))


def undo_way_back(job: Job) -> Done:
    """The feed is gone before the frozen one goes on: it would carry back what that one brings."""
    feed = _back_feed(job)
    job.feeds.begin_removal(job.entry, job.run.keeper, feed)
    job.wait(lambda: job.feeds.is_gone(feed), f"the feed {feed} is not removed yet")
    return Done(f"there is no feed {feed}")


def _back_config(job: Job) -> FeedConfig:
    taking, giving = job.name(job.taking), job.name(job.giving)
    return feed_config(job.entry, _back_feed(job), taking, giving, copy=False)


def _back_feed(job: Job) -> str:
    return feed_name(job.entry.move, job.facts.flips + 1)


def seal(job: Job) -> Done:
    """Make the guard permanent, if that can be: the point of no return."""
    sealed = guards.seal(job.url(job.giving), job.mark, job.tables, blocked_at=job.facts.blocked_at)
    if not sealed:
        raise NotSealed(
            "the block was over, or a table was changed, before everything was ready",
            object_=job.name(job.giving),
            hint="ask again; with a greater --timeout if it takes that long",
        )
    return Done(f"{job.name(job.giving)} has given the traffic away")


# --- behind the seal ------------------------------------------------------------------------------


def open_(job: Job) -> Done:
    """Take the guard of the taking side away."""
    guards.open_tables(job.url(job.taking), job.mark, job.tables)
    return Done(f"{job.name(job.taking)} takes writes")


def hook_after(job: Job) -> Done:
    """Have whoever routes the traffic send it to the taking side."""
    return Done(job.hook.after(job.hooked()))


def retire(job: Job) -> Done:
    """Remove the feed that was frozen."""
    feed = job.facts.frozen
    if not feed:
        return Done()
    job.feeds.begin_removal(job.entry, job.run.keeper, feed)
    job.wait(lambda: job.feeds.is_gone(feed), f"the feed {feed} is not removed yet")
    return Done(f"the feed {feed} is removed")
