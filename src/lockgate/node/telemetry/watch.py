"""Watches a node's process: every event that goes into the core, every instruction that comes out.

It counts, and hands what it sees to the journal. Called on the core's thread after the
instructions are on their way, and on the metastore's: so it is quick, and what breaks in it is
told of once and hinders nobody.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

from lockgate.core.node import NodeCore
from lockgate.model.batch import JoinFailed, LeaseLost, LoadFailed, NotLanded, RenewFailed, Unknown
from lockgate.model.batch import Refused as BatchRefused
from lockgate.model.events import DispatcherRefused, Event
from lockgate.model.instructions import Instruction, Send
from lockgate.model.messages import Stale
from lockgate.node.telemetry.counts import CALL_SECONDS, Histogram, Tally
from lockgate.node.telemetry.feed import FeedWatches
from lockgate.node.telemetry.journal import Journal
from lockgate.node.telemetry.lines import Lines

__all__ = ["STORE_OUTCOMES", "STORE_VERBS", "ApiWatch", "ProcessWatch"]

STORE_VERBS: Final = ("join", "renew", "load", "commit")
STORE_OUTCOMES: Final = ("ok", "refused", "failed")
_FAILED: Final = (JoinFailed, RenewFailed, LoadFailed, NotLanded, Unknown)


class ProcessWatch:
    """What a `NodeProcess` tells everything to."""

    def __init__(self, node: str, feeds: FeedWatches) -> None:
        self._feeds = feeds
        self._journal = Journal(node)
        self._lines = Lines("lockgate.node", node=node)
        self._broken = False
        self.instructions: Tally[str] = Tally()
        """By kind."""
        self.calls: Tally[tuple[str, str]] = Tally()
        """Of the metastore, by verb and outcome."""
        self.call_seconds = {verb: Histogram(CALL_SECONDS) for verb in STORE_VERBS}

    def handled(self, core: NodeCore, event: Event, instructions: Sequence[Instruction]) -> None:
        """The core has taken this event, and this is what it wants done."""
        self._guarded(lambda: self._handled(core, event, instructions))

    def asked(self, verb: str, seconds: float, answer: Event | Exception) -> None:
        """The metastore has answered, or did not."""
        self._guarded(lambda: self._asked(verb, seconds, answer))

    def _handled(self, core: NodeCore, event: Event, instructions: Sequence[Instruction]) -> None:
        for one in instructions:
            self.instructions.add(type(one).__name__)
            if isinstance(one, Send) and isinstance(one.message, Stale):
                self._feeds.of(one.message.feed).fenced.add("request")
        if isinstance(event, Stale):
            self._feeds.of(event.feed).fenced.add("owner")
        elif isinstance(event, DispatcherRefused):
            self._feeds.of(event.feed).fenced.add("dispatcher")
        self._journal.handled(core, event, instructions)

    def _asked(self, verb: str, seconds: float, answer: Event | Exception) -> None:
        if verb not in self.call_seconds:
            return
        failed = isinstance(answer, (*_FAILED, Exception))
        refused = isinstance(answer, BatchRefused | LeaseLost)
        self.calls.add((verb, "failed" if failed else "refused" if refused else "ok"))
        self.call_seconds[verb].observe(seconds)
        why: Any = getattr(answer, "why", answer) if failed else None
        self._journal.store_answered(verb, None if why is None else str(why))

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception:
            if not self._broken:
                self._broken = True
                self._lines.bug("the watch on the node broke", next="report it with this trace")


class ApiWatch:
    """The requests of the HTTP interface."""

    def __init__(self) -> None:
        self.requests: Tally[tuple[str, int]] = Tally()
        """By operation and status."""
        self.seconds: dict[str, Histogram] = {}

    def answered(self, operation: str, status: int, seconds: float) -> None:
        """One request. `operation` is one of the interface's verbs, or empty for none of them."""
        name = operation or "none"
        self.requests.add((name, status))
        found = self.seconds.get(name)
        if found is None:
            found = self.seconds.setdefault(name, Histogram(CALL_SECONDS))
        found.observe(seconds)
