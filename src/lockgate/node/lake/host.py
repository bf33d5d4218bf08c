"""One keeper of a lake, on a thread of its own, and what people are shown of it."""

import time
from collections.abc import Callable, Sequence
from typing import Final

from lockgate.core.lake.keeper import LakeKeeper
from lockgate.core.lake.stages import Stage
from lockgate.model.events import Tick
from lockgate.model.lake import HomeId, LakeSettings, WishRecord
from lockgate.model.lake_events import KeeperOver, LakeEvent, LakeVerb
from lockgate.model.lake_instructions import LakeAnswer, LakeInstruction
from lockgate.model.lake_status import LakeStatus
from lockgate.node.keeping.host import KeeperHost
from lockgate.node.telemetry.lines import Lines

__all__ = ["LakeHost"]

TICK_S: Final = 0.25
SHOW_S: Final = 1.0
AGAIN_S: Final = 10.0
"""People are told how old is what they see: it is shown again, though nothing has changed."""


class LakeHost(KeeperHost[LakeEvent, LakeInstruction, LakeAnswer]):
    """Runs one keeper from its start to its end."""

    def __init__(
        self,
        lake: str,
        home: HomeId,
        participant: int,
        record: WishRecord,
        settings: LakeSettings,
        carry_out: Callable[[LakeInstruction], None],
        show: Callable[[LakeStatus], None],
    ) -> None:
        """`carry_out` begins an instruction, `show` lets people see how it is; neither waits for
        long, and `show` may fail."""
        self._keeper = LakeKeeper(settings, lake, home, participant, record)
        self._show = show
        self._status = self._keeper.status()
        self._shown: LakeStatus | None = None
        self._shown_s = 0.0
        self._looked_s = 0.0
        super().__init__(
            f"lake {lake}",
            self._keeper.handle,
            answers=LakeAnswer,
            tick=Tick(),
            over=KeeperOver(),
            carry_out=carry_out,
            lines=Lines("lockgate.lake", lake=lake),
            tick_s=TICK_S,
        )

    @property
    def status(self) -> LakeStatus:
        """As of the last event."""
        return self._status

    @property
    def ended(self) -> bool:
        return self._status.stage == Stage.ENDED.value

    def ask(self, verb: LakeVerb, timeout_s: float) -> LakeAnswer | None:
        """The answer to a request; None when there is none yet: ask again under the same name."""
        return self.asked(verb.request, verb, timeout_s)

    def request_of(self, answer: LakeAnswer) -> str:
        return answer.request

    def settled(self, answers: Sequence[LakeAnswer]) -> None:
        self._status = self._keeper.status()
        if answers:
            self._let_see()  # who hears that it is done finds it so when he looks

    def idle(self) -> None:
        now_s = time.monotonic()
        if now_s - self._looked_s >= SHOW_S:
            self._looked_s = now_s
            self._let_see()

    def _let_see(self) -> None:
        now_s = time.monotonic()
        if self._status != self._shown or now_s - self._shown_s >= AGAIN_S:
            self._show(self._status)
            self._shown, self._shown_s = self._status, now_s
