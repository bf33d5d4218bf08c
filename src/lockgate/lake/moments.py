"""The moments at which a table can be read, as people write them."""

import datetime as dt
import operator
import re
from typing import Final

from lockgate.model.errors import UsageError
from lockgate.model.positions import Position

__all__ = ["AsOf", "moment"]

AsOf = int | str | dt.datetime
_LSN: Final = re.compile(r"([0-9A-Fa-f]{1,8})/([0-9A-Fa-f]{1,8})")


def moment(as_of: AsOf) -> Position | dt.datetime:
    """A position of the source's log, or a time with its zone."""
    if isinstance(as_of, str):
        as_of = _parsed(as_of.strip())
    if isinstance(as_of, dt.datetime):
        if as_of.tzinfo is None:
            raise UsageError(
                "a time without a zone means another moment to everybody",
                object_=str(as_of),
                hint="as in datetime.now(timezone.utc), or 2031-05-01T12:00:00+02:00",
            )
        return as_of
    try:
        position = operator.index(as_of)
    except TypeError:
        raise _no_moment(repr(as_of)) from None
    if position < 0:
        raise _no_moment(repr(as_of))
    return position


def _parsed(text: str) -> int | dt.datetime:
    if text.isdecimal():
        return int(text)
    if found := _LSN.fullmatch(text):
        return int(found[1], 16) << 32 | int(found[2], 16)
    try:
        return dt.datetime.fromisoformat(text)
    except ValueError:
        raise _no_moment(repr(text[:60])) from None


def _no_moment(said: str) -> UsageError:
    return UsageError(
        f"{said} is no position and no time",
        object_="as_of",
        hint="a position as in 23802696 or 0/16B3748, or a time as in 2031-05-01T12:00:00Z",
    )
