"""Positions in a source's log, as people write them."""

import re
from typing import Final

from lockgate.model.errors import UsageError
from lockgate.model.positions import Position

__all__ = ["parse_lsn"]

_LSN: Final = re.compile(r"([0-9A-Fa-f]{1,8})/([0-9A-Fa-f]{1,8})")


def parse_lsn(text: str) -> Position:
    """The position that PostgreSQL writes as `text`."""
    found = _LSN.fullmatch(text)
    if found is None:
        raise UsageError(
            f"{text[:40]!r} is no position", object_="position", hint="as in 0/16B3748"
        )
    return int(found[1], 16) << 32 | int(found[2], 16)
