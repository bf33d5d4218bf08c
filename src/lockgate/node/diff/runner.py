"""Which diffs are worked on here: those that wait, and those that dead nodes have left.

    the book ── running, of nobody ──────────────┐
             └─ running, of a life that is over ─┴─► room here? take it up ──► work, on its thread

Every node looks, and whoever comes first has it: taking up is one transaction, under a higher
attempt. So a diff needs no owner who hands it out, and one whose node dies is gone on with by
whoever sees that first.

A node that loses its lease, or is stopped, stops its diffs at once; others find them as those of a
life that is over.
"""

import threading
from collections.abc import Callable
from typing import Final, NamedTuple

from lockgate.model.diffs import DiffRecord
from lockgate.model.errors import LockgateError
from lockgate.model.ids import NodeRef
from lockgate.node.diff.sides import DiffSides
from lockgate.node.diff.work import DiffWork
from lockgate.node.feed.context import SparkHandle
from lockgate.node.telemetry.diffs import DiffWatch
from lockgate.node.telemetry.lines import Lines
from lockgate.store.diffs import DiffBook
from lockgate.store.members import Members

__all__ = ["AT_ONCE", "DiffRunner", "Standing"]

AT_ONCE: Final = 2
"""Diffs that a node works on at the same time: each one has every slot of its Spark busy."""
LOOK_S: Final = 1.0
AGAIN_S: Final = 5.0
JOIN_S: Final = 20.0


class Standing(NamedTuple):
    """This node as its core sees it."""

    ref: NodeRef | None
    """Its life; None while it has none."""
    resting: bool = False
    """It is being emptied, and others are there."""


class DiffRunner:
    """The diffs of one node, on threads of their own."""

    def __init__(
        self,
        book: DiffBook,
        members: Members,
        sides: DiffSides,
        spark: SparkHandle,
        standing: Callable[[], Standing],
        ended: Callable[[DiffRecord], None],
        watch: DiffWatch,
        at_once: int = AT_ONCE,
    ) -> None:
        """`ended` is told of every diff that is over."""
        self._book = book
        self._members = members
        self._sides = sides
        self._spark = spark
        self._standing = standing
        self._ended = ended
        self._watch = watch
        self._at_once = at_once
        self._lines = Lines("lockgate.diff")
        self._works: dict[str, DiffWork] = {}
        self._lock = threading.Lock()
        self._ref: NodeRef | None = None
        self._stopped = threading.Event()
        self._knock = threading.Event()
        self._thread = threading.Thread(target=self._run, name="diffs", daemon=True)

    @property
    def running(self) -> bool:
        return self._thread.is_alive()

    def start(self) -> None:
        self._thread.start()

    def knock(self) -> None:
        """There may be a new one: look now."""
        self._knock.set()

    def stop_everything(self) -> None:
        """The node has no life any more, or none that lasts: stop all diffs here, and wait for
        nothing."""
        with self._lock:
            works = list(self._works.values())
            self._ref = None
        for work in works:
            work.stop()

    def stop(self) -> None:
        """Stop all diffs here, and wait until nothing of them runs."""
        self._stopped.set()
        self._knock.set()
        self._thread.join(JOIN_S)
        self.stop_everything()
        for work in self._works.values():
            if not work.join(JOIN_S):
                self._lines.warning("a diff does not end", diff=work.record.id)

    def count(self) -> int:
        """How many are worked on here."""
        with self._lock:
            return sum(work.running for work in self._works.values())

    # --- the thread -------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._stopped.is_set():
            pause_s = LOOK_S
            try:
                self._look()
            except LockgateError as error:
                self._lines.warning("diffs cannot be seen to", why=error, next=error.hint)
                pause_s = AGAIN_S
            except Exception:
                self._lines.bug("the care for diffs broke", next="it is tried again")
                pause_s = AGAIN_S
            self._knock.wait(pause_s)
            self._knock.clear()

    def _look(self) -> None:
        standing = self._standing()
        if standing.ref != self._ref:
            self.stop_everything()
            self._ref = standing.ref
        running = self._book.running()
        attempts = {each.id: each.attempt for each in running}
        with self._lock:
            for name, work in list(self._works.items()):
                if not work.running:
                    del self._works[name]
                elif attempts.get(name) != work.record.attempt:
                    work.stop()  # it is somebody else's by now
            room = self._at_once - len(self._works)
        if standing.ref is None or standing.resting or room <= 0 or not running:
            return
        alive = {row.ref for row in self._members.all() if row.alive}
        for record in running:
            if room > 0 and self._is_free(record, alive) and self._taken(record, standing.ref):
                room -= 1

    def _is_free(self, record: DiffRecord, alive: set[NodeRef]) -> bool:
        """Nobody works on it. Of this life's own, too: a thread that broke may have left it."""
        with self._lock:
            if record.id in self._works:
                return False
        return record.runner is None or record.runner not in alive or record.runner == self._ref

    def _taken(self, record: DiffRecord, ref: NodeRef) -> bool:
        mine = self._book.take_up(record.id, record, ref)
        if mine is None:
            return False
        work = DiffWork(
            mine, self._book, self._sides, self._spark, self._watch, self._ended, self._lines
        )
        with self._lock:
            if self._ref != ref or self._stopped.is_set():
                return False  # it is of a life that is over, and found as such
            self._works[record.id] = work
            work.start()
        self._lines.info("a diff is taken up", diff=mine.id, attempt=mine.attempt)
        return True
