"""What a keeper wants done, done by threads: each instruction is answered by an event."""

from concurrent.futures import ThreadPoolExecutor
from typing import Final

from lockgate.endpoints.delta.head import LakeHead
from lockgate.endpoints.delta.place import Place
from lockgate.model.errors import LockgateError
from lockgate.model.lake import LakeSettings, LakeTrouble, WorkNumber, WorkOutcome
from lockgate.model.lake_events import (
    LakeEvent,
    LakeRefused,
    LakeReleased,
    LakeSurveyed,
    LakeTakeFailed,
    LakeTaken,
    ReleaseFailed,
    SurveyFailed,
    WishNotRecorded,
    WishOutdated,
    WishRecorded,
    WorkEnded,
)
from lockgate.model.lake_instructions import (
    LakeInstruction,
    RecordWish,
    ReleaseLake,
    RunWork,
    StopWork,
    Survey,
    TakeLake,
)
from lockgate.node.keeping.carrier import Carrier
from lockgate.node.lake.surveying import Surveyor
from lockgate.node.lake.works import Ended, Workbench
from lockgate.node.telemetry.lakes import LakeWatch
from lockgate.node.telemetry.lines import Lines
from lockgate.store.lakes import LakeBook

__all__ = ["LakeExecutor"]

_lines: Final = Lines("lockgate.lake")


class LakeExecutor(Carrier[LakeEvent]):
    """Carries out the instructions of one keeper. Orders are handed on and never waited for."""

    def __init__(
        self,
        lake: str,
        place: Place,
        home: str,
        book: LakeBook,
        bench: Workbench,
        settings: LakeSettings,
        watch: LakeWatch,
    ) -> None:
        self._lake = lake
        self._book = book
        self._bench = bench
        self._watch = watch
        self._head = LakeHead(place, home)
        self._surveyor = Surveyor(place, home)
        self._stopped: set[WorkNumber] = set()
        # Who looks and who records never waits behind a drain, nor does a look behind a record.
        self._records = ThreadPoolExecutor(1, thread_name_prefix=f"record {lake}")
        self._looks = ThreadPoolExecutor(1, thread_name_prefix=f"look {lake}")
        self._workers = ThreadPoolExecutor(
            settings.workers + settings.claimers, thread_name_prefix=f"work {lake}"
        )
        super().__init__((self._records, self._looks, self._workers))

    def carry_out(self, instruction: LakeInstruction) -> None:
        """Begin what it asks; an event follows."""
        if isinstance(instruction, RecordWish):
            self.submit(self._records, self._record, instruction)
        elif isinstance(instruction, TakeLake):
            self.submit(self._records, self._take, instruction)
        elif isinstance(instruction, ReleaseLake):
            self.submit(self._records, self._release, instruction)
        elif isinstance(instruction, Survey):
            self.submit(self._looks, self._survey, instruction)
        elif isinstance(instruction, RunWork):
            self.submit(self._workers, self._work, instruction)
        elif isinstance(instruction, StopWork):
            self._stopped.add(instruction.work)

    # --- records and the head ---------------------------------------------------------------------

    def _record(self, wanted: LakeInstruction) -> LakeEvent:
        assert isinstance(wanted, RecordWish)
        serial = wanted.record.serial
        try:
            done = self._book.wish(self._lake, wanted.record)
        except LockgateError as error:
            return WishNotRecorded(serial, str(error))
        except Exception as error:
            return WishNotRecorded(serial, self._bug("a wish was not recorded", error))
        return WishOutdated(serial) if done is False else WishRecorded(serial)

    def _take(self, wanted: LakeInstruction) -> LakeEvent:
        assert isinstance(wanted, TakeLake)
        try:
            head = self._head.take(wanted.keeper, wanted.attempt, wanted.over)
            if head is None:
                return LakeRefused(wanted.attempt, self._head.read().leadership)
        except LockgateError as error:
            return LakeTakeFailed(wanted.attempt, str(error))
        except Exception as error:
            return LakeTakeFailed(wanted.attempt, self._bug("a lake was not taken", error))
        return LakeTaken(wanted.attempt, head.epoch)

    def _release(self, wanted: LakeInstruction) -> LakeEvent:
        assert isinstance(wanted, ReleaseLake)
        try:
            self._head.give_up(wanted.epoch)
        except LockgateError as error:
            return ReleaseFailed(wanted.epoch, str(error))
        except Exception as error:
            return ReleaseFailed(wanted.epoch, self._bug("a lake was not given up", error))
        return LakeReleased(wanted.epoch)

    # --- tables -----------------------------------------------------------------------------------

    def _survey(self, wanted: LakeInstruction) -> LakeEvent:
        assert isinstance(wanted, Survey)
        try:
            leader, tables, unseen = self._surveyor.survey(wanted.table)
        except LockgateError as error:
            return SurveyFailed(wanted.number, LakeTrouble(str(error), error.hint))
        except Exception as error:
            why = self._bug("a lake could not be looked at", error)
            return SurveyFailed(wanted.number, LakeTrouble(why, "see the node's log"))
        return LakeSurveyed(wanted.number, leader, tables, unseen)

    def _work(self, wanted: LakeInstruction) -> LakeEvent:
        assert isinstance(wanted, RunWork)
        try:
            ended = self._bench.run(wanted, lambda: self._is_stopped(wanted.work))
        except Exception as error:
            why = self._bug(f"a {wanted.kind.value} broke", error, table=wanted.table)
            ended = Ended(WorkOutcome.UNKNOWN, LakeTrouble(why, "see the node's log"))
        self._stopped.discard(wanted.work)
        self._watch.add((wanted.kind.value, ended.outcome.value))
        return WorkEnded(
            wanted.work,
            wanted.table,
            wanted.incarnation,
            ended.outcome,
            ended.trouble,
            ended.drained_to,
        )

    def _is_stopped(self, work: WorkNumber) -> bool:
        return self.over or work in self._stopped

    def _bug(self, event: str, error: Exception, **fields: object) -> str:
        _lines.bug(event, lake=self._lake, next="it is tried again", **fields)
        return f"{event}: {type(error).__name__}"
