"""One node's process around the core: events in, instructions carried out, for real.

    queue ──► NodeCore.handle(now, event) ──► Send                 ► transport
      ▲                                       Join Renew Load Commit ► metastore, one thread
      │                                       Start Stop Hold …      ► executor
      └──────────── answers, ticks ◄────────  CloseSink              ► sink, threads of its own

The core runs on one thread and never waits: whatever may block is done elsewhere and comes
back as an event. Metastore calls are done one after the other, in the order asked, and every
one is answered exactly once: the core counts its open commits.
"""

import queue
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Protocol, TypeVar

from lockgate.core.node import NodeCore
from lockgate.core.ports import Executor, Metastore, SinkFence, Transport
from lockgate.model.config import CoreConfig
from lockgate.model.errors import Transient
from lockgate.model.events import Event, Tick
from lockgate.model.ids import Millis, NodeId, NodeRef
from lockgate.model.instructions import (
    Answer,
    CloseSink,
    Commit,
    HoldDispatcher,
    Instruction,
    Join,
    Load,
    PassBarrier,
    ReleaseDispatcher,
    Renew,
    Send,
    StartDispatcher,
    StopDispatcher,
    StopEverything,
    WriteBarrier,
)
from lockgate.node.intake import Intake

__all__ = ["Loopback", "NodeProcess", "Watch", "now_ms"]

_CLOSERS = 2
_EAGER_MS = 3_000
_EAGER_TICK_MS = 20
"""A young process ticks more often: many short steps lie between its start and its first row."""
_LOOK_S = 0.2
_Seen = TypeVar("_Seen")


class _Look:
    """Somebody wants to see the core, between two events."""

    def __init__(self, look: Callable[[NodeCore], Any]) -> None:
        self.look = look
        self.seen: Future[Any] = Future()


class _Over:
    """Something out there says that this process must not go on."""

    def __init__(self, why: Exception) -> None:
        self.why = why


class Watch(Protocol):
    """Who is told of everything that passes. Must be quick, and raise nothing."""

    def handled(self, core: NodeCore, event: Event, instructions: Sequence[Instruction]) -> None:
        """The core has taken an event, and what it wants done is on its way. The core's thread."""
        ...

    def asked(self, verb: str, seconds: float, answer: Event | Exception) -> None:
        """Somebody out there was asked this, and answered that. Other threads."""
        ...


class NodeProcess:
    """The thread that is a node. Nothing of it outlives `stop`."""

    def __init__(
        self,
        node: NodeId,
        config: CoreConfig,
        metastore: Metastore,
        transport: Callable[["NodeProcess"], Transport],
        executor: Callable[["NodeProcess"], Executor],
        sink: SinkFence,
        answered: Callable[[Answer], None],
        watch: Watch | None = None,
    ) -> None:
        self.node = node
        self._watch = watch
        self._config = config
        self._core = NodeCore(config, node)
        self._metastore = metastore
        self._sink = sink
        self._answered = answered
        self._events: Intake[Event | _Look | _Over | None] = Intake()
        self._store = ThreadPoolExecutor(1, thread_name_prefix="metastore")
        self._closer = ThreadPoolExecutor(_CLOSERS, thread_name_prefix="close")
        self._thread = threading.Thread(target=self._run, name=f"node {node}", daemon=True)
        self.failure: BaseException | None = None
        """What ended the process, when it was not asked to end."""
        self._transport = transport(self)
        self._executor = executor(self)
        self._do: dict[type, Callable[[Any], None]] = {
            Send: self._send,
            Join: lambda join: self._ask(self._metastore.join, join.node, join.asked_at),
            Renew: lambda renew: self._ask(self._metastore.renew, renew.ref, renew.asked_at),
            Load: lambda load: self._ask(self._metastore.load, load.scope),
            Commit: lambda commit: self._ask(self._metastore.commit, commit.batch),
            StartDispatcher: self._executor.carry_out,
            StopDispatcher: self._executor.carry_out,
            HoldDispatcher: self._executor.carry_out,
            ReleaseDispatcher: self._executor.carry_out,
            PassBarrier: self._executor.carry_out,
            WriteBarrier: self._executor.carry_out,
            CloseSink: self._close_sink,
            StopEverything: lambda _: self._executor.stop_everything(),
            Answer: self._answered,
        }

    def start(self) -> None:
        """Begin to live."""
        self._thread.start()

    def stop(self) -> NodeRef | None:
        """Stop all dispatchers, then the process. What is recorded stays for the next life.

        Answers the life that has ended, whose lease may still run.
        """
        self._events.put(None)
        if self._thread.ident is not None:
            self._thread.join()
        self._executor.stop_everything()
        self._store.shutdown(wait=True)
        self._closer.shutdown(wait=True)
        return self._core.ref

    def post(self, event: Event) -> None:
        """Hand an event to the core; from any thread."""
        self._events.put(event)

    def look(self, look: Callable[[NodeCore], _Seen], timeout_s: float = 10.0) -> _Seen:
        """What `look` sees of the core, between two events. It must change nothing.

        Raises what has ended the process, and Transient when the core is too busy to be seen.
        """
        asked = _Look(look)
        self._events.put(asked)
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                seen: _Seen = asked.seen.result(_LOOK_S)
            except TimeoutError:
                if self.failure is not None:
                    raise self.failure from None
                if time.monotonic() > deadline:
                    raise Transient(
                        "the node's core does not show itself",
                        object_=self.node,
                        hint="ask again in a moment, or ask another node",
                    ) from None
            else:
                return seen

    # --- the loop -----------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._loop()
        except BaseException as failure:  # whatever it is, no dispatcher may go on without a core
            self.failure = failure
            self._executor.stop_everything()

    def _loop(self) -> None:
        tick_ms = self._config.timing.tick_ms
        due = now_ms()
        eager_until = due + _EAGER_MS
        while True:
            wait_ms = due - now_ms()
            if wait_ms <= 0:
                self._handle(Tick())
                # Counted from its end: ticks that take long leave time for everything else.
                now = now_ms()
                due = now + (tick_ms if now > eager_until else min(tick_ms, _EAGER_TICK_MS))
                continue
            try:
                event = self._events.get(wait_ms / 1000)
            except queue.Empty:
                continue
            if event is None:
                return
            if isinstance(event, _Look):
                self._show(event)
            elif isinstance(event, _Over):
                raise event.why
            else:
                self._handle(event)

    def _handle(self, event: Event) -> None:
        instructions = self._core.handle(now_ms(), event)
        self._carry_out(instructions)
        if self._watch is not None:
            self._watch.handled(self._core, event, instructions)

    def _show(self, asked: _Look) -> None:
        try:
            asked.seen.set_result(asked.look(self._core))
        except Exception as error:
            asked.seen.set_exception(error)

    def _carry_out(self, instructions: list[Instruction]) -> None:
        for instruction in instructions:
            self._do[type(instruction)](instruction)

    def _send(self, send: Send) -> None:
        self._transport.send(send.to, send.message)

    def _ask(self, verb: Callable[..., Event], *args: object) -> None:
        self._store.submit(self._answer, verb, *args)

    def _answer(self, verb: Callable[..., Event], *args: object) -> None:
        began_s = time.monotonic()
        answer: Event | Exception
        try:
            answer = verb(*args)
            self.post(answer)
        except Exception as why:  # a process whose question is never answered would wait for ever
            answer = why
            self._events.put(_Over(why))
        if self._watch is not None:
            self._watch.asked(verb.__name__, time.monotonic() - began_s, answer)

    def _close_sink(self, close: CloseSink) -> None:
        self._closer.submit(self._answer, self._sink.close, close)


class Loopback:
    """The transport of a node that is alone: what it tells itself arrives."""

    def __init__(self, process: NodeProcess) -> None:
        self._process = process

    def send(self, to: NodeId, message: Any) -> None:
        """Deliver to oneself; a node that is not there does not hear."""
        if to == self._process.node:
            self._process.post(message)


def now_ms() -> Millis:
    """The node's own clock."""
    return time.monotonic_ns() // 1_000_000
