"""A sink with a source and a ledger, and the few words that tests of them need."""

from random import Random

from lockgate.model.ddl import DdlKind
from lockgate.model.floors import Floors, Refusal
from lockgate.model.ids import Token
from lockgate.model.positions import Position
from lockgate.model.spans import TRIGGER_SPEC, Birth, KeyRange, SpanSpec
from lockgate.sim.ledger import Ledger
from lockgate.sim.probes import Probes
from lockgate.sim.sink import Sink
from lockgate.sim.source import Change, Source

FEED = "orders"
A = SpanSpec("a", "t00")
B = SpanSpec("b", "t01")
LOW = SpanSpec("low", "t00", KeyRange(b"", b"\x80"))
HIGH = SpanSpec("high", "t00", KeyRange(b"\x80", None))


def token(epoch: int = 1, seq: int = 1, incarnation: int = 1) -> Token:
    return Token(epoch, seq, incarnation)


class Place:
    """Two tables at the source, both replicated, born at position 0 under token 1.1.1."""

    def __init__(self) -> None:
        self.source = Source(Random(1), tables=2, ddl_share=0.0)
        self.ledger = Ledger()
        self.probes = Probes()
        self.sink = Sink(lambda _: self.source, self.ledger, self.probes)
        self.claim(TRIGGER_SPEC, token(), birth=Birth(0, (A, B)))

    def write(self, table: str, key: int) -> Position:
        """One row at the source."""
        self.source.head += 1
        version = self.source.alive[table]
        self.source.logs[table].write(Change(self.source.head, key, self.source.head, version))
        return self.source.head

    def ddl(self, kind: DdlKind, *tables: str, every_table: bool = False) -> Position:
        return self.source.append(kind, tables, every_table).position

    def claim(self, spec: SpanSpec, by: Token, **more: object) -> Floors | Refusal:
        lineage, birth = more.get("lineage"), more.get("birth")
        return self.sink.claim(FEED, spec, by, lineage, birth)  # type: ignore[arg-type]

    def apply(self, spec: SpanSpec, by: Token, floors: Floors, to: Position) -> Floors | Refusal:
        """What an executor does: read from the source, write to the sink."""
        changes = [
            change
            for keys, floor in floors
            for change in self.source.changes(spec.table, keys, floor, to)
        ]
        return self.sink.apply(FEED, spec.id, by, floors, to, changes)

    def applied(self, spec: SpanSpec, by: Token, to: Position) -> Floors:
        """Claim, then apply up to `to`."""
        floors = self.claim(spec, by)
        assert isinstance(floors, tuple)
        done = self.apply(spec, by, floors, to)
        assert isinstance(done, tuple)
        return done
