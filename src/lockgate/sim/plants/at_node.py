"""Bugs of a node: its fence, its journal, its entries."""

from typing import Any

import msgspec

from lockgate.core.dispatchers.desk import Desk
from lockgate.core.dispatchers.entry import Entry, EntryState
from lockgate.core.dispatchers.fence import Fence, Standing
from lockgate.core.dispatchers.manager import DispatcherManager
from lockgate.core.member import MemberMachine
from lockgate.core.node import NodeCore
from lockgate.model.events import Event
from lockgate.model.ids import Epoch, Incarnation, Millis, NodeRef, Token
from lockgate.model.instructions import Instruction, StopDispatcher
from lockgate.model.records import FenceRecord
from lockgate.model.requests import Create, Prepare, Remove
from lockgate.model.statuses import DispatcherStatus, Stage
from lockgate.sim.plants.registry import also, plant
from lockgate.sim.violation import Law


@plant(
    "no-sequence",
    "a node does not compare a request's token with those it obeyed before",
    Law.FENCE,
    Desk,
    "is_outdated",
)
def _no_sequence(self: Desk, request: Create | Prepare | Remove) -> bool:
    entry = self.entries.get(request.span)
    return entry is not None and entry.token == request.token and not entry.prepared


@plant(
    "no-incarnation",
    "a node obeys requests that were meant for a former life of it",
    Law.FENCE,
    Desk,
    "is_for_this_life",
)
def _no_incarnation(_self: Desk, _token: Token) -> bool:
    return True


@also("no-incarnation", DispatcherManager, "is_for_this_life")
def _no_incarnation_of_message(_self: DispatcherManager, _to: Incarnation) -> bool:
    return True


@plant(
    "stale-obeyed",
    "a node obeys an owner whose epoch is lower than the one it has seen",
    Law.FENCE,
    Fence,
    "standing",
)
def _stale_obeyed(self: Fence, owner: NodeRef, epoch: Epoch) -> Standing:
    standing = _standing(self, owner, epoch)
    obeyed = standing is Standing.STALE and 0 < epoch < self.epoch and not self.closed
    return Standing.OWNER if obeyed else standing


_standing = Fence.standing


@plant(
    "unfenced-again",
    "a node admits an owner of epoch 0 although it has seen a fenced one",
    Law.FENCE,
    Fence,
    "_standing_unfenced",
)
def _unfenced_again(self: Fence, owner: NodeRef) -> Standing:
    return Standing.OWNER if owner == self.owner and not self.epoch else Standing.NEWER


@plant(
    "acknowledge-before-record",
    "a node answers a new owner before its fence is durable",
    Law.RECORD,
    Desk,
    "record_fence",
)
def _acknowledge_before_record(self: Desk, then: Any) -> None:
    self._writer.write(puts=(self.fence.record(),))
    self.recorded_fence = True
    then()


@plant(
    "tombstone-in-memory",
    "a node forgets that a feed was closed when it starts again",
    Law.RECORD,
    DispatcherManager,
    "_entomb",
)
def _tombstone_in_memory(self: DispatcherManager, desk: Desk) -> None:
    desk.closing = False
    desk.fence.close()
    self._reply_close(desk)


@plant(
    "tombstones-not-restored",
    "a node that starts again does not know which feeds its former life saw closed",
    Law.FENCE,
    DispatcherManager,
    "_restore_fence",
)
def _tombstones_not_restored(self: DispatcherManager, record: FenceRecord) -> None:
    if not record.closed:
        _restore_fence(self, record)


_restore_fence = DispatcherManager._restore_fence


@plant(
    "stale-untold",
    "a stale owner's orders are dropped, and nobody tells it that it is stale",
    Law.FENCE,
    DispatcherManager,
    "_refuse",
)
def _stale_untold(_self: DispatcherManager, _message: Any, _desk: Desk) -> None:
    return None


@plant(
    "start-before-journal",
    "a dispatcher is started before the journal has it",
    Law.RECORD,
    Desk,
    "_journal",
)
def _start_before_journal(self: Desk, entry: Entry, then: Any) -> None:
    self._writer.write(puts=(entry.record(self.feed),))
    then()


@plant(
    "absent-too-early",
    "a node says that a dispatcher is gone while it still runs",
    Law.DRAIN,
    Desk,
    "_on_stop",
)
def _absent_too_early(self: Desk, entry: Entry, remove: Remove) -> None:
    self._on_want_gone(entry, remove)
    self._emit(StopDispatcher(self.feed, entry.spec.id, entry.token))
    self._erase(entry)


@plant(
    "merge-not-reported",
    "a node's bootstrap reply and heartbeats say nothing of merges under way",
    Law.LIVENESS,
    Entry,
    "status",
)
def _merge_not_reported(self: Entry) -> DispatcherStatus:
    status = _status(self)
    if status.stage is Stage.HELD and self.operator:
        return msgspec.structs.replace(status, stage=Stage.WORKING, operator="")
    return msgspec.structs.replace(status, operator="")


_status = Entry.status


@plant(
    "remove-leaves-entry",
    "a remove does not clear what stands in the name of a dispatcher that has ended",
    Law.LIVENESS,
    Desk,
    "_on_erase",
)
def _remove_leaves_entry(self: Desk, entry: Entry, remove: Remove) -> None:
    if entry.state not in (EntryState.FENCED, EntryState.FAILED):
        _on_erase(self, entry, remove)


_on_erase = Desk._on_erase


@plant(
    "lease-ignored",
    "a node goes on although its lease is over",
    Law.FENCE,
    MemberMachine,
    "expired",
)
def _lease_ignored(_self: MemberMachine, _now: int) -> bool:
    return False


@plant(
    "clock-goes-back",
    "a node waits for a time that its clock, put back by an hour, has ahead of it again",
    Law.LIVENESS,
    NodeCore,
    "handle",
)
def _clock_goes_back(self: NodeCore, now: Millis, event: Event) -> list[Instruction]:
    self._now, self._put_back = min(self._now, now), 0
    return _handle(self, now, event)


_handle = NodeCore.handle
