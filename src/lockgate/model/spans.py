"""Spans: key ranges of tables, the unit of scheduling, and how they descend from each other."""

from lockgate.model.ids import SpanId, TableId
from lockgate.model.positions import Position
from lockgate.model.value import Value


class KeyRange(Value, frozen=True, array_like=True):
    """Keys from `low` up to, not including, `high`; keys are encoded so that bytes sort as they do.

    The empty `low` is the least key; a `high` of None is past the greatest.
    """

    low: bytes = b""
    high: bytes | None = None

    def __contains__(self, key: bytes) -> bool:
        return self.low <= key and (self.high is None or key < self.high)

    def touches(self, other: "KeyRange") -> bool:
        """True when `other` begins exactly where this one ends."""
        return self.high is not None and self.high == other.low

    def divided(self, points: tuple[bytes, ...]) -> tuple["KeyRange", ...]:
        """This range cut at `points`, which must rise strictly and lie strictly inside."""
        edges = (self.low, *points)
        if any(low >= high for low, high in zip(edges, points, strict=False)):
            raise ValueError("split points must rise strictly and lie inside the span")
        if points and self.high is not None and points[-1] >= self.high:
            raise ValueError("split points must lie inside the span")
        ends: tuple[bytes | None, ...] = (*points, self.high)
        return tuple(KeyRange(low, high) for low, high in zip(edges, ends, strict=True))

    def intersection(self, other: "KeyRange") -> "KeyRange | None":
        """The keys in both ranges, or None when there are none."""
        low = max(self.low, other.low)
        if self.high is None:
            high = other.high
        elif other.high is None:
            high = self.high
        else:
            high = min(self.high, other.high)
        return None if high is not None and low >= high else KeyRange(low, high)


WHOLE = KeyRange()


class SpanSpec(Value, frozen=True, array_like=True):
    """What a span is: its identity, never used again, its table and its keys."""

    id: SpanId
    table: TableId
    range: KeyRange = WHOLE


TRIGGER: SpanId = "trigger"
"""The span of a feed's trigger dispatcher. It has no rows of its own: it writes DDL."""

TRIGGER_SPEC = SpanSpec(TRIGGER, "")


class Lineage(Value, frozen=True, array_like=True):
    """A committed split or merge: which spans went, which came in their place.

    The first target to claim its row at the sink turns all sources' rows into all targets'
    rows, in one transaction; so the rows at the sink cover every key at every moment.
    """

    sources: tuple[SpanId, ...]
    targets: tuple[SpanSpec, ...]


class Birth(Value, frozen=True, array_like=True):
    """The first rows of a feed at its sink, made by the trigger dispatcher's first claim."""

    position: Position
    spans: tuple[SpanSpec, ...]
