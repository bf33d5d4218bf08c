"""Which log positions are of: what tells one source from another, however it is addressed.

The server's own number is made with its files and goes with them, to a standby that takes over too;
a log may be decoded for one database of a server.
"""

import contextlib
from typing import Final

import psycopg

from lockgate.endpoints.postgres.faults import faults
from lockgate.model.errors import MissingPrivilege

__all__ = ["identity"]

_IDENTITY: Final = """
SELECT system.system_identifier || '/' || own.oid
  FROM pg_control_system() system, pg_database own
 WHERE own.datname = current_database()
"""


def identity(connection: psycopg.Connection) -> str:
    """Of the log of the database that this connection is to. Empty where the role may not ask:
    everybody may, unless somebody has revoked it. In autocommit."""
    row = None
    with (
        contextlib.suppress(MissingPrivilege),
        faults(object_=connection.info.dbname, operation="identify a source"),
    ):
        row = connection.execute(_IDENTITY).fetchone()
    return f"postgres:{row[0]}" if row else ""
