"""The verbs of lakes.

What is asked of a lake may take longer than a request lasts. Each request has a name, made up here,
and is sent again under it: until there is a verdict, and through an outage of the node. Under one
name nothing is done twice, so an answer that was lost is no reason to give up.
"""

import secrets
import time
from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import quote

from lockgate.client.transport import DATABASES_S, Transport
from lockgate.model.errors import Transient
from lockgate.model.lake_documents import UNDER_WAY, LakeOutcome, LakeSummary, LakeTableDocument

__all__ = ["Lakes"]

OUTAGE_S_MAX: Final = 60.0
"""A node that is killed comes back, or another takes over, within this; then asking goes on."""
LOOK_S: Final = 1.0


class Lakes:
    """Tables in files, over which changes wait to be drained. `lg.lakes`.

    A lake is named by its endpoint. Verbs return when there is a verdict, however long that takes:
    `done`, `nothing-to-do`, or `superseded` when the table's end came first. A refusal is a
    Conflict; its code is `busy` when work is under way, and `work-failed` when it was tried.
    """

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def show(self, endpoint: str) -> LakeSummary:
        """Who leads the lake, and how far a step-up is."""
        return self._transport.get(_path(endpoint), LakeSummary)

    def list(self, endpoint: str) -> Iterator[LakeTableDocument]:
        """Its tables by name, dead ones too, page by page as they are asked for."""
        return self._transport.pages(_path(endpoint, "tables"), LakeTableDocument)

    def status(self, endpoint: str, table: str) -> LakeTableDocument:
        """How one table is."""
        return self._transport.get(_path(endpoint, "tables", table), LakeTableDocument)

    def drain(self, endpoint: str, table: str | None = None) -> LakeOutcome:
        """Bring the changes of a table into its stable layer, or those of all tables."""
        path = _path(endpoint) if table is None else _path(endpoint, "tables", table)
        return self._asked(f"{path}/drain")

    def drop(
        self, endpoint: str, table: str, *, force: bool = False, wait_s: float = 0.0
    ) -> LakeOutcome:
        """End a table; its files go when no reader holds them.

        While work is under way for it, it is busy, and nothing happens; `wait_s` waits for that.
        `force`: also a table that a feed still writes to.
        """
        path = _path(endpoint, "tables", table, "drop")
        return self._asked(path, force=force, wait_s=wait_s)

    def step_up(self, endpoint: str) -> LakeOutcome:
        """Lead the lake, whoever leads it now. Over when every table was claimed and drained."""
        return self._asked(_path(endpoint, "step-up"))

    def step_down(self, endpoint: str, *, flush: bool = False) -> LakeOutcome:
        """Lead it no longer. Refused while changes are not drained, unless they are to be
        flushed first."""
        return self._asked(_path(endpoint, "step-down"), flush=flush)

    def _asked(self, path: str, **how: Any) -> LakeOutcome:
        body = {"request": secrets.token_hex(8), **how}
        heard: float | None = None
        while True:
            try:
                outcome = self._transport.post(
                    path, LakeOutcome, body, safe=True, more_s=DATABASES_S
                )
            except Transient:
                if heard is None or time.monotonic() - heard > OUTAGE_S_MAX:
                    raise
                time.sleep(LOOK_S)
                continue
            if outcome.verdict != UNDER_WAY:
                return outcome
            heard = time.monotonic()


def _path(endpoint: str, *parts: str) -> str:
    return "/".join(["/api/v1/lakes", *(quote(part, safe="") for part in (endpoint, *parts))])
