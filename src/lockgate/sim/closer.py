"""Closing a feed at the sink, on behalf of its maintainer."""

from collections.abc import Callable

from lockgate.model.events import SinkClosed, SinkCloseFailed, SinkEvent
from lockgate.model.instructions import CloseSink
from lockgate.sim.faults import Faults
from lockgate.sim.loop import Loop
from lockgate.sim.probes import Probe, Probes
from lockgate.sim.sink import Sink

CLOSE_MS = (5, 60)
LATER_MS = (100, 6_000)


class Closer:
    """Closes, and sometimes does not know whether it did."""

    def __init__(self, loop: Loop, faults: Faults, probes: Probes, sink: Sink) -> None:
        self._loop = loop
        self._faults = faults
        self._probes = probes
        self._sink = sink

    def close(self, close: CloseSink, answer: Callable[[SinkEvent], None]) -> None:
        """Void the feed's tokens up to this one."""
        self._loop.after(self._loop.between(*CLOSE_MS), self._close, close, answer)

    def _close(self, close: CloseSink, answer: Callable[[SinkEvent], None]) -> None:
        down = self._sink.down
        if down or self._loop.chance(self._faults.close_failed):
            self._faults.count += 1
            self._probes.hit(Probe.CLOSE_DOWN if down else Probe.CLOSE_FAILED)
            self._loop.after(self._loop.between(*LATER_MS), self._run_late, close)
            answer(SinkCloseFailed(close.feed, close.token, "connection lost"))
        elif self._run(close):
            answer(SinkClosed(close.feed, close.token))
        else:
            answer(SinkCloseFailed(close.feed, close.token, "a newer owner is there"))

    def _run(self, close: CloseSink) -> bool:
        if self._sink.close(close.feed, close.token, close.forget):
            return True
        self._probes.hit(Probe.CLOSE_TOO_LATE)
        return False

    def _run_late(self, close: CloseSink) -> None:
        if self._sink.down:
            self._loop.after(self._loop.between(*LATER_MS), self._run_late, close)
        else:
            self._run(close)
