"""Feeds as people see them, put together from the book, the records, and what nodes remark.

    book      what was asked for, and how far its set-up is
    records   who owns it, under which epoch, and whether it runs   (the coordinator's)
    remarks   checkpoint, lag, copy, worries      (the nodes', a second old; this one's, of now)

All of it is in the metastore, so any node can answer, and what a dead node last said is told by
the node that took over.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from lockgate.endpoints.postgres.source.slot import lsn_text
from lockgate.model.batch import LoadFailed
from lockgate.model.errors import LockgateError, NotFound, Transient
from lockgate.model.feed_config import is_url
from lockgate.model.feed_status import CopyProgress, FeedSpan, FeedStatus, FeedTable
from lockgate.model.feeds import FeedState
from lockgate.model.ids import FeedId
from lockgate.model.positions import Position
from lockgate.model.records import FeedRecord, OperatorRecord, Record, SpanRecord, feed_scope
from lockgate.model.secret import Secret
from lockgate.model.selection import target_of
from lockgate.model.spans import TRIGGER
from lockgate.model.statuses import Phase
from lockgate.model.tables import parse_table
from lockgate.node.feed.ends import parse_url
from lockgate.node.feed.following import UNLOGGED
from lockgate.node.feed.running import HINT, is_held
from lockgate.node.move.feeds import BROKEN_OFF
from lockgate.node.service.cluster import Cluster
from lockgate.node.service.contexts import config_of
from lockgate.node.service.remarks import OwnerRemark, Remark, SpanRemark, Worry, decoded
from lockgate.node.service.stores import Stores
from lockgate.store.feeds import FeedEntry

__all__ = ["Statuses", "shown"]

_WORST = ("absent", "retrying", "starting", "copying", "held", "blocked", "running")


_WAITS_FOR = {
    Phase.CLOSING.value: ": every node that is alive has to say that nothing of it runs there",
    Phase.REVOKING.value: ": the target has to say that nobody can apply to it any more",
}
"""What holds up a removal, by the phase of the feed's owner."""


class _Said(NamedTuple):
    """What one node remarks of a feed."""

    node: str
    remark: Remark


class Statuses:
    """Answers what is asked about feeds."""

    def __init__(
        self, stores: Stores, cluster: Cluster, here: Callable[[], dict[FeedId, Remark]]
    ) -> None:
        """`here` tells what this node has to remark at this moment."""
        self._stores = stores
        self._cluster = cluster
        self._here = here

    def all(self) -> list[FeedStatus]:
        """Every feed, by name."""
        records = self._cluster.records()
        said = self._said()
        return [
            _status(entry, records.get(entry.feed), said.get(entry.feed, []))
            for entry in self._stores.feeds.all()
        ]

    def one(self, feed: FeedId) -> FeedStatus:
        """One feed."""
        entry = self.entry(feed)
        return _status(entry, self._cluster.records().get(feed), self._said(feed).get(feed, []))

    def entry(self, feed: FeedId) -> FeedEntry:
        """The feed in the book. Raises NotFound."""
        entry = self._stores.feeds.read(feed)
        if entry is None:
            raise NotFound(
                "there is no feed of this name",
                object_=feed,
                hint="`lockgate feed list` shows those that are there",
            )
        return entry

    def tables(self, feed: FeedId) -> list[FeedTable]:
        """The feed's tables, by name, with their spans."""
        config = config_of(self.entry(feed))
        said = self._said(feed).get(feed, [])
        remarks = {each.span: (one.node, each) for one in said for each in one.remark.spans}
        busy = {
            span: each.kind
            for one in said
            if one.remark.owner is not None
            for each in one.remark.owner.operators
            for span in each.spans
        }
        records = self._records(feed)
        # What nodes remark is a second old; an operator is in the records before anybody is told.
        operators = [record for record in records if isinstance(record, OperatorRecord)]
        busy |= {span: each.kind.value for each in operators for span in each.spans}
        by_table: dict[str, list[FeedSpan]] = {}
        for record in _spans(records):
            shown = _span(record, remarks.get(record.id), busy.get(record.id, ""))
            by_table.setdefault(record.span.table, []).append(shown)
        found: list[FeedTable] = []
        for table, spans in sorted(by_table.items()):
            target = target_of(config, parse_table(table)).id
            found.append(_table(table, target, sorted(spans, key=lambda one: one.low)))
        return found

    def spans(self, feed: FeedId) -> list[SpanRecord]:
        """The feed's spans as its owner has them recorded, without the trigger's."""
        return _spans(self._records(feed))

    def _records(self, feed: FeedId) -> tuple[Record, ...]:
        loaded = self._stores.metastore.look(feed_scope(feed))
        if isinstance(loaded, LoadFailed):
            raise Transient(
                "the metastore cannot be read",
                object_=feed,
                hint="ask again in a moment",
                cause=loaded.why,
            )
        return loaded.records

    def _said(self, feed: FeedId | None = None) -> dict[FeedId, list[_Said]]:
        """The remarks of nodes that are there; those of this node are of now, or what it reported
        last when its core is too busy to be seen."""
        here: dict[FeedId, Remark] | None
        try:
            here = self._here()
        except Transient:
            here = None
        me = self._cluster.me
        lives = {(row.node, row.incarnation) for row in self._stores.members.all() if row.alive}
        reports = self._stores.reports.all() if feed is None else self._stores.reports.of(feed)
        found: dict[FeedId, list[_Said]] = {}
        for report in reports:
            remark = decoded(report.body)
            known = remark is not None and (report.node, report.incarnation) in lives
            if remark is not None and known and (here is None or report.node != me):
                found.setdefault(report.feed, []).append(_Said(report.node, remark))
        for name, remark in (here or {}).items():
            found.setdefault(name, []).append(_Said(me, remark))
        return found


# --- one feed -------------------------------------------------------------------------------------


def _status(entry: FeedEntry, record: FeedRecord | None, said: list[_Said]) -> FeedStatus:
    config = config_of(entry)
    remarks = [one.remark for one in said]
    owner = next((each.owner for each in remarks if each.owner is not None), None)
    worries = [worry for each in remarks for worry in each.worries]
    state, first = _state(entry, record)
    if first is not None:
        worries.insert(0, first)
    if worries and state is FeedState.NORMAL:
        state = FeedState.WARNING
    spans = [each for one in remarks for each in one.spans if each.span != TRIGGER]
    tables = {each.table for each in spans} or set(entry.tables)
    resolved = max((each.resolved or 0 for each in remarks), default=0)
    lags = [each.lag_s for each in remarks if each.lag_s is not None]
    return FeedStatus(
        name=entry.feed,
        state=state,
        epoch=0 if record is None else record.epoch,
        owner="" if record is None or record.owner is None else record.owner.node,
        resolved=lsn_text(resolved),
        checkpoint=lsn_text(0 if owner is None else owner.checkpoint),
        lag_s=max(lags, default=None),
        tables=len(tables),
        spans=len(spans) if owner is None else max(0, owner.spans - 1),
        copy=_copy(remarks),
        rows_applied=sum(each.rows_applied for each in remarks),
        error=worries[0].what if worries else "",
        next_steps=_next_steps(entry, state, worries),
        notes=_notes(entry, record, owner, max((each.held or 0 for each in remarks), default=0)),
        source=shown(config.source),
        target=shown(config.target),
    )


def _state(entry: FeedEntry, record: FeedRecord | None) -> tuple[FeedState, Worry | None]:
    """The feed's state by its records, and what they have to complain of."""
    if entry.removing:
        return FeedState.STOPPED, None
    if entry.error:
        return FeedState.FAILED, _worry(entry.error)
    if record is None or record.state is FeedState.REMOVED:
        return FeedState.NORMAL, None
    return record.state, _worry(record.error) if record.error else None


def _worry(error: str) -> Worry:
    """A recorded error: what, and on a line of its own what to do about it."""
    what, _, hint = error.partition(HINT)
    return Worry(what, hint)


def _copy(remarks: Iterable[Remark]) -> CopyProgress:
    """All nodes' copies together."""
    each = [one.copy for one in remarks if one.copy.rows_total or one.copy.rows_done]
    if not each:
        return CopyProgress()
    if len(each) == 1:
        return each[0]
    done, total = sum(one.rows_done for one in each), sum(one.rows_total for one in each)
    etas = [one.eta_s for one in each if one.eta_s is not None]
    percent = 100.0 if total <= done else round(100 * done / total, 1)
    return CopyProgress(done, total, percent, max(etas, default=None))


def _next_steps(entry: FeedEntry, state: FeedState, worries: list[Worry]) -> tuple[str, ...]:
    name = entry.feed
    hints = tuple(dict.fromkeys(worry.hint for worry in worries if worry.hint))
    if entry.removing:
        return hints or ("nothing: it is being removed",)
    if entry.move and (state is not FeedState.FAILED or entry.error == BROKEN_OFF):
        return (*hints, f"lockgate move status {entry.move}")
    if state is FeedState.FAILED:
        return (*hints, f"when that is done: lockgate feed resume {name}")
    if state is FeedState.STOPPED:
        return (*hints, f"lockgate feed resume {name}", f"lockgate feed remove {name}")
    if state is FeedState.FINISHED:
        return (*hints, f"lockgate feed remove {name}")
    return hints or (f"lockgate feed wait {name}", f"lockgate feed tables {name}")


def _notes(
    entry: FeedEntry, record: FeedRecord | None, owner: OwnerRemark | None, held: Position
) -> tuple[str, ...]:
    notes: list[str] = [f"it belongs to the move {entry.move}"] if entry.move else []
    if not entry.removing and not entry.error and (entry.start is None or record is None):
        notes.append("it is being set up")
    if entry.removing:
        notes.append(
            "it is being removed" + _WAITS_FOR.get("" if owner is None else owner.phase, "")
        )
    if not entry.logged:
        notes.append(UNLOGGED)
    if held:
        notes.append(is_held(held))
    return tuple(notes)


def shown(written: Secret) -> str:
    """An endpoint's name, or a URL without its secrets."""
    text = written.reveal()
    if not is_url(written):
        return text
    try:
        return parse_url(written).label
    except LockgateError:
        return "***"


# --- one table ------------------------------------------------------------------------------------


def _spans(records: Iterable[Record]) -> list[SpanRecord]:
    return [each for each in records if isinstance(each, SpanRecord) and each.id != TRIGGER]


def _span(record: SpanRecord, said: tuple[str, SpanRemark] | None, operator: str) -> FeedSpan:
    range_ = record.span.range
    node, remark = ("", None) if said is None else said
    position = None if remark is None else remark.position
    return FeedSpan(
        span=record.id,
        table=record.span.table,
        low=range_.low.hex(),
        high="" if range_.high is None else range_.high.hex(),
        node=node,
        state="absent" if remark is None else remark.state,
        position="" if position is None else lsn_text(position),
        operator=operator,
        error="" if remark is None else remark.error,
    )


def _table(table: str, target: str, spans: list[FeedSpan]) -> FeedTable:
    positions = [one.position for one in spans]
    return FeedTable(
        table=table,
        target=target,
        spans=tuple(spans),
        state=min((one.state for one in spans), key=_rank),
        checkpoint="" if "" in positions else min(positions, key=_number),
        error=next((one.error for one in spans if one.error), ""),
    )


def _rank(state: str) -> int:
    return _WORST.index(state) if state in _WORST else 0


def _number(position: str) -> tuple[int, int]:
    high, _, low = position.partition("/")
    return int(high, 16), int(low, 16)
