"""The births of feeds: numbers that rise by one with every feed that is entered into the book.

A name may be used again, a birth never is. So whoever was paused while his feed was removed, and
another one was created under its name, is told apart from those who mean the new one: everywhere
that a feed is named together with its birth, the older one is refused. Moves have births, too.

Databases outlive a metastore, and what is left there of one installation must not be taken for
something of the next, which may use the same names. So the births of an installation do not begin
at 1, but at a number of its own.

The row that holds the last birth is also where those take turns who enter feeds and those who
change the endpoints that feeds go between: whoever has locked it sees what the one before him
has left, and nobody changes it under him.
"""

import hashlib
from typing import Final

import sqlalchemy as sa

from lockgate.store.settings import INSTALLATION
from lockgate.store.tables import settings, upsert

__all__ = ["last_birth", "take_turn", "write_birth"]

_KEY: Final = "births"
_LAST: Final = sa.select(settings.c.body).where(settings.c.key == _KEY)
_INSTALLATION: Final = sa.select(settings.c.body).where(settings.c.key == INSTALLATION)
_FIRST_BYTES: Final = 6
"""So many installations that no two meet; far from the end of a number of 64 bits."""


def take_turn(connection: sa.Connection) -> int:
    """Keep everybody else out until this transaction ends; answers the last birth."""
    row = {"key": _KEY, "body": str(_first(connection))}
    connection.execute(upsert(connection, settings, change=False), row)
    return int(connection.execute(_LAST.with_for_update()).scalar_one())


def write_birth(connection: sa.Connection, birth: int) -> None:
    """There is a feed of this birth. For those whose turn it is."""
    connection.execute(upsert(connection, settings), {"key": _KEY, "body": str(birth)})


def last_birth(connection: sa.Connection) -> int:
    """The last one, by somebody who only looks; before the first, what that comes after."""
    found = connection.execute(_LAST).scalar_one_or_none()
    return _first(connection) if found is None else int(found)


def _first(connection: sa.Connection) -> int:
    """What the first birth comes after: 0 where one process runs a feed, which has no service."""
    installation = connection.execute(_INSTALLATION).scalar_one_or_none()
    if installation is None:
        return 0
    return int.from_bytes(hashlib.sha256(installation.encode()).digest()[:_FIRST_BYTES])
