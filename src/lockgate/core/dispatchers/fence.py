"""The fence of one feed at one node: whose requests have an effect here.

    nothing seen ──0──► unfenced owner ──n──► owner of epoch n ──m > n──► owner of epoch m
                                                  │   ▲
                                                close │ newer epoch only
                                                  ▼   │
                                               tombstone

Exactly the admitted (owner, epoch) is obeyed. A newer epoch takes over. A lower one, and an
equal one of another owner, are stale. Epoch 0 is somebody whom nobody elected: it is
accepted only while nothing else was ever seen, which a durable fence remembers over restarts.
"""

import enum
from collections.abc import Iterator
from contextlib import contextmanager

from lockgate.model.errors import IllegalTransition
from lockgate.model.ids import UNFENCED, Epoch, FeedId, NodeRef
from lockgate.model.records import FenceRecord


class Standing(enum.Enum):
    """What a sender is to this fence."""

    OWNER = "owner"
    NEWER = "newer"
    STALE = "stale"


class Fence:
    """Who may change a feed here. Entered by every fenced section, one at a time."""

    __slots__ = ("_entered", "closed", "epoch", "feed", "owner")

    def __init__(self, feed: FeedId) -> None:
        self.feed = feed
        self.owner: NodeRef | None = None
        self.epoch: Epoch = UNFENCED
        self.closed = False
        self._entered = False

    @classmethod
    def from_record(cls, record: FenceRecord) -> "Fence":
        """The fence as the node's former life left it."""
        fence = cls(record.feed)
        fence.owner, fence.epoch, fence.closed = record.owner, record.epoch, record.closed
        return fence

    def record(self) -> FenceRecord:
        """What must be durable before anybody is told of this fence."""
        return FenceRecord(self.feed, self.owner, self.epoch, self.closed)

    def standing(self, owner: NodeRef, epoch: Epoch) -> Standing:
        """Weigh a sender. Nothing changes."""
        if epoch == UNFENCED:
            return self._standing_unfenced(owner)
        if epoch > self.epoch:
            return Standing.NEWER
        if epoch < self.epoch or self.closed or owner != self.owner:
            return Standing.STALE
        return Standing.OWNER

    def _standing_unfenced(self, owner: NodeRef) -> Standing:
        if self.epoch != UNFENCED or self.closed:
            return Standing.STALE
        return Standing.OWNER if owner == self.owner else Standing.NEWER

    def is_tombstone_of(self, owner: NodeRef, epoch: Epoch) -> bool:
        """True when this very owner has closed the feed here."""
        return self.closed and epoch == self.epoch and owner == self.owner

    def admit(self, owner: NodeRef, epoch: Epoch) -> None:
        """A newer owner takes over, a tombstone included."""
        if self.standing(owner, epoch) is not Standing.NEWER:
            raise IllegalTransition(
                f"fence at {self.epoch} cannot admit {owner} of epoch {epoch}",
                object_=self.feed,
                story=[],
            )
        self.owner, self.epoch, self.closed = owner, epoch, False

    def close(self) -> None:
        """Leave a tombstone."""
        self.closed = True

    @property
    def entered(self) -> bool:
        """Somebody is inside the fenced section."""
        return self._entered

    @contextmanager
    def section(self, owner: NodeRef, epoch: Epoch) -> Iterator[Standing]:
        """The fenced section: weighs the sender, and is left free on every way out."""
        if self._entered:
            raise IllegalTransition("fenced section entered twice", object_=self.feed, story=[])
        self._entered = True
        try:
            yield self.standing(owner, epoch)
        finally:
            self._entered = False
