"""Which keepers are on this node: all that are wanted, while the coordinator is here.

A keeper that begins makes its record its own first. So of two nodes that both take themselves for
the coordinator's, the later one's keeper counts; what the other still does meets its fence.

What is kept lies in different places, and one that does not answer says nothing of the others. So
each is begun and ended on a thread of its own:

    wanted ──► begins ──► is kept ──► ends ──► forgotten, or wanted still: begins
                 └── cannot: rests ──┘ └── broke: rests

A name is at one of these at a time: who is being begun or ended is left alone until that is over.
One lock has all of it, and is never held while something may take long.
"""

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Final, Generic, NamedTuple, TypeVar

from lockgate.model.errors import LockgateError, Transient
from lockgate.node.keeping.carrier import Carrier
from lockgate.node.keeping.host import KeeperHost
from lockgate.node.telemetry.lines import Lines

__all__ = ["KeeperHosts"]

LOOK_S: Final = 0.5
AGAIN_S: Final = 5.0
REST_S_MAX: Final = 60.0
SLOW_S: Final = 15.0
"""A beginning that takes longer is told to people: what is to be kept may not answer at all."""
JOIN_S: Final = 20.0
"""How long work that is stopped may take to end. What takes longer meets its fence."""
STOP_S: Final = 25.0
"""How long the end of all of them may take, which end at the same time."""

Wanted = TypeVar("Wanted")
Host = TypeVar("Host", bound=KeeperHost[Any, Any, Any])


class _Kept(NamedTuple, Generic[Wanted, Host]):
    wanted: Wanted
    host: Host
    carrier: Carrier[Any]
    since_s: float


class _Rest(NamedTuple):
    """One that could not be begun, or that broke."""

    attempts: int
    until_s: float
    why: str


class _Care:
    """Somebody who is just begun or ended, by a thread."""

    def __init__(self, thread: threading.Thread, *, begins: bool) -> None:
        self.thread = thread
        self.begins = begins
        self.since_s = time.monotonic()
        self.told = False

    @property
    def is_slow(self) -> bool:
        return self.begins and time.monotonic() - self.since_s >= SLOW_S


class KeeperHosts(Generic[Wanted, Host]):
    """The keepers of one kind that are here, on threads of their own."""

    def __init__(
        self,
        what: str,
        leads: Callable[[], bool],
        wanted: Callable[[], Mapping[str, Wanted]],
        lines: Lines,
    ) -> None:
        """`what` is kept, in words. `leads` says whether it is kept here, `wanted` which there are,
        by their names, and what each needs: with something else, it is begun anew."""
        self._what = what
        self._leads = leads
        self._wanted = wanted
        self._lines = lines
        self._lock = threading.Lock()
        self._kept: dict[str, _Kept[Wanted, Host]] = {}
        self._rests: dict[str, _Rest] = {}
        self._cares: dict[str, _Care] = {}
        self._stopped = threading.Event()
        self._knock = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"{what}s", daemon=True)

    def begin(self, name: str, wanted: Wanted) -> tuple[Host, Carrier[Any]]:
        """A new keeper, its record made its own. Whoever calls starts it."""
        raise NotImplementedError

    def troubled(self, name: str, what: str, hint: str) -> None:
        """One could not be begun: let people see why. It is tried again."""

    @property
    def running(self) -> bool:
        return self._thread.is_alive()

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End all keepers here, and wait until nothing of theirs runs."""
        deadline_s = time.monotonic() + STOP_S
        self._stopped.set()
        self._knock.set()
        self._thread.join(STOP_S)
        with self._lock:
            # What is being begun finds out by itself, and then nothing has begun.
            for name in self._kept.keys() - self._cares.keys():
                self._aside(name, self._end, begins=False)
            cares = dict(self._cares)
        for care in cares.values():
            care.thread.join(max(0.0, deadline_s - time.monotonic()))
        if left := sorted(name for name, care in cares.items() if care.thread.is_alive()):
            self._lines.warning(
                f"{self._what}s are left while they are begun or ended",
                names=", ".join(left),
                next="the fence stops their effect",
            )

    def knock(self) -> None:
        """There may be a new one: look now."""
        self._knock.set()

    def hosts(self) -> dict[str, Host]:
        """Those that are here now."""
        with self._lock:
            return {name: kept.host for name, kept in self._kept.items()}

    def host(self, name: str) -> Host:
        """The one of this name. Transient when none is here."""
        with self._lock:
            kept = self._kept.get(name)
            rest, care = self._rests.get(name), self._cares.get(name)
        if kept is None or kept.host.broken:
            self._knock.set()
            why = None if rest is None else rest.why
            if care is not None and care.is_slow:
                why = _silent(care)
            raise Transient(
                f"nobody keeps this {self._what} here just now",
                object_=name,
                hint="ask again in a moment",
                cause=why,
            )
        return kept.host

    # --- the thread -------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._stopped.is_set():
            pause_s = LOOK_S
            try:
                self._look()
            except LockgateError as error:
                self._lines.warning(f"{self._what}s cannot be seen to", why=error, next=error.hint)
                pause_s = AGAIN_S
            except Exception:
                self._lines.bug(f"the care for {self._what}s broke", next="it is tried again")
                pause_s = AGAIN_S
            self._knock.wait(pause_s)
            self._knock.clear()

    def _look(self) -> None:
        wanted = dict(self._wanted()) if self._leads() else {}
        with self._lock:
            if self._stopped.is_set():
                return
            for name in {*self._kept, *wanted} - self._cares.keys():
                one = self._kept.get(name)
                if one is None:
                    if self._is_due(name):
                        self._aside(name, self._begin, wanted[name], begins=True)
                elif name not in wanted or wanted[name] != one.wanted or one.host.broken:
                    self._aside(name, self._end, begins=False)
            self._rests = {name: rest for name, rest in self._rests.items() if name in wanted}
            silent = [name for name, care in self._cares.items() if care.is_slow and not care.told]
            cares = [(name, self._cares[name]) for name in silent]
        for name, care in cares:
            care.told = True
            self.troubled(name, _silent(care), "see that it can be reached from this node")

    def _is_due(self, name: str) -> bool:
        rest = self._rests.get(name)
        return rest is None or time.monotonic() >= rest.until_s

    def _aside(self, name: str, do: Callable[..., None], *args: object, begins: bool) -> None:
        """Have it done by a thread of its own. To be called with the lock, for a name that nobody
        is seeing to."""
        care = threading.Thread(
            target=do, args=(name, *args), name=f"{self._what} {name}", daemon=True
        )
        self._cares[name] = _Care(care, begins=begins)
        care.start()

    # --- threads of their own ---------------------------------------------------------------------

    def _begin(self, name: str, wanted: Wanted) -> None:
        try:
            host, carrier = self.begin(name, wanted)
        except LockgateError as error:
            self._lines.warning(
                f"a {self._what} cannot be seen to", name=name, why=error, next=error.hint
            )
            self._give_up(name, str(error), error.hint)
            return
        except Exception as error:
            self._lines.bug(f"the care for a {self._what} broke", name=name, next="tried again")
            self._give_up(name, f"it broke: {type(error).__name__}", "see the node's log")
            return
        carrier.tell(host.post)
        with self._lock:
            # Both at once: from here on it is kept and not begun, for whoever looks.
            del self._cares[name]
            if not self._stopped.is_set():
                self._kept[name] = _Kept(wanted, host, carrier, time.monotonic())
                host.start()
                return
        carrier.end()

    def _give_up(self, name: str, what: str, hint: str) -> None:
        self.troubled(name, what, hint)
        with self._lock:
            self._rest(name, what)
            del self._cares[name]

    def _rest(self, name: str, why: str) -> None:
        before = self._rests.get(name)
        attempts = 1 if before is None else before.attempts + 1
        pause_s = min(REST_S_MAX, AGAIN_S * 2 ** min(attempts - 1, 10))
        self._rests[name] = _Rest(attempts, time.monotonic() + pause_s, why)

    def _end(self, name: str) -> None:
        with self._lock:
            kept = self._kept.pop(name)
        broke = kept.host.broke
        kept.carrier.end()
        kept.host.end()
        deadline_s = time.monotonic() + JOIN_S
        kept.host.join(JOIN_S)
        if not kept.carrier.join(max(0.0, deadline_s - time.monotonic())):
            self._lines.warning(
                f"work for a {self._what} does not end",
                name=name,
                next="the fence stops its effect",
            )
        if broke:
            self.troubled(name, "its keeper broke", "see the node's log; it begins anew")
        with self._lock:
            lasted = time.monotonic() - kept.since_s >= REST_S_MAX
            if not broke or lasted:
                self._rests.pop(name, None)
            if broke:
                # What breaks at once breaks again: nobody is helped by twice a second.
                self._rest(name, "its keeper broke")
            del self._cares[name]


def _silent(care: _Care) -> str:
    return f"it has not answered for {time.monotonic() - care.since_s:.0f} s"
