"""One piece of work on one table of a lake, and how it ended."""

import contextlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Final, NamedTuple, Protocol

from lockgate.endpoints.delta.commit_files import may_be_there
from lockgate.endpoints.delta.compact import Compacted
from lockgate.endpoints.delta.delete import delete
from lockgate.endpoints.delta.fenced import FencedTable, TableDead
from lockgate.endpoints.delta.homes import of_home
from lockgate.endpoints.delta.lake import STABLE, Lake, end
from lockgate.endpoints.delta.layered import Drained, DrainOvertaken, LayeredTable
from lockgate.endpoints.delta.place import Place
from lockgate.endpoints.delta.vacuum import vacuum
from lockgate.model.errors import LockgateError, NotFound, StaleOwner
from lockgate.model.ids import Token
from lockgate.model.lake import LakeTrouble, WorkKind, WorkOutcome
from lockgate.model.lake_instructions import RunWork
from lockgate.model.positions import ORIGIN, Position
from lockgate.pipeline.drain import compact, drain
from lockgate.pipeline.session import Spark

__all__ = ["Ended", "OnSpark", "Rewriter", "Workbench"]

_STOPPED: Final = LakeTrouble("it was stopped before it was done")


class Ended(NamedTuple):
    """How it ended."""

    outcome: WorkOutcome
    trouble: LakeTrouble | None = None
    drained_to: Position = ORIGIN


class Rewriter(Protocol):
    """What rewrites files of stable: where that is done is its business."""

    def drain(self, table: LayeredTable, token: Token, tag: str) -> Drained | None:
        """Bring what ingest has into stable, about as much as one drain takes. None: nothing."""

    def compact(self, table: LayeredTable, token: Token, tag: str) -> Compacted | None:
        """Make one file of small ones that lie next to each other. None: there are none."""


class OnSpark:
    """`Rewriter` by Spark jobs."""

    def __init__(self, spark: Callable[[], AbstractContextManager[Spark]]) -> None:
        self._spark = spark

    def drain(self, table: LayeredTable, token: Token, tag: str) -> Drained | None:
        with self._spark() as spark:
            return drain(spark, table, token, tag)

    def compact(self, table: LayeredTable, token: Token, tag: str) -> Compacted | None:
        with self._spark() as spark:
            return compact(spark, table, token, tag)


class Workbench:
    """Works on the tables of one lake for one home; several threads may."""

    def __init__(self, place: Place, home: str, rewriter: Rewriter, retention_s: float) -> None:
        self._lake = Lake(place)
        self._home = home
        self._rewriter = rewriter
        self._retention_s = retention_s

    def run(self, work: RunWork, stopped: Callable[[], bool]) -> Ended:
        """Do it. Whatever happens, nothing of it runs any more afterwards."""
        try:
            return self._doers[work.kind](self, work, stopped)
        except TableDead:
            return Ended(WorkOutcome.DEAD)
        except StaleOwner:
            return Ended(WorkOutcome.STALE)
        except LockgateError as error:
            trouble = LakeTrouble(str(error), error.hint)
            return Ended(
                WorkOutcome.UNKNOWN if may_be_there(error) else WorkOutcome.FAILED, trouble
            )

    def _claim(self, work: RunWork, _: Callable[[], bool]) -> Ended:
        FencedTable.open(self._place(work).child(STABLE)).claim(work.token)
        return Ended(WorkOutcome.DONE)

    def _drain(self, work: RunWork, stopped: Callable[[], bool]) -> Ended:
        """All that was there when it began: more may come for ever. Not done is not called done:
        somebody may wait for just what is missing."""
        try:
            table = of_home(self._place(work), self._home)
        except NotFound:
            return Ended(WorkOutcome.NOTHING)  # another home's table: we have nothing for it
        upto = table.ingest.look().position
        to = table.stable.look().position
        done = False
        while to < upto:
            if stopped():
                return Ended(WorkOutcome.FAILED, _STOPPED)
            try:
                drained = self._rewriter.drain(table, work.token, _tag(work))
            except DrainOvertaken:
                # By an earlier one of ours that was taken for lost: what is left is looked at anew.
                to = table.stable.look().position
                continue
            if drained is None:
                break
            done, to = True, drained.to
        # A feed prunes with its batches, and to this table none may come any more. The drain is
        # done whatever comes of it: a vacuum finds what is left.
        with contextlib.suppress(LockgateError):
            table.prune(None)
        return Ended(WorkOutcome.DONE if done else WorkOutcome.NOTHING, drained_to=to)

    def _compact(self, work: RunWork, _: Callable[[], bool]) -> Ended:
        table = of_home(self._place(work), self._home)
        done = self._rewriter.compact(table, work.token, _tag(work))
        return Ended(WorkOutcome.NOTHING if done is None else WorkOutcome.DONE)

    def _vacuum(self, work: RunWork, _: Callable[[], bool]) -> Ended:
        done = vacuum(self._place(work))
        return Ended(WorkOutcome.DONE if done.files or done.log_files else WorkOutcome.NOTHING)

    def _kill(self, work: RunWork, _: Callable[[], bool]) -> Ended:
        place = self._place(work)
        stable = FencedTable.open(place.child(STABLE))
        was_dead = stable.look().dead
        stable.kill(work.token, dropped=work.dropped)
        # It is dead whatever comes of its ingests: its deletion begins with them once more.
        with contextlib.suppress(LockgateError):
            end(place)
        return Ended(WorkOutcome.DEAD if was_dead else WorkOutcome.DONE)

    def _delete(self, work: RunWork, _: Callable[[], bool]) -> Ended:
        done = delete(self._lake, work.table, work.incarnation, self._retention_s)
        if done.waits_for:
            return Ended(WorkOutcome.HELD, LakeTrouble(done.waits_for))
        return Ended(WorkOutcome.DONE)

    def _place(self, work: RunWork) -> Place:
        return self._lake.place(work.table, work.incarnation)

    _doers: Final = {
        WorkKind.CLAIM: _claim,
        WorkKind.DRAIN: _drain,
        WorkKind.COMPACT: _compact,
        WorkKind.VACUUM: _vacuum,
        WorkKind.KILL: _kill,
        WorkKind.DELETE: _delete,
    }


def _tag(work: RunWork) -> str:
    return f"lake-{work.kind.value}-{work.table}"
