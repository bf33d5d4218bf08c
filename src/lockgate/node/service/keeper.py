"""Sees to it that what the book says of feeds becomes so: on the coordinator's node, whoever asked.

    in the book, no start          ──► set it up at its endpoints      (attempts are numbered)
    in the book, not with the core ──► have the coordinator create it
    in the book as being removed   ──► have the coordinator remove it; when it has:
                                       change log, slot, publication away, then out of the book

It looks every second and at each knock, and does what is missing. So it does not matter who wrote
the book, who died in the middle, or how often a step is done: the next look finishes it.

Two coordinators may believe in themselves for a moment, and one that was paused goes on with what
it had in hand, however long ago that was decided. Looking before each step makes this rare; what
makes it harmless is that every step is fenced where it takes effect, by the entry that it was
decided by. The book and the coordinator know feeds by their births, and refuse who speaks for one
that is gone; attempts at a set-up are numbered; the change log knows epochs; and at the source
every feed has names of its own, never to be used by another one.

A set-up may wait for ever for its slot, for the sake of somebody's open transaction. It says so,
holds up no other feed meanwhile, and ends when the feed is removed or this node stops.

What cannot succeed until somebody acts is written into the book and left alone until the feed is
resumed; anything else is tried again, after growing pauses.
"""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from lockgate.endpoints.postgres.running import Running
from lockgate.model.errors import LockgateError, StaleOwner, Terminal
from lockgate.model.events import CreateFeed, RemoveFeed
from lockgate.model.feeds import FeedSpec, FeedState
from lockgate.model.ids import SEQ_MAX, FeedId, Token
from lockgate.model.records import FeedRecord
from lockgate.node.feed import setup
from lockgate.node.feed.chosen import Chosen
from lockgate.node.feed.running import backoff_s, told
from lockgate.node.service.apart import refuse_if_moved
from lockgate.node.service.cluster import Cluster
from lockgate.node.service.contexts import Contexts, config_of
from lockgate.node.service.forcing import GONE, LEFT, SEPARATOR, left_at_source
from lockgate.node.service.places import Places
from lockgate.node.service.remarks import Worry
from lockgate.node.service.stores import Stores
from lockgate.node.telemetry.lines import Lines
from lockgate.store.feeds import FeedEntry

__all__ = ["Keeper"]

LOOK_S: Final = 1.0
TRIM_S: Final = 3600.0
HISTORY_MAX: Final = 100_000
"""Entries of the history that are kept."""
GOODBYE_S: Final = 5.0
POLL_S: Final = 0.05
AT_ONCE: Final = 4
"""Feeds that are set up or cleared away side by side."""
WAITING_MAX: Final = 64
"""Feeds that wait for a slot beside them."""

_lines = Lines("lockgate.keeper")


@dataclass
class _Case:
    """A feed that something is to be done about."""

    running: Future[None] | None = None
    attempts: int = 0
    not_before_s: float = 0.0
    worry: Worry | None = None
    give_back: Callable[[], None] = lambda: None
    """The place at which it is worked on, early."""


class Keeper:
    """The thread that looks, and those that do."""

    def __init__(self, stores: Stores, contexts: Contexts, cluster: Cluster) -> None:
        self._stores = stores
        self._contexts = contexts
        self._cluster = cluster
        self._cases: dict[FeedId, _Case] = {}
        self._trim_at_s = 0.0
        self._knock = threading.Event()
        self._stopping = threading.Event()
        self._blind = False
        """The last look failed, and that was told."""
        self._removing: set[FeedId] = set()
        """Whose removal was told."""
        self._workers = ThreadPoolExecutor(AT_ONCE + WAITING_MAX, "keeper")
        self._places = Places(AT_ONCE)
        self._thread = threading.Thread(target=self._run, name="keeper", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    @property
    def running(self) -> bool:
        """True once begun, until it has ended."""
        return self._thread.is_alive()

    def stop(self) -> None:
        """End; what is under way is finished by whoever looks next."""
        self._stopping.set()
        self._knock.set()
        self._thread.join()
        self._workers.shutdown(wait=True, cancel_futures=True)

    def knock(self, feed: FeedId) -> None:
        """There is something new about this feed: look now, without the pause."""
        case = self._cases.get(feed)
        if case is not None:
            case.not_before_s = 0.0
        self._knock.set()

    def worries(self) -> dict[FeedId, Worry]:
        """What is not as it should be, by feed."""
        cases = dict(self._cases)
        return {feed: case.worry for feed, case in cases.items() if case.worry is not None}

    # --- looking ----------------------------------------------------------------------------------

    def _run(self) -> None:
        while True:
            self._knock.wait(LOOK_S)
            self._knock.clear()
            if self._stopping.is_set():
                return
            try:
                self._look()
            except (LockgateError, TimeoutError) as error:
                self._look_failed(error)
            except Exception:
                _lines.bug("the keeper's look broke", next="it looks again in a second")
            else:
                self._blind = False

    def _look_failed(self, error: Exception) -> None:
        if not self._blind and not self._stopping.is_set():
            self._blind = True
            _lines.warning("feeds cannot be looked after", why=error, next="it looks every second")

    def _look(self) -> None:
        if not self._cluster.leads:
            self._cases.clear()
            return
        if time.monotonic() >= self._trim_at_s:
            self._trim_at_s = time.monotonic() + TRIM_S
            self._stores.history.trim(HISTORY_MAX)
        entries = {entry.feed: entry for entry in self._stores.feeds.all()}
        records = self._cluster.records()
        for feed in self._cases.keys() - entries.keys():
            del self._cases[feed]
        for feed, entry in entries.items():
            work = self._missing(entry, records.get(feed))
            if work is not None:
                self._begin(feed, work)
            elif feed in self._cases and not self._is_busy(self._cases[feed]):
                del self._cases[feed]

    def _missing(self, entry: FeedEntry, record: FeedRecord | None) -> Callable[[], None] | None:
        """What is to be done about a feed; None when nothing is."""
        if entry.removing:
            return lambda: self._remove(entry, record)
        if entry.error:
            return None
        if entry.start is None:
            return lambda: self._set_up(entry)
        if record is None or record.state is FeedState.REMOVED:
            return lambda: self._create(entry)
        return None

    def _is_busy(self, case: _Case) -> bool:
        return case.running is not None and not case.running.done()

    def _begin(self, feed: FeedId, work: Callable[[], None]) -> None:
        case = self._cases.setdefault(feed, _Case())
        if self._is_busy(case) or time.monotonic() < case.not_before_s:
            return
        case.running = self._workers.submit(self._do, feed, case, work)

    def _do(self, feed: FeedId, case: _Case, work: Callable[[], None]) -> None:
        with self._places.one() as case.give_back:
            self._do_here(feed, case, work)

    def _do_here(self, feed: FeedId, case: _Case, work: Callable[[], None]) -> None:
        try:
            if self._stopping.is_set() or not self._cluster.leads:
                return  # it has waited for a place too long: it is somebody else's by now
            work()
            case.attempts, case.worry = 0, None
        except StaleOwner:
            case.worry = None  # somebody else does it, or the book has changed: the next look tells
        except Exception as error:
            case.attempts += 1
            case.not_before_s = time.monotonic() + backoff_s(case.attempts)
            hint = error.hint if isinstance(error, LockgateError) else "see the node's log"
            case.worry = Worry(str(error), hint)
            if not isinstance(error, LockgateError):
                _lines.bug("the care for a feed broke", feed=feed, next="it is tried again")
            elif case.attempts == 1:
                _lines.warning("a feed cannot be seen to", feed=feed, why=error, next=hint)
        finally:
            self._knock.set()

    # --- doing ------------------------------------------------------------------------------------

    def _set_up(self, entry: FeedEntry) -> None:
        config = config_of(entry)
        _lines.info("a feed is set up", feed=entry.feed, next="publication, slot, target's tables")
        begun = [entry]

        def waits(oldest: Running | None) -> None:
            self._waits(entry.feed, oldest)

        def apart(chosen: list[Chosen]) -> None:
            if not entry.move:
                targets = [each.selection.target.id for each in chosen]
                refuse_if_moved(self._stores, self._contexts, ends.target, targets)

        try:
            ends, home = self._contexts.ends(config), self._contexts.home
            made = setup.make(
                self._stores.feeds, entry, config, ends, home, begun.append, waits, apart
            )
        except StaleOwner:
            raise
        except Terminal as error:
            self._stores.feeds.fail(begun[-1], told(error))
            raise
        self._create(made)

    def _waits(self, feed: FeedId, oldest: Running | None) -> None:
        """A set-up waits for its slot. Whoever waits for the feed is told for whom."""
        if self._stopping.is_set():
            raise StaleOwner("the node stops", object_=feed, hint="nothing: it goes on elsewhere")
        case = self._cases.get(feed)
        if case is None:
            return
        case.give_back()
        if oldest is not None:
            what = f"its replication slot waits for a transaction to end: {oldest}"
            case.worry = Worry(what, oldest.hint)

    def _create(self, entry: FeedEntry) -> None:
        assert entry.start is not None
        spec = FeedSpec(entry.start, entry.tables, birth=entry.birth)
        self._cluster.ask_coordinator(
            lambda request: CreateFeed(request, entry.feed, spec), entry.feed
        )
        _lines.info("a feed is set up and recorded", feed=entry.feed, tables=len(entry.tables))

    def _remove(self, entry: FeedEntry, record: FeedRecord | None) -> None:
        """One step of a removal, from wherever it is."""
        feed = entry.feed
        self._stores.feeds.check_removing(entry)
        if record is not None and record.state is not FeedState.REMOVED:
            self._cluster.ask_coordinator(
                lambda request: RemoveFeed(request, feed, entry.birth), feed
            )
            self._tell_of_removal(feed)
            self._await_goodbye(feed)
            return
        if record is not None and record.owner is not None:
            self._await_goodbye(feed)
            return
        if record is not None and entry.start is not None:
            context = self._contexts.open(feed)
            try:
                context.clear(Token(record.epoch, SEQ_MAX, 0))
            finally:
                context.close()
        self._clear(entry)
        self._stores.reports.forget(feed)
        self._removing.discard(feed)
        _lines.info("a feed was removed", feed=feed, why="change log, slot, publication are gone")

    def _clear(self, entry: FeedEntry) -> None:
        """The last step: what was made at the source, and the entry itself."""
        book, source = self._stores.feeds, self._contexts.ends(config_of(entry)).source
        if not entry.forced:
            setup.clear(book, entry, source)
            return
        left: tuple[str, ...] = ()
        try:
            setup.clear_source(book, entry, source)
        except GONE:
            if entry.keeps_source:
                raise
            left = left_at_source(entry, source)
        entry = book.leave(entry, left)
        if entry.left:
            told = SEPARATOR.join(entry.left)
            self._stores.history.write("keeper", "feed remove", entry.feed, told, LEFT)
            _lines.warning("a feed's removal left something behind", feed=entry.feed, why=told)
        book.remove(entry)

    def _tell_of_removal(self, feed: FeedId) -> None:
        """It is asked for until it is so; once is enough to be told."""
        if feed not in self._removing:
            self._removing.add(feed)
            _lines.info("a feed is removed", feed=feed, next="its dispatchers stop, then its slot")

    def _await_goodbye(self, feed: FeedId) -> None:
        """Give the owner of a removed feed a while to stop it: the next step is after that, and
        asking again meanwhile would only keep everybody busy."""
        deadline = time.monotonic() + GOODBYE_S
        while time.monotonic() < deadline and not self._stopping.wait(POLL_S):
            record = self._cluster.records().get(feed)
            if record is None or (record.state is FeedState.REMOVED and record.owner is None):
                return
