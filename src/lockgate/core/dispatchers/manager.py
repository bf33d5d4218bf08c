"""The dispatcher manager: one life of one node, taking orders for its dispatchers.

    LOADING ──journal read──► ACTIVE ──the journal has another writer──► LOST

It loads what the node's former life left: the fences, which hold over restarts, and the
journal, whose dispatchers died with that life and are struck out. Until then it answers
nobody. A refused journal write means that the node lives on in a newer life: this one obeys
nothing more.
"""

import enum
from collections.abc import Mapping
from typing import Any, ClassVar

from lockgate.core.dispatchers.desk import Desk
from lockgate.core.dispatchers.fence import Fence, Standing
from lockgate.core.machine import Machine, do, ignore, table
from lockgate.core.writer import Writer
from lockgate.model.batch import Landed, Loaded, LoadFailed, NotLanded, Refused, Unknown
from lockgate.model.config import CoreConfig
from lockgate.model.events import DISPATCHER_EVENTS, DispatcherEvent, Tick
from lockgate.model.ids import FeedId, Incarnation, Millis, NodeRef
from lockgate.model.instructions import Load, Send
from lockgate.model.messages import (
    Bootstrap,
    BootstrapReply,
    Close,
    CloseReply,
    Heartbeat,
    HeartbeatReply,
    Requests,
    Stale,
)
from lockgate.model.records import FenceRecord, JournalRecord, key_of, node_scope
from lockgate.model.statuses import DispatcherStatus

ANSWERS: tuple[type, ...] = (Landed, NotLanded, Unknown)
ORDERS: tuple[type, ...] = (Bootstrap, Requests, HeartbeatReply, Close)


class ManagerState(enum.Enum):
    """See the module's diagram."""

    LOADING = "loading"
    ACTIVE = "active"
    LOST = "lost"


class DispatcherManager(Machine):
    """Fenced requests in, journal and executor instructions out."""

    BULKY: ClassVar[Mapping[type, str]] = {Loaded: "records", Requests: "items"}
    EVENTS = (Tick, Loaded, LoadFailed, Refused, *ANSWERS, *ORDERS, *DISPATCHER_EVENTS)
    TABLE = table(
        ManagerState,
        EVENTS,
        {
            ManagerState.LOADING: {
                Tick: do("_ask_for_journal"),
                Loaded: do("_take_journal"),
                LoadFailed: ignore("the next tick asks again"),
                Refused: ignore("nothing was written yet"),
                **dict.fromkeys(ANSWERS, ignore("nothing was written yet")),
                **dict.fromkeys(ORDERS, ignore("fences are not known yet; the sender repeats")),
                **dict.fromkeys(DISPATCHER_EVENTS, ignore("of a former life")),
            },
            ManagerState.ACTIVE: {
                Tick: do("_beat"),
                Loaded: ignore("a repeated answer"),
                LoadFailed: ignore("a repeated answer"),
                Refused: do("_lose"),
                **dict.fromkeys(ANSWERS, do("_answered")),
                Bootstrap: do("_bootstrap"),
                Requests: do("_requests"),
                HeartbeatReply: do("_heartbeat_reply"),
                Close: do("_close"),
                **dict.fromkeys(DISPATCHER_EVENTS, do("_happened")),
            },
            ManagerState.LOST: dict.fromkeys(EVENTS, ignore("this life is over")),
        },
    )

    def __init__(self, config: CoreConfig, me: NodeRef) -> None:
        super().__init__(f"dispatcher manager of {me}", ManagerState.LOADING)
        self.me = me
        self.config = config
        self.desks: dict[FeedId, Desk] = {}
        self._writer: Writer | None = None
        self._load_at: Millis = 0
        self._beat_number = 0
        self.stale_orders = 0
        """Orders of stale owners that were refused, in this life."""

    # --- what others see --------------------------------------------------------------------

    @property
    def dispatchers(self) -> int:
        """How many spans have anything here."""
        return sum(len(desk.entries) for desk in self.desks.values())

    @property
    def refused(self) -> bool:
        """The node's scope belongs to a newer life."""
        return self.state is ManagerState.LOST

    # --- loading ----------------------------------------------------------------------------

    def _ask_for_journal(self, _: Tick) -> None:
        if self.now >= self._load_at:
            self._load_at = self.now + self.config.timing.resend_ms
            self.emit(Load(node_scope(self.me.node)))

    def _take_journal(self, loaded: Loaded) -> None:
        if loaded.fence < self.me.incarnation:
            return  # a late answer to the question of a former life; ours is still to come
        if loaded.fence > self.me.incarnation:
            self.state = ManagerState.LOST
            return
        self._writer = Writer(
            loaded.scope,
            self.me.incarnation,
            loaded.serial,
            records_max=self.config.policy.batch_records_max,
            retry_ms=self.config.timing.resend_ms,
        )
        self.state = ManagerState.ACTIVE
        for record in loaded.records:
            if isinstance(record, FenceRecord):
                self._restore_fence(record)
            elif isinstance(record, JournalRecord):
                self._writer.write(deletes=(key_of(record),))

    def _restore_fence(self, record: FenceRecord) -> None:
        desk = self._desk(record.feed)
        desk.fence = Fence.from_record(record)
        desk.recorded_fence = True

    def _desk(self, feed: FeedId) -> Desk:
        desk = self.desks.get(feed)
        if desk is None:
            assert self._writer is not None
            desk = Desk(feed, self.me, self._writer, self.emit)
            self.desks[feed] = desk
        return desk

    def is_for_this_life(self, to: Incarnation) -> bool:
        """False for an order to a life of this node that is over."""
        return to == self.me.incarnation

    # --- orders -----------------------------------------------------------------------------

    def _bootstrap(self, message: Bootstrap) -> None:
        desk = self._desk(message.feed)
        with desk.fence.section(message.owner, message.epoch) as standing:
            if standing is Standing.STALE:
                self._refuse(message, desk)
            elif standing is Standing.NEWER:
                desk.admit(message.owner, message.epoch)
                desk.record_fence(lambda: self._reply_bootstrap(desk))
            elif desk.recorded_fence:
                self._reply_bootstrap(desk)
            elif desk.noted_fence is None:
                desk.record_fence(lambda: self._reply_bootstrap(desk))

    def _reply_bootstrap(self, desk: Desk) -> None:
        owner = desk.fence.owner
        assert owner is not None
        reply = BootstrapReply(desk.feed, desk.fence.epoch, self.me, desk.statuses())
        self.emit(Send(owner.node, reply))

    def _requests(self, message: Requests) -> None:
        if not self.is_for_this_life(message.to):
            return
        desk = self._desk(message.feed)
        with desk.fence.section(message.owner, message.epoch) as standing:
            if standing is Standing.OWNER:
                for request in message.items:
                    desk.obey(request)
            elif standing is Standing.STALE:
                self._refuse(message, desk)

    def _heartbeat_reply(self, message: HeartbeatReply) -> None:
        if not self.is_for_this_life(message.to):
            return
        desk = self._desk(message.feed)
        with desk.fence.section(message.owner, message.epoch) as standing:
            if standing is Standing.OWNER:
                desk.settle_up_to(message.settled)
            elif standing is Standing.STALE:
                self._refuse(message, desk)

    def _close(self, message: Close) -> None:
        if not self.is_for_this_life(message.to):
            return
        desk = self._desk(message.feed)
        with desk.fence.section(message.owner, message.epoch) as standing:
            if desk.fence.is_tombstone_of(message.owner, message.epoch):
                if desk.recorded_fence:
                    self._reply_close(desk)
            elif standing is Standing.STALE:
                self._refuse(message, desk)
            else:
                if standing is Standing.NEWER:
                    desk.admit(message.owner, message.epoch)
                desk.close()

    def _reply_close(self, desk: Desk) -> None:
        owner = desk.fence.owner
        assert owner is not None
        self.emit(Send(owner.node, CloseReply(desk.feed, desk.fence.epoch, self.me)))

    def _refuse(self, message: Bootstrap | Requests | HeartbeatReply | Close, desk: Desk) -> None:
        """The stale are told so and counted, and nothing else happens."""
        self.stale_orders += 1
        answer = Stale(message.feed, message.epoch, self.me, desk.fence.epoch)
        self.emit(Send(message.owner.node, answer))

    # --- the executor, the journal, time ----------------------------------------------------

    def _happened(self, event: DispatcherEvent) -> None:
        desk = self.desks.get(event.feed)
        if desk is not None:
            desk.happened(event)

    def _answered(self, answer: Any) -> None:
        assert self._writer is not None
        self._writer.answered(self.now, answer)

    def _lose(self, _: Refused) -> None:
        self.state = ManagerState.LOST

    def _beat(self, _: Tick) -> None:
        for desk in self.desks.values():
            if self._reports(desk):
                desk.news.clear()
                self._heartbeat(desk, desk.statuses(), full=True)

    def _reports(self, desk: Desk) -> bool:
        fence = desk.fence
        return fence.owner is not None and desk.recorded_fence and not fence.closed

    def _heartbeat(self, desk: Desk, statuses: tuple[DispatcherStatus, ...], *, full: bool) -> None:
        owner = desk.fence.owner
        assert owner is not None
        self._beat_number += 1
        beat = Heartbeat(desk.feed, desk.fence.epoch, self.me, self._beat_number, full, statuses)
        self.emit(Send(owner.node, beat))

    def settle(self) -> None:
        """Leave tombstones where a close is through, send news, write what was noted."""
        if self.state is not ManagerState.ACTIVE:
            return
        for desk in self.desks.values():
            if desk.closing and not desk.entries:
                self._entomb(desk)
            if desk.news and self._reports(desk):
                self._heartbeat(desk, desk.take_news(), full=False)
        assert self._writer is not None
        commit = self._writer.flush(self.now)
        if commit is not None:
            self.emit(commit)

    def _entomb(self, desk: Desk) -> None:
        desk.closing = False
        desk.fence.close()
        desk.recorded_fence = False
        desk.news.clear()
        desk.marks.clear()
        desk.record_fence(lambda: self._reply_close(desk))
