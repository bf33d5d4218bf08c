"""What an error of PostgreSQL means for Lockgate: the one table from SQLSTATE to error type.

    with faults(object_=url.label, operation="read the catalog"):
        connection.execute(…)

Whatever the driver raises inside comes out as a typed error: trying again may help (Transient),
somebody must act (Terminal), the row is at fault (DataRefused).

A connection that is lost in a COMMIT leaves open whether it landed: run that statement, or a
single one in autocommit, in `faults(…, committing=True)`, which raises `OutcomeUnknown`.

A failed *connect* has no SQLSTATE: libpq keeps only the server's words. They are matched in
English; a server with other `lc_messages` gets the answer that is safe when wrong, a retry.
"""

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

import psycopg

from lockgate.model.errors import (
    DataRefused,
    EndpointBusy,
    EndpointRefused,
    EndpointUnavailable,
    LockgateError,
    MissingPrivilege,
    ObjectMissing,
    OutcomeUnknown,
    StorageFull,
    Terminal,
)
from lockgate.model.secret import MASK
from lockgate.model.tables import TableName

__all__ = ["connect_fault", "fault", "faults"]


class _Rule(NamedTuple):
    error: type[LockgateError]
    what: str
    hint: str


_GONE: Final = _Rule(
    EndpointUnavailable,
    "the connection to the server was lost",
    "it is tried again; see that the server runs and is reached under this address",
)
_UNREACHABLE: Final = _Rule(
    EndpointUnavailable,
    "the server does not answer",
    "it is tried again; see that the server runs, and that host and port in the URL are right",
)
_STARTING: Final = _Rule(
    EndpointUnavailable, "the server is starting up or shutting down", "it is tried again"
)
_FULL: Final = _Rule(
    EndpointUnavailable,
    "the server has no room for another connection",
    "it is tried again; raise max_connections (and max_wal_senders), or close other sessions",
)
_DENIED: Final = _Rule(
    EndpointRefused,
    "the server does not accept these credentials",
    "see that user and password are right, and that pg_hba.conf lets this host in",
)
_NO_DATABASE: Final = _Rule(
    EndpointRefused, "there is no such database", "see that the URL names the database"
)
_TLS: Final = _Rule(
    EndpointRefused,
    "no TLS connection can be made that the URL would accept",
    "see sslmode and sslrootcert in the URL; verify-full needs the certificate of the authority "
    "that signed the server's, and the host's name in it",
)
_POOLER: Final = _Rule(
    EndpointRefused,
    "a pooler stands in front of the server and does not pass on settings of a session",
    "name the server itself in the URL, not its pooler",
)
_OPTION: Final = _Rule(
    EndpointRefused,
    "an option in the URL is not accepted",
    "see the part after the question mark, and the versions of server and libpq",
)
_PRIVILEGE: Final = _Rule(
    MissingPrivilege, "a privilege is missing", "grant it to the role that the URL names"
)
_READ_ONLY: Final = _Rule(
    EndpointRefused,
    "the server takes no writes",
    "a standby cannot be used here; name the primary in the URL",
)
_MISSING: Final = _Rule(
    ObjectMissing,
    "something that should be there is not",
    "see that nobody dropped or renamed it; `lockgate endpoint test` says what is missing",
)
_BUSY: Final = _Rule(
    EndpointBusy,
    "the server gave up on a statement for the sake of another",
    "it is tried again; see pg_locks for who holds the table if it goes on",
)
_TOO_LONG: Final = _Rule(
    EndpointBusy,
    "a statement was cancelled or took too long",
    "it is tried again; see statement_timeout of the role if it goes on",
)
_DISK: Final = _Rule(
    StorageFull, "the server's disk is full", "free some space on the server; nothing is lost"
)
_MEMORY: Final = _Rule(
    EndpointUnavailable, "the server is short of memory or another resource", "it is tried again"
)
_DAMAGED: Final = _Rule(
    Terminal, "the server says that its data is damaged", "see the server's log; restore it"
)
_IO: Final = _Rule(Terminal, "the server's disk failed", "see the server's log")
_CONSTRAINT: Final = _Rule(
    DataRefused,
    "a row breaks a constraint of the target",
    "change the row at the source or the constraint at the target, then resume",
)
_VALUE: Final = _Rule(
    DataRefused,
    "a value does not fit the target",
    "see that the target's column has the source's type, then resume",
)
_GOING: Final = _Rule(
    EndpointBusy,
    "somebody dropped or renamed what was just looked at",
    "it is tried again",
)
_OTHER: Final = _Rule(Terminal, "the server refused", "see the server's message")

_GOING_WORDS: Final = re.compile(r"could not open relation with OID|cache lookup failed for")
"""Of an internal error (XX000), whose words no server translates."""

_BY_STATE: Final = {
    "08P01": _OTHER,  # a protocol violation is a bug, and repeats
    "25006": _READ_ONLY,
    "25P03": _GONE,  # idle in transaction for too long
    "25P04": _GONE,  # transaction_timeout
    "3D000": _NO_DATABASE,
    "3F000": _MISSING,
    "42501": _PRIVILEGE,
    "42704": _MISSING,
    "42703": _MISSING,
    "42P01": _MISSING,
    "53100": _DISK,
    "53300": _FULL,
    "55006": _BUSY,  # a slot that somebody still reads
    "55P03": _BUSY,
    "57014": _TOO_LONG,
    "57P01": _GONE,
    "57P02": _GONE,
    "57P03": _STARTING,
    "57P05": _GONE,
    "58030": _IO,
    "XX001": _DAMAGED,
    "XX002": _DAMAGED,
}
_BY_CLASS: Final = {
    "08": _GONE,
    "22": _VALUE,
    "23": _CONSTRAINT,
    "28": _DENIED,
    "40": _BUSY,
    "53": _MEMORY,
    "57": _GONE,
}

_BY_WORDS: Final = tuple(
    (re.compile(words), rule)
    for words, rule in (
        (r"no pg_hba\.conf entry .*no encryption", _TLS),
        (r"certificate|does not support SSL|SSL connection is required|private key file", _TLS),
        (r"(tls|ssl)v\d+ alert|unsupported protocol|no shared cipher|wrong version number", _TLS),
        (r"database .* (does not exist|is not currently accepting connections)", _NO_DATABASE),
        (r"authentication failed|no password supplied|role .* does not exist", _DENIED),
        (r"pg_hba\.conf|not permitted to log in|authentication method|channel binding", _DENIED),
        (r"permission denied|must be superuser or replication role", _PRIVILEGE),
        (r"starting up|shutting down|recovery mode|not yet accepting", _STARTING),
        (r"too many (clients|connections)|connection slots|exceeds max_wal_senders", _FULL),
        (r"unsupported startup parameter", _POOLER),
        (r"unrecognized configuration parameter|invalid value for parameter", _OPTION),
        (r"connection is bad:|invalid .* value|failed to resolve host .*encod", _OPTION),
    )
)
"""For a connect that failed, in this order."""

_PRIVILEGE_ON: Final = re.compile(
    r"(?:permission denied for|must be owner of) (?P<object>.+)", re.IGNORECASE
)


@contextmanager
def faults(*, object_: str, operation: str, committing: bool = False) -> Iterator[None]:
    """Turn the driver's errors into Lockgate's. `object_` is what was worked on, by name."""
    try:
        yield
    except psycopg.Error as error:
        found = fault(error, object_=object_, operation=operation, committing=committing)
        raise found from error


def fault(
    error: psycopg.Error, *, object_: str, operation: str = "", committing: bool = False
) -> LockgateError:
    """The error to raise in place of the driver's, for a session that was established."""
    why = str(error).strip()
    state = error.sqlstate or ""
    if committing and not _aborted(error, state):
        return OutcomeUnknown(
            "whether the transaction was committed is not known",
            object_=object_,
            hint="what the target holds is read back before anything else",
            operation=operation,
            cause=why,
        )
    if state:
        rule = _BY_STATE.get(state) or _BY_CLASS.get(state[:2], _OTHER)
        if state == "XX000" and _GOING_WORDS.match(why):
            rule = _GOING
    else:
        # Without a state the word is the driver's: a lost connection, or a wrong call of ours.
        rule = _GONE if isinstance(error, psycopg.OperationalError) else _OTHER
    return _made(rule, error, object_, operation, why)


def connect_fault(
    error: psycopg.Error, *, object_: str, operation: str = "", secrets: Iterable[str] = ()
) -> LockgateError:
    """The error to raise when no session could be established; no secret is in its text."""
    why = str(error).strip()
    for secret in sorted(filter(None, secrets), key=len, reverse=True):
        why = why.replace(secret, MASK)
    if isinstance(error, psycopg.OperationalError):
        rule = next((rule for words, rule in _BY_WORDS if words.search(why)), _UNREACHABLE)
    else:
        rule = _OPTION
    return _made(rule, error, object_, operation, why)


def _made(
    rule: _Rule, error: psycopg.Error, object_: str, operation: str, why: str
) -> LockgateError:
    says = error.diag
    if rule.error is DataRefused:
        table = TableName(says.schema_name or "", says.table_name).id if says.table_name else ""
        return DataRefused(
            rule.what,
            object_=object_,
            hint=rule.hint,
            operation=operation,
            cause=why,
            constraint=says.constraint_name or "",
            table=table,
            column=says.column_name or "",
            # A value that a COPY cannot read has no detail, but a place: line and column.
            detail=says.message_detail or (says.context or "").partition("\n")[0],
        )
    if rule.error is MissingPrivilege:
        on = _PRIVILEGE_ON.search(why.splitlines()[0])
        if on:
            object_ = f"{on['object']}, {object_}"
    return rule.error(rule.what, object_=object_, hint=rule.hint, operation=operation, cause=why)


def _aborted(error: psycopg.Error, state: str) -> bool:
    """True when a COMMIT that failed like this was rolled back for certain.

    A server that answers a COMMIT with an ERROR has rolled back: once the commit is on its way
    to disk, it has only FATAL and PANIC left. The classes of lost connections and of the
    system are not taken at their word, for a pooler in between may speak in them.
    """
    return (
        error.diag.severity_nonlocalized == "ERROR"
        and state != "40003"
        and state[:2] not in {"08", "57", "58", "XX"}
    )
