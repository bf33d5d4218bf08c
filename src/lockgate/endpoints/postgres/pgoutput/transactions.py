"""Transactions of the stream, and the positions of what is in them.

A transaction whose commit record lies at [commit_lsn, end_lsn) owns these positions. DDL divides
it: what comes after the j-th run of DDL rows stands at commit_lsn + 2j, the run itself one
position before. A run is all DDL rows with no change of a replicated table between them. With
no DDL, which is nearly always, all changes of a transaction stand at its commit_lsn.

    rows   ddl ddl   rows   ddl   rows
     +0      +1       +2    +3     +4

A commit record is at least 34 bytes long, so that 15 runs always fit.
"""

from typing import Final, NamedTuple

import numpy as np

from lockgate.endpoints.postgres.pgoutput.loads import Bytes, Indexes, Loads
from lockgate.endpoints.postgres.pgoutput.malformed import Malformed
from lockgate.endpoints.postgres.pgoutput.tuples import Flags
from lockgate.model.errors import Terminal
from lockgate.model.positions import Position
from lockgate.model.value import Value

__all__ = [
    "RUNS_MAX",
    "Commit",
    "Open",
    "Scope",
    "TooManyRuns",
    "commit_at",
    "runs",
    "scope",
    "too_many_runs",
]

RUNS_MAX: Final = 15

_BEGIN, _COMMIT, _MESSAGE = b"BCM"
_EPOCH: Final = 946_684_800_000_000
"""PostgreSQL counts microseconds from the year 2000: this many after 1970."""


class TooManyRuns(Terminal):
    """A transaction changes schema and rows in turns, more often than it has positions."""

    code = "ddl-runs"


class Commit(Value, frozen=True):
    """The end of a transaction."""

    commit_lsn: Position
    end_lsn: Position
    """Where the log goes on: everything before it is in the stream so far."""
    time: int
    """Microseconds since 1970."""


class Open(NamedTuple):
    """A transaction whose end is still to come."""

    commit_lsn: Position
    time: int
    xid: int
    runs: int = 0
    """DDL runs so far."""
    in_run: bool = False
    """True when the last thing in it was a row of DDL."""


class Scope(NamedTuple):
    """The transactions of one buffer. The first is the one that was open before, or a stand-in."""

    of: Indexes
    """For each message, the number of its transaction."""
    commit_lsns: Indexes
    times: Indexes
    xids: Indexes
    last: Commit | None
    open: bool
    """True when the last transaction has no end yet."""

    def rest(self, before: Open | None, runs: int, changes: Indexes, ddl: Indexes) -> Open | None:
        """What stays open, with so many DDL runs so far.

        `changes` are the numbers of the messages with changes, `ddl` those of rows of DDL.
        """
        if not self.open:
            return None
        number = len(self.commit_lsns) - 1
        change, row = (_last(each[self.of[each] == number]) for each in (changes, ddl))
        in_run = row > change
        if change == row:  # Neither was in this buffer.
            in_run = before is not None and number == 0 and before.in_run
        lsn, time, xid = (int(each[number]) for each in (self.commit_lsns, self.times, self.xids))
        return Open(lsn, time, xid, runs, in_run)


def scope(loads: Loads, kinds: Bytes, starts: Indexes, before: Open | None) -> Scope:
    """Which transaction each message belongs to. Messages outside of any are refused."""
    _check(kinds, before is not None)
    begins = starts[kinds == _BEGIN]
    first = before or Open(0, 0, 0)
    commit_lsns = np.concatenate([[first.commit_lsn], loads.i64(begins + 1)])
    times = np.concatenate([[first.time], loads.i64(begins + 9) + _EPOCH])
    xids = np.concatenate([[first.xid], loads.u32(begins + 17)])
    commits = starts[kinds == _COMMIT]
    ended = commit_lsns[0 if before else 1 :][: len(commits)]
    if (loads.i64(commits + 2) != ended).any():
        raise Malformed("a transaction ends at another position than it began with")
    last = commit_at(loads, int(commits[-1])) if len(commits) else None
    return Scope(
        np.cumsum(kinds == _BEGIN),
        commit_lsns,
        times,
        xids,
        last,
        len(begins) + (before is not None) > len(commits),
    )


def _last(messages: Indexes) -> int:
    return int(messages[-1]) if len(messages) else -1


def commit_at(loads: Loads, start: int) -> Commit:
    """The Commit message that begins at `start`."""
    fields = loads.i64(np.array([start + 2, start + 10, start + 18]))
    return Commit(int(fields[0]), int(fields[1]), int(fields[2]) + _EPOCH)


def _check(kinds: Bytes, inside: bool) -> None:
    """Begin and Commit take turns, and only messages of no transaction are between them."""
    kinds = kinds[kinds != _MESSAGE]
    if not len(kinds):
        return
    opens = np.concatenate([[not inside], kinds[:-1] == _COMMIT])
    if (opens != (kinds == _BEGIN)).any():
        raise Malformed("the stream's messages do not make whole transactions")


def runs(changes: Flags, ddl: Indexes, scope: Scope, before: Open | None) -> Indexes:
    """For each message, how many DDL runs its transaction had up to and with it.

    `changes` tells which messages are changes of replicated tables, `ddl` are the numbers of
    the messages that are rows of DDL.
    """
    counted = np.zeros(len(changes), np.int64)
    if before is not None and before.runs:
        counted[scope.of == 0] = before.runs
    if not len(ddl):
        return counted
    is_ddl = np.zeros(len(changes), np.bool_)
    is_ddl[ddl] = True
    events = np.flatnonzero(changes | is_ddl)
    own, is_ddl = scope.of[events], is_ddl[events]
    starts = is_ddl.copy()
    starts[1:] &= ~(is_ddl[:-1] & (own[1:] == own[:-1]))
    if before is not None and before.in_run and own[0] == 0:
        starts[0] = False
    # What a run begins is counted from its message on, to the end of its transaction.
    begun = np.zeros(len(changes), np.int64)
    begun[events[starts]] = 1
    total = np.cumsum(begun)
    firsts = np.searchsorted(scope.of, scope.of)
    return counted + total - (total - begun)[firsts]


def too_many_runs(statement: str, position: Position) -> TooManyRuns:
    """The error for a statement, or what there is in its place, that begins one run too many."""
    return TooManyRuns(
        f"a transaction changes schema and rows in turns more than {RUNS_MAX} times",
        object_=statement,
        hint="such a transaction cannot be replicated in order; skip it by starting the feed anew",
        operation="decode",
        cause=f"the transaction of position {position}",
    )
