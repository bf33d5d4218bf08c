"""What the keeper of a move wants done, done by threads: each instruction is answered by an event.

A step runs on one thread, and at most one step runs for a move. Records have a thread of their own:
what a step holds up must not keep it from being told.
"""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from lockgate.model.errors import LockgateError, StaleOwner, Terminal
from lockgate.model.move_events import (
    MoveEvent,
    MoveNotRecorded,
    MoveOutdated,
    MoveRecorded,
    StepEnded,
    StepOutcome,
)
from lockgate.model.move_instructions import MoveInstruction, RecordMove, RunStep, StopStep
from lockgate.model.moves import MoveId, MoveTrouble, Step
from lockgate.node.keeping.carrier import Carrier
from lockgate.node.move.flipping import NotSealed
from lockgate.node.move.job import Done, Job, Stopped
from lockgate.node.move.steps import verb
from lockgate.node.telemetry.lines import Lines
from lockgate.store.moves import MoveBook, MoveEntry

__all__ = ["MoveExecutor"]

MakeJob = Callable[[MoveEntry, RunStep, Callable[[], bool]], Job]


class MoveExecutor(Carrier[MoveEvent]):
    """Carries out the instructions of one keeper. Orders are handed on and never waited for."""

    def __init__(self, entry: MoveEntry, book: MoveBook, make_job: MakeJob) -> None:
        self._entry = entry
        self._book = book
        self._make_job = make_job
        self._stopped: set[int] = set()
        self._lines: Final = Lines("lockgate.move", move=entry.move)
        self._records = ThreadPoolExecutor(1, thread_name_prefix=f"record {entry.move}")
        self._steps = ThreadPoolExecutor(2, thread_name_prefix=f"move {entry.move}")
        super().__init__((self._records, self._steps))

    @property
    def move(self) -> MoveId:
        return self._entry.move

    def carry_out(self, instruction: MoveInstruction) -> None:
        """Begin what it asks; an event follows."""
        if isinstance(instruction, RecordMove):
            self.submit(self._records, self._record, instruction)
        elif isinstance(instruction, RunStep):
            self.submit(self._steps, self._run, instruction)
        elif isinstance(instruction, StopStep):
            self._stopped.add(instruction.number)

    def _record(self, wanted: RecordMove) -> MoveEvent:
        serial = wanted.record.serial
        try:
            done = self._book.write(self._entry.birth, wanted.record)
        except LockgateError as error:
            return MoveNotRecorded(serial, str(error))
        except Exception as error:
            return MoveNotRecorded(serial, self._bug("a move was not recorded", error))
        return MoveOutdated(serial) if done is False else MoveRecorded(serial)

    def _run(self, run: RunStep) -> MoveEvent:
        began = time.monotonic()
        ended = self._ended(run)
        self._stopped.discard(run.number)
        self._tell_of(run, ended, time.monotonic() - began)
        return ended

    def _ended(self, run: RunStep) -> StepEnded:
        try:
            job = self._make_job(self._entry, run, lambda: self._is_stopped(run.number))
            done = verb(job)(job)
        except Stopped:
            # What was in its way is what the attempt before has said.
            return StepEnded(run.number, run.step, StepOutcome.FAILED)
        except LockgateError as error:
            trouble = MoveTrouble(str(error), error.hint)
            return StepEnded(run.number, run.step, _outcome(run, error), trouble=trouble)
        except Exception as error:
            trouble = MoveTrouble(self._bug(f"{run.step.value} broke", error), "see the node's log")
            return StepEnded(run.number, run.step, StepOutcome.FAILED, trouble=trouble)
        return self._done(run, done)

    def _done(self, run: RunStep, done: Done) -> StepEnded:
        return StepEnded(run.number, run.step, StepOutcome.DONE, done.facts, done.detail)

    def _tell_of(self, run: RunStep, ended: StepEnded, seconds: float) -> None:
        what = "a step is undone" if run.undo else "a step is done"
        if run.dry:
            return
        fields = {"step": run.step.value, "keeper": run.keeper, "seconds": round(seconds, 3)}
        if ended.outcome is StepOutcome.DONE:
            self._lines.info(what, **fields)
        elif ended.trouble is not None:
            outcome, trouble = ended.outcome.value, ended.trouble
            self._lines.warning(
                f"a step was {outcome}", why=trouble.what, next=trouble.hint, **fields
            )

    def _is_stopped(self, number: int) -> bool:
        return self.over or number in self._stopped

    def _bug(self, event: str, error: Exception) -> str:
        self._lines.bug(event, next="it is tried again")
        return f"{event}: {type(error).__name__}"


def _outcome(run: RunStep, error: LockgateError) -> StepOutcome:
    """Whether trying again helps is the error's type. An outcome that nobody knows is looked at by
    trying again: every step finds what an earlier attempt has done. That a seal is not on, only the
    giving side can say: one that lets nobody in has said nothing, and an earlier one may be on."""
    if isinstance(error, StaleOwner):
        return StepOutcome.STALE
    if run.step is Step.SEAL and not isinstance(error, NotSealed):
        return StepOutcome.FAILED
    return StepOutcome.REFUSED if isinstance(error, Terminal) else StepOutcome.FAILED
