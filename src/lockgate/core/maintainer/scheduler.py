"""Where spans go: absent ones onto the emptiest node, draining nodes empty, loads even.

Hot spans are cut where their dispatchers say, cold neighbours are joined. Everything here is
a wish or an add; what is safe is decided by the operators.
"""

import heapq
from itertools import islice

from lockgate.core.maintainer.nodes import NodeTable
from lockgate.core.maintainer.operating import Operating
from lockgate.core.maintainer.spans import Span, SpanTable
from lockgate.core.maintainer.wishes import MergeWish, MoveWish, SplitWish
from lockgate.core.operators.base import Hands
from lockgate.model.config import CoreConfig
from lockgate.model.ids import Millis, NodeRef, SpanId
from lockgate.model.spans import TRIGGER
from lockgate.model.statuses import Heat


class Scheduler:
    """Decides placements, from the tables alone."""

    def __init__(
        self, config: CoreConfig, spans: SpanTable, nodes: NodeTable, operating: Operating
    ) -> None:
        self.config = config
        self.spans = spans
        self.nodes = nodes
        self.operating = operating
        self._balance_at: Millis = 0

    def place_absent(self, now: Millis, hands: Hands, born: bool) -> None:
        """Begin an add for every span that nobody runs. Before the birth, for the trigger alone."""
        if not self.spans.absent:
            return
        hosts = [(self.spans.count_on(node), node) for node in self.nodes.hosts()]
        heapq.heapify(hosts)
        if not hosts:
            return
        # A look at all that are absent, after every event, would be quadratic.
        waiting = list(islice(self.spans.absent, self.operating.room)) if born else [TRIGGER]
        for span in waiting:
            if self._may_place(span, now):
                count, node = hosts[0]
                heapq.heapreplace(hosts, (count + 1, node))
                self.operating.begin_add(now, span, node, hands)

    def _may_place(self, span: SpanId, now: Millis) -> bool:
        """Nobody runs it, nobody is at it, and the sink did not refuse it just now."""
        if span not in self.spans.absent or self.operating.holder(span) is not None:
            return False
        return now >= self.spans[span].not_before

    def balance(self, now: Millis) -> None:
        """Now and then, wish for what would be better."""
        if now < self._balance_at:
            return
        self._balance_at = now + self.config.timing.balance_ms
        self._empty_draining()
        if not self.operating.wishes:
            self._even_out()
            self._cut_hot()
            self._join_cold()

    def _movable(self, node: NodeRef, most: int) -> list[Span]:
        found: list[Span] = []
        for span in self.spans.on_node(node):
            if len(found) >= most:
                break
            if span.working and self.operating.holder(span.id) is None:
                found.append(span)
        return found

    def _empty_draining(self) -> None:
        hosts = [node for node in self.nodes.hosts() if node not in self.nodes.draining()]
        if not hosts:
            return
        loads = [(self.spans.count_on(node), node) for node in hosts]
        heapq.heapify(loads)
        wished = {span for wish in self.operating.wishes for span in wish.spans}
        for node in self.nodes.draining():
            for span in self._movable(node, self.config.policy.operators_max):
                if span.id in wished:
                    continue
                count, host = loads[0]
                heapq.heapreplace(loads, (count + 1, host))
                self.operating.wishes.append(MoveWish(span.id, host.node))

    def _even_out(self) -> None:
        hosts = self.nodes.hosts()
        if len(hosts) < 2:
            return
        loads = {node: self.spans.count_on(node) for node in hosts}
        for _ in range(self.config.policy.balance_moves_max):
            most = max(hosts, key=lambda node: (loads[node], node))
            least = min(hosts, key=lambda node: (loads[node], node))
            if loads[most] - loads[least] <= self.config.policy.balance_slack:
                return
            wished = {span for wish in self.operating.wishes for span in wish.spans}
            candidates = [s for s in self._movable(most, len(wished) + 1) if s.id not in wished]
            if not candidates:
                return
            self.operating.wishes.append(MoveWish(candidates[0].id, least.node))
            loads[most] -= 1
            loads[least] += 1

    def _cut_hot(self) -> None:
        for span in self.spans.all():
            if span.heat is Heat.HOT and span.points and self._is_free(span):
                self.operating.wishes.append(SplitWish(span.id, span.points))

    def _join_cold(self) -> None:
        most = self.config.policy.merge_sources_max
        for table in self.spans.divided_tables():
            run: list[SpanId] = []
            for span in self.spans.of_table(table):
                if span.heat is Heat.COLD and len(run) < most and self._is_free(span):
                    run.append(span.id)
                    continue
                self._wish_merge(run)
                run = []
            self._wish_merge(run)

    def _wish_merge(self, run: list[SpanId]) -> None:
        if len(run) > 1:
            self.operating.wishes.append(MergeWish(tuple(run)))

    def _is_free(self, span: Span) -> bool:
        return span.working and span.id != TRIGGER and self.operating.holder(span.id) is None
