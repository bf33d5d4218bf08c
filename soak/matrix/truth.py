"""What is recorded, what runs, and what the target says; and whether the three agree."""

from types import TracebackType
from typing import NamedTuple, Self

import psycopg

from lockgate.model.batch import LoadFailed
from lockgate.model.errors import Transient
from lockgate.model.feeds import FeedState
from lockgate.model.ids import NodeRef
from lockgate.model.records import (
    COORDINATOR,
    FeedRecord,
    OperatorRecord,
    Record,
    SpanRecord,
    feed_scope,
)
from lockgate.model.spans import TRIGGER
from lockgate.node.service.remarks import Remark, decoded
from lockgate.node.service.stores import Stores
from lockgate.store.metastore import SqlMetastore
from soak.matrix.watcher import Row, read_rows, uncovered

__all__ = ["Truth", "View"]


class View(NamedTuple):
    """One feed, from all sides."""

    record: FeedRecord
    spans: dict[str, SpanRecord]
    operators: list[OperatorRecord]
    lives: list[NodeRef]
    remarks: dict[NodeRef, Remark]
    """Of nodes that are there."""
    sink: list[Row]

    @property
    def owner(self) -> str:
        return "" if self.record.owner is None else self.record.owner.node

    def of_table(self, table: str) -> list[SpanRecord]:
        """The table's spans, by their keys."""
        found = [span for span in self.spans.values() if span.span.table == table]
        return sorted(found, key=lambda one: one.span.range.low)

    def counts(self) -> dict[str, int]:
        """How many spans of the feed each node is to have."""
        counted = {ref.node: 0 for ref in self.lives}
        for span in self.spans.values():
            if span.node is not None:
                counted[span.node.node] = counted.get(span.node.node, 0) + 1
        return counted

    def problems(self) -> list[str]:
        """What is not as it is in a cluster where nothing is left to be done."""
        return [*self._owner(), *self._placements(), *self._target()]

    def _owner(self) -> list[str]:
        owner = self.record.owner
        if self.record.state is not FeedState.NORMAL:
            return [f"it is {self.record.state.value}: {self.record.error}"]
        if owner is None or owner not in self.lives:
            return [f"its owner {owner} is not there"]
        remark = self.remarks.get(owner)
        said = None if remark is None else remark.owner
        if said is None or said.epoch != self.record.epoch or said.phase != "running":
            return [f"its owner {owner} does not run it under epoch {self.record.epoch}: {said}"]
        return [f"an operator is under way: {each}" for each in (*said.operators, *self.operators)]

    def _placements(self) -> list[str]:
        """Nobody runs what nobody intends, and what is intended is run."""
        wanted = {(span.node, span.id) for span in self.spans.values()}
        runs = {(ref, one.span) for ref, remark in self.remarks.items() for one in remark.spans}
        found = [f"nobody runs {span} at {ref}" for ref, span in wanted - runs]
        found += [f"a ghost of {span} runs at {ref}" for ref, span in runs - wanted]
        found += [
            f"{one.span} at {ref} is {one.state}: {one.error}"
            for ref, remark in self.remarks.items()
            for one in remark.spans
            if one.state != "running"
        ]
        return found

    def _target(self) -> list[str]:
        wanted = {
            (one.id, one.span.table, one.span.range.low, one.span.range.high, _plain(one))
            for one in self.spans.values()
        }
        there = {(row.span, row.table, row.low, row.high, row.token) for row in self.sink}
        found = [f"the target does not have {one}" for one in wanted - there]
        found += [f"the target has {one}, which nobody intends" for one in there - wanted]
        tables = {one.span.table for one in self.spans.values() if one.id != TRIGGER}
        for table in tables:
            ranges = [(one.span.range.low, one.span.range.high) for one in self.of_table(table)]
            if wrong := uncovered(ranges):
                found.append(f"{table}: {wrong}")
        return found


def _plain(span: SpanRecord) -> tuple[int, int, int]:
    return (span.token.epoch, span.token.seq, span.token.incarnation)


class Truth:
    """Reads the metastore and the target directly: no node is asked how it does."""

    def __init__(self, metastore: str, target: str) -> None:
        self._store = SqlMetastore.open(metastore, lease_ms=1_000)
        self._stores = Stores.of(self._store)
        self._target = psycopg.connect(target, autocommit=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._target.close()
        self._store.close()

    def view(self, feed: str) -> View:
        """The feed as it stands. Raises Transient when that cannot be known now."""
        records = self._load(COORDINATOR)
        found = [one for one in records if isinstance(one, FeedRecord) and one.feed == feed]
        if not found:
            raise Transient("the feed is not recorded", object_=feed, hint="look again")
        intent = self._load(feed_scope(feed))
        lives = [row.ref for row in self._stores.members.all() if row.alive]
        remarks: dict[NodeRef, Remark] = {}
        for report in self._stores.reports.of(feed):
            ref, remark = NodeRef(report.node, report.incarnation), decoded(report.body)
            if remark is not None and ref in lives:
                remarks[ref] = remark
        return View(
            found[0],
            {one.id: one for one in intent if isinstance(one, SpanRecord)},
            [one for one in intent if isinstance(one, OperatorRecord)],
            lives,
            remarks,
            [row for row in read_rows(self._target) if row.feed == feed],
        )

    def lives(self) -> dict[str, int]:
        """The nodes whose lease runs, and which life each lives."""
        return {row.node: row.incarnation for row in self._stores.members.all() if row.alive}

    def _load(self, scope: str) -> tuple[Record, ...]:
        loaded = self._store.load(scope)
        if isinstance(loaded, LoadFailed):
            raise Transient("it cannot be read", object_=scope, hint="look again")
        return loaded.records
