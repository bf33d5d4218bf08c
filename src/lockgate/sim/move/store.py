"""The metastore of a move's world: the record, and the fence of the book of feeds."""

from lockgate.model.moves import MoveRecord, Step, StepState, accepted, begun
from lockgate.sim.loop import Loop
from lockgate.sim.move.ledger import MoveLedger

__all__ = ["MoveStore"]


class MoveStore:
    """What is durable."""

    def __init__(self, loop: Loop, ledger: MoveLedger) -> None:
        self._loop = loop
        self._ledger = ledger
        self.record = MoveRecord("m")

    def begin(self) -> MoveRecord:
        """The record for a new keeper, made its own before it does anything."""
        self.record = begun(self.record)
        return self.record

    def write(self, record: MoveRecord) -> bool | None:
        """Have it durable, and traffic with it. False: a later keeper was there; None: a later
        record of the same one was."""
        may = accepted(self.record, record)
        if may:
            self.record = record
            self._ledger.traffic_recorded(record.traffic, record.order.command, self._loop.now)
            self._ledger.given_up(record)
            self._ledger.put_back(record)
        return may

    def keeps(self, keeper: int) -> bool:
        """No later keeper has begun."""
        return self.record.keeper == keeper

    def says(self, step: Step, *, undo: bool) -> bool:
        """The record has it that this step acts."""
        wanted = StepState.UNDOING if undo else StepState.RUNNING
        return any(one.step is step and one.state is wanted for one in self.record.steps)
