"""The verbs of feeds."""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final
from urllib.parse import quote

from lockgate.client.transport import DATABASES_S, Transport
from lockgate.model.documents import HistoryEntry, Waited
from lockgate.model.errors import Conflict, Transient, UsageError
from lockgate.model.feed_status import FeedPlan, FeedStatus, FeedTable
from lockgate.model.feeds import FeedState
from lockgate.model.secret import Secret

__all__ = ["Feeds"]

WAIT_S_MAX: Final = 10.0
"""What one request waits: longer waits are several requests about one position, and in between it
is seen whether the feed still moves."""
LOOK_S: Final = 1.0
"""How often a waiting caller who wants to be told is told."""
OUTAGE_S_MAX: Final = 60.0
"""A node that is killed comes back, or another takes over, within this; then waiting goes on."""

_AT_REST: Final = frozenset({FeedState.FAILED, FeedState.STOPPED, FeedState.REMOVED})


class Feeds:
    """Continuous replication of chosen tables. `lg.feeds`."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    # --- making and looking ---------------------------------------------------------------------

    def create(
        self,
        name: str,
        *,
        source: str | Secret,
        target: str | Secret,
        tables: Sequence[str],
        **config: Any,
    ) -> FeedStatus:
        """Make a feed. `source` and `target` are names of endpoints; `config` takes the other keys
        of `model.feed_config.FeedConfig` (`copy`, `leave_out`, `masks`, `rows`, `rename`, …).

        Asking again for an equal feed is no error; for another one of the name it is a Conflict.
        """
        body = {"name": name, "source": source, "target": target, "tables": _list(tables), **config}
        return self._transport.post(
            "/api/v1/feeds", FeedStatus, body, safe=True, more_s=DATABASES_S
        )

    def plan(
        self,
        name: str,
        *,
        source: str | Secret,
        target: str | Secret,
        tables: Sequence[str],
        **config: Any,
    ) -> FeedPlan:
        """What `create` would make, and what stands in its way. Changes nothing anywhere."""
        body = {"name": name, "source": source, "target": target, "tables": _list(tables), **config}
        return self._transport.post(
            "/api/v1/feeds/plan", FeedPlan, body, safe=True, more_s=DATABASES_S
        )

    def list(self) -> Iterator[FeedStatus]:
        """All feeds by name, page by page as they are asked for."""
        return self._transport.pages("/api/v1/feeds", FeedStatus)

    def status(self, name: str) -> FeedStatus:
        """How one feed is, and what can be done next."""
        return self._transport.get(_path(name), FeedStatus)

    def tables(self, name: str) -> Iterator[FeedTable]:
        """Its tables with their spans, by name."""
        return self._transport.pages(_path(name, "tables"), FeedTable)

    def history(self, name: str, *, limit: int | None = None) -> Iterator[HistoryEntry]:
        """Who did what to it, the newest first."""
        return self._transport.pages(
            "/api/v1/history", HistoryEntry, "before", object=name, limit=limit
        )

    # --- its life -------------------------------------------------------------------------------

    def pause(self, name: str) -> FeedStatus:
        """Stop it, to be resumed where it was."""
        return self._transport.post(_path(name, "pause"), FeedStatus, safe=True)

    def resume(self, name: str) -> FeedStatus:
        """Let a stopped or failed one run again."""
        return self._transport.post(_path(name, "resume"), FeedStatus, safe=True)

    def remove(self, name: str, *, force: bool = False) -> FeedStatus | None:
        """End it, and remove everything that was made for it but the target's tables.

        None when it is gone. Else its status, whose `error` says what holds it up: an endpoint that
        is away. The removal is recorded then, and goes on by itself.

        With `force`, a database that cannot be reached is not waited for. The status then says
        `removed`, and its `notes` name what was left behind there.
        """
        how = {"force": "true"} if force else {}
        return self._transport.delete(_path(name), FeedStatus, more_s=DATABASES_S, **how)

    def resync(self, name: str, table: str) -> FeedStatus:
        """Copy one table anew. Transient when it was not begun: nothing has changed then."""
        path = _path(name, "tables", table, "resync")
        return self._transport.post(path, FeedStatus, safe=False, more_s=DATABASES_S)

    def wait(
        self,
        name: str,
        timeout_s: float | None = None,
        *,
        told: Callable[[FeedStatus], None] | None = None,
    ) -> Waited:
        """Until all that is committed at the source now is applied, or the time is over: the
        answer's `level` says which. `told` is called with the feed's status now and then.

        A node that goes away meanwhile is waited for. A feed that will not move by itself (failed,
        stopped) is a Conflict.
        """
        began = heard = time.monotonic()
        position = ""
        while True:
            now = time.monotonic()
            left_s = math.inf if timeout_s is None else max(0.0, began + timeout_s - now)
            slice_s = min(left_s, WAIT_S_MAX if told is None else LOOK_S)
            try:
                waited = self._wait_once(name, slice_s, position)
                if not waited.level:
                    self._look(name, told)
                heard = time.monotonic()
            except Transient:
                if time.monotonic() - heard > OUTAGE_S_MAX or not position or left_s <= 0:
                    raise
                time.sleep(min(LOOK_S, left_s))
                continue
            position = waited.position
            if waited.level or left_s <= slice_s:
                return _since(waited, began)

    def _wait_once(self, name: str, slice_s: float, position: str) -> Waited:
        body = {"timeout_s": slice_s, "position": position}
        return self._transport.post(_path(name, "wait"), Waited, body, safe=True, more_s=slice_s)

    def _look(self, name: str, told: Callable[[FeedStatus], None] | None) -> None:
        status = self.status(name)
        if told is not None:
            told(status)
        if status.state in _AT_REST:
            raise Conflict(
                f"the feed is {status.state.value}" + (f": {status.error}" if status.error else ""),
                object_=name,
                hint="; ".join(status.next_steps) or f"`lockgate feed status {name}` says more",
                operation="wait for a feed",
            )

    # --- its spans ------------------------------------------------------------------------------

    def span_move(self, name: str, span: str, node: str) -> FeedStatus:
        """Run a span on another node."""
        return self._transport.post(
            _path(name, "spans", span, "move"), FeedStatus, {"node": node}, safe=False
        )

    def span_split(
        self, name: str, span: str, *, at: Sequence[str] = (), parts: int | None = None
    ) -> FeedStatus:
        """Cut a span at key hashes (hex), or into equal parts."""
        return self._transport.post(
            _path(name, "spans", span, "split"),
            FeedStatus,
            {"at": _list(at), "parts": parts},
            safe=False,
        )

    def span_merge(self, name: str, spans: Sequence[str]) -> FeedStatus:
        """Join neighbouring spans of one table."""
        return self._transport.post(
            _path(name, "spans", "merge"), FeedStatus, {"spans": _list(spans)}, safe=False
        )


def _path(name: str, *parts: str) -> str:
    return "/".join(["/api/v1/feeds", *(quote(part, safe="") for part in (name, *parts))])


def _list(texts: Sequence[str]) -> Sequence[str]:
    """A text is a sequence of texts, too: nobody means its letters."""
    if isinstance(texts, str):
        raise UsageError(
            "one text where several belong", object_=texts, hint='write a list: ["public.*"]'
        )
    return tuple(texts)


def _since(waited: Waited, began: float) -> Waited:
    seconds = round(time.monotonic() - began, 3)
    return Waited(waited.level, waited.position, waited.checkpoint, seconds)
