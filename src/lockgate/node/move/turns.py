"""A move's turn at a side, for what is made and taken away there beside its row.

Whatever else a step does at a side is fenced by the move's row. The schema `lockgate` and the log
of schema changes are not: they are there before the row, and may go with it, and then nothing is
left that a former keeper could be refused by. So who makes them, or takes them away, has the turn
first, asks the metastore once he has it, and works on the very connection that has it. Who cleans a
side has the turn, too: a former keeper who had it is over by then, or his connection is ended; one
who gets it later is refused.
"""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Final

import psycopg

from lockgate.endpoints.postgres import turn
from lockgate.endpoints.postgres.cutover.row import LIMITS
from lockgate.endpoints.postgres.sink.session import Sessions
from lockgate.model.moves import Side
from lockgate.node.move.job import Job

__all__ = ["turn_at"]

_GRACE_S: Final = 5.0
"""How long a former keeper may take to notice, before his connection is ended."""


@contextmanager
def turn_at(job: Job, side: Side) -> Iterator[psycopg.Connection]:
    """A connection in autocommit, which can do nothing any more when it is somebody else's turn.
    StaleOwner when a later keeper works for the move."""
    move, sessions = job.entry, Sessions(job.url(side), LIMITS)
    with (
        closing(sessions.open(f"move {move.move}", autocommit=True)) as connection,
        turn.taken(connection, f"move {move.move} {move.birth}", _GRACE_S),
    ):
        job.feeds.require_newest(move, job.run.keeper)
        yield connection
