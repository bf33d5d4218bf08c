"""Which log positions are of: what tells one source from another, however it is addressed.

The server's own number is made with its files and goes with them, to a standby that takes over too;
a log may be decoded for one database of a server.
"""

from typing import Final

import psycopg

from lockgate.endpoints.postgres.faults import faults

__all__ = ["identity"]

_IDENTITY: Final = """
SELECT system.system_identifier || '/' || own.oid
  FROM pg_control_system() system, pg_database own
 WHERE own.datname = current_database()
"""


def identity(connection: psycopg.Connection) -> str:
    """Of the log of the database that this connection is to."""
    with faults(object_=connection.info.dbname, operation="identify a source"):
        row = connection.execute(_IDENTITY).fetchone()
    assert row is not None
    return f"postgres:{row[0]}"
