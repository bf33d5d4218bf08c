"""The verbs of diffs.

A diff is recorded, and goes on without whoever asked for it. Its name is made up here: sent again
under it, after an answer that was lost, it is not run twice.
"""

import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final
from urllib.parse import quote

from lockgate.client.feeds import OUTAGE_S_MAX
from lockgate.client.transport import DATABASES_S, Transport
from lockgate.model.diffs import DiffDocument, DiffState, DiffSummary
from lockgate.model.errors import Transient, UsageError

__all__ = ["Diffs", "Told", "new_name"]

LOOK_S: Final = 0.5
_PATH: Final = "/api/v1/diffs"

Told = Callable[[DiffDocument], None]


def new_name() -> str:
    """For a diff."""
    return secrets.token_hex(5)


class Diffs:
    """Tables of two sides compared, row by row. `lg.diffs`.

    `run` and `resume` return when the diff is over: `equal` says what came of it, and `state` is
    `failed` when it could not be brought to its end. `told` is called with each look on the way.
    """

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def run(
        self,
        *,
        source: str = "",
        target: str = "",
        tables: Sequence[str] = (),
        feed: str = "",
        repair: bool = False,
        told: Told | None = None,
    ) -> DiffDocument:
        """Compare tables. With a feed, both sides as of one position, whoever writes meanwhile;
        its ends and tables then go without saying."""
        begun = self.start(source=source, target=target, tables=tables, feed=feed, repair=repair)
        return self.wait(begun.id, told=told)

    def start(
        self,
        *,
        source: str = "",
        target: str = "",
        tables: Sequence[str] = (),
        feed: str = "",
        repair: bool = False,
    ) -> DiffDocument:
        """The same, without waiting for it."""
        if isinstance(tables, str):
            raise UsageError(
                "one text where several belong", object_=tables, hint='write a list: ["public.*"]'
            )
        body: dict[str, Any] = {
            "id": new_name(),
            "source": source,
            "target": target,
            "tables": tuple(tables),
            "feed": feed,
            "repair": repair,
        }
        return self._transport.post(_PATH, DiffDocument, body, safe=True, more_s=DATABASES_S)

    def show(self, diff: str) -> DiffDocument:
        """How far one is, and what it found."""
        return self._transport.get(_path(diff), DiffDocument)

    def list(self) -> Iterator[DiffSummary]:
        """All that are remembered, the newest first, page by page as they are asked for."""
        return self._transport.pages(_PATH, DiffSummary)

    def resume(self, diff: str, *, told: Told | None = None) -> DiffDocument:
        """Go on with one that failed, with the ranges that are left."""
        self.start_resumed(diff)
        return self.wait(diff, told=told)

    def start_resumed(self, diff: str) -> DiffDocument:
        """The same, without waiting for it."""
        path = _path(diff, "resume")
        return self._transport.post(path, DiffDocument, safe=True, more_s=DATABASES_S)

    def cancel(self, diff: str) -> DiffDocument:
        """Call off one that runs. What it has found is kept, and it can be resumed."""
        return self._transport.post(_path(diff, "cancel"), DiffDocument, safe=True)

    def wait(
        self, diff: str, timeout_s: float | None = None, *, told: Told | None = None
    ) -> DiffDocument:
        """Until it is over, or the time is: how it is then. A node that goes away meanwhile is
        waited for."""
        began = heard = time.monotonic()
        while True:
            try:
                found = self.show(diff)
            except Transient:
                if time.monotonic() - heard > OUTAGE_S_MAX:
                    raise
            else:
                heard = time.monotonic()
                if told is not None:
                    told(found)
                late = timeout_s is not None and heard - began >= timeout_s
                if found.state is not DiffState.RUNNING or late:
                    return found
            time.sleep(LOOK_S)


def _path(diff: str, *parts: str) -> str:
    return "/".join([_PATH, *(quote(part, safe="") for part in (diff, *parts))])
