"""Whether a database is gone: what has to be so before anybody gives it up.

A server that says anything at all is there: that a password is wrong, that it has no room, that it
starts up. Gone is one that refuses connections, is silent, or is unknown by its name, and a
database that its server does not know any more. What is not understood counts as an answer: giving
up what is there loses changes, waiting for what is not costs a restart.
"""

import re
from typing import Final

from lockgate.endpoints.postgres.connect import connect
from lockgate.endpoints.postgres.url import PostgresUrl
from lockgate.model.errors import EndpointRefused, EndpointUnavailable

__all__ = ["gone_why"]

LOOK_S: Final = 5
"""For a server that is silent. People wait for the look."""

_NOISE: Final = re.compile(r"\t|Multiple connection attempts failed|$")
_GONE: Final = re.compile(
    r"failed: (?P<refused>Connection refused|No route to host|No such file or directory)$"
    r"|(?P<silent>timeout expired|Connection timed out)$"
    r"|failed to resolve host .*\[Errno -[25]\] (?P<unknown>.*)$"
    r'|failed: FATAL:  (?P<missing>database ".*" does not exist)$'
)
"""The end of the line for each address that was tried: libpq's and psycopg's words, and one
sentence of the server's. A name that cannot be looked up for now (-3) is not an unknown one."""


def gone_why(url: PostgresUrl) -> str:
    """What says that the database is gone; empty when somebody answers."""
    try:
        connect(url, purpose="look whether it is gone", timeout_s=LOOK_S).close()
    except (EndpointUnavailable, EndpointRefused) as error:
        return _told(str(error.cause))
    return ""


def _told(words: str) -> str:
    """Every address has to say so: a name may stand for several."""
    lines = [line for line in words.splitlines() if not _NOISE.match(line)]
    found = [_GONE.search(line) for line in lines]
    if not found or None in found:
        return ""
    return next(said for match in found if match for said in match.groups() if said)
