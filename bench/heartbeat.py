"""What a round of heartbeats costs, at the maintainer and at a node.

*maintainer*: four nodes' full heartbeats come off the wire and are taken in, then a tick moves the
checkpoint. Rounds follow each other as ticks do, so now and then one also looks at the balance.

*node*: a dispatcher manager makes, and encodes, the full heartbeat of all its dispatchers. What
it costs to hear of each dispatcher's progress is measured beside it.
"""

import statistics
import time
from collections.abc import Iterator
from pathlib import Path

from bench import machine, world
from bench.figures import Figure, Limit
from bench.registry import Benchmark, Case
from bench.watch import Watch, seconds
from lockgate.core.dispatchers.manager import DispatcherManager
from lockgate.core.maintainer.maintainer import Maintainer
from lockgate.model.batch import Landed, Loaded
from lockgate.model.events import DispatcherAdvanced, DispatcherStarted, MembersSeen, Tick
from lockgate.model.ids import Millis, NodeRef, Token
from lockgate.model.instructions import Commit, Instruction, Send, StartDispatcher
from lockgate.model.messages import Bootstrap, BootstrapReply, Heartbeat, Requests
from lockgate.model.positions import Position
from lockgate.model.records import Record, feed_scope, node_scope
from lockgate.model.requests import Create
from lockgate.model.spans import SpanSpec
from lockgate.model.statuses import Phase

MAINTAINER = "maintainer"
NODE = "node"
SPANS = 100_000
DISPATCHERS = 25_000
ROUNDS = 24
ROUNDS_QUICK = 3
TICK_MS: Millis = world.CONFIG.timing.tick_ms
MIB = 2**20


def cases(quick: bool) -> tuple[Case, ...]:
    """The two sides of a heartbeat."""
    spans, dispatchers = (400, 100) if quick else (SPANS, DISPATCHERS)
    return (
        Case(f"{MAINTAINER}, {spans:,} spans", spans),
        Case(f"{NODE}, {dispatchers:,} dispatchers", dispatchers),
    )


def measure(case: Case, _: Path) -> tuple[Figure, ...]:
    """One of the two sides."""
    if case.name.startswith(MAINTAINER):
        return _measure_maintainer(case.size, ROUNDS if case.size == SPANS else ROUNDS_QUICK)
    return _measure_node(case.size)


# --- the maintainer -------------------------------------------------------------------------------


def _measure_maintainer(size: int, rounds: int) -> tuple[Figure, ...]:
    records = list(world.records(size))
    maintainer = _running(records)
    settled = machine.rss_peak_bytes()
    watches = []
    now: Millis = 1
    for number in range(1, rounds + 1):
        now += TICK_MS
        watches.append(_round(maintainer, now, number, list(_beats(records, number))))
    totals = [watch.total() for watch in watches]
    growth = machine.rss_peak_bytes() - settled
    return (
        *(
            seconds(name, statistics.median(watch.seconds[name] for watch in watches))
            for name in watches[0].seconds
        ),
        seconds("round", statistics.median(totals)),
        seconds("slowest round", max(totals)),
        Figure("rounds", rounds, ""),
        Figure("memory growth", round(growth / MIB), "MiB"),
    )


def _running(records: list[Record]) -> Maintainer:
    """A maintainer that has just bootstrapped."""
    maintainer = Maintainer(
        world.CONFIG, world.FEED, world.EPOCH, world.OWNER, world.GOAL, world.SPEC
    )
    loaded = Loaded(feed_scope(world.FEED), world.EPOCH, 0, tuple(records))
    maintainer.handle(0, loaded)
    maintainer.handle(0, MembersSeen(world.MEMBERS))
    for node in world.NODES:
        found = world.statuses(iter(records), node, world.START)
        maintainer.handle(0, BootstrapReply(world.FEED, world.EPOCH, node, found))
    maintainer.handle(0, Tick())
    if maintainer.state is not Phase.RUNNING or maintainer.spans.absent:
        raise RuntimeError(f"the feed did not come up: {maintainer.status()}")
    return maintainer


def _beats(records: list[Record], number: int) -> Iterator[bytes]:
    for node in world.NODES:
        found = world.statuses(iter(records), node, _position(number))
        beat = Heartbeat(world.FEED, world.EPOCH, node, number, full=True, statuses=found)
        yield world.encode(beat)


def _position(number: int) -> Position:
    return world.START + number * 1_000_000


def _round(maintainer: Maintainer, now: Millis, number: int, wires: list[bytes]) -> Watch:
    """All nodes are heard of once; the checkpoint follows."""
    watch = Watch()
    for wire in wires:
        with watch.lap("decode"):
            beat = world.decode(wire)
        with watch.lap("take in"):
            maintainer.handle(now, beat)
    with watch.lap("tick"):
        asked = maintainer.handle(now, Tick())
    _answer(maintainer, now, asked)
    # Positions are spread by sequence, which starts at 1: so this is the least of them.
    if maintainer.progress.value != _position(number) + 1:
        raise RuntimeError(f"the checkpoint did not follow: {maintainer.status()}")
    return watch


def _answer(core: Maintainer | DispatcherManager, now: Millis, asked: list[Instruction]) -> int:
    """Land every commit until none is asked for; returns how many dispatchers were started."""
    started = 0
    while True:
        started += sum(1 for instruction in asked if isinstance(instruction, StartDispatcher))
        commits = [item.batch for item in asked if isinstance(item, Commit)]
        if not commits:
            return started
        asked = [
            instruction
            for batch in commits
            for instruction in core.handle(now, Landed(batch.scope, batch.serial))
        ]


# --- the node -------------------------------------------------------------------------------------


def _measure_node(size: int) -> tuple[Figure, ...]:
    me = world.NODES[1]
    specs = [SpanSpec(f"1-{number}", f"orders_{number}") for number in range(size)]
    tokens = [Token(world.EPOCH, number + 1, me.incarnation) for number in range(size)]
    manager = _busy(me, specs, tokens)
    events = [
        DispatcherAdvanced(world.FEED, spec.id, token, world.START + token.seq)
        for spec, token in zip(specs, tokens, strict=True)
    ]
    began = time.perf_counter()
    for event in events:
        manager.handle(TICK_MS, event)
    hearing = time.perf_counter() - began

    making, encoding, wire = [], [], b""
    for number in range(1, 6):
        began = time.perf_counter()
        [send] = manager.handle(number * TICK_MS, Tick())
        made = time.perf_counter()
        assert isinstance(send, Send)
        assert isinstance(send.message, Heartbeat)
        wire = world.encode(send.message)
        encoding.append(time.perf_counter() - made)
        making.append(made - began)
        if not send.message.full or len(send.message.statuses) != size:
            raise RuntimeError("the heartbeat is not about every dispatcher")
    return (
        seconds("make", statistics.median(making)),
        seconds("encode", statistics.median(encoding)),
        seconds("round", statistics.median(map(sum, zip(making, encoding, strict=True)))),
        seconds("hear of progress", hearing),
        Figure("message", round(len(wire) / MIB, 2), "MiB"),
    )


def _busy(me: NodeRef, specs: list[SpanSpec], tokens: list[Token]) -> DispatcherManager:
    """A manager whose dispatchers all work."""
    manager = DispatcherManager(world.CONFIG, me)
    manager.handle(0, Loaded(node_scope(me.node), me.incarnation, 0, ()))
    bootstrap = Bootstrap(world.FEED, world.EPOCH, world.OWNER)
    _answer(manager, 0, manager.handle(0, bootstrap))
    most = world.CONFIG.policy.requests_max
    started = 0
    for first in range(0, len(specs), most):
        pairs = zip(specs[first : first + most], tokens[first : first + most], strict=True)
        items = tuple(Create(spec, token) for spec, token in pairs)
        requests = Requests(world.FEED, world.EPOCH, world.OWNER, me.incarnation, items)
        started += _answer(manager, 0, manager.handle(0, requests))
    if started != len(specs):
        raise RuntimeError(f"{started} of {len(specs)} dispatchers were started")
    for spec, token in zip(specs, tokens, strict=True):
        manager.handle(0, DispatcherStarted(world.FEED, spec.id, token, world.START))
    return manager


BENCHMARK = Benchmark(
    name="heartbeat",
    title="One round of full heartbeats from four nodes, and a node making its own",
    cases=cases,
    measure=measure,
    limits=(
        Limit(
            f"{MAINTAINER}, {SPANS:,} spans",
            "round",
            1,
            "s",
            "a heartbeat round over 100,000 spans in at most 1 s",
        ),
    ),
)
