"""The thin runner: one feed in one process, through the core and the real pipeline.

    with FeedRunner(home, config) as runner:
        runner.wait_level()           # until all that is committed at the source now is applied
        runner.status()

Everything is under `home`: the metastore (SQLite) and the change log. A runner that was killed is
simply started again with the same home: it goes on where the records say. If the former one lives
after all, it ends: the one that was started last runs the feed.
"""

import queue
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import msgspec

from lockgate.core.node import NodeCore
from lockgate.endpoints.postgres.connect import connect
from lockgate.endpoints.postgres.source import heartbeat
from lockgate.endpoints.postgres.source.slot import lsn_text
from lockgate.model.config import CoreConfig, Timing
from lockgate.model.errors import LockgateError, OutcomeUnknown, Terminal, Transient, UsageError
from lockgate.model.events import CreateFeed, FeedVerb, RemoveFeed, ResumeFeed
from lockgate.model.feed_config import FeedConfig
from lockgate.model.feed_status import CopyProgress, FeedStatus
from lockgate.model.feeds import FeedSpec, FeedState
from lockgate.model.ids import SEQ_MAX, FeedId, Token
from lockgate.model.instructions import Answer
from lockgate.model.positions import Position
from lockgate.model.records import FeedRecord
from lockgate.node.executor import FeedExecutor, SinkCloser
from lockgate.node.feed import setup
from lockgate.node.feed.context import FeedContext
from lockgate.node.feed.ends import Ends
from lockgate.node.feed.engine import FeedEngine
from lockgate.node.feed.following import UNLOGGED
from lockgate.node.feed.gates import opened_gate
from lockgate.node.feed.running import HINT, Parked, Running, is_held
from lockgate.node.home import Home, HomeMetastore
from lockgate.node.process import Loopback, NodeProcess
from lockgate.node.spark import SparkKeeper
from lockgate.pipeline.session import Spark, SparkOptions
from lockgate.store.changelog import Changelog, SegmentFiles
from lockgate.store.feeds import FeedBook
from lockgate.store.metastore import SqlMetastore
from lockgate.store.settings import INSTALLATION, Settings

__all__ = ["FeedRunner"]

NODE: Final = "local"
ANSWER_S: Final = 30.0
CHECK_S: Final = 0.5
"""How often somebody who waits looks whether the feed is still well."""
NOT_YET: Final = frozenset({"not-coordinator", "coordinator-starting"})


class FeedRunner:
    """One feed, while the `with` block lasts."""

    def __init__(
        self,
        home: Path,
        config: FeedConfig,
        *,
        spark: SparkOptions | Spark | None = None,
        core: CoreConfig | None = None,
    ) -> None:
        """Prepare; nothing runs before `start`. A Spark that is handed in is left running."""
        self._home = Home(home)
        self._config = config
        self._core_config = core or CoreConfig(Timing(tick_ms=100, resend_ms=200))
        self._spark = SparkKeeper(spark)
        self._answers: queue.SimpleQueue[Answer] = queue.SimpleQueue()
        self._requests = 0

    # --- life ---------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Set the feed up if it is new, and let it run. Spark starts meanwhile."""
        self._home.take()
        lease_ms = self._core_config.timing.lease_ms
        self._spark.warm_up_soon()
        try:
            self._metastore = SqlMetastore.open(self._home.metastore_url, lease_ms=lease_ms)
            self._refuse_a_servers_home()
            book = FeedBook(self._metastore.transactions)
            entry = setup.set_up(book, self._config, self._name)
            self._book = book
            self._context = FeedContext(
                entry,
                book,
                Changelog(self._metastore.data),
                SegmentFiles(str(self._home.changelog)),
                self._spark.handle,
                Ends.of(self._config),
                self._name,
            )
            self._start_process()
            if entry.removing:
                self._finish_removal()
                raise UsageError(
                    "the feed was being removed, and that is finished now",
                    object_=self._config.name,
                    hint="run it again to create it anew",
                )
            assert entry.start is not None
            spec = FeedSpec(entry.start, entry.tables, birth=entry.birth)
            self._ask(lambda request: CreateFeed(request, self._config.name, spec))
            if self._record().state in {FeedState.FAILED, FeedState.STOPPED}:
                self._ask(lambda request: ResumeFeed(request, self._config.name))
        except BaseException:
            self._close()
            raise

    @property
    def _name(self) -> str:
        """By which this installation is known at endpoints."""
        return str(self._home.path.resolve())

    def _refuse_a_servers_home(self) -> None:
        """A runner speaks to nobody: among the nodes of a service it would be a deaf one."""
        if Settings(self._metastore.transactions).read(INSTALLATION) is not None:
            raise UsageError(
                "a Lockgate server keeps its feeds in this home",
                object_=str(self._home.path),
                hint="ask the server: lockgate feed create …; or give --home another directory",
            )

    def _start_process(self) -> None:
        def executor(process: NodeProcess) -> FeedExecutor:
            self._executor = FeedExecutor(self._context_of, process.post)
            return self._executor

        self._homed = HomeMetastore(self._home, self._metastore)
        self._process = NodeProcess(
            NODE,
            self._core_config,
            self._homed,
            Loopback,
            executor,
            SinkCloser(
                lambda _: opened_gate(Ends.of(self._config).target, self._config, self._name)
            ),
            self._answers.put,
        )
        self._process.start()

    def stop(self) -> None:
        """Stop all work; the feed stays, and goes on with the next start."""
        self._close()

    def remove(self) -> None:
        """End the feed for good: its rows at the sink's fence, its slot, publication and log."""
        self._book.change(
            self._config.name, lambda found: msgspec.structs.replace(found, removing=True)
        )
        self._finish_removal()

    def _finish_removal(self) -> None:
        """Everything that a removal does, from wherever an earlier one was broken off."""
        birth = self._context.entry.birth
        self._ask(lambda request: RemoveFeed(request, self._config.name, birth))
        self._until(
            lambda: self._record().state is FeedState.REMOVED,
            time.monotonic() + ANSWER_S,
            "the feed was not removed",
        )
        self._context.clear(Token(self._record().epoch, SEQ_MAX, 0))
        setup.clear(self._book, self._context.entry, self._context.source)

    def _close(self) -> None:
        process = getattr(self, "_process", None)
        if process is not None:
            process.stop()
            self._executor.join()
        if hasattr(self, "_context"):
            self._context.close()
        self._spark.close()
        if hasattr(self, "_metastore"):
            self._metastore.close()

    def _context_of(self, feed: FeedId) -> FeedContext:
        assert feed == self._config.name
        return self._context

    # --- asking -------------------------------------------------------------------------------

    def _ask(self, verb: Callable[[str], FeedVerb]) -> None:
        """Ask the core for something, until there is a coordinator to answer."""
        deadline = time.monotonic() + ANSWER_S
        while True:
            self._requests += 1
            self._process.post(verb(f"r{self._requests}"))
            try:
                answer = self._answers.get(timeout=max(0.1, deadline - time.monotonic()))
            except queue.Empty:
                raise self._silent() from None
            if not answer.code:
                return
            if answer.code not in NOT_YET or time.monotonic() > deadline:
                raise Terminal(
                    answer.what, object_=self._config.name, hint=answer.hint, operation="feed"
                )
            time.sleep(self._core_config.timing.tick_ms / 1000)

    def _silent(self) -> LockgateError:
        if self._process.failure is not None:
            raise self._process.failure
        return Transient(
            "the node does not answer",
            object_=self._config.name,
            hint="see its log; start it again",
        )

    def _found(self) -> FeedRecord | None:
        def look(core: NodeCore) -> FeedRecord | None:
            if core.coordinator is None:
                return None
            return core.coordinator.book.durable.get(self._config.name)

        return self._process.look(look)

    def _record(self) -> FeedRecord:
        found = self._found()
        assert found is not None
        return found

    # --- waiting and seeing -------------------------------------------------------------------

    def wait_level(self, timeout_s: float = 600.0) -> Position:
        """Until all that is committed at the source now is applied; answers that position."""
        deadline = time.monotonic() + timeout_s
        position = self._mark(deadline)
        self._until(
            lambda: self.checkpoint() >= position - 1, deadline, "the target did not become level"
        )
        return position

    def _mark(self, deadline: float) -> Position:
        """A message of its own in the log, so that an idle source has something to send."""
        while True:
            try:
                with connect(self._context.source, purpose="wait", autocommit=True) as connection:
                    return heartbeat.beat(connection, self._config.name)
            except (Transient, OutcomeUnknown):
                self.check()
                if time.monotonic() > deadline:
                    raise
            time.sleep(0.5)

    def check(self) -> FeedStatus:
        """The status, of a feed that has not failed and is run by this process.

        Raises StaleOwner when another process runs it, Terminal when it has failed.
        """
        status = self.status()
        if status.state is FeedState.FAILED:
            raise Terminal(
                "the feed has failed",
                object_=self._config.name,
                hint="; ".join(status.next_steps),
                cause=status.error,
            )
        return status

    def _until(self, done: Callable[[], bool], deadline: float, what: str) -> None:
        check_at = time.monotonic()
        while not done():
            now = time.monotonic()
            if now < min(check_at, deadline):
                time.sleep(0.05)
                continue
            status = self.check()
            check_at = now + CHECK_S
            if now > deadline:
                raise Transient(
                    f"{what} in time",
                    object_=self._config.name,
                    hint="see the feed's status",
                    cause=status.error or None,
                )
            time.sleep(0.05)

    def checkpoint(self) -> Position:
        """Everything up to here is applied, as far as this process knows."""
        engine = self._executor.engine(self._config.name)
        running = [] if engine is None else engine.view()
        if not running or not any(one.is_trigger for one in running):
            return 0
        tables = sum(not one.is_trigger for one in running)
        if any(one.floors is None or one.copying for one in running):
            return 0
        if tables < self._expected_spans():
            return 0
        return min(one.low for one in running)

    def _expected_spans(self) -> int:
        """How many spans the core knows of, placed or not."""

        def look(core: NodeCore) -> int:
            host = core.host
            found = None if host is None else host.maintainers.get(self._config.name)
            least = 1 if self._context.entry.tables else 0
            return 1 if found is None else max(least, found.status().spans - 1)

        return self._process.look(look)

    def status(self) -> FeedStatus:
        """The feed as people see it. Raises what has ended the process."""
        record = self._found()
        engine = self._executor.engine(self._config.name)
        running = [] if engine is None else engine.view()
        troubles = self._troubles(engine, running)
        state = FeedState.NORMAL if record is None else record.state
        if troubles and state is FeedState.NORMAL:
            state = FeedState.WARNING
        if record is not None and record.error:
            troubles.insert(0, _read(record.error))
        resolved = 0 if engine is None else engine.applying.resolved or 0
        return FeedStatus(
            name=self._config.name,
            state=state,
            epoch=0 if record is None else record.epoch,
            owner=NODE,
            resolved=lsn_text(resolved),
            checkpoint=lsn_text(self.checkpoint()),
            lag_s=None if engine is None else engine.applying.lag_s(),
            tables=len({one.table for one in running if not one.is_trigger}),
            spans=sum(not one.is_trigger for one in running),
            copy=CopyProgress() if engine is None else engine.copying.progress,
            rows_applied=0 if engine is None else engine.applying.rows_applied,
            error=troubles[0].what if troubles else "",
            next_steps=_next_steps(state, self._config.name, troubles),
            notes=self._notes(engine),
        )

    def _notes(self, engine: FeedEngine | None) -> tuple[str, ...]:
        notes = [] if self._context.entry.logged else [UNLOGGED]
        if engine is not None and engine.applying.held_upto is not None:
            notes.append(is_held(engine.applying.held_upto))
        return tuple(notes)

    def _troubles(self, engine: FeedEngine | None, running: list[Running]) -> list[Parked]:
        """What there is to complain of, the widest first."""
        found: list[Parked | None] = []
        if self._homed.trouble:
            what = f"the metastore cannot be written ({self._metastore.label})"
            hint = "it is tried again; see that its disk has room and that nobody else holds it"
            found.append(Parked(f"{what}: {self._homed.trouble}", hint))
        if engine is not None:
            capture = engine.capture
            found += [capture.trouble, capture.upkeep_trouble, capture.finish_trouble]
        found += [one.parked for one in running]
        return [trouble for trouble in found if trouble is not None]


def _read(error: str) -> Parked:
    """A recorded error: what, and on a line of its own what to do about it."""
    what, _, hint = error.partition(HINT)
    return Parked(what, hint)


def _next_steps(state: FeedState, name: str, troubles: list[Parked]) -> tuple[str, ...]:
    hints = tuple(dict.fromkeys(trouble.hint for trouble in troubles if trouble.hint))
    if state is FeedState.FAILED:
        return (*hints, f"when that is done, run the feed {name} again")
    return hints
