"""The steps of create: look, have the feed with its copy, close the target for everybody else."""

from contextlib import suppress

from lockgate.endpoints.postgres.cutover import guards, row
from lockgate.endpoints.postgres.cutover.checks import create_findings
from lockgate.endpoints.postgres.ddl import log as ddl_log
from lockgate.endpoints.postgres.faults import faults
from lockgate.endpoints.postgres.sink import tables
from lockgate.model.errors import MissingPrivilege
from lockgate.model.move_config import feed_name
from lockgate.model.moves import Side
from lockgate.node.move.feeds import feed_config
from lockgate.node.move.job import Done, Job, refuse_if_wrong
from lockgate.node.move.turns import turn_at

__all__ = ["check_create", "forward", "guard"]


def check_create(job: Job) -> Done:
    """Refuse what cannot be moved. What the first feed has made since is no obstacle."""
    if job.feeds.entry(job.facts.feed) is not None:
        return Done("the feed is there already")
    job.feeds.refuse_if_taken(feed_name(job.entry.move, job.facts.flips))
    source, target = job.url(Side.SOURCE), job.url(Side.TARGET)
    warned = refuse_if_wrong(create_findings(source, target, job.tables), job.entry.move)
    return Done(warned or f"{len(job.tables)} tables can be moved")


def forward(job: Job) -> Done:
    """Have the feed, and wait until it is set up: from then on it copies and follows by itself."""
    entry = job.entry
    config = feed_config(entry, job.facts.feed, entry.config.source, entry.config.target, copy=True)
    job.feeds.have(entry, job.run.keeper, config)
    job.wait(lambda: job.feeds.is_made(config.name), "the feed is not set up yet")
    return Done(f"the feed {config.name} copies and follows {len(job.tables)} tables")


def guard(job: Job) -> Done:
    """Let nobody but Lockgate write to the target's tables. What a flip needs at both sides is made
    here too: when it comes, writers wait for it."""
    for side in (Side.SOURCE, Side.TARGET):
        _prepare(job, side)
    target = job.url(Side.TARGET)
    guards.guard(target, job.mark, job.tables, at=job.name(Side.SOURCE))
    return Done(
        f"nobody but Lockgate writes to {len(job.tables)} tables of {job.name(Side.TARGET)}"
    )


def _prepare(job: Job, side: Side) -> None:
    """What no keeper takes away but by `clean`: nobody makes it behind that."""
    label = job.url(side).label
    with turn_at(job, side) as connection:
        with (
            faults(object_=label, operation="prepare a side"),
            connection.transaction(),
            connection.cursor() as cursor,
        ):
            row.make(cursor, label)
            tables.prepare(cursor, label)
        with suppress(MissingPrivilege):
            ddl_log.install(connection)
