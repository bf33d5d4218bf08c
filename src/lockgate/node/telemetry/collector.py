"""Figures of a node at one moment, gathered when somebody asks for them.

    core      ── NodeProcess.look, on the core's thread: leases, owners, operators
    engines   ── read as they are: spans, lag, copy, capture
    watches   ── counts since the process began
    statuses  ── the metastore, on the coordinator's node only: states of feeds as people see them

The first and the last may not answer: a core that hangs, a metastore that is away. Then the rest
is told all the same, for this is when people look, and `lockgate_scrape_incomplete` says what is
missing.
"""

import platform
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

import lockgate
from lockgate.core.maintainer.barrier import BarrierState
from lockgate.core.maintainer.maintainer import Maintainer
from lockgate.core.node import NodeCore
from lockgate.model.feed_status import FeedStatus
from lockgate.model.feeds import FeedState
from lockgate.model.ids import FeedId
from lockgate.model.lake_status import LakeStatus
from lockgate.model.records import OperatorKind
from lockgate.node.executor import FeedExecutor
from lockgate.node.link.counters import Counters
from lockgate.node.process import NodeProcess, now_ms
from lockgate.node.spark import SparkKeeper
from lockgate.node.telemetry import diffs, feeds, lakes, system
from lockgate.node.telemetry.diffs import DiffWatch
from lockgate.node.telemetry.families import Families
from lockgate.node.telemetry.feed import FeedWatches
from lockgate.node.telemetry.lakes import LakeWatch
from lockgate.node.telemetry.watch import STORE_OUTCOMES, ApiWatch, ProcessWatch

__all__ = ["NodeCollector", "Sources"]

CORE_S: Final = 1.0
FEEDS_S: Final = 2.0
"""How long a scrape waits for the parts that may not answer."""
_STATES: Final = tuple(state.value for state in FeedState if state is not FeedState.REMOVED)
_KINDS: Final = tuple(kind.value for kind in OperatorKind)


@dataclass(frozen=True)
class Sources:
    """Everything that is looked at."""

    process: NodeProcess
    executor: FeedExecutor
    link: Counters
    spark: SparkKeeper
    statuses: Callable[[], Iterable[FeedStatus]]
    worries: Callable[[], Mapping[FeedId, object]]
    lakes: Callable[[], Mapping[str, LakeStatus]] = dict
    """Those that are kept here."""
    lake_watch: LakeWatch = field(default_factory=LakeWatch)
    diff_watch: DiffWatch = field(default_factory=DiffWatch)
    diffs_running: Callable[[], int] = int


class NodeCollector(Collector):
    """One node."""

    def __init__(
        self,
        node: str,
        feed_watches: FeedWatches,
        process_watch: ProcessWatch,
        api_watch: ApiWatch,
        sources: Sources,
    ) -> None:
        self._node = node
        self._feeds = feed_watches
        self._process = process_watch
        self._api = api_watch
        self._sources = sources
        self._began_s = time.time()
        self._lock = threading.Lock()
        self._reader = ThreadPoolExecutor(1, thread_name_prefix="metrics")
        self._reading: Future[list[FeedStatus]] | None = None

    def close(self) -> None:
        """Nobody asks any more."""
        self._reader.shutdown(wait=True, cancel_futures=True)

    def describe(self) -> Iterator[Metric]:
        """The names, without looking anywhere."""
        return Families(self._node).families()

    def collect(self) -> Iterator[Metric]:
        """What is so now."""
        out = Families(self._node)
        self._add_process(out)
        leads = self._add_core(out)
        self._add_states(out, leads)
        engines = self._sources.executor.engines()
        for feed, watch in self._feeds.all(engines, time.monotonic()).items():
            feeds.add_counts(out, feed, watch)
        for feed, engine in engines.items():
            feeds.add_engine(out, feed, engine, self._feeds.of(feed))
        for lake, status in self._sources.lakes().items():
            lakes.add_lake(out, lake, status)
        lakes.add_works(out, self._sources.lake_watch)
        diffs.add_diffs(out, self._sources.diff_watch, self._sources.diffs_running())
        self._add_machines(out)
        return out.families()

    # --- parts ------------------------------------------------------------------------------------

    def _add_core(self, out: Families) -> bool:
        """What the core knows; answers whether the coordinator is here."""
        try:
            found = self._sources.process.look(_look, CORE_S)
        except Exception:  # whatever ended the core is told elsewhere
            out.add("lockgate_scrape_incomplete", 1, "core")
            out.add("lockgate_node_joined", 0)
            return False
        out.add("lockgate_scrape_incomplete", 0, "core")
        for name, value, labels in found:
            out.add(name, value, *labels)
        return ("lockgate_node_coordinator", 1, ()) in found

    def _add_states(self, out: Families, leads: bool) -> None:
        if not leads:
            out.add("lockgate_scrape_incomplete", 0, "feeds")
            return
        out.add("lockgate_keeper_worries", len(self._sources.worries()))
        try:
            statuses = self._read().result(FEEDS_S)
        except Exception:  # the metastore is away, which has figures of its own
            out.add("lockgate_scrape_incomplete", 1, "feeds")
            return
        out.add("lockgate_scrape_incomplete", 0, "feeds")
        for status in statuses:
            out.one_of("lockgate_feed_state", _STATES, status.state.value, status.name)

    def _read(self) -> "Future[list[FeedStatus]]":
        """One question at a time: a metastore that hangs is not asked again by each scrape."""
        with self._lock:
            if self._reading is None or self._reading.done():
                self._reading = self._reader.submit(lambda: list(self._sources.statuses()))
            return self._reading

    def _add_process(self, out: Families) -> None:
        out.add("lockgate_build_info", 1, lockgate.__version__, platform.python_version())
        out.add("lockgate_process_cpu_seconds_total", system.cpu_seconds())
        out.add("lockgate_process_resident_memory_bytes", system.resident_bytes())
        out.add("lockgate_process_threads", system.threads())
        out.add("lockgate_process_start_time_seconds", self._began_s)

    def _add_machines(self, out: Families) -> None:
        spark = self._sources.spark
        out.add("lockgate_spark_running", float(spark.is_running))
        out.add("lockgate_spark_starts_total", spark.starts)
        for kind, count in self._process.instructions.snapshot().items():
            out.add("lockgate_core_instructions_total", count, kind)
        calls = self._process.calls.snapshot()
        for verb, seconds in self._process.call_seconds.items():
            out.add("lockgate_metastore_call_seconds", seconds.snapshot(), verb)
            for outcome in STORE_OUTCOMES:  # zeros too: a rise from nothing is not seen
                count = calls.get((verb, outcome), 0)
                out.add("lockgate_metastore_calls_total", count, verb, outcome)
        for peer, counts in self._sources.link.snapshot().items():
            for result in ("sent", "failed", "dropped", "received", "strayed"):
                out.add("lockgate_link_messages_total", getattr(counts, result), peer, result)
        for (operation, status), count in self._api.requests.snapshot().items():
            out.add("lockgate_api_requests_total", count, operation, str(status))
        for operation, seconds in dict(self._api.seconds).items():
            out.add("lockgate_api_request_seconds", seconds.snapshot(), operation)


_Found = list[tuple[str, float, tuple[str, ...]]]


def _look(core: NodeCore) -> _Found:
    """On the core's thread, so in few steps."""
    ref, view = core.ref, core.member.view
    found: _Found = [
        ("lockgate_node_joined", int(ref is not None), ()),
        ("lockgate_node_coordinator", int(core.coordinator is not None), ()),
        ("lockgate_node_term", 0 if view.leader is None else view.leader.term, ()),
        ("lockgate_node_members", len(view.members), ()),
        ("lockgate_node_dispatchers", 0 if core.manager is None else core.manager.dispatchers, ()),
        ("lockgate_node_draining", int(any(m.draining and m.ref == ref for m in view.members)), ()),
    ]
    left_ms = 0
    if ref is not None:
        left_ms = max(0, core.member.deadline - now_ms())
        found.append(("lockgate_node_incarnation", ref.incarnation, ()))
    found.append(("lockgate_node_lease_seconds", left_ms / 1000, ()))
    owned = 0
    for feed, one in core.maintainers.items():
        if isinstance(one, Maintainer) and one.outcome is None:
            owned += 1
            found += _owner(feed, one)
    found.append(("lockgate_node_feeds_owned", owned, ()))
    return found


def _owner(feed: FeedId, one: Maintainer) -> _Found:
    waits = one.barrier.state is not BarrierState.IDLE
    kinds = [operator.kind.value for operator in one.operators.values()]
    return [
        ("lockgate_feed_epoch", one.epoch, (feed,)),
        ("lockgate_feed_checkpoint_bytes", one.progress.value, (feed,)),
        ("lockgate_feed_barrier_waiting", int(waits), (feed,)),
        *(("lockgate_feed_operators", kinds.count(kind), (feed, kind)) for kind in _KINDS),
    ]
