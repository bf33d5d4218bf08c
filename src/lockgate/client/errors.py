"""Errors of the way to a node. What the node itself says comes as its own errors (`problems.py`).

    ServerUnavailable   nobody answers, or the answer broke off: asking again may help
    ServerUntrusted     TLS: we do not know whom we would talk to
    NotLockgate         somebody answers, and it is no Lockgate

A request that must not be done twice and whose answer was lost is `model.errors.OutcomeUnknown`.
"""

import ssl
from typing import Final

import httpx

from lockgate.model.errors import LockgateError, OutcomeUnknown, Terminal, Transient

__all__ = ["NotLockgate", "ServerUnavailable", "ServerUntrusted", "never_sent", "of_transport"]

_START: Final = "start one with `lockgate server --home DIR`, or say where it is with --url"


class ServerUnavailable(Transient):
    """No node answers at this address."""

    code = "server-unavailable"


class ServerUntrusted(Terminal):
    """The node's certificate proves nothing to us, or it speaks no TLS."""

    code = "server-untrusted"


class NotLockgate(Terminal):
    """The answer is not one that a Lockgate node gives."""

    code = "not-lockgate"


def never_sent(error: httpx.HTTPError) -> bool:
    """True when the request did not reach anybody, so that asking again is asking once."""
    return isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout)


def of_transport(error: httpx.HTTPError, url: str, operation: str, *, safe: bool) -> LockgateError:
    """The error for people. `safe`: doing the request twice would do no harm."""
    if handshake := _tls(error):
        return _untrusted(handshake, url, operation)
    if isinstance(error, httpx.ProxyError):
        return ServerUnavailable(
            "the proxy refused",
            object_=url,
            hint="see HTTP_PROXY and HTTPS_PROXY; NO_PROXY names hosts that need none",
            operation=operation,
            cause=error,
        )
    if isinstance(error, httpx.ProtocolError) and not _broke_off(error):
        return NotLockgate(
            "what answers there does not speak HTTP",
            object_=url,
            hint="see the host and the port, and whether it should be https://",
            operation=operation,
            cause=error,
        )
    if never_sent(error):
        return ServerUnavailable(
            "no Lockgate server answers", object_=url, hint=_START, operation=operation, cause=error
        )
    if not safe:
        return OutcomeUnknown(
            "the answer was lost, and it may have been done or not",
            object_=url,
            hint="look before you ask again: `lockgate history` says what was done",
            operation=operation,
            cause=error,
        )
    timed_out = isinstance(error, httpx.TimeoutException)
    return ServerUnavailable(
        "no answer in time" if timed_out else "the connection broke off",
        object_=url,
        hint="ask again; the server's log says why, if it goes on"
        if timed_out
        else "see whether the server still runs, and whether it speaks https://",
        operation=operation,
        cause=error if str(error) else None,
    )


def _broke_off(error: httpx.HTTPError) -> bool:
    return "disconnected" in str(error).lower()


def _tls(error: BaseException) -> ssl.SSLError | None:
    """The failed handshake, which hides a few causes deep."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, ssl.SSLError):
            return seen
        seen = seen.__cause__ or seen.__context__
    return None


def _untrusted(error: ssl.SSLError, url: str, operation: str) -> ServerUntrusted:
    if isinstance(error, ssl.SSLCertVerificationError):
        what = "the server's certificate is not trusted"
        hint = "name who signed it with LOCKGATE_CA=FILE (PEM), and call the server by a name in it"
        cause = error.verify_message
    elif error.reason in {"WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE"}:
        what = "the server speaks no TLS"
        hint = "try http:// instead of https://"
        cause = ""
    else:
        what, hint, cause = "TLS failed", "see the server's certificate and key", str(error)
    return ServerUntrusted(what, object_=url, hint=hint, operation=operation, cause=cause or None)
