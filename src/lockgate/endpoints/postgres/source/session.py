"""Sessions that read changes. No time limit of the role's or the database's may end them."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Final

import psycopg
from psycopg import pq

from lockgate.endpoints.postgres.connect import connect
from lockgate.endpoints.postgres.url import PostgresUrl

__all__ = ["open_control", "open_reader", "setting"]

_NO_LIMITS: Final[Mapping[str, str]] = {
    "idle_in_transaction_session_timeout": "0",
    "idle_session_timeout": "0",
    "lock_timeout": "0",
    "statement_timeout": "0",
    "client_min_messages": "warning",  # warnings tell of a publication that is gone
}
_LATER_LIMITS: Final = b"SELECT set_config(name, '0', false) FROM pg_settings WHERE name = "
"""For limits that not all versions have: naming an unknown one would refuse the connection."""


def open_reader(
    url: PostgresUrl, purpose: str, *, replication: bool, settings: Mapping[str, str]
) -> psycopg.Connection:
    """A session to read changes from, in autocommit."""
    connection = connect(
        url,
        purpose=purpose,
        autocommit=True,
        replication=replication,
        options={**_NO_LIMITS, **settings},
    )
    connection.pgconn.exec_(_LATER_LIMITS + b"'transaction_timeout'")
    return connection


def open_control(url: PostgresUrl, purpose: str) -> psycopg.Connection:
    """A session for short statements beside a reader, in autocommit."""
    return connect(
        url,
        purpose=purpose,
        autocommit=True,
        options={"statement_timeout": "0", "idle_session_timeout": "0", "lock_timeout": "10s"},
    )


def setting(connection: psycopg.Connection, name: str) -> int:
    """A setting of the server that is a number, in its own unit; 0 when it cannot be had.

    Asked in the one protocol that replication connections have.
    """
    answer = connection.pgconn.exec_(
        b"SELECT setting FROM pg_settings WHERE name = '" + name.encode() + b"'"
    )
    if answer.status == pq.ExecStatus.TUPLES_OK and answer.ntuples:
        with suppress(ValueError):
            return int(answer.get_value(0, 0) or b"0")
    return 0
