"""Wishes: operators somebody wants and that may not begin yet.

People, the balance, and former owners wish. A wish becomes an operator when its spans are
free and working and its node is ready; it lapses when it cannot be fulfilled any more. An
operator of a former owner is never taken up where it was: its record says what was wished,
and the wish is made anew under the new epoch.
"""

from dataclasses import dataclass

from lockgate.model.ids import NodeId, SpanId
from lockgate.model.records import OperatorKind, OperatorRecord


@dataclass(frozen=True, slots=True)
class MoveWish:
    """Run a span on the node of this name."""

    span: SpanId
    node: NodeId
    request: str = ""

    @property
    def spans(self) -> tuple[SpanId, ...]:
        return (self.span,)


@dataclass(frozen=True, slots=True)
class SplitWish:
    """Cut a span at these keys."""

    span: SpanId
    points: tuple[bytes, ...]
    request: str = ""

    @property
    def spans(self) -> tuple[SpanId, ...]:
        return (self.span,)


@dataclass(frozen=True, slots=True)
class MergeWish:
    """Join these neighbours, given in the order of their keys."""

    spans: tuple[SpanId, ...]
    request: str = ""


Wish = MoveWish | SplitWish | MergeWish


def wish_of(record: OperatorRecord) -> Wish | None:
    """What a former owner was about to do, as a wish."""
    if record.kind is OperatorKind.MOVE and record.destination is not None:
        return MoveWish(record.spans[0], record.destination.node)
    if record.kind is OperatorKind.SPLIT:
        return SplitWish(record.spans[0], tuple(child.range.low for child in record.results[1:]))
    if record.kind is OperatorKind.MERGE:
        return MergeWish(record.spans)
    return None
