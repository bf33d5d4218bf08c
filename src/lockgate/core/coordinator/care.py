"""What is done each tick for feeds that people have not touched: owners, drains, balance, tries.

Every step here is taken from the records and the last reports alone, and taken again at the
next tick if it had no effect. None of them is ever urgent, so each one may be limited.
"""

from lockgate.core.coordinator.book import FeedBook
from lockgate.core.coordinator.drain import Drains
from lockgate.core.coordinator.feeds import Life, backoff_ms, exhausted, life_of, needs_owner
from lockgate.core.coordinator.ownership import EPOCH_MAX, Ownership
from lockgate.core.coordinator.placement import Loads, balanced, least_loaded, loads
from lockgate.core.coordinator.roster import Roster
from lockgate.model.config import CoreConfig
from lockgate.model.feeds import Goal
from lockgate.model.ids import FeedId, Millis, NodeRef
from lockgate.model.records import FeedRecord
from lockgate.model.statuses import Phase


class Care:
    """Looks after all feeds of a coordinator."""

    def __init__(
        self,
        config: CoreConfig,
        book: FeedBook,
        roster: Roster,
        drains: Drains,
        ownership: Ownership,
    ) -> None:
        self._timing = config.timing
        self._policy = config.policy
        self._book = book
        self._roster = roster
        self._drains = drains
        self._ownership = ownership
        self._rests_since: dict[FeedId, Millis] = {}
        self._balance_at: Millis | None = None

    # --- owners -----------------------------------------------------------------------------

    def usable(self, now: Millis) -> list[NodeRef]:
        """Nodes that may be given a maintainer."""
        return [ref for ref in self._roster.usable(now) if not self._drains.includes(ref)]

    def give_owners(self, now: Millis) -> None:
        """Give every feed without a working owner another one: on a draining node, if need be."""
        counted = self._loads(now) or self._loads_anywhere(now)
        for record in list(self._book.decided.values()):
            if self._ownership.wants_owner(now, record):
                self._give(record, counted)

    def give_owner(self, now: Millis, record: FeedRecord) -> None:
        """As `give_owners`, for one feed that was just changed."""
        if self._ownership.wants_owner(now, record):
            self._give(record, self._loads(now) or self._loads_anywhere(now))

    def _give(self, record: FeedRecord, counted: Loads) -> None:
        to = least_loaded(counted)
        if record.epoch >= EPOCH_MAX:
            self._report_exhausted(record)
        elif to is not None:
            counted[to] += 1
            self._ownership.assign(record, to)

    def _report_exhausted(self, record: FeedRecord) -> None:
        told = exhausted(record)
        if told != record:
            self._book.decide(told)

    def _loads(self, now: Millis) -> Loads:
        return self._loads_of(self.usable(now))

    def _loads_anywhere(self, now: Millis) -> Loads:
        """As long as only draining nodes are left, they have to do."""
        return self._loads_of(self._roster.speaking(now))

    def _loads_of(self, nodes: list[NodeRef]) -> Loads:
        owners = (r.owner for r in self._book.decided.values() if needs_owner(r))
        return loads(nodes, owners)

    # --- moving -----------------------------------------------------------------------------

    def empty_draining_nodes(self, now: Millis) -> None:
        """Give feeds on draining nodes to others, some at a time, as long as there are others."""
        counted = self._loads(now)
        leaving = [record for record in self._book.decided.values() if self._must_leave(record)]
        for record in leaving[: self._policy.balance_moves_max]:
            self._give(record, counted)

    def _must_leave(self, record: FeedRecord) -> bool:
        if record.owner is None or not needs_owner(record) or not self._is_still(record):
            return False
        member = self._roster.members.get(record.owner)
        return self._drains.includes(record.owner) or (member is not None and member.draining)

    def balance(self, now: Millis) -> None:
        """Every balance_ms, even out the nodes."""
        if self._balance_at is not None and now < self._balance_at:
            return
        self._balance_at = now + self._timing.balance_ms
        movable: dict[NodeRef, list[FeedId]] = {}
        for feed, record in self._book.decided.items():
            if record.owner is not None and self._runs_well(record):
                movable.setdefault(record.owner, []).append(feed)
        counted = self._loads(now)
        movable = {ref: feeds for ref, feeds in movable.items() if ref in counted}
        moves = balanced(
            counted,
            movable,
            slack=self._policy.balance_slack,
            moves_max=self._policy.balance_moves_max,
        )
        for move in moves:
            record = self._book.decided[move.feed]
            if record.epoch < EPOCH_MAX:
                self._ownership.assign(record, move.to)

    def _is_still(self, record: FeedRecord) -> bool:
        """True when no decision about the feed is on its way."""
        return self._book.settled(record.feed) and not self._ownership.is_raising(record.feed)

    def _runs_well(self, record: FeedRecord) -> bool:
        """A feed that is just being taken over, or is in trouble, is left alone."""
        status = self._roster.status(record.owner, record.feed, record.epoch)
        return (
            self._is_still(record)
            and record.goal is Goal.RUN
            and status is not None
            and status.phase is Phase.RUNNING
            and status.trouble is None
        )

    # --- trying again -----------------------------------------------------------------------

    def rested(self, now: Millis) -> list[FeedId]:
        """Feeds in trouble that are stopped, recorded as such, and have waited their time.

        A new coordinator lets them wait from its own beginning: how long they waited before is
        not recorded, and a little too long hurts nobody.
        """
        due: list[FeedId] = []
        for feed, record in self._book.durable.items():
            if life_of(record) is not Life.WAITING or record.owner is not None:
                self._rests_since.pop(feed, None)
            elif self._is_still(record):
                since = self._rests_since.setdefault(feed, now)
                if now - since >= backoff_ms(self._timing, record.attempts):
                    due.append(feed)
        return due
