"""The one place that opens connections to a PostgreSQL endpoint.

Every connection speaks the same text forms, whatever the server's or the role's defaults are:
what one reads, another writes, and a difference would become wrong data. They are sent with the
start of the session, so they cost no round trip and a `RESET ALL` comes back to them.

A peer that is gone without a word is noticed by the kernel: keepalives while we wait for an
answer, `tcp_user_timeout` while something of ours is not acknowledged.
"""

from collections.abc import Mapping
from typing import Final

import psycopg
from psycopg.conninfo import make_conninfo

from lockgate.endpoints.postgres.faults import connect_fault
from lockgate.endpoints.postgres.url import PostgresUrl
from lockgate.model.secret import Secret

__all__ = ["TEXT_FORMS", "application_name", "connect"]

TEXT_FORMS: Final[Mapping[str, str]] = {
    "TimeZone": "UTC",
    "DateStyle": "ISO,YMD",
    "IntervalStyle": "postgres",
    "extra_float_digits": "3",
    "bytea_output": "hex",
    "lc_monetary": "C",
    "xmloption": "content",
}
"""How values look as text, on every connection. With client_encoding UTF8. Of XML, `content` takes
whatever can be in a column; `document` refuses what another session may have written."""

_SAFE: Final[Mapping[str, str]] = {
    "standard_conforming_strings": "on",
    "row_security": "off",
}
"""A backslash in a literal means itself. And where a policy would hide rows, the statement fails:
rows that nobody sees are rows that nobody copies."""

_NETWORK: Final[Mapping[str, str]] = {
    "connect_timeout": "10",
    "keepalives": "1",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "30000",
}
"""What the URL does not say. A dead peer is noticed within half a minute."""

_NAME_BYTES_MAX: Final = 63
"""PostgreSQL cuts application names (and all other names) at this."""


def connect(
    url: PostgresUrl | str | Secret,
    *,
    purpose: str,
    autocommit: bool = False,
    options: Mapping[str, str] | None = None,
    replication: bool = False,
    timeout_s: int | None = None,
) -> psycopg.Connection:
    """A connection for one purpose, which the server shows as `lockgate <purpose>`.

    `options` are settings of the session (`{"statement_timeout": "5s"}`). `replication` opens a
    logical replication connection, which is always in autocommit. `timeout_s` is how long it may
    take, whatever the URL says. Errors are Lockgate's.
    """
    url = PostgresUrl.parse(url)
    parameters = dict(_NETWORK) | url.parameters()
    asked = parameters.pop("options", "")
    settings = {**TEXT_FORMS, **_SAFE, **(options or {})}
    words = [asked, *(f"-c {name}={_escaped(value)}" for name, value in settings.items())]
    parameters |= {
        "options": " ".join(filter(None, words)),
        "application_name": application_name(purpose),
        "client_encoding": "UTF8",
    }
    if timeout_s is not None:
        parameters["connect_timeout"] = str(timeout_s)
    if replication:
        parameters["replication"] = "database"
    try:
        return psycopg.connect(make_conninfo(**parameters), autocommit=autocommit or replication)
    except psycopg.Error as error:
        failed = connect_fault(
            error,
            object_=url.label,
            operation=f"connect ({purpose})",
            secrets=[parameters.get(name, "") for name in ("password", "sslpassword")],
        )
    # Outside the handler: the driver's error, which nobody masked, is not carried along.
    raise failed


def application_name(purpose: str) -> str:
    """What the server shows of a connection: ASCII, at most 63 bytes, as PostgreSQL keeps it."""
    name = f"lockgate {purpose}".encode("ascii", "replace").decode()
    return "".join(c if c.isprintable() else "?" for c in name)[:_NAME_BYTES_MAX]


def _escaped(value: str) -> str:
    """A value for the `options` of a session, in which backslash keeps a space from ending it."""
    return "".join(f"\\{c}" if c.isspace() or c == "\\" else c for c in value)
