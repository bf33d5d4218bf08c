"""One keeper of a move, on a thread of its own."""

import time
from collections.abc import Callable
from typing import Final

from lockgate.core.move.keeper import MoveKeeper
from lockgate.core.move.stages import Stage
from lockgate.model.events import Tick
from lockgate.model.ids import Millis
from lockgate.model.move_events import MoveCommand, MoveEvent, MoveKeeperOver
from lockgate.model.move_instructions import MoveAnswer, MoveInstruction
from lockgate.model.moves import MoveRecord, MoveSettings
from lockgate.node.keeping.host import KeeperHost
from lockgate.node.telemetry.lines import Lines

__all__ = ["MoveHost"]

TICK_S: Final = 0.05


class MoveHost(KeeperHost[MoveEvent, MoveInstruction, MoveAnswer]):
    """Runs one keeper from its start to its end."""

    def __init__(
        self,
        record: MoveRecord,
        now_ms: Millis,
        carry_out: Callable[[MoveInstruction], None],
    ) -> None:
        """`now_ms` is the metastore's time. It goes on evenly here, by this machine's clock."""
        self._keeper = MoveKeeper(MoveSettings(), record)
        began = time.monotonic()
        super().__init__(
            f"move {record.move}",
            self._keeper.handle,
            answers=MoveAnswer,
            tick=Tick(),
            over=MoveKeeperOver(),
            carry_out=carry_out,
            lines=Lines("lockgate.move", move=record.move),
            tick_s=TICK_S,
            now_ms=lambda: now_ms + int((time.monotonic() - began) * 1000),
        )

    @property
    def ended(self) -> bool:
        return self._keeper.stage is Stage.ENDED

    def ask(self, command: MoveCommand, timeout_s: float) -> MoveAnswer | None:
        """The first answer to a command: that it has begun, or why not. None: nothing yet."""
        return self.asked(command.request, command, timeout_s)

    def request_of(self, answer: MoveAnswer) -> str:
        return answer.request
