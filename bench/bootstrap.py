"""How long a new maintainer needs until it runs a feed that has many spans already.

    metastore ──load──► Loaded ──► intent known ──► 4 × BootstrapReply off the wire ──► RUNNING

The metastore is a SQLite file written beforehand by another process; the replies lie in files as
the bytes that would come over the network. Every span is where its record says, so the only work
is to learn that.
"""

from pathlib import Path

from bench import machine, plots, world
from bench.figures import OVERALL, Figure, Limit, Row
from bench.registry import Benchmark, Case
from bench.watch import Watch, seconds
from lockgate.core.maintainer.maintainer import Maintainer
from lockgate.model.batch import Batch, Landed, Loaded, Raise
from lockgate.model.events import MembersSeen, Tick
from lockgate.model.ids import Millis, NodeRef
from lockgate.model.messages import BootstrapReply
from lockgate.model.records import COORDINATOR, Record, feed_scope
from lockgate.model.statuses import Phase
from lockgate.store.metastore import SqlMetastore

SIZES = (10_000, 30_000, 100_000, 300_000, 1_000_000)
SIZES_QUICK = (200, 400)
BATCH = world.CONFIG.policy.batch_records_max
LEASE_MS = world.CONFIG.timing.lease_ms
GIB = 2**30


def cases(quick: bool) -> tuple[Case, ...]:
    """One case per number of spans."""
    return tuple(Case(f"{size:,} spans", size) for size in (SIZES_QUICK if quick else SIZES))


# --- beforehand -----------------------------------------------------------------------------------


def prepare(case: Case, directory: Path) -> None:
    """Write the metastore and the replies."""
    records = list(world.records(case.size))
    with SqlMetastore.open(_url(directory), lease_ms=LEASE_MS) as store:
        _fill(store, records)
    for node in world.NODES:
        found = world.statuses(iter(records), node, world.START)
        reply = BootstrapReply(world.FEED, world.EPOCH, node, found)
        _reply_file(directory, node).write_bytes(world.encode(reply))


def _fill(store: SqlMetastore, records: list[Record]) -> None:
    """As a former owner of the feed would have, before its epoch was raised."""
    scope = feed_scope(world.FEED)
    _land(store, Batch(COORDINATOR, 0, 1, raises=(Raise(scope, 0, world.FORMER_EPOCH),)))
    for serial, first in enumerate(range(0, len(records), BATCH), start=1):
        puts = tuple(records[first : first + BATCH])
        _land(store, Batch(scope, world.FORMER_EPOCH, serial, puts))
    raised = Raise(scope, world.FORMER_EPOCH, world.EPOCH)
    _land(store, Batch(COORDINATOR, 0, 2, raises=(raised,)))


def _land(store: SqlMetastore, batch: Batch) -> None:
    answer = store.commit(batch)
    if not isinstance(answer, Landed):
        raise RuntimeError(f"the metastore could not be filled: {answer}")


def _url(directory: Path) -> str:
    return f"sqlite:///{directory / 'metastore.db'}"


def _reply_file(directory: Path, node: NodeRef) -> Path:
    return directory / f"reply-{node.node}.msgpack"


# --- measured -------------------------------------------------------------------------------------


def measure(case: Case, directory: Path) -> tuple[Figure, ...]:
    """Time from the first read to RUNNING, and the memory it takes."""
    watch = Watch()
    before = machine.rss_peak_bytes()
    maintainer = Maintainer(
        world.CONFIG, world.FEED, world.EPOCH, world.OWNER, world.GOAL, world.SPEC
    )
    now: Millis = 1
    with SqlMetastore.open(_url(directory), lease_ms=LEASE_MS) as store:
        maintainer.handle(now, Tick())
        with watch.lap("load"):
            loaded = store.load(feed_scope(world.FEED))
    if not isinstance(loaded, Loaded):
        raise RuntimeError(f"the metastore could not be read: {loaded}")
    with watch.lap("intent"):
        maintainer.handle(now, loaded)
    del loaded
    with watch.lap("settle"):
        maintainer.handle(now, MembersSeen(world.MEMBERS))
        maintainer.handle(now, Tick())
    for node in world.NODES:
        wire = _reply_file(directory, node).read_bytes()
        with watch.lap("decode"):
            reply = world.decode(wire)
        with watch.lap("replies"):
            maintainer.handle(now, reply)
    with watch.lap("settle"):
        maintainer.handle(now, Tick())
    peak = machine.rss_peak_bytes()
    _check(maintainer, case.size)
    return (
        *watch.figures(),
        seconds("total", watch.total()),
        Figure("per span", round(watch.total() / case.size * 1e6, 2), "µs"),
        Figure("memory", round(peak / GIB, 3), "GiB"),
        Figure("memory per span", round((peak - before) / case.size), "B"),
    )


def _check(maintainer: Maintainer, size: int) -> None:
    """A fast bootstrap that ended somewhere else would be worth nothing."""
    working = sum(1 for span in maintainer.spans.all() if span.working)
    if maintainer.state is not Phase.RUNNING or working != size or maintainer.operators:
        raise RuntimeError(
            f"the feed did not come up: {maintainer.state}, {working} of {size} spans work, "
            f"{len(maintainer.operators)} operators"
        )


# --- over all sizes -------------------------------------------------------------------------------


def curve(rows: tuple[Row, ...]) -> list[plots.Point]:
    """Total seconds against spans."""
    points = []
    for row in rows:
        total = row.figure("total")
        if total is not None:
            points.append((float(row.case.split()[0].replace(",", "")), float(total.value)))
    return points


def conclude(rows: tuple[Row, ...]) -> tuple[Figure, ...]:
    """Is it linear? The exponent of time against spans says so."""
    points = curve(rows)
    if len(points) < 2:
        return ()
    return (Figure("exponent", round(plots.exponent(points), 3), ""),)


def text_plot(rows: tuple[Row, ...]) -> str:
    """For the terminal."""
    return plots.text(curve(rows), "seconds until RUNNING, against spans (both logarithmic)")


def svg_plot(rows: tuple[Row, ...]) -> str:
    """For the documentation."""
    goals = [(100_000.0, 5.0), (1_000_000.0, 60.0)]
    return plots.svg(curve(rows), goals, "Bootstrap of a maintainer", "spans", "seconds")


BENCHMARK = Benchmark(
    name="bootstrap",
    title="A maintainer's bootstrap: intent from SQLite, four nodes' replies, until RUNNING",
    cases=cases,
    prepare=prepare,
    measure=measure,
    conclude=conclude,
    plot=text_plot,
    svg=svg_plot,
    limits=(
        Limit("100,000 spans", "total", 5, "s", "100,000 spans in at most 5 s"),
        Limit("1,000,000 spans", "total", 60, "s", "1,000,000 spans in at most 60 s"),
        Limit("1,000,000 spans", "memory", 4, "GiB", "1,000,000 spans in at most 4 GiB"),
        Limit(OVERALL, "exponent", 1.1, "", "time grows linearly with the spans"),
    ),
)
