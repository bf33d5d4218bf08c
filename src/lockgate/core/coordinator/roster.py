"""The nodes, as the coordinator knows them: who is a member, who was heard, what was said.

Membership is the metastore's word and decides who may be given something. A report is the
node's own word and is the only thing that proves anything about what runs there. A member
that says nothing is silent: its lease is renewed, yet it does not answer, so its feeds are
given to others (their epochs fence it), and it is given nothing.

Reports overtake each other: each life of a node numbers its own, and only a higher number is
news. A report names the coordinator it was meant for; one that was meant for another may rest
on what that other one asked.
"""

from lockgate.model.batch import Member
from lockgate.model.ids import Epoch, FeedId, Millis, NodeId, NodeRef, Term
from lockgate.model.messages import NodeReport
from lockgate.model.statuses import MaintainerStatus


class Roster:
    """Members and their last reports. Knows nothing of feeds."""

    def __init__(self, term: Term, silence_ms: Millis) -> None:
        self.members: dict[NodeRef, Member] = {}
        self._term = term
        self._silence_ms = silence_ms
        self._heard_at: dict[NodeRef, Millis] = {}
        self._reports: dict[NodeRef, NodeReport] = {}
        self._statuses: dict[NodeRef, dict[FeedId, MaintainerStatus]] = {}

    def see(self, now: Millis, members: tuple[Member, ...]) -> None:
        """Take the metastore's word. Who is new has until silence_ms from now to speak."""
        self.members = {member.ref: member for member in members}
        for ref in self.members:
            self._heard_at.setdefault(ref, now)
        for ref in [ref for ref in self._heard_at if ref not in self.members]:
            del self._heard_at[ref]
            self._reports.pop(ref, None)
            self._statuses.pop(ref, None)

    def hear(self, now: Millis, report: NodeReport) -> bool:
        """Take a node's word; False when it is no news and must change nothing."""
        if not self.is_news(report):
            return False
        self._heard_at[report.node] = now
        self._reports[report.node] = report
        self._statuses[report.node] = {status.feed: status for status in report.maintainers}
        return True

    def is_news(self, report: NodeReport) -> bool:
        """True for a member's report to this coordinator that is newer than its last one."""
        if report.term != self._term or report.node not in self.members:
            return False
        return report.beat > self.beat(report.node)

    def beat(self, ref: NodeRef) -> int:
        """The number of the node's last report; below all numbers when there is none."""
        last = self._reports.get(ref)
        return -1 if last is None else last.beat

    def is_silent(self, now: Millis, ref: NodeRef) -> bool:
        """True for a member that was not heard for too long."""
        return now - self._heard_at[ref] >= self._silence_ms

    def is_lost(self, now: Millis, ref: NodeRef) -> bool:
        """True when nothing can be expected of this life of the node any more."""
        return ref not in self.members or self.is_silent(now, ref)

    def speaking(self, now: Millis) -> list[NodeRef]:
        """Members that are heard of, by name."""
        return [ref for ref in sorted(self.members) if not self.is_silent(now, ref)]

    def usable(self, now: Millis) -> list[NodeRef]:
        """Who may be given something, by name: members that speak and are not being drained."""
        return [ref for ref in self.speaking(now) if not self.members[ref].draining]

    def life_of(self, node: NodeId) -> NodeRef | None:
        """The node's present life."""
        return next((ref for ref in self.members if ref.node == node), None)

    def status(self, ref: NodeRef | None, feed: FeedId, epoch: Epoch) -> MaintainerStatus | None:
        """What the node said last of its maintainer of the feed, if it is of this epoch."""
        if ref is None:
            return None
        status = self._statuses.get(ref, {}).get(feed)
        return status if status is not None and status.epoch == epoch else None
