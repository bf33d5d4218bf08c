"""Planted bugs: each breaks one method, and the laws must notice.

A checker that no bug has ever set off proves nothing. Every plant says which law it breaks.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, NamedTuple

from lockgate.core.writer import Writer
from lockgate.model.batch import Landed, NotLanded, Unknown
from lockgate.model.ids import Token
from lockgate.model.positions import Position
from lockgate.model.spans import Lineage, SpanSpec
from lockgate.sim.rows import Floors, SinkFeed, SinkTable, SpanRow, raised
from lockgate.sim.sink import Refusal, Sink
from lockgate.sim.source import Change
from lockgate.sim.violation import Law


class Plant(NamedTuple):
    """A known bug, and how to put it in."""

    name: str
    what: str
    law: str
    install: Callable[[], AbstractContextManager[object]]


PLANTS: dict[str, Plant] = {}


@contextmanager
def replaced(owner: Any, name: str, broken: Any) -> Iterator[None]:
    """`owner.name` is `broken` while the context lasts."""
    original = owner.__dict__[name]
    setattr(owner, name, broken)
    try:
        yield
    finally:
        setattr(owner, name, original)


def plant(name: str, what: str, law: Law, owner: Any, method: str) -> Callable[[Any], Any]:
    """Register the decorated function as what `owner.method` becomes."""

    def register(broken: Any) -> Any:
        PLANTS[name] = Plant(name, what, law.value, lambda: replaced(owner, method, broken))
        return broken

    return register


# --- the sink -------------------------------------------------------------------------------


@plant(
    "no-sink-fence",
    "the sink does not compare tokens when a transaction commits",
    Law.FENCE,
    Sink,
    "_may",
)
def _no_sink_fence(_self: Sink, _held: Token, _token: Token) -> bool:
    return True


@plant(
    "position-ahead",
    "the position at the sink runs one ahead of the data",
    Law.TOGETHER,
    Sink,
    "_moved",
)
def _position_ahead(_self: Sink, floors: Floors, to: Position) -> Floors:
    return raised(floors, to + 1)


@plant(
    "position-apart",
    "the position is not committed with the data it describes",
    Law.TOGETHER,
    Sink,
    "_moved",
)
def _position_apart(_self: Sink, floors: Floors, to: Position) -> Floors:
    return floors if to % 7 == 0 else raised(floors, to)


@plant(
    "data-lost",
    "the position is committed and the data is not",
    Law.COVER,
    Sink,
    "_write",
)
def _data_lost(_self: Sink, table: SinkTable, changes: list[Change]) -> None:
    for change in changes:
        if change.position % 17:
            table.rows[change.key] = change.value


@plant(
    "claim-creates-rows",
    "a claim that finds no row makes one",
    Law.DRAIN,
    Sink,
    "_make_row",
)
def _claim_creates_rows(
    _self: Sink, feed: SinkFeed, spec: SpanSpec, token: Token, _lineage: Lineage | None
) -> SpanRow | Refusal:
    row = feed.spans[spec.id] = SpanRow(spec, token, ((spec.range, 0),))
    return row


@plant(
    "ddl-without-drain",
    "a DDL is written although somebody is behind",
    Law.DRAIN,
    Sink,
    "_all_there",
)
def _ddl_without_drain(
    _self: Sink, _trigger: Position, _spans: list[SpanRow], _position: Position
) -> bool:
    return True


# --- the writer -----------------------------------------------------------------------------


@plant(
    "unknown-as-not-landed",
    "a batch of unknown outcome is composed anew, as if it had not landed",
    Law.RECORD,
    Writer,
    "answered",
)
def _unknown_as_not_landed(self: Writer, now: int, answer: Landed | NotLanded | Unknown) -> None:
    if isinstance(answer, Unknown):
        answer = NotLanded(answer.scope, answer.serial, answer.why)
    _answered(self, now, answer)


_answered = Writer.answered


@plant(
    "act-before-record",
    "what must wait for durability is done at once",
    Law.RECORD,
    Writer,
    "write",
)
def _act_before_record(self: Writer, *args: Any, **kwargs: Any) -> None:
    then = kwargs.pop("then", None)
    _write(self, *args, **kwargs)
    if then is not None:
        then()


_write = Writer.write
