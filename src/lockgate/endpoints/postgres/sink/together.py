"""Many small items in one transaction behind the fence: one commit for all of them.

A feed of hundreds of tables that change a little spends its time in round trips and commits, not in
rows. So what a task has of small items goes in one transaction:

    BEGIN, pass the turnstiles, lock the rows, ask for stamps ─► every token and floor is compared
    deletes, updates, inserts of all tables, positions        ─► every row has moved
    COMMIT

Each span keeps its own row, token and position; they are written together or not at all. Turnstiles
and rows are taken in the order of the spans' names, by everybody, so nobody waits in a circle.

If anything is in the way of the transaction (a refusal, a value that is not taken, a lock that
somebody holds), it is rolled back and each item is applied alone, as `apply` does it: that finds
out whose trouble it is and leaves the others in peace. Nothing is lost by trying both, not even
when the COMMIT was cut off: what has landed has moved its row, and is refused as MOVED.
"""

import time
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import msgspec
import psycopg
from psycopg import sql

from lockgate.endpoints.postgres.sink import few
from lockgate.endpoints.postgres.sink.apply import Read, failure, land, prepare, quieten
from lockgate.endpoints.postgres.sink.gate import (
    Entrant,
    ask_to_enter,
    check_entered,
    leave_all,
)
from lockgate.endpoints.postgres.sink.known import KnownTargets, ask_stamps
from lockgate.endpoints.postgres.sink.net import Net
from lockgate.endpoints.postgres.sink.reuse import session_for
from lockgate.endpoints.postgres.sink.rows import Refused
from lockgate.endpoints.postgres.sink.session import Limits
from lockgate.endpoints.postgres.sink.snapshots import ChunkOf
from lockgate.endpoints.postgres.url import PostgresUrl
from lockgate.model.apply import ApplyItem, Receipt
from lockgate.model.errors import LockgateError, ObjectMissing
from lockgate.model.floors import Refusal
from lockgate.model.secret import Secret
from lockgate.store.changelog.reading import read_segments

__all__ = ["Ask", "apply_all"]

_ITEMS_MAX: Final = 100
"""In one transaction: all of it is done again, one by one, when one of them fails."""
_LOCK_MS: Final = 1_000
"""So long is waited for a lock. Whoever waits alone is more patient, and in nobody's way."""

_known: Final = KnownTargets()


class Ask(NamedTuple):
    """An item, and who knows which chunk a key was copied with, if that is needed."""

    item: ApplyItem
    chunk_of: ChunkOf | None = None


class _Ready(NamedTuple):
    number: int
    item: ApplyItem
    net: Net


def apply_all(
    asked: Sequence[Ask],
    url: PostgresUrl | str | Secret,
    *,
    read: Read = read_segments,
    limits: Limits | None = None,
) -> list[Receipt]:
    """Apply items of one feed, each its own span or part, and say what came of each."""
    url = PostgresUrl.parse(url)
    receipts: dict[int, Receipt] = {}
    small: list[_Ready] = []
    for number, (item, chunk_of) in enumerate(asked):
        began = time.monotonic()
        found = prepare(item, read, chunk_of)
        if isinstance(found, Receipt):
            receipts[number] = _timed(found, 0, began)
        elif item.parts == 1 and few.fits(found):
            small.append(_Ready(number, item, found))
        else:
            # At once: what is large shall not wait in memory for the others.
            receipts[number] = _timed(land(item, found, url, limits), len(found.log), began)
    for start in range(0, len(small), _ITEMS_MAX):
        receipts |= _land_small(small[start : start + _ITEMS_MAX], url, limits)
    return [receipts[number] for number in range(len(asked))]


def _land_small(
    ready: Sequence[_Ready], url: PostgresUrl, limits: Limits | None
) -> dict[int, Receipt]:
    receipts: dict[int, Receipt] = {}
    if len(ready) > 1 and _apart(ready):
        try:
            receipts = _land_together(ready, url, limits)
        except LockgateError as error:
            # There is no session to be had: it would be the same for each of them.
            return {one.number: failure(one.item, error) for one in ready}
        except (Refused, psycopg.Error):
            receipts = {}
    for one in ready:
        if one.number not in receipts:
            began = time.monotonic()
            alone = land(one.item, one.net, url, limits)
            receipts[one.number] = _timed(alone, len(one.net.log), began)
    return receipts


def _apart(ready: Sequence[_Ready]) -> bool:
    """True when each has a row of its own at the fence, and all are of one feed."""
    rows = {(one.item.feed, one.item.span.id) for one in ready}
    return len(rows) == len(ready) and len({feed for feed, _ in rows}) == 1


def _timed(receipt: Receipt, changes: int, began: float) -> Receipt:
    seconds = round(time.monotonic() - began, 6)
    return msgspec.structs.replace(receipt, changes=changes, seconds=seconds)


# --- the transaction ------------------------------------------------------------------------------


class _Sent(NamedTuple):
    one: _Ready
    entrant: Entrant
    statements: list[few.Statement]


def _land_together(
    ready: Sequence[_Ready], url: PostgresUrl, limits: Limits | None
) -> dict[int, Receipt]:
    """Apply them in one transaction, but for those that have to go another way.

    Raises LockgateError when there is no session. Whatever else is raised, nothing has happened,
    or all of it in a COMMIT whose answer did not come.
    """
    began = time.monotonic()
    with session_for(url, ready[0].item.feed, "*", limits) as connection:
        try:
            stamps = _enter(connection, ready)
            sending = [] if stamps is None else list(_sending(connection, url, ready, stamps))
            missing = _send(connection, sending) if sending else []
        except Refused:
            connection.rollback()  # or the session would be ended
            raise
        if sending:
            connection.commit()
        else:
            connection.rollback()
    each_s = round((time.monotonic() - began) / len(ready), 6)
    return {
        sent.one.number: Receipt(
            sent.entrant.span,
            rows=sent.one.net.rows - missed,
            changes=len(sent.one.net.log),
            missing=missed,
            seconds=each_s,
        )
        for sent, missed in zip(sending, missing, strict=True)
    }


def _enter(connection: psycopg.Connection, ready: Sequence[_Ready]) -> dict[int, str] | None:
    """Pass the fence: the stamps of the tables by their place; None if triggers would act."""
    mighty = connection.info.parameter_status("is_superuser") == "on"
    with connection.pipeline():
        connection.execute(sql.SQL("SET LOCAL lock_timeout = {}").format(_LOCK_MS))
        if mighty:
            quieten(connection)
        locked = ask_to_enter(connection, ready[0].item.feed, [one.item.span.id for one in ready])
        stamps = ask_stamps(connection, [one.item.target for one in ready])
    check_entered(locked.fetchall(), [_entrant(one.item) for one in ready])
    if not mighty and not quieten(connection):
        return None
    return {number - 1: stamp for number, stamp in stamps.fetchall()}


def _entrant(item: ApplyItem) -> Entrant:
    return Entrant(item.span.id, item.token, item.floors, item.to)


def _sending(
    connection: psycopg.Connection,
    url: PostgresUrl,
    ready: Sequence[_Ready],
    stamps: dict[int, str],
) -> Iterator[_Sent]:
    """What each item sends; those whose tables do not allow it are left out."""
    for number, one in enumerate(ready):
        item = one.item
        try:
            target = _known.look_up(connection, url, item.target, item.shape, stamps.get(number))
        except ObjectMissing:
            continue  # alone, it says so
        if few.allowed(target):
            yield _Sent(one, _entrant(item), list(few.statements(target, one.net)))


def _send(connection: psycopg.Connection, sending: Sequence[_Sent]) -> list[int]:
    """Change the rows and move the positions: how many rows each has missed."""
    feed = sending[0].one.item.feed
    with connection.pipeline():
        cursors = [[few.send(connection, one) for one in sent.statements] for sent in sending]
        connection.execute("SET CONSTRAINTS ALL IMMEDIATE")
        left = leave_all(connection, feed, [sent.entrant for sent in sending])
    if left.rowcount != len(sending):  # they were not entered
        raise Refused(Refusal.MOVED)
    return [
        sum(
            1 - cursor.rowcount
            for one, cursor in zip(sent.statements, some, strict=True)
            if one.finds
        )
        for sent, some in zip(sending, cursors, strict=True)
    ]
