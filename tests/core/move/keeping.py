"""A keeper with hands that do as the test says."""

from collections.abc import Iterable
from typing import TypeVar

from lockgate.core.move.keeper import MoveKeeper
from lockgate.core.move.stages import Stage
from lockgate.model.move_events import (
    MoveCommand,
    MoveEvent,
    MoveRecorded,
    StepEnded,
    StepOutcome,
    Tick,
)
from lockgate.model.move_instructions import (
    MoveAnswer,
    MoveInstruction,
    MoveVerdict,
    RecordMove,
    RunStep,
    StopStep,
)
from lockgate.model.moves import (
    Command,
    MoveFacts,
    MoveOrder,
    MoveRecord,
    MoveSettings,
    MoveTrouble,
    Side,
    Step,
    StepState,
    begun,
)

T = TypeVar("T", bound=MoveInstruction)

SETTINGS = MoveSettings(
    retry_ms=100, backoff_ms_min=100, backoff_ms_max=1_600, backoff_ms_held_up=400
)
TROUBLE = MoveTrouble("the server made a noise", "wait")
NEW = MoveRecord("m")
"""A move that was just asked for."""
RUNNING = MoveRecord("m", keeper=1, ended=True, facts=MoveFacts(feed="m--0"))
"""One that is created; traffic is at the source."""
SWITCHED = MoveRecord(
    "m",
    keeper=1,
    traffic=Side.TARGET,
    order=MoveOrder(Command.SWITCH),
    ended=True,
    facts=MoveFacts(flips=1, feed="m--1"),
)


class Keeping:
    """One life of a keeper. What it asks for waits in `asked` until the test answers it."""

    def __init__(self, record: MoveRecord = RUNNING) -> None:
        self.durable = begun(record)
        self.keeper = MoveKeeper(SETTINGS, self.durable)
        self.now = 1_000
        self.asked: list[MoveInstruction] = []
        self.answers: list[MoveAnswer] = []
        self.records: list[MoveRecord] = []
        """All that became durable."""
        self.ran: list[tuple[Step, bool]] = []
        """All that was begun: each step, and whether to undo it."""

    # --- events -------------------------------------------------------------------------------

    def give(self, event: MoveEvent) -> None:
        for instruction in self.keeper.handle(self.now, event):
            if isinstance(instruction, MoveAnswer):
                self.answers.append(instruction)
            else:
                self.asked.append(instruction)
            if isinstance(instruction, RunStep) and not instruction.dry:
                self.ran.append((instruction.step, instruction.undo))

    def tick(self, ms: int = 0) -> None:
        self.now += ms
        self.give(Tick())

    def command(self, command: Command, request: str = "r", **order: object) -> None:
        dry = bool(order.pop("dry", False))
        wanted = MoveOrder(command, **order)  # type: ignore[arg-type]
        self.give(MoveCommand(request, wanted, dry=dry))

    # --- answers ------------------------------------------------------------------------------

    def record_lands(self) -> MoveRecord:
        """The newest record becomes durable."""
        asked = self.take(RecordMove)
        self.durable = asked.record
        self.records.append(asked.record)
        self.give(MoveRecorded(asked.record.serial))
        return asked.record

    def take(self, kind: type[T]) -> T:
        """The last instruction of a kind; it and those before it are not asked for any more."""
        [*_, last] = [one for one in self.asked if isinstance(one, kind)]
        self.asked = [one for one in self.asked if not isinstance(one, kind)]
        return last

    def running(self) -> RunStep:
        """The step that acts."""
        [*_, last] = [one for one in self.asked if isinstance(one, RunStep)]
        return last

    def end(
        self,
        outcome: StepOutcome = StepOutcome.DONE,
        facts: MoveFacts | None = None,
        detail: str = "",
    ) -> RunStep:
        """The step that acts ends."""
        run = self.take(RunStep)
        trouble = None if outcome is StepOutcome.DONE else TROUBLE
        self.give(StepEnded(run.number, run.step, outcome, facts, detail, trouble))
        return run

    def until(self, step: Step, *, undo: bool = False) -> RunStep:
        """All goes well until this one acts."""
        for _ in range(40):
            acting = [one for one in self.asked if isinstance(one, RunStep)]
            if acting and (acting[-1].step, acting[-1].undo) == (step, undo):
                return acting[-1]
            self.go_on()
        raise AssertionError(f"{step} never acts: {self.keeper.story()}")

    def go_on(self) -> None:
        """One answer to whatever was asked first."""
        first = next(one for one in self.asked if isinstance(one, RecordMove | RunStep))
        if isinstance(first, RecordMove):
            self.record_lands()
        else:
            self.end()

    def through(self) -> None:
        """All goes well until nothing is asked for any more."""
        while any(isinstance(one, RecordMove | RunStep) for one in self.asked):
            self.go_on()

    # --- looking ------------------------------------------------------------------------------

    @property
    def stage(self) -> Stage:
        return self.keeper.stage

    def verdicts(self, request: str = "r") -> list[MoveVerdict]:
        return [one.verdict for one in self.answers if one.request == request]

    def undone(self) -> list[Step]:
        return [step for step, undo in self.ran if undo]

    def stops(self) -> list[int]:
        return [one.number for one in self.asked if isinstance(one, StopStep)]


def states(record: MoveRecord, steps: Iterable[Step]) -> list[StepState]:
    """Of these steps, in their order."""
    held = {one.step: one.state for one in record.steps}
    return [held[step] for step in steps]
