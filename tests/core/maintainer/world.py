"""A tiny world for one maintainer: a metastore, nodes, a sink and a source's log.

Nothing happens by itself. A test, or Hypothesis, says which message arrives, which dispatcher
takes a step, which commit lands; `heal` lets everything happen in order until the world comes to
rest.

`check` holds the laws: it is called after every step.
"""

import itertools
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TypeVar

from lockgate.core.maintainer.maintainer import Maintainer
from lockgate.model.batch import Batch, Landed, Member, NotLanded, Refused, Unknown
from lockgate.model.config import CoreConfig
from lockgate.model.ddl import Ddl, DdlKind
from lockgate.model.events import MembersSeen, SinkClosed, SpanVerb, Tick
from lockgate.model.feeds import FeedSpec, Goal
from lockgate.model.ids import NO_TOKEN, Epoch, Millis, NodeId, NodeRef, SpanId, Token
from lockgate.model.instructions import CloseSink, Commit, Instruction, Load, Send
from lockgate.model.messages import (
    Message,
    Requests,
)
from lockgate.model.positions import Position
from lockgate.model.records import BarrierRecord, ProgressRecord, Record, SpanRecord, feed_scope
from lockgate.model.requests import Create, Pass
from lockgate.model.spans import TRIGGER, WHOLE, KeyRange, SpanSpec
from lockgate.model.statuses import Phase, Stage
from lockgate.store.memory import MemoryMetastore
from tests.core.maintainer.fakes import OWNERS_NODE, Node, Sink
from tests.core.support import CONFIG, FEED, of

K = TypeVar("K", bound=Record)


@dataclass
class Mail:
    """A message on its way."""

    to: NodeId
    message: Message


@dataclass(frozen=True)
class Created:
    """Where and under which token somebody was asked to run a span."""

    node: NodeRef
    token: Token


@dataclass
class Seen:
    """What `check` remembers between two looks."""

    checkpoint: Position = 0
    tokens: dict[SpanId, Token] = field(default_factory=dict)
    created: dict[SpanId, Created] = field(default_factory=dict)
    """The last placement of each span that a node was asked for."""
    recorded: dict[SpanId, list[Token]] = field(default_factory=dict)
    """The tokens that each span's record had, one after the other."""
    met: set[NodeRef] = field(default_factory=set)
    well: set[NodeRef] = field(default_factory=set)


class World:
    """Everything around one maintainer, and the maintainer."""

    def __init__(
        self, *nodes: NodeId, tables: tuple[str, ...] = ("t",), config: CoreConfig = CONFIG
    ) -> None:
        self.config = config
        self.now: Millis = 0
        self.store = MemoryMetastore(lambda: self.now, 10_000)
        self.spec = FeedSpec(tables=tables)
        self.sink = Sink()
        self.log: list[Ddl] = []
        self.head: Position = 10
        self.mail: list[Mail] = []
        self.commits: list[Batch] = []
        """Asked for and not answered; at most one."""
        self.doubtful: Batch | None = None
        """A batch that may still land."""
        self.nodes: dict[NodeId, Node] = {}
        self.draining: set[NodeId] = set()
        self.passed: list[Position] = []
        self.seen = Seen()
        self.epoch: Epoch = 0
        self.owner: Maintainer
        for name in nodes:
            self.start_node(name)
        self.start_owner()

    # --- what can happen --------------------------------------------------------------------

    def start_node(self, name: NodeId) -> None:
        """A (new) life of a node. It runs nothing."""
        self.nodes[name] = Node(self.store.join(name, self.now).ref, self)

    def kill_node(self, name: NodeId) -> None:
        """It is gone, and so is its lease."""
        del self.nodes[name]

    def see_members(self) -> None:
        """The maintainer hears from the metastore who is there."""
        members = tuple(
            Member(node.ref, name in self.draining) for name, node in self.nodes.items()
        )
        self.handle(MembersSeen(members))

    def start_owner(self, goal: Goal = Goal.RUN) -> None:
        """The maintainer dies, and another begins under the next epoch."""
        self.epoch += 1
        self.store.scope(feed_scope(FEED)).fence = self.epoch
        self.commits.clear()
        self.doubtful = None
        self.seen.met.clear()
        self.seen.well.clear()
        ref = NodeRef(OWNERS_NODE, self.epoch)
        self.owner = Maintainer(self.config, FEED, self.epoch, ref, goal, self.spec)
        self.see_members()

    def tick(self, ms: Millis = 500) -> None:
        self.now += ms
        self.handle(Tick())

    def ask(self, verb: SpanVerb) -> None:
        """A person wants something."""
        self.handle(verb)

    def answer(self, how: str = "landed") -> None:
        """The metastore answers the commit in flight, in one of its ways."""
        if not self.commits:
            return
        batch = self.commits.pop()
        if how == "not landed":
            self.handle(NotLanded(batch.scope, batch.serial))
        elif how == "unknown":
            self.doubtful = batch
            self.handle(Unknown(batch.scope, batch.serial))
        elif how == "landed, answer lost":
            self.commit(batch)
            self.handle(Unknown(batch.scope, batch.serial))
        else:
            self.handle(self.commit(batch))

    def commit(self, batch: Batch) -> Landed | Refused | NotLanded:
        answer = self.store.commit(batch)
        for record in self.records(SpanRecord).values():
            tokens = self.seen.recorded.setdefault(record.id, [])
            if not tokens or tokens[-1] != record.token:
                tokens.append(record.token)
        return answer

    def land_late(self) -> None:
        """A batch whose outcome was unknown lands now."""
        if self.doubtful is not None:
            self.commit(self.doubtful)
            self.doubtful = None

    def deliver(self, index: int = 0, *, keep: bool = False) -> None:
        """One message arrives; with `keep` it will arrive again."""
        mail = self.mail[index] if keep else self.mail.pop(index)
        if mail.to == OWNERS_NODE:
            self.handle(mail.message)
        elif mail.to in self.nodes:
            self.nodes[mail.to].receive(mail.message)

    def lose(self, index: int = 0) -> None:
        self.mail.pop(index)

    def grow(self, by: Position = 5) -> None:
        """The source goes on."""
        self.head += by

    def ddl(self, kind: DdlKind, *tables: str, every_table: bool = False) -> Ddl:
        """The source's log gets another DDL."""
        self.head += 5
        entry = Ddl(self.head, kind, tables, every_table)
        self.log.append(entry)
        self.head += 5
        return entry

    # --- how it is carried out --------------------------------------------------------------

    def handle(self, event: object) -> None:
        """Hand an event to the maintainer, and do what it wants."""
        out = self.owner.handle(self.now, event)
        self._note_who_is_well()
        for instruction in out:
            self._carry_out(instruction)

    def _carry_out(self, instruction: Instruction) -> None:
        if isinstance(instruction, Load):
            self.handle(self.store.load(instruction.scope))
        elif isinstance(instruction, Commit):
            assert not self.commits, "two batches in flight"
            if self.doubtful is not None and self.doubtful.serial == instruction.batch.serial:
                assert self.doubtful == instruction.batch, "another batch under a serial in doubt"
            self.commits.append(instruction.batch)
        elif isinstance(instruction, CloseSink):
            self.handle(SinkClosed(FEED, instruction.token))
        elif isinstance(instruction, Send):
            self._look_at(instruction)
            self.send(instruction.to, instruction.message)

    def send(self, to: NodeId, message: Message) -> None:
        self.mail.append(Mail(to, message))

    def next_ddl(self, spec: SpanSpec, after: Position) -> Ddl | None:
        """The next DDL that the dispatcher of `spec` stops before."""
        for entry in self.log:
            if entry.position > after and (spec.id == TRIGGER or entry.concerns(spec.table)):
                return entry
        return None

    # --- healing ----------------------------------------------------------------------------

    def round(self) -> None:
        """Everything that can happen happens once, in order, and nothing is lost."""
        for _ in self._small_steps():
            pass
        self.check()

    def run_until(self, reached: Callable[[], bool], rounds: int = 120) -> None:
        """As `round`, again and again, up to the small step after which something holds."""
        if reached():
            return
        for _ in range(rounds):
            for _ in self._small_steps():
                self.check()
                if reached():
                    return
        raise AssertionError(f"not reached after {rounds} rounds")

    def run_for(self, steps: int) -> None:
        """As `round`, again and again, and broken off after so many small steps."""
        while steps > 0:
            for _ in self._small_steps():
                self.check()
                steps -= 1
                if steps <= 0:
                    return

    def _small_steps(self) -> Iterator[None]:
        self.answer()
        yield
        self.see_members()
        for _ in range(len(self.mail)):
            self.deliver()
            yield
            self.answer()
            yield
        for node in list(self.nodes.values()):
            for span in list(node.here):
                node.work(span)
                yield
            node.beat()
        self.tick()
        yield

    def heal(self, rounds: int = 120) -> None:
        """No more faults: it must come to rest."""
        if not self.nodes:
            self.start_node("n0")
        for _ in range(rounds):
            self.round()
            if self.unrest() == "":
                return
        raise AssertionError(f"no rest after {rounds} rounds: {self.unrest()}")

    def unrest(self) -> str:
        """What is still to be done, or nothing."""
        owner = self.owner
        if owner.status().phase is not Phase.RUNNING or not owner.progress.born:
            return f"the maintainer is {owner.status().phase}"
        if owner.operators or owner.operating.wishes:
            return f"operators {list(owner.operators)}, wishes {owner.operating.wishes}"
        records = self.records(SpanRecord)
        placed = {(r.node, r.id, r.token, Stage.WORKING) for r in records.values()}
        here = {
            (node.ref, span, one.token, one.stage)
            for node in self.nodes.values()
            for span, one in node.here.items()
        }
        if placed != here:
            return f"recorded {placed - here}, running {here - placed}"
        if owner.barrier.is_open:
            return f"a barrier at {owner.barrier.record}"
        behind = [row for row in self.sink.rows.values() if row.position < self.head]
        if behind:
            return f"behind the source: {behind}"
        if set(self.sink.rows) != set(records):
            return f"rows {list(self.sink.rows)}, records {list(records)}"
        return ""

    # --- the laws ---------------------------------------------------------------------------

    def records(self, kind: type[K]) -> dict[str, K]:
        """What is durable."""
        return {one.id: one for one in of(kind, self.store.records(feed_scope(FEED)).values())}

    def _look_at(self, send: Send) -> None:
        """Nothing is asked for that is not durable; nobody is to run what somebody else runs."""
        if not isinstance(send.message, Requests):
            return
        node = NodeRef(send.to, send.message.to)
        for request in send.message.items:
            if isinstance(request, Create):
                self._look_at_create(node, request)
            elif isinstance(request, Pass):
                barrier = self.records(BarrierRecord).get("barrier")
                assert barrier is None or request.position < barrier.ddl.position

    def _look_at_create(self, node: NodeRef, create: Create) -> None:
        record = self.records(SpanRecord).get(create.span)
        assert record is not None, f"{create} without a record"
        assert (record.token, record.node) == (create.token, node)
        former = self.seen.created.get(create.span)
        if former is not None and former.token == create.token:
            return
        assert former is None or former.token < create.token
        for span in (create.span, *(create.lineage.sources if create.lineage is not None else ())):
            self._check_stopped(span)
        self.seen.created[create.span] = Created(node, create.token)

    def _check_stopped(self, span: SpanId) -> None:
        """Drain: whoever ran it before and is known to be well has stopped, or is held."""
        former = self.seen.created.get(span)
        if former is None or former.node not in self.seen.well:
            return
        if former.token not in self.seen.recorded[span][-2:]:
            return  # another place was recorded since: whoever still runs here is an orphan
        node = self.nodes.get(former.node.node)
        one = node.here.get(span) if node is not None and node.ref == former.node else None
        if one is not None and one.token == former.token:
            assert one.stage not in (Stage.STARTING, Stage.WORKING), f"{span} runs at {former.node}"

    def _note_who_is_well(self) -> None:
        """Nodes that answered in time, or ran nothing when they did, and were never lost since."""
        ready = {view.ref for view in self.owner.nodes.all() if self.owner.nodes.ready(view.ref)}
        self.seen.well &= ready
        in_time = self.owner.status().phase is Phase.BOOTSTRAPPING
        for ref in ready - self.seen.met:
            self.seen.met.add(ref)
            node = self.nodes.get(ref.node)
            if in_time or (node is not None and node.ref == ref and not node.here):
                self.seen.well.add(ref)

    def note_pass(self, request: Pass) -> None:
        """Nobody goes past a DDL that is not written."""
        assert request.position in [ddl.position for ddl in self.sink.ddls]

    def check(self) -> None:
        """Hold the world to the laws."""
        self._check_cover(
            [record.span for record in self.records(SpanRecord).values()], "the records"
        )
        self._check_cover([row.spec for row in self.sink.rows.values()], "the sink")
        self._check_operators()
        self._check_tokens()
        self._check_checkpoint()
        positions = [ddl.position for ddl in self.sink.ddls]
        assert positions == sorted(set(positions)), "a DDL twice, or out of order"
        assert self.sink.ddls == self.log[: len(self.sink.ddls)], "a DDL was left out"

    def _check_cover(self, specs: list[SpanSpec], where: str) -> None:
        """Cover: each key of each table once."""
        tables: dict[str, list[KeyRange]] = {}
        for spec in specs:
            if spec.id != TRIGGER:
                tables.setdefault(spec.table, []).append(spec.range)
        for table, ranges in tables.items():
            ranges.sort(key=lambda part: part.low)
            assert ranges[0].low == WHOLE.low, f"{where}: {table} begins late"
            assert ranges[-1].high is None, f"{where}: {table} ends early"
            for left, right in itertools.pairwise(ranges):
                assert left.touches(right), f"{where}: {table} at {left}, {right}"

    def _check_operators(self) -> None:
        held = Counter(span for one in self.owner.operators.values() for span in one.spans)
        assert not held or max(held.values()) == 1, f"held twice: {held}"

    def _check_tokens(self) -> None:
        for record in self.records(SpanRecord).values():
            former = self.seen.tokens.get(record.id, NO_TOKEN)
            assert record.token >= former, f"{record.id} went back to {record.token}"
            self.seen.tokens[record.id] = record.token

    def _check_checkpoint(self) -> None:
        """B9: it does not go back, is not ahead of the sink, nor past an unwritten DDL."""
        progress = self.records(ProgressRecord).get("progress")
        if progress is None:
            return
        assert progress.checkpoint >= self.seen.checkpoint, "the checkpoint went back"
        self.seen.checkpoint = progress.checkpoint
        if self.sink.rows:
            assert progress.checkpoint <= min(row.position for row in self.sink.rows.values())
        barrier = self.records(BarrierRecord).get("barrier")
        assert barrier is None or progress.checkpoint < barrier.ddl.position
        unwritten = self.log[len(self.sink.ddls) :]
        assert not unwritten or progress.checkpoint < unwritten[0].position
