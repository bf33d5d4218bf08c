"""Who owns which feed: the epoch is raised and the owner recorded in one batch, then he is told.

    no owner ──assign──► decided ──landed──► durable ──Start, each resend_ms──► reported
       ▲                                                                          │
       └── left the members, silent, stale, never showed up, or its goal is past ─┘

Nobody is told anything before it is durable: a coordinator that dies in between leaves a
record with an owner who knows of nothing, and its successor tells him (F2). An owner is never
told the same epoch anew after it was lost; the next one gets the next epoch (F1).

Why both the raise and the record in one batch: an epoch without its owner's name could be
taken by two nodes, a name without the raise would let the former owner go on writing.

An old owner is told to stop under the epoch that *he* has, never under the one that is
recorded: a late message must not hit his successor, who may live on the same node.
"""

from collections.abc import Callable

from lockgate.core.coordinator.book import FeedBook
from lockgate.core.coordinator.feeds import given_to, needs_owner
from lockgate.core.coordinator.roster import Roster
from lockgate.model.batch import Raise
from lockgate.model.config import Timing
from lockgate.model.feeds import Goal, Outcome
from lockgate.model.ids import Epoch, FeedId, Millis, NodeRef, Term
from lockgate.model.instructions import Send
from lockgate.model.messages import StartMaintainer, StopMaintainer
from lockgate.model.records import FeedRecord, feed_scope
from lockgate.model.statuses import MaintainerStatus, Phase

EPOCH_MAX: Epoch = 2**63 - 1
"""What every metastore can hold. Past it there is an error, never a smaller epoch."""

ENDING = frozenset({Phase.CLOSING, Phase.REVOKING, Phase.FORGETTING, Phase.ENDED})
REMOVAL_SHOWS = frozenset({Phase.FORGETTING, Phase.ENDED})


class Ownership:
    """Gives feeds owners and tells them. Decides nothing about what the feeds are to do."""

    def __init__(
        self,
        term: Term,
        timing: Timing,
        book: FeedBook,
        roster: Roster,
        emit: Callable[[Send], None],
    ) -> None:
        self._term = term
        self._timing = timing
        self._book = book
        self._roster = roster
        self._emit = emit
        self._raising: dict[FeedId, Epoch] = {}
        """Feeds whose epoch is being raised: one raise at a time."""
        self._worn: dict[FeedId, Epoch] = {}
        """Epochs that were told a goal from which there is no way back."""
        self._unseen_since: dict[FeedId, tuple[Epoch, Millis]] = {}
        self._told: dict[FeedId, tuple[FeedRecord, Millis]] = {}
        """What was said last of each feed, and when: a change is told at once, the same later."""

    # --- does it need another owner? --------------------------------------------------------

    def wants_owner(self, now: Millis, record: FeedRecord) -> bool:
        """True when the feed has work for an owner and none who can do it."""
        if not needs_owner(record) or self.is_raising(record.feed):
            return False
        if record.owner is None or self._roster.is_lost(now, record.owner):
            return True
        return self._is_worn(record) or self._never_showed_up(now, record)

    def is_raising(self, feed: FeedId) -> bool:
        """True while the feed's next owner is decided and not yet recorded."""
        return feed in self._raising

    def wear(self, record: FeedRecord) -> None:
        """The feed shall run again, and its present epoch was told to stop: it needs another."""
        self._worn[record.feed] = record.epoch

    def _is_worn(self, record: FeedRecord) -> bool:
        """True when this epoch cannot bring the goal about any more, by its own report too."""
        if self._worn.get(record.feed) == record.epoch:
            return True
        status = self._roster.status(record.owner, record.feed, record.epoch)
        if status is None:
            return False
        return status.outcome is Outcome.STALE or (
            record.goal is Goal.RUN and status.phase in ENDING
        )

    def _never_showed_up(self, now: Millis, record: FeedRecord) -> bool:
        """True when the owner speaks, was told, and has not had this epoch for too long."""
        unseen = self._unseen_since.get(record.feed)
        if unseen is None or unseen[0] != record.epoch:
            return False
        return now - unseen[1] >= self._timing.silence_ms

    # --- a new owner ------------------------------------------------------------------------

    def assign(
        self, record: FeedRecord, to: NodeRef, then: Callable[[], None] | None = None
    ) -> None:
        """Decide the feed's next epoch and its owner; tell him when both are durable."""
        assert record.epoch < EPOCH_MAX
        owned = given_to(record, to, record.epoch + 1)
        self._raising[record.feed] = owned.epoch

        def recorded() -> None:
            self._raising.pop(record.feed, None)
            self._owner_recorded(record, owned)
            if then is not None:
                then()

        self._book.decide(owned, raises=(self._raise_of(record, owned),), then=recorded)

    def _raise_of(self, record: FeedRecord, owned: FeedRecord) -> Raise:
        return Raise(feed_scope(record.feed), record.epoch, owned.epoch)

    def _owner_recorded(self, former: FeedRecord, owned: FeedRecord) -> None:
        self._tell(owned)
        if former.owner is not None:
            self.stop(former.owner, former.feed, former.epoch)

    # --- telling ----------------------------------------------------------------------------

    def tell_all(self, now: Millis) -> None:
        """Repeat to every owner what he has not been seen to do."""
        for feed, record in self._book.durable.items():
            if self._book.settled(feed) and needs_owner(record) and record.owner is not None:
                self._tell_until_shown(now, record)

    def _tell_until_shown(self, now: Millis, record: FeedRecord) -> None:
        status = self._roster.status(record.owner, record.feed, record.epoch)
        self._note_showing(now, record, status)
        if self._shows_goal(record, status):
            return
        if self._is_due(now, record):
            self._told[record.feed] = (record, now)
            self._tell(record)

    def _is_due(self, now: Millis, record: FeedRecord) -> bool:
        told = self._told.get(record.feed)
        return told is None or told[0] is not record or now - told[1] >= self._timing.resend_ms

    def _note_showing(
        self, now: Millis, record: FeedRecord, status: MaintainerStatus | None
    ) -> None:
        unseen = self._unseen_since.get(record.feed)
        if status is not None:
            self._unseen_since.pop(record.feed, None)
        elif unseen is None or unseen[0] != record.epoch:
            self._unseen_since[record.feed] = (record.epoch, now)

    def _shows_goal(self, record: FeedRecord, status: MaintainerStatus | None) -> bool:
        if status is None:
            return False
        if record.goal is Goal.RUN:
            return True
        return status.phase in (ENDING if record.goal is Goal.STOP else REMOVAL_SHOWS)

    def _tell(self, record: FeedRecord) -> None:
        assert record.owner is not None
        self._emit(
            Send(
                record.owner.node,
                StartMaintainer(
                    self._term, record.owner, record.feed, record.epoch, record.goal, record.spec
                ),
            )
        )

    # --- stopping whoever is not the owner --------------------------------------------------

    def stop_unless_owner(self, ref: NodeRef, status: MaintainerStatus) -> bool:
        """Stop a reported maintainer that is not the recorded owner; True when it was not.

        One with a higher epoch than recorded was started by a newer coordinator: this one is
        stale and about to learn it, and has no business to stop anybody.
        """
        record = self._book.durable.get(status.feed)
        if record is not None:
            if status.epoch > record.epoch:
                return True
            if status.epoch == record.epoch and record.owner == ref:
                return False
        self.stop(ref, status.feed, status.epoch)
        return True

    def stop(self, ref: NodeRef, feed: FeedId, epoch: Epoch) -> None:
        """Have the maintainer of exactly this epoch end, or forgotten if it has."""
        self._emit(Send(ref.node, StopMaintainer(self._term, feed, epoch)))
