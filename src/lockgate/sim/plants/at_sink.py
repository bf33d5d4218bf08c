"""Bugs of the sink: what the fence at the place of writing is there for."""

from lockgate.core.maintainer.barrier import Barrier
from lockgate.model.floors import Floors, Refusal, raised
from lockgate.model.ids import Token
from lockgate.model.positions import Position
from lockgate.model.spans import Lineage, SpanSpec
from lockgate.sim.plants.registry import also, plant
from lockgate.sim.rows import SinkFeed, SinkTable, SpanRow
from lockgate.sim.sink import Sink
from lockgate.sim.source import Change
from lockgate.sim.violation import Law


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
    Law.TOGETHER,
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
    "a DDL is asked for and written although somebody is behind",
    Law.DRAIN,
    Sink,
    "_all_there",
)
def _ddl_without_drain(
    _self: Sink, _trigger: Position, _spans: list[SpanRow], _position: Position
) -> bool:
    return True


@also("ddl-without-drain", Barrier, "_all_stand")
def _nobody_gathered(_self: Barrier) -> bool:
    return True
