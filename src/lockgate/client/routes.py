"""Where the traffic of tables goes, for applications that route their own.

    lg.routes.table("public.orders")      the name of the endpoint that has it
    for routes in lg.routes.follow():     now, and then after every change

    with RouteFollower(lg.routes) as known:
        known.table("public.orders")      out of memory; a thread keeps it fresh
        known.refresh("public.orders")    asked for now, by who was just told that it has moved

A route says where to write. It is no lock: who is late meets the guard at the table, whose error
names the new home (`LOCKGATE: table … has moved to …`), asks again, and goes there.
"""

import contextlib
import threading
import time
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Any, Final, Self

from lockgate.client.transport import Transport
from lockgate.model.errors import LockgateError, NotFound, Transient
from lockgate.model.move_status import Route, Routes

__all__ = ["RouteFollower", "RouteTable", "moved_to"]

HANG_S: Final = 25.0
"""One request hangs for no longer: proxies end what is silent."""
PAUSE_S: Final = 1.0
"""Before a node is asked again that did not answer."""


_MOVED: Final = " has moved to "


def moved_to(message: str) -> str | None:
    """The endpoint that a guard's error names as a table's new home; None: it names none, because
    the table is only about to move, or because it is another error."""
    first = message.splitlines()[0] if message else ""
    _, said, home = first.rpartition(_MOVED)
    return home if said and first.startswith("LOCKGATE: table ") else None


class RouteTable:
    """The table of routes. `lg.routes`."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def all(self, tables: Sequence[str] = ()) -> Routes:
        """All routes and their version, or those of some tables."""
        return self._ask(tables=tuple(tables))

    def table(self, name: str) -> str:
        """The endpoint that has the traffic of a table (`schema.table`); NotFound when it was never
        moved."""
        return _endpoint(self.all([name]).routes, name)

    def follow(self, after: int | None = None) -> Iterator[Routes]:
        """The routes now, and again whenever they have changed, without an end. With `after`, a
        version that was seen: only what is newer. A node that is away is waited for."""
        version = after
        while True:
            began = time.monotonic()
            try:
                found = self._ask() if version is None else self._ask(after=version, wait_s=HANG_S)
            except Transient:
                time.sleep(PAUSE_S)
                continue
            if found.version != version:
                yield found
            elif time.monotonic() - began < PAUSE_S:
                time.sleep(PAUSE_S)  # it does not hang as it should: do not hammer it
            version = found.version

    def _ask(self, **params: Any) -> Routes:
        return self._transport.get(
            "/api/v1/routes", Routes, more_s=params.get("wait_s", 0.0), **params
        )


class RouteFollower:
    """The routes, in memory. Looked up by any thread; kept by one of its own, which ends with the
    process."""

    def __init__(self, routes: RouteTable) -> None:
        self._table = routes
        self._known = routes.all()
        self._learning = threading.Lock()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="lockgate-routes", daemon=True)
        self._thread.start()

    def table(self, name: str) -> str:
        """The endpoint that has the traffic of a table, as far as is known here."""
        return _endpoint(self._known.routes, name)

    def refresh(self, name: str) -> str:
        """The same, as it is now; everybody who looks it up here knows it from then on."""
        self._learn(self._table.all())
        return self.table(name)

    @property
    def version(self) -> int:
        """Of what is known here."""
        return self._known.version

    def close(self) -> None:
        """Follow no longer. The thread ends when its request does."""
        self._ended.set()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _follow(self) -> None:
        while not self._ended.is_set():
            # A token that opens nothing any more, say. What is known stays, and is asked for again.
            with contextlib.suppress(LockgateError, RuntimeError):
                for found in self._table.follow(self._known.version):
                    self._learn(found)
                    if self._ended.is_set():
                        return
            self._ended.wait(PAUSE_S)

    def _learn(self, found: Routes) -> None:
        """Answers overtake each other: of two, the newer one is known."""
        with self._learning:
            if found.version > self._known.version:
                self._known = found


def _endpoint(routes: Sequence[Route], name: str) -> str:
    for route in routes:
        if route.table == name:
            return route.endpoint
    raise NotFound(
        "no move has a route for this table",
        object_=name,
        hint="it is where it always was; names are schema.table, as at the source",
    )
