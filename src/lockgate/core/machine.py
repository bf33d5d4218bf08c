"""The one way a state machine looks in the core.

A machine has a closed set of states and a closed set of event types, and a table with a
cell for *every* pair of them: a transition (`do`), something that is known to happen and
needs nothing (`ignore`), or something that can only be a bug (`reject`). A pair without a
cell fails when the module is imported, not in production.

`handle(now, event)` is the only mutator. It returns instructions; it never performs one.
"""

import enum
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

from lockgate.model.errors import IllegalTransition
from lockgate.model.ids import Millis
from lockgate.model.instructions import Instruction

STORY_ENTRIES_MAX = 40
STORY_ITEMS_MAX = 20
"""An event that carries more than this many items is told by their number."""


class Verdict(enum.Enum):
    """What a cell of the table says."""

    DO = "do"
    IGNORE = "ignore"
    REJECT = "reject"


class Cell(NamedTuple):
    """One pair of state and event: the verdict, and the method's name or the reason."""

    verdict: Verdict
    detail: str


def do(method: str) -> Cell:
    """The pair is a transition, made by the machine's method of this name."""
    return Cell(Verdict.DO, method)


def ignore(why: str) -> Cell:
    """The pair happens in a healthy world and changes nothing."""
    return Cell(Verdict.IGNORE, why)


def reject(why: str) -> Cell:
    """The pair cannot happen unless somebody broke the machine's contract."""
    return Cell(Verdict.REJECT, why)


Table = Mapping[enum.Enum, Mapping[type, Cell]]
S = TypeVar("S", bound=enum.Enum)
Asked = TypeVar("Asked")


def table(
    states: type[S],
    events: tuple[type, ...],
    rows: Mapping[S, Mapping[type, Cell]],
    everywhere: Mapping[type, Cell] | None = None,
) -> Table:
    """A complete table, or a TypeError naming the pairs that were forgotten.

    `everywhere` holds the cells that are the same in all states; a row overrides them.
    """
    common = everywhere or {}
    full: dict[enum.Enum, dict[type, Cell]] = {}
    for state in states:
        row = {**common, **rows.get(state, {})}
        missing = [event.__name__ for event in events if event not in row]
        foreign = [event.__name__ for event in row if event not in events]
        if missing or foreign:
            raise TypeError(f"{state}: no cell for {missing}, unknown events {foreign}")
        full[state] = row
    return full


def brief(event: Any, bulky: Mapping[type, str]) -> object:
    """An event for a story: one with 100,000 spans in it is told by their number, not kept."""
    field = bulky.get(type(event))
    if field is None or len(items := getattr(event, field)) <= STORY_ITEMS_MAX:
        return event
    return f"{type(event).__name__} with {len(items)} {field}"


class StateMachine(Generic[Asked]):
    """A state machine with a story: the last events it took, for the day it raises.

    `Asked` is what it can ask for. A machine that is driven by another hand than the node's core,
    as that of a lake is, has instructions of its own.
    """

    TABLE: ClassVar[Table]
    BULKY: ClassVar[Mapping[type, str]] = {}
    """Events that can be large, and which field of theirs is."""

    def __init__(self, name: str, state: enum.Enum) -> None:
        self.name = name
        self.state = state
        self.now: Millis = 0
        self.out: list[Asked] = []
        self._story: deque[tuple[Millis, enum.Enum, object]] = deque(maxlen=STORY_ENTRIES_MAX)

    def handle(self, now: Millis, event: Any) -> list[Asked]:
        """Take one event; give back what is to be done about it, in this order."""
        self.now = now
        self._story.append((now, self.state, self._brief(event)))
        verdict, detail = self.TABLE[self.state][type(event)]
        if verdict is Verdict.DO:
            method: Callable[[Any], None] = getattr(self, detail)
            method(event)
        elif verdict is Verdict.REJECT:
            raise self.illegal(f"{type(event).__name__} in state {self.state.value}: {detail}")
        self.settle()
        out, self.out = self.out, []
        return out

    def _brief(self, event: Any) -> object:
        """What the story keeps of an event."""
        return brief(event, self.BULKY)

    def settle(self) -> None:
        """After every event: turn what was gathered during it into instructions."""

    def emit(self, instruction: Asked) -> None:
        """Ask for something to be done."""
        self.out.append(instruction)

    def story(self) -> list[str]:
        """The last events, oldest first, each with the state that it met."""
        return [f"{now} ms {state.value}: {event}" for now, state, event in self._story]

    def illegal(self, what: str) -> IllegalTransition:
        """The error for a broken contract, with this machine's story."""
        return IllegalTransition(what, object_=self.name, story=self.story())


class Machine(StateMachine[Instruction]):
    """One that the node's core drives."""
