"""The narrated failover: a feed with operators in flight loses its maintainer.

It is a simulated world with the real core in it and every checker on, without random faults:
everything that goes wrong here is done on purpose, and told.
"""

from collections.abc import Callable

from rich.console import Console
from rich.table import Table

from lockgate.core.maintainer.maintainer import Maintainer
from lockgate.model.events import MergeSpans, MoveSpan, SplitSpan
from lockgate.model.ids import FeedId, NodeId
from lockgate.model.records import OperatorKind, OperatorRecord, feed_scope
from lockgate.model.spans import TRIGGER
from lockgate.model.statuses import Phase
from lockgate.sim.healed import Healed
from lockgate.sim.node import SimNode
from lockgate.sim.probes import Probe
from lockgate.sim.violation import LawBroken
from lockgate.sim.world import World

SEED = 5
FEED: FeedId = "feed0"
STEP_MS = 5
PATIENCE_MS = 60_000


class Stuck(Exception):
    """Something that should have happened did not."""


class Demo:
    """The script, scene by scene."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.world = World(SEED)
        self.world.faults.heal()
        for feed in [feed for feed in self.world.sources if feed != FEED]:
            del self.world.sources[feed]
        self.source = self.world.sources[FEED]
        self.former_owner = ""
        self.died_at = 0
        self.under_way: list[str] = []
        self.checkpoint = 0

    def run(self) -> None:
        """All scenes, in order."""
        self._set_the_stage()
        self._cut_a_table()
        self._three_operators_at_once()
        self._kill_the_owner()
        self._watch_the_recovery()
        self._compare()

    # --- telling ----------------------------------------------------------------------------

    def _tell(self, what: str) -> None:
        self.console.print(f"[dim]{self.world.loop.now / 1000:7.2f} s[/dim]  {what}")

    def _scene(self, title: str) -> None:
        self.console.print(f"\n[bold]{title}[/bold]")

    def _until(self, what: str, happened: Callable[[], bool]) -> None:
        """Let time pass until something has happened, in small steps."""
        deadline = self.world.loop.now + PATIENCE_MS
        while not happened():
            if self.world.loop.now >= deadline:
                raise Stuck(what)
            self.world.loop.run(self.world.loop.now + STEP_MS)

    def _show_spans(self, maintainer: Maintainer) -> None:
        table = Table("span", "table", "keys", "node", "token", "at", box=None, padding=(0, 2))
        for span in sorted(maintainer.spans.all(), key=lambda span: span.record.span.table):
            spec = span.record.span
            low, high = spec.range.low.hex() or "…", spec.range.high
            keys = f"{low} – {high.hex() if high is not None else '…'}"
            name = "(DDL, new tables)" if span.id == TRIGGER else spec.table
            shown = "" if span.id == TRIGGER else keys
            table.add_row(span.id, name, shown, str(span.node), str(span.token), str(span.position))
        self.console.print(table)

    # --- looking ----------------------------------------------------------------------------

    @property
    def owner(self) -> SimNode | None:
        """The node that runs the feed's maintainer, by the metastore's word."""
        record = self.world.feed_record(FEED)
        if record is None or record.owner is None:
            return None
        node = self.world.nodes[record.owner.node]
        return node if node.maintainer(FEED) is not None else None

    @property
    def maintainer(self) -> Maintainer:
        owner = self.owner
        found = owner.maintainer(FEED) if owner is not None else None
        if found is None:
            raise Stuck("the feed has no maintainer")
        return found

    def _is_calm(self) -> bool:
        """The feed runs, all its spans work, nothing is under way."""
        if self.owner is None or self.maintainer.state is not Phase.RUNNING:
            return False
        spans = list(self.maintainer.spans.all())
        under_way = self.maintainer.operators or self.maintainer.operating.wishes
        return bool(spans) and not under_way and all(span.working for span in spans)

    def _operator_records(self) -> list[OperatorRecord]:
        records = self.world.metastore.store.records(feed_scope(FEED)).values()
        return [record for record in records if isinstance(record, OperatorRecord)]

    # --- scenes -----------------------------------------------------------------------------

    def _set_the_stage(self) -> None:
        self._scene("Nodes join, one is elected, a feed is created")
        world = self.world
        for index, node in enumerate(world.nodes.values()):
            world.loop.after(100 * index, node.boot)
        self._until("no coordinator", lambda: world.metastore.store.leader is not None)
        leader = world.metastore.store.leader
        assert leader is not None
        self._tell(f"{leader.ref} is elected coordinator, term {leader.term}")
        self.source.grow(20)
        world.people.begin()
        world.people.create(FEED)
        world._grow(FEED)
        self._until("the feed does not run", self._is_calm)
        maintainer = self.maintainer
        self._tell(f"{maintainer.me} maintains {FEED} under epoch {maintainer.epoch}:")
        self._show_spans(maintainer)

    def _cut_a_table(self) -> None:
        self._scene("A table is split while it is written to")
        table, span = self._whole_span(0)
        self._ask(SplitSpan("split", FEED, span, (b"\x80",)))
        self._until("the split did not end", lambda: len(self._spans_of(table)) > 1)
        self._until("the children do not work", self._is_calm)
        left, right = self._spans_of(table)
        self._tell(f"{table}: span {span} became {left} and {right}, covering exactly its keys")

    def _three_operators_at_once(self) -> None:
        self._scene("A merge, a split and a move are under way at once")
        self.world.faults.sink_slow = 1.0
        table = next(iter(self.maintainer.spans.divided_tables()))
        self._until("the owner applies nothing", self._owner_applies)
        self._ask(MergeSpans("merge", FEED, tuple(self._spans_of(table))))
        _, cut = self._whole_span(0)
        self._ask(SplitSpan("cut", FEED, cut, (b"\x40", b"\xa0")))
        _, moved = self._whole_span(1)
        self._ask(MoveSpan("move", FEED, moved, self._other_node(moved)))
        wanted = {OperatorKind.MERGE, OperatorKind.SPLIT, OperatorKind.MOVE}
        self._until(
            "the operators were not all under way at once",
            lambda: {record.kind for record in self._operator_records()} >= wanted,
        )
        self.world.loop.run(self.world.loop.now + 200)
        for operator in self.maintainer.operators.values():
            self._tell(
                f"{operator.name}: {operator.state.value}, holds {', '.join(operator.spans)}"
            )

    def _kill_the_owner(self) -> None:
        self._scene("The maintainer's node is killed, right now")
        owner = self.owner
        assert owner is not None
        self.former_owner, self.died_at = owner.id, self.world.loop.now
        self.under_way = [operator.name for operator in self.maintainer.operators.values()]
        self.checkpoint = self.maintainer.progress.value
        coordinated = self._coordinates(owner.id)
        self.world.faults.zombie = 1.0
        owner.crash()
        self.world.faults.zombie = self.world.faults.sink_slow = 0.0
        self._tell(
            f"{owner.id} is gone{', the coordinator with it' if coordinated else ''};"
            " its transactions live on"
        )
        pending = {record.operator for record in self._operator_records()}
        for operator in self.under_way:
            past = operator.split()[1] not in pending
            fate = "past its commit point, will be finished" if past else "void, wished for anew"
            self._tell(f"{operator}: {fate}")

    def _watch_the_recovery(self) -> None:
        self._scene("Nobody helps")
        world = self.world
        self._until("no new owner", lambda: self._new_epoch() is not None)
        leader = world.metastore.store.leader
        assert leader is not None
        self._tell(f"coordinator: {leader.ref}, term {leader.term}")
        record = world.feed_record(FEED)
        assert record is not None
        self._tell(f"epoch {record.epoch} is raised and recorded, then {record.owner} is told")
        self._until("the successor does not run", self._successor_runs)
        successor = self.maintainer
        kept = sum(1 for span in successor.spans.all() if span.token.epoch < successor.epoch)
        placed = len(successor.spans) - kept
        self._tell(f"it asked every node: {kept} dispatchers run as recorded and are kept,")
        self._tell(f"{placed} were on the dead node and are placed under newer tokens")
        self._until("the checkpoint does not move", self._checkpoint_moved)
        took, lease = (world.loop.now - self.died_at) / 1000, world.lease_ms / 1000
        self._tell(
            f"the checkpoint moves again, {took:.1f} s after the kill (lease: {lease:.1f} s)"
        )
        world.nodes[self.former_owner].boot()
        self._until("it did not become calm", self._is_calm)
        self._tell(f"all operators ended; {self.former_owner} is back as a new incarnation")
        self._show_spans(self.maintainer)

    def _compare(self) -> None:
        self._scene("The source stands still; both sides are compared")
        world = self.world
        world.healed = True
        healed = Healed(world)
        self._until("the sink did not catch up", lambda: healed.missing() is None)
        feed = world.sink.feed(FEED)
        rows = sum(1 for table in feed.tables.values() for value in table.rows if value is not None)
        hits = world.probes.hits
        summary = Table(box=None, padding=(0, 2), show_header=False)
        summary.add_row("changes at the source", f"{self.source.head:,}")
        summary.add_row("rows, equal on both sides", f"{rows:,}")
        late, refused = hits.get(Probe.ZOMBIE_COMMITTED, 0), hits.get(Probe.ZOMBIE_FENCED, 0)
        summary.add_row(
            "of the dead node's transactions", f"{late} came in time, {refused} refused"
        )
        summary.add_row("keys lost, doubled or uncovered", "0 (checked after every step)")
        summary.add_row("left over", "nothing")
        self.console.print(summary)

    # --- helpers ----------------------------------------------------------------------------

    def _ask(self, verb: SplitSpan | MergeSpans | MoveSpan) -> None:
        owner = self.owner
        assert owner is not None
        owner.deliver(owner.life, verb)

    def _spans_of(self, table: str) -> list[str]:
        return [span.id for span in self.maintainer.spans.of_table(table)]

    def _whole_span(self, index: int) -> tuple[str, str]:
        """The index-th table that has a single span, and that span."""
        tables = sorted({span.record.span.table for span in self.maintainer.spans.all()} - {""})
        whole = [table for table in tables if len(self._spans_of(table)) == 1]
        return whole[index], self._spans_of(whole[index])[0]

    def _other_node(self, span: str) -> NodeId:
        here = self.maintainer.spans[span].node
        assert here is not None
        owner = self.owner
        assert owner is not None
        return next(node for node in self.world.nodes if node not in (here.node, owner.id))

    def _owner_applies(self) -> bool:
        """The owner's node has transactions under way at the sink."""
        owner = self.owner
        return owner is not None and any(
            dispatcher.tx is not None for dispatcher in owner.executor.running.values()
        )

    def _coordinates(self, node: NodeId) -> bool:
        leader = self.world.metastore.store.leader
        return leader is not None and leader.ref.node == node

    def _new_epoch(self) -> int | None:
        record = self.world.feed_record(FEED)
        if record is None or record.owner is None or record.owner.node == self.former_owner:
            return None
        return record.epoch

    def _successor_runs(self) -> bool:
        return self.owner is not None and self.maintainer.state is Phase.RUNNING

    def _checkpoint_moved(self) -> bool:
        return self.owner is not None and self.maintainer.progress.value > self.checkpoint


def run(console: Console) -> int:
    """Show it; 0 when it came to its end."""
    demo = Demo(console)
    try:
        demo.run()
    except Stuck as stuck:
        console.print(f"[red]stuck: {stuck}[/red]")
        return 1
    except LawBroken as broken:
        console.print(f"[red]{broken.law.value} is broken: {broken.what}[/red]")
        return 1
    return 0
