"""The verbs of moves.

A command to a move may take longer than a request lasts. As with lakes, each request has a name and
is sent again under it until there is a verdict, and through an outage of the node: a flip goes on
without whoever asked for it, and under one name nothing is done twice.
"""

import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Any, Final, Literal
from urllib.parse import quote

from lockgate.client.diffs import Diffs, Told, new_name
from lockgate.client.feeds import OUTAGE_S_MAX
from lockgate.client.transport import DATABASES_S, Transport
from lockgate.model.diffs import DiffDocument
from lockgate.model.errors import Transient, UsageError
from lockgate.model.lake_documents import UNDER_WAY
from lockgate.model.move_status import MoveOutcome, MoveStatus, MoveStep
from lockgate.model.moves import MoveState

__all__ = ["Lost", "Moves", "took_s"]

Lost = Literal["source", "target"]
"""The side of a move that does not have the traffic."""

LOOK_S: Final = 1.0


class Moves:
    """Tables on their way from one database to another. `lg.moves`.

    Commands return when there is a verdict, however long that takes: `done`, or `nothing-to-do`
    when it is so already. A refusal is a Conflict; its code is `busy` while another command is
    under way, and `rolled-back` when a flip was tried and everything is as it was. With `dry_run`
    nothing is changed, and the outcome's `steps` say what would be done.
    """

    def __init__(self, transport: Transport, diffs: Diffs) -> None:
        self._transport = transport
        self._diffs = diffs

    # --- making and looking ---------------------------------------------------------------------

    def create(
        self,
        name: str,
        *,
        source: str,
        target: str,
        tables: Sequence[str],
        defer_indexes: bool = True,
        hook: str = "",
    ) -> MoveStatus:
        """Begin a move: copy the tables, and follow every change. Endpoints are named; `hook` is
        one of the server's configuration.

        Asking again for an equal move is no error; for another one of the name it is a Conflict.
        """
        body = _wish(name, source, target, tables, defer_indexes, hook)
        return self._transport.post(
            "/api/v1/moves", MoveStatus, body, safe=True, more_s=DATABASES_S
        )

    def plan(
        self,
        name: str,
        *,
        source: str,
        target: str,
        tables: Sequence[str],
        defer_indexes: bool = True,
        hook: str = "",
    ) -> MoveOutcome:
        """What `create` would do, and what stands in its way. Changes nothing anywhere."""
        body = _wish(name, source, target, tables, defer_indexes, hook)
        return self._transport.post(
            "/api/v1/moves/plan", MoveOutcome, body, safe=True, more_s=DATABASES_S
        )

    def list(self) -> Iterator[MoveStatus]:
        """All moves by name, page by page as they are asked for."""
        return self._transport.pages("/api/v1/moves", MoveStatus)

    def status(self, name: str) -> MoveStatus:
        """How one move is, and what can be done next."""
        return self._transport.get(_path(name), MoveStatus)

    def wait(
        self,
        name: str,
        timeout_s: float | None = None,
        *,
        told: Callable[[MoveStatus], None] | None = None,
    ) -> MoveStatus:
        """Until no command is under way and no copy either, or the time is over: its status then.
        `told` is called with each status on the way. A node that goes away meanwhile is waited for.
        """
        began = heard = time.monotonic()
        while True:
            try:
                status = self.status(name)
            except Transient:
                if time.monotonic() - heard > OUTAGE_S_MAX:
                    raise
            else:
                heard = time.monotonic()
                if told is not None:
                    told(status)
                settled = not status.step and status.state is not MoveState.COPYING
                late = timeout_s is not None and heard - began >= timeout_s
                if settled or late:
                    return status
            time.sleep(LOOK_S)

    # --- both sides compared ----------------------------------------------------------------------

    def diff(
        self, name: str, *, repair: bool = False, resume: bool = False, told: Told | None = None
    ) -> DiffDocument:
        """Compare both sides by the feed that runs now, or with `resume` go on with the last diff
        of the move that failed. Returns when it is over; `told` is called with each look."""
        begun = self.start_diff(name, repair=repair, resume=resume)
        return self._diffs.wait(begun.id, told=told)

    def start_diff(self, name: str, *, repair: bool = False, resume: bool = False) -> DiffDocument:
        """The same, without waiting for it."""
        body = {"id": new_name(), "repair": repair, "resume": resume}
        return self._transport.post(
            _path(name, "diff"), DiffDocument, body, safe=True, more_s=DATABASES_S
        )

    # --- its life -------------------------------------------------------------------------------

    def switch(
        self, name: str, *, dry_run: bool = False, timeout_s: float = 30.0, max_lag_s: float = 10.0
    ) -> MoveOutcome:
        """Have the target take the traffic. Writers are blocked for `timeout_s` at most; refused
        when the feed is more than `max_lag_s` behind."""
        how = {"timeout_s": timeout_s, "max_lag_s": max_lag_s}
        return self._asked(name, "switch", dry_run, **how)

    def reverse(
        self, name: str, *, dry_run: bool = False, timeout_s: float = 30.0, max_lag_s: float = 10.0
    ) -> MoveOutcome:
        """Have the source take the traffic back: a switch the other way, and nothing is lost."""
        how = {"timeout_s": timeout_s, "max_lag_s": max_lag_s}
        return self._asked(name, "reverse", dry_run, **how)

    def complete(
        self,
        name: str,
        source_tables: Literal["rename", "drop", "keep"],
        *,
        dry_run: bool = False,
        lost: Lost | None = None,
    ) -> MoveOutcome:
        """End a move that is switched. There is no way back from it. With `lost="source"` the
        source is gone for ever: it is not waited for, and what is left there is in the notes of
        the status. Refused while it can be reached."""
        how = {"source_tables": source_tables, **_given_up(lost)}
        return self._asked(name, "complete", dry_run, **how)

    def cancel(
        self, name: str, *, keep: bool = False, dry_run: bool = False, lost: Lost | None = None
    ) -> MoveOutcome:
        """End a move that is not switched, and drop the target's copies unless `keep` is said.
        With `lost="target"` the target is gone for ever, as with `complete`."""
        return self._asked(name, "cancel", dry_run, keep=keep, **_given_up(lost))

    def remove(self, name: str) -> None:
        """Forget a move that is completed or cancelled."""
        self._transport.delete(_path(name))

    def _asked(self, name: str, command: str, dry_run: bool, **how: Any) -> MoveOutcome:
        body = {"request": secrets.token_hex(8), "dry_run": dry_run, **how}
        path = _path(name, command)
        heard: float | None = None
        while True:
            try:
                outcome = self._transport.post(
                    path, MoveOutcome, body, safe=True, more_s=DATABASES_S
                )
            except Transient:
                if heard is None or time.monotonic() - heard > OUTAGE_S_MAX:
                    raise
                time.sleep(LOOK_S)
                continue
            if outcome.verdict != UNDER_WAY:
                return outcome
            heard = time.monotonic()


def took_s(step: MoveStep) -> float | None:
    """How long a step took; None while that is not known."""
    if not (step.started and step.ended):
        return None
    try:
        began, ended = (datetime.fromisoformat(text) for text in (step.started, step.ended))
    except ValueError:
        return None
    return max(0.0, (ended - began).total_seconds())


def _given_up(lost: Lost | None) -> dict[str, str]:
    """Said only by who means it: a node of an older version knows nothing of it."""
    return {} if lost is None else {"lost": lost}


def _path(name: str, *parts: str) -> str:
    return "/".join(["/api/v1/moves", *(quote(part, safe="") for part in (name, *parts))])


def _wish(
    name: str, source: str, target: str, tables: Sequence[str], defer_indexes: bool, hook: str
) -> dict[str, object]:
    if isinstance(tables, str):
        raise UsageError(
            "one text where several belong", object_=tables, hint='write a list: ["public.*"]'
        )
    return {
        "name": name,
        "source": source,
        "target": target,
        "tables": tuple(tables),
        "defer_indexes": defer_indexes,
        "hook": hook,
    }
