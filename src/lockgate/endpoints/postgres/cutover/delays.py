"""Who would keep the feed back from being made while writers are held up, for `checks.py`.

A slot waits for every transaction of its server, however long that takes. What has been open for
long is likely to stay open for long: so a flip is refused before anybody is held up. What is young
may end in time; if it does not, the flip is put back.
"""

import time
from collections.abc import Iterator
from typing import Final

from lockgate.endpoints.postgres.check import error, warning
from lockgate.endpoints.postgres.running import Running, running
from lockgate.endpoints.postgres.sink.rows import Cursor
from lockgate.model.findings import Finding

__all__ = ["delaying"]

_LONG_S: Final = 1.0
"""A transaction of this age is worth telling of. A prepared one is not of this moment any more."""
_OLD_S: Final = 5.0
_OLD_SHARE: Final = 1 / 3
"""One that has taken this much of the time that writers may be held up is not relied on to end in
what is left of it."""
_WATCHED_S: Final = 10.0
"""So long a transaction is looked at whose age nobody tells us."""
_POLL_S: Final = 0.1


def delaying(cursor: Cursor, label: str, within_s: float) -> Iterator[Finding]:
    """Transactions of the whole server that the slot of a feed would wait for while writers are
    held up, for `within_s` at most."""
    old_s = max(_OLD_S, within_s * _OLD_SHARE)
    for one, age_s in _aged(cursor, min(old_s, _WATCHED_S)):
        if not one.pid and age_s >= _LONG_S:
            what = f"{one}, would hold up the feed back, and ends only when somebody ends it"
            yield error("prepared", what, label, one.hint)
        elif one.pid and age_s >= old_s:
            what = f"{one}, would hold up the feed back, and writers with it"
            yield error("open-transaction", what, label, one.hint)
        elif one.pid and age_s >= _LONG_S:
            what = f"{one}, holds up the feed back: it is waited for, until the time is over"
            yield warning("open-transaction", what, label, one.hint)


def _aged(cursor: Cursor, watched_s: float) -> list[tuple[Running, float]]:
    """Who is running, for how long at least. Whose age this role is not told is looked at until he
    is gone or `watched_s` old, and a prepared transaction until it is not of this moment."""
    began = time.monotonic()
    first = {(each.pid, each.xid) for each in running(cursor)}
    while True:
        spent = time.monotonic() - began
        found = [
            (each, spent if each.age_s is None else each.age_s)
            for each in running(cursor)
            if each.age_s is not None or (each.pid, each.xid) in first
        ]
        if not any(
            age_s < (watched_s if one.pid else _LONG_S)
            for one, age_s in found
            if (one.age_s is None or not one.pid) and (one.pid, one.xid) in first
        ):
            return found
        time.sleep(_POLL_S)
