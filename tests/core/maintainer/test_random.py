"""A maintainer in a hostile world, driven at random: the laws hold at every step, and when the
faults end it brings every span to work (O9, B1, B9).

Messages are lost, repeated and reordered; nodes die and start anew; commits land, do not land, or
nobody knows; the maintainer dies and the next epoch begins from what landed.
"""

import itertools
from dataclasses import dataclass

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from lockgate.model.ddl import DdlKind
from lockgate.model.events import MergeSpans, MoveSpan, SplitSpan
from lockgate.model.records import SpanRecord
from lockgate.model.spans import TRIGGER
from tests.core.maintainer.fakes import OWNERS_NODE, Node
from tests.core.maintainer.world import World
from tests.core.support import FEED

NODES = ("a", "b", "c")
MAIL_MAX = 80
PICK = st.integers(min_value=0, max_value=10_000)
"""Chooses among however many there are at the time."""


@dataclass(frozen=True)
class Turn:
    """How one turn of the world goes."""

    commit: str
    """How the metastore answers this time."""
    late: bool
    """A commit in doubt lands, if there is one."""
    faults: list[tuple[str, int]]
    share: int
    """How many quarters of the mail arrive, in order, after that."""
    hung: str
    """A node that does nothing."""
    members: bool
    ms: int


TURN = st.builds(
    Turn,
    commit=st.sampled_from(["landed"] * 5 + ["not landed", "unknown", "landed, answer lost"]),
    late=st.booleans(),
    faults=st.lists(
        st.tuples(st.sampled_from(["lost", "repeated", "overtaking"]), PICK), max_size=4
    ),
    share=st.sampled_from([4, 4, 4, 2, 0]),
    hung=st.sampled_from(["", "", *NODES]),
    members=st.booleans(),
    ms=st.sampled_from([500, 500, 500, 1_000, 1_000, 6_000, 16_000]),
)
TURNS = st.lists(TURN, min_size=1, max_size=6)


class HostileWorld(RuleBasedStateMachine):
    """The rules are the faults and the steps of the world."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World(*NODES, tables=("t", "u"))
        self.tables = ["t", "u"]
        self.new_tables = 0

    @initialize(points=st.sampled_from([(b"d", b"m", b"t"), (b"m",), (), None]))
    def begin(self, points: tuple[bytes, ...] | None) -> None:
        """Mostly a feed that runs already, its first table cut: there is more to be torn down."""
        if points is not None:
            self.world.heal()
        if points:
            spans = self.world.records(SpanRecord).values()
            first = next(record.id for record in spans if record.span.table == "t")
            self.world.ask(SplitSpan("cut", FEED, first, points))
            self.world.heal()

    # --- things go on, more or less ---------------------------------------------------------

    @rule(turns=TURNS)
    def time_passes(self, turns: list[Turn]) -> None:
        for turn in turns:
            self._turn(turn)
            self.world.check()

    def _turn(self, turn: Turn) -> None:
        """Some of what can happen happens, some of it wrongly."""
        world = self.world
        world.answer(turn.commit)
        if turn.late:
            world.land_late()
        for fault, pick in turn.faults:
            if world.mail:
                self._spoil(fault, pick % len(world.mail))
        for _ in range(len(world.mail) * turn.share // 4):
            if world.mail:
                world.deliver()
                world.answer(turn.commit)
        for name, node in world.nodes.items():
            if name != turn.hung:
                for span in list(node.here):
                    node.work(span)
                node.beat()
        if turn.members:
            world.see_members()
        world.tick(turn.ms)

    def _spoil(self, fault: str, index: int) -> None:
        if fault == "lost":
            self.world.lose(index)
        else:
            self.world.deliver(index, keep=fault == "repeated")

    @rule(pick=PICK, which=PICK)
    def one_dispatcher_works(self, pick: int, which: int) -> None:
        if self.world.nodes and (here := list(self._node(pick).here)):
            self._node(pick).work(here[which % len(here)])

    @rule()
    def the_source_goes_on(self) -> None:
        self.world.grow()

    # --- deaths -----------------------------------------------------------------------------

    @rule(pick=PICK, told=st.booleans(), then=TURNS)
    def a_node_dies(self, pick: int, told: bool, then: list[Turn]) -> None:
        if len(self.world.nodes) > 1:
            self.world.kill_node(self._node(pick).ref.node)
            if told:
                self.world.see_members()

    @rule(name=st.sampled_from(NODES), told=st.booleans(), then=TURNS)
    def a_node_starts_anew(self, name: str, told: bool, then: list[Turn]) -> None:
        self.world.start_node(name)
        if told:
            self.world.see_members()
        self.time_passes(then)

    @rule(
        verb=st.sampled_from(["move", "split", "merge"]),
        pick=PICK,
        steps=st.integers(min_value=1, max_value=80),
        unsaid=st.booleans(),
    )
    def the_maintainer_dies_in_the_middle(
        self, verb: str, pick: int, steps: int, unsaid: bool
    ) -> None:
        """All goes well up to some small step of an operator, and there it ends."""
        if verb == "move":
            self.somebody_moves_a_span(pick, NODES[pick % len(NODES)], then=[])
        elif verb == "split":
            self.somebody_splits_a_span(pick, (b"d", b"m", b"t")[pick % 3], then=[])
        else:
            self.somebody_merges_neighbours(pick, then=[])
        self.world.run_for(steps)
        self.the_maintainer_dies("landed", unsaid, then=[])

    @rule(last=st.sampled_from(["landed", "not landed"]), unsaid=st.booleans(), then=TURNS)
    def the_maintainer_dies(self, last: str, unsaid: bool, then: list[Turn]) -> None:
        """Its last commit landed or not; what it said last left its machine or not."""
        self.world.answer(last)
        if unsaid:
            mail = self.world.mail
            self.world.mail = [one for one in mail if one.to == OWNERS_NODE]
        self.world.start_owner()
        self.time_passes(then)

    # --- people and the source --------------------------------------------------------------

    @rule(name=st.sampled_from(NODES), then=TURNS)
    def a_node_is_to_be_drained_or_not(self, name: str, then: list[Turn]) -> None:
        self.world.draining ^= {name}
        self.time_passes(then)

    @rule(pick=PICK, name=st.sampled_from(NODES), then=TURNS)
    def somebody_moves_a_span(self, pick: int, name: str, then: list[Turn]) -> None:
        spans = list(self.world.records(SpanRecord))
        if spans:
            self.world.ask(MoveSpan("move", FEED, spans[pick % len(spans)], name))
        self.time_passes(then)

    @rule(pick=PICK, key=st.sampled_from([b"d", b"m", b"t"]), then=TURNS)
    def somebody_splits_a_span(self, pick: int, key: bytes, then: list[Turn]) -> None:
        spans = [
            record.id
            for record in self.world.records(SpanRecord).values()
            if record.id != TRIGGER and record.span.range.low < key and key in record.span.range
        ]
        if spans:
            self.world.ask(SplitSpan("split", FEED, spans[pick % len(spans)], (key,)))
        self.time_passes(then)

    @rule(pick=PICK, then=TURNS)
    def somebody_merges_neighbours(self, pick: int, then: list[Turn]) -> None:
        specs = sorted(
            (record.span for record in self.world.records(SpanRecord).values()),
            key=lambda spec: (spec.table, spec.range.low),
        )
        pairs = [
            (left.id, right.id)
            for left, right in itertools.pairwise(specs)
            if left.table == right.table and left.range.touches(right.range)
        ]
        if pairs:
            self.world.ask(MergeSpans("merge", FEED, pairs[pick % len(pairs)]))
        self.time_passes(then)

    @precondition(lambda self: len(self.world.log) - len(self.world.sink.ddls) < 3)
    @rule(kind=st.sampled_from(DdlKind), pick=PICK, then=TURNS)
    def the_source_has_a_ddl(self, kind: DdlKind, pick: int, then: list[Turn]) -> None:
        if kind is DdlKind.CREATE:
            self.new_tables += 1
            self.tables.append(f"new-{self.new_tables}")
            self.world.ddl(kind, self.tables[-1])
        elif kind is DdlKind.SYNC:
            self.world.ddl(kind, every_table=True)
        elif self.tables:
            table = self.tables[pick % len(self.tables)]
            if kind is DdlKind.DROP:
                self.tables.remove(table)
            self.world.ddl(kind, table)
        self.time_passes(then)

    # --- what holds -------------------------------------------------------------------------

    @invariant()
    def the_laws_hold(self) -> None:
        self.world.check()
        del self.world.mail[:-MAIL_MAX]

    def teardown(self) -> None:
        """The faults end: everything comes to rest, with exactly the tables of the source."""
        self.world.draining.clear()
        self.world.heal()
        covered = {record.span.table for record in self.world.records(SpanRecord).values()}
        assert covered - {""} == set(self.tables)

    def _node(self, pick: int) -> Node:
        return list(self.world.nodes.values())[pick % len(self.world.nodes)]


HostileWorld.TestCase.settings = settings(
    max_examples=100,
    stateful_step_count=25,
    deadline=None,
    derandomize=True,
    print_blob=True,
    suppress_health_check=list(HealthCheck),
)
TestHostileWorld = HostileWorld.TestCase
