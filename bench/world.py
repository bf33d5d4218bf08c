"""A feed as a long-running maintainer leaves it: its records, and what its nodes report.

Of every 16 spans, 12 are whole tables and 4 are what one split made of a table; the latter carry
the lineage of that split, and the trigger's record carries the birth of all tables, because
that is what the core leaves in them. Spans are spread evenly over four nodes.
"""

from collections.abc import Iterator

import msgspec

from lockgate.model.batch import Member
from lockgate.model.config import CoreConfig
from lockgate.model.feeds import FeedSpec, Goal
from lockgate.model.ids import Epoch, NodeRef, Token
from lockgate.model.messages import Message
from lockgate.model.positions import Position
from lockgate.model.records import ProgressRecord, Record, SpanRecord
from lockgate.model.spans import TRIGGER_SPEC, Birth, Lineage, SpanSpec
from lockgate.model.statuses import DispatcherStatus, Stage

FEED = "shop-to-lake"
FORMER_EPOCH: Epoch = 3
EPOCH: Epoch = 4
NODES = tuple(NodeRef(f"node-{number}", 10 + number) for number in range(1, 5))
OWNER = NODES[0]
MEMBERS = tuple(Member(node) for node in NODES)
CONFIG = CoreConfig()
SPEC = FeedSpec()
GOAL = Goal.RUN
START: Position = 1_000

_GROUP = 16
_WHOLE = 12
_CUTS = (b"\x40", b"\x80", b"\xc0")

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(Message)


def encode(message: Message) -> bytes:
    """A message as it travels."""
    return _encoder.encode(message)


def decode(wire: bytes) -> Message:
    """A message as it arrives."""
    return _decoder.decode(wire)


def records(count: int) -> Iterator[Record]:
    """The feed's records: `count` spans in all, the trigger's among them."""
    yield ProgressRecord(START, born=True)
    born = []
    for number, (spec, lineage, first) in enumerate(_spans(count - 1), start=1):
        if first is not None:
            born.append(first)
        node = _home(number)
        yield SpanRecord(spec, node, _token(number, node), lineage, start=START)
    node = _home(0)
    birth = Birth(START, tuple(born))
    yield SpanRecord(TRIGGER_SPEC, node, _token(count, node), birth=birth, start=START)


def statuses(
    records: Iterator[Record], node: NodeRef, position: Position
) -> tuple[DispatcherStatus, ...]:
    """What `node` reports when all its dispatchers work and are near `position`."""
    return tuple(
        DispatcherStatus(record.span.id, record.token, Stage.WORKING, position + record.token.seq)
        for record in records
        if isinstance(record, SpanRecord) and record.node == node
    )


def _spans(count: int) -> Iterator[tuple[SpanSpec, Lineage | None, SpanSpec | None]]:
    """Each span with its lineage, and with the span that was born with its table.

    Of the spans of one split only the first names it.
    """
    for first in range(0, count, _GROUP):
        size = min(_GROUP, count - first)
        for number in range(first, first + min(size, _WHOLE)):
            spec = SpanSpec(f"1-{number}", _table(number))
            yield spec, None, spec
        if size < _GROUP:
            for number in range(first + _WHOLE, first + size):
                spec = SpanSpec(f"1-{number}", _table(number))
                yield spec, None, spec
            continue
        number = first + _WHOLE
        parent = SpanSpec(f"1-{number}", _table(number))
        parts = tuple(
            SpanSpec(f"2-{number + part}", parent.table, keys)
            for part, keys in enumerate(parent.range.divided(_CUTS))
        )
        lineage = Lineage((parent.id,), parts)
        for part in parts:
            yield part, lineage, parent if part is parts[0] else None


def _table(number: int) -> str:
    return f"shop_{number % 97:02}.orders_{number}"


def _home(number: int) -> NodeRef:
    return NODES[number % len(NODES)]


def _token(seq: int, node: NodeRef) -> Token:
    return Token(FORMER_EPOCH, seq, node.incarnation)
