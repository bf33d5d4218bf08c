"""Tells the metastore, every second, what there is to say of the feeds on this node.

Only what has changed is written, and everything now and then, so that it is seen to be fresh. A
report that cannot be written is no harm: statuses then say less, and nothing depends on them.
"""

import logging
import threading
import time
from collections.abc import Callable
from typing import Final

from lockgate.core.maintainer.maintainer import Maintainer
from lockgate.core.node import NodeCore
from lockgate.model.errors import LockgateError, MetastoreUnavailable, Terminal
from lockgate.model.ids import FeedId, NodeRef
from lockgate.node.executor import FeedExecutor
from lockgate.node.feed.engine import FeedEngine
from lockgate.node.feed.running import Running
from lockgate.node.process import NodeProcess
from lockgate.node.service.remarks import OperatorRemark, OwnerRemark, Remark, SpanRemark, Worry
from lockgate.store.reports import Reports

__all__ = ["Reporter", "remark_of"]

EVERY_S: Final = 1.0
FRESH_S: Final = 10.0
LOOK_S: Final = 3.0
"""How long the core may keep those waiting who want to know how things are."""
_WORRIES_MAX: Final = 20

_log = logging.getLogger("lockgate.node")


class Reporter:
    """The thread that reports."""

    def __init__(
        self,
        process: NodeProcess,
        executor: FeedExecutor,
        reports: Reports,
        worries: Callable[[], dict[FeedId, Worry]],
    ) -> None:
        """`worries` are those of the keeper, about feeds that may not run anywhere yet."""
        self._process = process
        self._executor = executor
        self._reports = reports
        self._worries = worries
        self._written: dict[FeedId, bytes] = {}
        self._fresh_at = 0.0
        self._ref: NodeRef | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="reports", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    @property
    def running(self) -> bool:
        """True once begun, until it has ended."""
        return self._thread.is_alive()

    def stop(self) -> None:
        """End, and wait for it."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(EVERY_S):
            try:
                self.report()
                self._executor.rest()
            except (MetastoreUnavailable, Terminal) as error:
                _log.debug("a report could not be written: %s", error)
            except LockgateError as error:
                _log.warning("there is nothing to report: %s", error)
            except Exception:
                if self._process.failure is not None:
                    return
                _log.exception("a report broke")

    def remarks(self) -> dict[FeedId, Remark]:
        """What there is to say now. Raises Transient when the core does not show itself."""
        return _remarks(self._process.look(_owners, LOOK_S), self._executor, self._worries())

    def report(self) -> None:
        """Write what is new since the last time."""
        ref = self._process.look(lambda core: core.ref)
        if ref is None:
            return
        now = time.monotonic()
        if ref != self._ref or now >= self._fresh_at:
            self._ref, self._fresh_at = ref, now + FRESH_S
            before: dict[FeedId, bytes] = {}
        else:
            before = self._written
        bodies = {feed: remark.encoded() for feed, remark in self.remarks().items()}
        news = {feed: body for feed, body in bodies.items() if before.get(feed) != body}
        gone = self._written.keys() - bodies.keys()
        if (news or gone) and self._reports.write(ref, news, gone):
            self._written = bodies


def _owners(core: NodeCore) -> dict[FeedId, OwnerRemark]:
    found: dict[FeedId, OwnerRemark] = {}
    for feed, maintainer in core.maintainers.items():
        status = maintainer.status()
        if status.outcome is not None:
            continue
        operators: tuple[OperatorRemark, ...] = ()
        if isinstance(maintainer, Maintainer):
            operators = tuple(
                OperatorRemark(each.kind.value, tuple(each.spans))
                for each in maintainer.operators.values()
            )
        found[feed] = OwnerRemark(
            status.epoch, status.phase.value, status.checkpoint, status.spans, operators
        )
    return found


def _remarks(
    owners: dict[FeedId, OwnerRemark], executor: FeedExecutor, worries: dict[FeedId, Worry]
) -> dict[FeedId, Remark]:
    engines = executor.engines()
    closed = executor.troubles()
    found: dict[FeedId, Remark] = {}
    for feed in {*owners, *engines, *closed, *worries}:
        said = [worries[feed]] if feed in worries else []
        if feed in closed:
            said.append(Worry(closed[feed].what, closed[feed].hint))
        found[feed] = remark_of(engines.get(feed), owners.get(feed), said)
    return found


def remark_of(engine: FeedEngine | None, owner: OwnerRemark | None, said: list[Worry]) -> Remark:
    """One feed, as far as it is here."""
    if engine is None:
        return Remark(worries=tuple(said), owner=owner)
    running = engine.view()
    capture = engine.capture
    parked = [*capture.troubles, *(one.parked for one in running if one.parked is not None)]
    said += [Worry(each.what, each.hint) for each in parked]
    lag = engine.applying.lag_s()
    return Remark(
        spans=tuple(_span(one) for one in running),
        resolved=engine.applying.resolved,
        lag_s=None if lag is None else round(lag, 1),
        rows_applied=engine.applying.rows_applied,
        copy=engine.copying.progress,
        worries=tuple(dict.fromkeys(said))[:_WORRIES_MAX],
        owner=owner,
        captures=capture.running is not None,
        retained_wal_bytes=capture.retained_bytes,
        held=engine.applying.held_upto,
    )


def _span(one: Running) -> SpanRemark:
    return SpanRemark(
        one.span,
        one.table,
        one.state,
        None if one.floors is None else one.low,
        "" if one.parked is None else one.parked.what,
    )
