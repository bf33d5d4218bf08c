"""What a node says of one feed on it, for whoever is asked for the feed's status.

A remark is told every second at most and decides nothing. Positions are the source's, as numbers.
"""

import msgspec

from lockgate.model.feed_status import CopyProgress
from lockgate.model.ids import Epoch, SpanId, TableId
from lockgate.model.positions import Position
from lockgate.model.value import Value

__all__ = ["OperatorRemark", "OwnerRemark", "Remark", "SpanRemark", "Worry", "decoded"]


class Worry(Value, frozen=True, array_like=True):
    """Something that is not as it should be, and what to do about it."""

    what: str
    hint: str = ""


class SpanRemark(Value, frozen=True, array_like=True):
    """A dispatcher here."""

    span: SpanId
    table: TableId
    state: str
    """As in `FeedSpan`."""
    position: Position | None = None
    error: str = ""


class OperatorRemark(Value, frozen=True, array_like=True):
    """A change of placement that is under way."""

    kind: str
    spans: tuple[SpanId, ...]


class OwnerRemark(Value, frozen=True):
    """The feed's maintainer is here."""

    epoch: Epoch
    phase: str
    checkpoint: Position
    spans: int
    operators: tuple[OperatorRemark, ...] = ()


class Remark(Value, frozen=True):
    """One feed, as far as it is here."""

    spans: tuple[SpanRemark, ...] = ()
    resolved: Position | None = None
    """Up to where the change log is complete, if that is known here."""
    lag_s: float | None = None
    rows_applied: int = 0
    copy: CopyProgress = CopyProgress()
    worries: tuple[Worry, ...] = ()
    owner: OwnerRemark | None = None
    captures: bool = False
    retained_wal_bytes: int | None = None
    """Log that the source keeps for the feed; known where it is captured."""
    held: Position | None = None
    """The target takes nothing beyond this for the time being."""

    def encoded(self) -> bytes:
        """For the metastore."""
        return msgspec.json.encode(self)


_decoder = msgspec.json.Decoder(Remark)


def decoded(body: bytes) -> Remark | None:
    """A remark that was read; None when another version of Lockgate wrote it in other words."""
    try:
        return _decoder.decode(body)
    except msgspec.MsgspecError:
        return None
