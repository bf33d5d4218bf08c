"""Which row the target does not take.

A statement over a million rows fails as a whole and its message may not say where. So the steps are
run again, each within a savepoint, and the one that fails is halved until one row is left: the
first that is refused with all before it accepted. Whoever calls rolls back afterwards.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

import psycopg

from lockgate.endpoints.postgres.sink.merge import Step

__all__ = ["Finding", "about_data", "find"]

_CLASSES: Final = frozenset({"22", "23", "44", "54", "P0"})
"""SQLSTATE: value, constraint, view's check option, a limit of the server, raised by a trigger."""


class Finding(NamedTuple):
    """A row, in words, and what the server says to it."""

    row: str
    step: str
    error: psycopg.Error


def about_data(error: psycopg.Error) -> bool:
    """True when the error may be one row's."""
    return (error.sqlstate or "")[:2] in _CLASSES


def find(connection: psycopg.Connection, steps: Iterator[Step]) -> Finding | None:
    """The first row that is refused; None when every row was taken this time."""
    for step in steps:
        if _fails(connection, step, 0, step.size) is None:
            continue
        start, stop = 0, step.size
        while stop - start > 1:
            middle = (start + stop) // 2
            if _fails(connection, step, start, middle) is None:
                start = middle
            else:
                stop = middle
        error = _fails(connection, step, start, stop)
        if error is not None:
            return Finding(step.row(start), step.name, error)
    return None


def _fails(
    connection: psycopg.Connection, step: Step, start: int, stop: int
) -> psycopg.Error | None:
    try:
        with connection.transaction():
            step.run(start, stop)
    except psycopg.Error as error:
        if not about_data(error):
            raise
        return error
    return None
