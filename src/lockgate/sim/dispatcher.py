"""A dispatcher as the executor has it: its state, and what it has on its way to the sink."""

from collections.abc import Callable

from lockgate.model.ddl import Ddl
from lockgate.model.floors import Floors, Refusal
from lockgate.model.ids import FeedId, Token
from lockgate.model.instructions import StartDispatcher
from lockgate.model.positions import Position
from lockgate.model.spans import SpanSpec
from lockgate.sim.loop import Loop
from lockgate.sim.source import KEYS, Change, Source

Outcome = Floors | Position | Refusal


class Dispatcher:
    """One span's pipeline. It has ended when nothing of it will be heard any more."""

    __slots__ = (
        "blocked",
        "ended",
        "feed",
        "floors",
        "held",
        "reading",
        "silenced",
        "source",
        "start",
        "stopping",
        "token",
        "tx",
    )

    def __init__(self, start: StartDispatcher, source: Source) -> None:
        self.start = start
        self.feed: FeedId = start.feed
        self.token: Token = start.token
        self.source = source
        self.floors: Floors | None = None
        """None until the row is claimed."""
        self.tx: Transaction | None = None
        self.blocked: Ddl | None = None
        self.held = ""
        """The merge that holds it, if one does."""
        self.stopping = False
        self.ended = False
        self.silenced = False
        """Everything was stopped at once: no event follows."""
        self.reading = False
        """The next read is scheduled."""

    @property
    def spec(self) -> SpanSpec:
        return self.start.spec


class Transaction:
    """Something on its way to the sink."""

    __slots__ = ("cancelled", "dispatcher", "late", "orphan", "run")

    def __init__(self, dispatcher: Dispatcher, run: Callable[[], Outcome]) -> None:
        self.dispatcher = dispatcher
        self.run = run
        self.cancelled = False
        self.orphan = False
        """Nobody waits for it any more, and nobody can stop it."""
        self.late = False
        """An orphan that took its time."""


def is_new(change: Change, floors: Floors) -> bool:
    """True for a change that the floors do not have yet."""
    key = KEYS[change.key]
    return any(key in keys and change.position > position for keys, position in floors)


def split_points(loop: Loop, spec: SpanSpec) -> tuple[bytes, ...]:
    """One or two places inside the span's range where it could be cut."""
    low = spec.range.low[0] if spec.range.low else 0
    high = spec.range.high[0] if spec.range.high else 256
    if high - low < 2:
        return ()
    count = 1 if high - low < 4 else loop.between(1, 2)
    return tuple(bytes([point]) for point in sorted(loop.rng.sample(range(low + 1, high), count)))
