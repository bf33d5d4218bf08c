"""Bugs of a maintainer: its operators, its barrier, its bootstrap."""

from typing import Any

from lockgate.core.maintainer.barrier import Barrier, BarrierState
from lockgate.core.maintainer.checkpoint import Checkpoint
from lockgate.core.maintainer.intake import Intake
from lockgate.core.maintainer.intent import Intent
from lockgate.core.maintainer.maintainer import Maintainer
from lockgate.core.maintainer.operating import Operating
from lockgate.core.operators.add import Placement
from lockgate.core.operators.merge import Merge
from lockgate.core.operators.move import Move
from lockgate.core.operators.remove import Removal
from lockgate.core.operators.split import Split, SplitState
from lockgate.model.ddl import DdlKind
from lockgate.model.events import Tick
from lockgate.model.feeds import Goal, Outcome
from lockgate.model.ids import NodeRef, Token
from lockgate.model.positions import Position
from lockgate.model.records import OperatorKind, OperatorRecord, ProgressRecord, Record, key_of
from lockgate.model.spans import SpanSpec
from lockgate.sim.plants.registry import plant
from lockgate.sim.violation import Law


@plant(
    "children-of-later-epoch",
    "the children of a split carry a later epoch than the split itself",
    Law.FENCE,
    Split,
    "_create",
)
def _children_of_later_epoch(self: Split, recorded: Any) -> None:
    for child in self.pending.values():
        token = child.token
        child.token = Token(token.epoch + 1, token.seq, token.incarnation)
        if child.span in self.hands.spans:
            self.hands.spans.place(child.span, child.node, child.token)
    _split_create(self, recorded)


_split_create = Split._create


@plant(
    "stale-operators-restored",
    "a successor takes up a former owner's split where it was, under its old tokens",
    Law.FENCE,
    Intent,
    "take_over",
)
def _stale_operators_restored(self: Intent, records: tuple[Record, ...]) -> None:
    splits = [
        record
        for record in records
        if isinstance(record, OperatorRecord) and record.kind is OperatorKind.SPLIT
    ]
    _take_over(self, tuple(record for record in records if record not in splits))
    for record in splits:
        parent = self.spans.get(record.spans[0])
        if parent is None or parent.node is None:
            self._wish_again(record)
            continue
        split = Split(
            record.operator,
            self.reach,
            self.reach.seq + 1,
            parent.id,
            parent.node,
            record.results,
        )
        split.removal = Removal(self.reach, parent.id, parent.node, record.base)
        split.record = record
        split.state = SplitState.STOPPING
        self.operating.operators[split.id] = split
        self.operating.regrip(split)


_take_over = Intent.take_over


@plant(
    "moved-before-stopped",
    "a move goes on to its destination before the origin has stopped",
    Law.DRAIN,
    Move,
    "_seen_stopping",
)
def _moved_before_stopped(self: Move, _seen: Any) -> None:
    self._origin_is_out()


@plant(
    "person-forgotten",
    "an owner that is replaced does not answer those who asked it for something",
    Law.LIVENESS,
    Operating,
    "_settle_request",
)
def _person_forgotten(self: Operating, request: str, fate: str) -> None:
    if fate != "owner-lost":
        _settle_request(self, request, fate)


_settle_request = Operating._settle_request


@plant(
    "merge-of-strangers",
    "spans that are not neighbours are merged",
    Law.COVER,
    Operating,
    "_lapse_merge",
)
def _merge_of_strangers(_self: Operating, _wish: Any) -> str | None:
    return None


@plant(
    "merge-without-hold",
    "a merge is committed although its sources still apply",
    Law.DRAIN,
    Merge,
    "_all_held",
)
def _merge_without_hold(_self: Merge) -> bool:
    return True


@plant(
    "create-without-record",
    "a span is asked for under a token that was never recorded",
    Law.RECORD,
    Placement,
    "ask",
)
def _create_without_record(self: Placement) -> None:
    self.token = Token(self.token.epoch, self.token.seq + 1_000_000, self.token.incarnation)
    _ask(self)


_ask = Placement.ask


@plant(
    "drop-forgotten",
    "the spans of a dropped table stay recorded and are placed again",
    Law.LIVENESS,
    Barrier,
    "_dropped_spans",
)
def _drop_forgotten(_self: Barrier) -> list[Any]:
    return []


@plant(
    "barrier-unrecorded",
    "a DDL is written before the barrier is recorded",
    Law.RECORD,
    Barrier,
    "_gather",
)
def _barrier_unrecorded(self: Barrier, tick: Any) -> None:
    _gather(self, tick)
    if self.state is BarrierState.RECORDING:
        self.state = BarrierState.WRITING
        self._write(tick)
        self.state = BarrierState.RECORDING


_gather = Barrier._gather


@plant(
    "pass-before-recorded",
    "dispatchers pass a DDL whose births and drops are not recorded",
    Law.RECORD,
    Barrier,
    "_passable",
)
def _pass_before_recorded(self: Barrier) -> Position:
    trigger = self.hands.spans.get("trigger")
    return 0 if trigger is None else trigger.position


@plant(
    "checkpoint-ahead",
    "the checkpoint is taken from the fastest span",
    Law.TOGETHER,
    Checkpoint,
    "advance",
)
def _checkpoint_ahead(self: Checkpoint) -> ProgressRecord | None:
    record = _advance(self)
    if len(self.spans):
        self.value = max(self.value, *(span.position for span in self.spans.all()))
        return ProgressRecord(self.value, self.born)
    return record


_advance = Checkpoint.advance


@plant(
    "orphans-left",
    "dispatchers that should not be there are left alone",
    Law.LIVENESS,
    Intake,
    "_heal_orphan",
)
def _orphans_left(_self: Intake, _node: NodeRef, _span: Any, _status: Any) -> None:
    return None


@plant(
    "held-for-ever",
    "sources of a merge that is off are not released",
    Law.LIVENESS,
    Intake,
    "_release",
)
def _held_for_ever(_self: Intake, _node: NodeRef, _status: Any) -> None:
    return None


@plant(
    "operator-record-left",
    "a split leaves its operator's record behind when it commits",
    Law.LIVENESS,
    Split,
    "_end",
)
def _operator_record_left(self: Split) -> None:
    if self.record.kind is OperatorKind.SPLIT:
        self.hands.record(puts=(self.record,))
        assert key_of(self.record).kind == "operator"
    _split_end(self)


_split_end = Split._end


@plant(
    "born-twice",
    "a table created by a DDL gets two spans for the same keys",
    Law.COVER,
    Barrier,
    "_births",
)
def _birth_twice(self: Barrier) -> tuple[Any, ...]:
    assert self.ddl is not None
    births = _births(self)
    if self.ddl.kind is not DdlKind.CREATE:
        return births
    return (*births, *(SpanSpec(self.operating.new_name(), birth.table) for birth in births[:1]))


_births = Barrier._births


@plant(
    "stopped-without-closing",
    "a feed is reported as stopped while the sink still honours its tokens",
    Law.FENCE,
    Maintainer,
    "_revoke",
)
def _stopped_without_closing(self: Maintainer, tick: Tick) -> None:
    if self.goal is Goal.REMOVE:
        _revoke(self, tick)
    else:
        self._end(Outcome.STOPPED)


_revoke = Maintainer._revoke
