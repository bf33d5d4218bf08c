"""Small things that the tests of the core share: names to use, and ways to look into machines."""

import enum
from collections import deque
from collections.abc import Iterable
from typing import Any, TypeVar

from lockgate.core.machine import Cell, Machine, Table, Verdict
from lockgate.model.config import CoreConfig
from lockgate.model.ids import Epoch, Incarnation, Seq, Token
from lockgate.model.instructions import Instruction, Send
from lockgate.model.requests import Create
from lockgate.model.spans import KeyRange, SpanSpec

CONFIG = CoreConfig()
FEED = "orders-feed"

T = TypeVar("T")


def spec(span: str, low: bytes = b"", high: bytes | None = None, *, table: str = "t") -> SpanSpec:
    """A span of table t."""
    return SpanSpec(span, table, KeyRange(low, high))


def token(epoch: Epoch, seq: Seq, incarnation: Incarnation = 1) -> Token:
    return Token(epoch, seq, incarnation)


def create(span: str, epoch: Epoch, seq: Seq, incarnation: Incarnation = 1) -> Create:
    return Create(spec(span), Token(epoch, seq, incarnation))


def of(kind: type[T], instructions: Iterable[object]) -> list[T]:
    """Those of one kind, in order."""
    return [one for one in instructions if isinstance(one, kind)]


def sent(kind: type[T], instructions: Iterable[Instruction]) -> list[T]:
    """The messages of one kind among the instructions, whoever they go to."""
    return of(kind, (one.message for one in of(Send, instructions)))


def cells(table: Table) -> list[tuple[enum.Enum, type, Cell]]:
    """Every pair of a table, for parametrised walks."""
    return [(state, event, cell) for state, row in table.items() for event, cell in row.items()]


def cell_name(pair: tuple[enum.Enum, type, Cell]) -> str:
    state, event, cell = pair
    return f"{state.value}-{event.__name__}-{cell.verdict.value}"


def missing_cells(table: Table, states: type[enum.Enum], events: Iterable[type]) -> list[str]:
    """Pairs without a cell, and cells of pairs that do not exist."""
    wanted = {(state, event) for state in states for event in events}
    found = {(state, event) for state, event, _ in cells(table)}
    return sorted(f"{state.value} × {event.__name__}" for state, event in wanted ^ found)


def missing_methods(table: Table, owner: type, prefix: str = "") -> list[str]:
    """Transitions that name a method which `owner` does not have."""
    return sorted(
        f"{state.value} × {event.__name__}: {cell.detail}"
        for state, event, cell in cells(table)
        if cell.verdict is Verdict.DO and not callable(getattr(owner, prefix + cell.detail, None))
    )


# --- looking into machines --------------------------------------------------------------------

LOOKED_PAST = frozenset({"_story", "now", "out", "stale_orders"})
"""What every event changes, and what is empty between events."""


def fingerprint(thing: Any) -> Any:
    """All that a machine knows, as plain values: two equal ones behave the same.

    Functions are left out. Objects met a second time stand as a reference to the first.
    """
    return _plain(thing, {})


def _plain(thing: Any, met: dict[int, int]) -> Any:
    if thing is None or isinstance(thing, str | bytes | int | enum.Enum):
        return thing
    if isinstance(thing, dict):
        return [(_plain(key, met), _plain(value, met)) for key, value in thing.items()]
    if isinstance(thing, tuple | list | deque):
        return [_plain(item, met) for item in thing]
    if isinstance(thing, set | frozenset):
        return sorted((_plain(item, met) for item in thing), key=repr)
    if hasattr(thing, "__struct_fields__"):
        return repr(thing)
    if callable(thing):
        return "function"
    if id(thing) in met:
        return f"seen {met[id(thing)]}"
    met[id(thing)] = len(met)
    return [
        type(thing).__name__,
        *((name, _plain(value, met)) for name, value in sorted(_attributes(thing).items())),
    ]


def _attributes(thing: Any) -> dict[str, Any]:
    names: list[str] = list(getattr(thing, "__dict__", ()))
    for base in type(thing).__mro__:
        names.extend(getattr(base, "__slots__", ()))
    return {
        name: getattr(thing, name)
        for name in names
        if name not in LOOKED_PAST and hasattr(thing, name)
    }


def assert_does_nothing(machine: Machine, event: object) -> None:
    """The event is taken and leaves no trace but in the story."""
    before = fingerprint(machine)
    assert machine.handle(machine.now, event) == []
    assert fingerprint(machine) == before
