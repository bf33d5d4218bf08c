"""People at work on the cluster: they move, split, merge, drain, pause, resume, copy anew.

One thing at a time, on any node that nobody has in hand; what is refused is refused, and what is
not answered is not asked again: the next person may. A feed that was paused is always resumed.
"""

import itertools
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from lockgate.client import Client
from lockgate.model.documents import NodeState
from lockgate.model.errors import (
    Conflict,
    LockgateError,
    NotFound,
    OutcomeUnknown,
    Transient,
    UsageError,
)
from lockgate.model.feed_status import FeedTable
from soak.service.supervisor import Supervisor
from soak.service.world import FEEDS, NODES, World

__all__ = ["KINDS", "People"]

KINDS: Final = {"move": 8, "split": 8, "merge": 7, "drain": 2, "pause": 2, "resync": 3}
"""How often each, compared with the others."""
EVERY_S: Final = 4.0
WHOLE: Final = ("accounts",)
"""Not to be split: spans whose rows swap a unique value wait for each other until merged."""
SPANS_MAX: Final = 6
RESHAPED: Final = ("wide", "extra_")
"""Split only when their rows are there: a split table whose schema changes in the middle of its
copy waits until somebody merges it."""
RESUME_S: Final = 300.0
DRAIN_LEASES: Final = 6.0


class NothingToDo(Exception):
    """Nobody needs that just now."""


class People:
    """A thread of verbs."""

    def __init__(
        self,
        world: World,
        nodes: Supervisor,
        rng: random.Random,
        say: Callable[[str], None],
        script: list[str] | None = None,
    ) -> None:
        """`script`: these verbs, one after the other, in place of random ones."""
        self._world = world
        self._nodes = nodes
        self._rng = rng
        self._say = say
        self._verbs = self._random_verbs() if script is None else iter(script)
        self._turn = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="people", daemon=True)
        self.done: dict[str, Counter[str]] = {}
        """By verb, how often it ended how."""
        self.paused: set[str] = set()
        """Feeds that are to stand still."""
        self.surprises: list[str] = []
        """What nobody should ever be told."""

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """After what is under way."""
        self._stop.set()
        self._thread.join()

    def wait(self) -> None:
        """Until a script has been worked off."""
        self._thread.join()

    @contextmanager
    def resting(self, meanwhile: Callable[[], None]) -> Iterator[None]:
        """Nobody asks for anything, and no feed is paused. Whoever is at it comes to his end first:
        he may wait for what `meanwhile` brings about."""
        while not self._turn.acquire(timeout=0.05):
            meanwhile()
        try:
            yield
        finally:
            self._turn.release()

    # --- inside -----------------------------------------------------------------------------------

    def _random_verbs(self) -> Iterator[str]:
        while True:
            yield self._rng.choices(list(KINDS), list(KINDS.values()))[0]

    def _run(self) -> None:
        for verb in self._verbs:
            if self._stop.wait(self._rng.expovariate(1 / EVERY_S)):
                return
            with self._turn:
                try:
                    self._once(verb)
                except BaseException as bug:
                    self.surprises.append(f"{verb}: {bug!r}")
                    self._say(f"people broke off: {bug!r}")

    def _once(self, verb: str) -> None:
        names = self._world.answering
        if not names:
            return
        client = self._world.client(self._rng.choice(names))
        for feed in self._rng.sample(FEEDS, len(FEEDS)):
            try:
                self._ask(verb, client, feed)
                return
            except NothingToDo:
                continue

    def _ask(self, verb: str, client: Client, feed: str) -> None:
        what = ""
        try:
            what = getattr(self, f"_{verb}")(client, feed)
            outcome = "done"
        except (Conflict, NotFound, UsageError) as error:
            outcome, what = "refused", str(error)
        except OutcomeUnknown as error:
            outcome, what = "unknown", str(error)
        except Transient as error:
            outcome, what = "not answered", str(error)
        except LockgateError as error:
            outcome, what = type(error).__name__, str(error)
            self.surprises.append(f"{verb}: {error!r}: {error}")
        self.done.setdefault(verb, Counter())[outcome] += 1
        self._say(f"{verb} of {feed}: {outcome}: {what}")

    def _tables(self, client: Client, feed: str) -> list[FeedTable]:
        found = list(client.feeds.tables(feed))
        self._rng.shuffle(found)
        return found

    def _move(self, client: Client, feed: str) -> str:
        for table in self._tables(client, feed):
            span, node = self._rng.choice(table.spans), self._rng.choice(NODES)
            if node != span.node:
                client.feeds.span_move(feed, span.span, node)
                return f"{table.table} {span.span} from {span.node} to {node}"
        raise NothingToDo

    def _split(self, client: Client, feed: str) -> str:
        for table in self._tables(client, feed):
            if len(table.spans) < SPANS_MAX and _may_be_split(table):
                span, parts = self._rng.choice(table.spans), self._rng.randrange(2, 4)
                client.feeds.span_split(feed, span.span, parts=parts)
                return f"{table.table} {span.span} in {parts}"
        raise NothingToDo

    def _merge(self, client: Client, feed: str) -> str:
        for table in self._tables(client, feed):
            spans = sorted(table.spans, key=lambda one: one.low)
            if len(spans) > 1:
                pairs = list(itertools.pairwise(spans))
                some = spans if self._rng.random() < 0.3 else self._rng.choice(pairs)
                names = [one.span for one in some]
                client.feeds.span_merge(feed, names)
                return f"{table.table} {' '.join(names)}"
        raise NothingToDo

    def _resync(self, client: Client, feed: str) -> str:
        for table in self._tables(client, feed):
            if len(table.spans) == 1:
                client.feeds.resync(feed, table.table)
                return table.table
        raise NothingToDo

    def _pause(self, client: Client, feed: str) -> str:
        """And resume it, whatever happens meanwhile."""
        self.paused.add(feed)
        began = time.monotonic()
        try:
            client.feeds.pause(feed)
            time.sleep(self._rng.uniform(0, 2) * self._world.lease_s)
        finally:
            self._resume(feed)
            self.paused.discard(feed)
        return f"for {time.monotonic() - began:.1f} s"

    def _resume(self, feed: str) -> None:
        deadline = time.monotonic() + RESUME_S
        while True:
            try:
                names = self._world.answering or [self._world.spared]
                self._world.client(self._rng.choice(names)).feeds.resume(feed)
                return
            except LockgateError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.5)

    def _drain(self, client: Client, _feed: str) -> str:
        """Empty a node, end its process well, start it again."""
        names = self._rng.sample(NODES, len(NODES))
        name = next((one for one in names if self._world.take("drained", one)), "")
        if not name:
            raise NothingToDo
        try:
            client.nodes.drain(name)
            drained = self._wait_drained(client, name)
            self._nodes.stop(name)
        finally:
            self._nodes.start(name)
            self._world.give_back(name)
        if not drained:
            raise Transient("it was not drained in time", object_=name, hint="see the log")
        return name

    def _wait_drained(self, client: Client, name: str) -> bool:
        deadline = time.monotonic() + DRAIN_LEASES * self._world.lease_s
        while time.monotonic() < deadline:
            try:
                if any(
                    node.name == name and node.state is NodeState.DRAINED
                    for node in client.nodes.list()
                ):
                    return True
            except Transient:
                pass
            time.sleep(0.2)
        return False


def _may_be_split(table: FeedTable) -> bool:
    name = table.table.partition(".")[2]
    if name in WHOLE:
        return False
    return table.state == "running" or not name.startswith(RESHAPED)
