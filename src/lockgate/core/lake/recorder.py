"""Has a home's wish about a lake durable."""

from collections.abc import Callable

from lockgate.core.recorder import Recorder
from lockgate.model.ids import Epoch, Millis
from lockgate.model.lake import Wish, WishRecord
from lockgate.model.lake_instructions import LakeInstruction, RecordWish

__all__ = ["WishRecorder"]


class WishRecorder(Recorder[WishRecord]):
    """The last wish, and whether it is durable."""

    def __init__(
        self, record: WishRecord, retry_ms: int, emit: Callable[[LakeInstruction], None]
    ) -> None:
        super().__init__(record, record.serial, retry_ms, lambda new: emit(RecordWish(new)))
        self._keeper = record.keeper

    def wish(self, now: Millis, wish: Wish, over: Epoch, *, flush: bool) -> None:
        """Have this durable instead of whatever was wished before."""
        self.put(now, lambda serial: WishRecord(wish, over, flush, self._keeper, serial))
