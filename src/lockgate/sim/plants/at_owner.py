"""Bugs of ownership: who may call itself the owner of a feed, and since when."""

from typing import Any

from lockgate.core.coordinator.ownership import Ownership
from lockgate.core.slot import Slot
from lockgate.model.ids import Epoch
from lockgate.model.records import FeedRecord
from lockgate.sim.plants.registry import plant
from lockgate.sim.violation import Law


@plant(
    "told-before-raised",
    "a new owner is told before its epoch is durable",
    Law.RECORD,
    Ownership,
    "assign",
)
def _told_before_raised(self: Ownership, record: FeedRecord, to: Any, then: Any = None) -> None:
    _assign(self, record, to, then)
    owned = self._book.decided[record.feed]
    self._tell(owned)


_assign = Ownership.assign


@plant(
    "epoch-used-twice",
    "a node starts the maintainer of one epoch a second time",
    Law.FENCE,
    Slot,
    "_is_newer",
)
def _epoch_used_twice(self: Slot, epoch: Epoch) -> bool:
    return epoch >= self.last_epoch
