"""The barrier: a DDL or sync point is written once, in order with the rows around it.

    IDLE ──trigger stands before a DDL──► GATHERING ──all concerned stand there──► RECORDING
     ▲                                                                                │
     │                                                                             recorded
     │                                                                                ▼
     └──── recorded: passed ──── FINISHING ◄──── trigger is past it ──────────────── WRITING

The trigger dispatcher stands before every DDL, so there is one barrier at a time. It is also
the only writer: the sink's transaction checks its token, checks that every span concerned
stands right before the DDL, and moves all their rows and its own past it. So a DDL is never
written twice nor too early, whoever dies when.

The record holds the identities of the spans that the DDL gives birth to: they are durable
before their rows can be at the sink. As long as it exists the checkpoint stays below the DDL.
"""

import enum
from dataclasses import dataclass

from lockgate.core.machine import Machine, do, ignore, reject, table
from lockgate.core.maintainer.operating import Operating
from lockgate.core.maintainer.spans import Span
from lockgate.core.operators.base import Hands, Recorded
from lockgate.model.ddl import Ddl, DdlKind
from lockgate.model.events import Tick
from lockgate.model.ids import FeedId
from lockgate.model.positions import Position
from lockgate.model.records import BarrierRecord, RecordKey, SpanRecord, key_of
from lockgate.model.requests import Write
from lockgate.model.spans import TRIGGER, SpanSpec


@dataclass(frozen=True, slots=True)
class TriggerSeen:
    """The trigger dispatcher reports where it is, and before which DDL it stands, if any."""

    ddl: Ddl | None


class BarrierState(enum.Enum):
    """See the module's diagram."""

    IDLE = "idle"
    GATHERING = "gathering"
    RECORDING = "recording"
    WRITING = "writing"
    FINISHING = "finishing"


class Barrier(Machine):
    """The one barrier of a feed."""

    EVENTS = (TriggerSeen, Recorded, Tick)
    TABLE = table(
        BarrierState,
        EVENTS,
        {
            BarrierState.IDLE: {
                TriggerSeen: do("_meet"),
                Recorded: reject("nothing was recorded"),
                Tick: ignore("nothing to do"),
            },
            BarrierState.GATHERING: {
                TriggerSeen: do("_meet"),
                Recorded: reject("nothing was recorded"),
                Tick: do("_gather"),
            },
            BarrierState.RECORDING: {
                TriggerSeen: ignore("the record is on its way"),
                Recorded: do("_recorded"),
                Tick: ignore("the writer repeats"),
            },
            BarrierState.WRITING: {
                TriggerSeen: do("_look_if_written"),
                Recorded: reject("nothing was recorded"),
                Tick: do("_write"),
            },
            BarrierState.FINISHING: {
                TriggerSeen: ignore("the record is on its way"),
                Recorded: do("_passed"),
                Tick: ignore("the writer repeats"),
            },
        },
    )

    def __init__(self, feed: FeedId, hands: Hands, operating: Operating) -> None:
        super().__init__(f"barrier of {feed}", BarrierState.IDLE)
        self.hands = hands
        self.operating = operating
        self.ddl: Ddl | None = None
        self.record: BarrierRecord | None = None

    # --- what others see --------------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        """A DDL may be at the sink without its consequences being recorded."""
        return self.record is not None

    @property
    def done(self) -> Position:
        """Every DDL up to here is written and recorded: who stands before one of them may pass."""
        return self._passable()

    def _passable(self) -> Position:
        if self.record is not None:
            return self.record.ddl.position - 1
        trigger = self.hands.spans.get(TRIGGER)
        return 0 if trigger is None else trigger.position

    def resume(self, record: BarrierRecord) -> None:
        """A former owner got as far as recording: the DDL may be at the sink, or not."""
        self.ddl = record.ddl
        self.record = record
        self.state = BarrierState.WRITING

    # --- transitions ------------------------------------------------------------------------

    def _meet(self, seen: TriggerSeen) -> None:
        self.ddl = seen.ddl
        self.state = BarrierState.IDLE if seen.ddl is None else BarrierState.GATHERING
        if seen.ddl is not None and seen.ddl.position <= self.done:
            self.state = BarrierState.IDLE
        self._gather(Tick())

    def _gather(self, _: Tick) -> None:
        if self.state is BarrierState.GATHERING and self._all_stand():
            assert self.ddl is not None
            self.record = BarrierRecord(self.ddl, self._births())
            self.state = BarrierState.RECORDING
            self.hands.record(puts=(self.record,), then=self._tell_recorded)

    def _births(self) -> tuple[SpanSpec, ...]:
        """The spans that the DDL brings to life."""
        assert self.ddl is not None
        if self.ddl.kind is not DdlKind.CREATE:
            return ()
        dropped, ended = self.ddl.dropped, self.ddl.ended
        tables = dict.fromkeys(t for t in self.ddl.tables if t not in dropped)
        return tuple(
            SpanSpec(self.operating.new_name(), table)
            for table in tables
            if table in ended or not self.hands.spans.of_table(table)
        )

    def _dropped_spans(self) -> list[Span]:
        """The spans that end with the DDL."""
        assert self.ddl is not None
        if self.ddl.kind is DdlKind.DROP:
            return self._concerned()
        spans = self.hands.spans
        return [span for table in sorted(self.ddl.ended) for span in spans.of_table(table)]

    def _tell_recorded(self) -> None:
        self.handle(self.now, Recorded())

    def _all_stand(self) -> bool:
        """Everybody concerned stands right before the DDL, or is past it."""
        assert self.ddl is not None
        at = self.ddl.position
        return all(span.barrier == at or span.position >= at for span in self._concerned())

    def _concerned(self) -> list[Span]:
        assert self.ddl is not None
        spans = self.hands.spans
        if self.ddl.every_table:
            return [span for span in spans.all() if span.id != TRIGGER]
        return [span for table in self.ddl.tables for span in spans.of_table(table)]

    def _recorded(self, _: Recorded) -> None:
        self.state = BarrierState.WRITING
        self._write(Tick())

    def _write(self, _: Tick) -> None:
        assert self.record is not None
        trigger = self.hands.spans.get(TRIGGER)
        if trigger is None or not trigger.working or trigger.node is None:
            return
        if self._is_written(trigger):
            self._finish()
        elif trigger.barrier == self.record.ddl.position:
            request = Write(TRIGGER, trigger.token, self.record.ddl, self.record.births)
            self.hands.ask(trigger.node, request)

    def _look_if_written(self, _: TriggerSeen) -> None:
        trigger = self.hands.spans.get(TRIGGER)
        if trigger is not None and self._is_written(trigger):
            self._finish()

    def _is_written(self, trigger: Span) -> bool:
        assert self.record is not None
        return trigger.position >= self.record.ddl.position

    def _finish(self) -> None:
        """Record what the DDL made of the spans; from here on they are so."""
        assert self.record is not None
        self.state = BarrierState.FINISHING
        ddl = self.record.ddl
        born = [SpanRecord(spec, start=ddl.position) for spec in self.record.births]
        gone = [self.hands.spans.drop(span.id) for span in self._dropped_spans()]
        self.hands.record(
            puts=born,
            deletes=(key_of(self.record), *(RecordKey("span", span.id) for span in gone)),
            then=self._tell_recorded,
        )
        for record in born:
            self.hands.spans.add(record)
        for span in gone:
            self.operating.dropped(self.now, span, self.hands)

    def _passed(self, _: Recorded) -> None:
        self.record = None
        self.ddl = None
        self.state = BarrierState.IDLE
