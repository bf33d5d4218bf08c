"""Processes that are told what to do and answer: spawned, kept alive, killed, replaced.

    orchestrator   Actor.begin("ask", verb) ──► a future          Actor.call("status") ──► its value
    process        a thread per call, so that one that waits holds up nobody

Spawned and not forked: delta-rs hangs in a forked process.
"""

import contextlib
import multiprocessing as mp
import os
import signal
import threading
import traceback
from concurrent.futures import Future
from multiprocessing.connection import Connection
from typing import Any, Final

__all__ = ["Actor", "ActorGone", "CallFailed"]

CALL_S: Final = 120.0
_context: Final = mp.get_context("spawn")


class ActorGone(Exception):
    """The process has ended before it could answer."""


class CallFailed(Exception):
    """What was called has raised; the text is the trace from there."""


class Actor:
    """A process, from outside."""

    def __init__(self) -> None:
        self._pipe, theirs = _context.Pipe()
        self._process = _context.Process(target=_main, args=(theirs,), daemon=True)
        self._process.start()
        theirs.close()
        self._open: dict[int, Future[Any]] = {}
        self._serial = 0
        self._lock = threading.Lock()
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process.is_alive()

    @property
    def exit_code(self) -> int | None:
        return self._process.exitcode

    def begin(self, verb: str, *args: Any) -> "Future[Any]":
        """Call something there; the answer comes when it comes."""
        future: Future[Any] = Future()
        with self._lock:
            self._serial += 1
            serial = self._serial
            self._open[serial] = future
            try:
                self._pipe.send((serial, verb, args))
            except OSError:
                del self._open[serial]
                future.set_exception(ActorGone())
        return future

    def call(self, verb: str, *args: Any) -> Any:
        """Call something there and wait for it."""
        return self.begin(verb, *args).result(CALL_S)

    def signal(self, number: signal.Signals) -> None:
        """Nothing happens to one that has ended."""
        if self.alive:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        """SIGKILL, and gone."""
        self._process.kill()
        self.join()

    def join(self) -> None:
        self._process.join(CALL_S)
        self._listener.join(CALL_S)

    def _listen(self) -> None:
        while True:
            try:
                serial, fine, answer = self._pipe.recv()
            except (OSError, EOFError):
                break
            with self._lock:
                future = self._open.pop(serial)
            if fine:
                future.set_result(answer)
            else:
                future.set_exception(CallFailed(answer))
        with self._lock:
            left, self._open = list(self._open.values()), {}
            # Not before the listener is done with it: the number would be another file's by then.
            self._pipe.close()
        for future in left:
            future.set_exception(ActorGone())


def _main(pipe: Connection) -> None:
    """The process: whatever it is to be, it learns by a call."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    from soak.lake.roles import Stage

    stage = Stage()
    lock = threading.Lock()

    def answer(serial: int, verb: str, args: tuple[Any, ...]) -> None:
        try:
            told = (serial, True, stage.act(verb, args))
        except BaseException:
            told = (serial, False, traceback.format_exc())
        with lock, contextlib.suppress(OSError):
            pipe.send(told)

    while True:
        try:
            call = pipe.recv()
        except (EOFError, OSError):
            os._exit(0)
        threading.Thread(target=answer, args=call, daemon=True).start()
