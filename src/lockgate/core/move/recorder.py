"""Has a move's record durable."""

from collections.abc import Callable

from lockgate.core.recorder import Recorder
from lockgate.model.ids import Millis
from lockgate.model.move_instructions import MoveInstruction, RecordMove
from lockgate.model.moves import MoveRecord

__all__ = ["MoveRecorder"]


class MoveRecorder(Recorder[MoveRecord]):
    """The last record of a move, and whether it is durable."""

    def __init__(
        self, record: MoveRecord, retry_ms: int, emit: Callable[[MoveInstruction], None]
    ) -> None:
        super().__init__(record, record.serial, retry_ms, lambda new: emit(RecordMove(new)))

    def note(self, now: Millis, record: MoveRecord) -> None:
        """Have this durable instead of whatever was noted before."""
        self.put(now, lambda serial: record.changed(serial=serial))
