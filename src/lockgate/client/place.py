"""Where the node is, and what opens it: arguments first, then the environment, then the home.

    url     argument · LOCKGATE_URL · http://127.0.0.1:8642
    token   argument · LOCKGATE_TOKEN · the file `token` in the home
    home    argument · LOCKGATE_HOME · ./lockgate-home
    ca      argument · LOCKGATE_CA · whom the system trusts

A token opens everything its role allows. So it is not sent in the clear to another machine, even
when somebody asks for it: no Lockgate node listens to other machines without TLS either.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from lockgate.model.errors import Terminal, UsageError
from lockgate.model.secret import Secret
from lockgate.model.server_config import DEFAULT_LISTEN, is_loopback
from lockgate.model.value import Value

__all__ = ["DEFAULT_HOME", "DEFAULT_URL", "TOKEN_FILE", "Place", "find"]

DEFAULT_URL: Final = f"http://{DEFAULT_LISTEN}"
DEFAULT_HOME: Final = "lockgate-home"
TOKEN_FILE: Final = "token"


class Place(Value, frozen=True):
    """A node to talk to."""

    url: str
    """Without a slash at its end."""
    token: Secret
    """Empty: none was found. Some questions need none."""
    ca: str
    """A file in PEM; empty: whom the system trusts."""
    local: bool
    """It is on this machine: no proxy is asked."""


def find(
    url: str | None = None,
    token: str | Secret | None = None,
    home: str | os.PathLike[str] | None = None,
    ca: str | os.PathLike[str] | None = None,
    environ: Mapping[str, str] | None = None,
) -> Place:
    """The place that the arguments and the environment name."""
    env = os.environ if environ is None else environ
    where = (url or env.get("LOCKGATE_URL") or DEFAULT_URL).rstrip("/")
    host = _host(where)
    secret = _token(token, env, Path(home or env.get("LOCKGATE_HOME") or DEFAULT_HOME))
    local = is_loopback(host)
    if secret and not local and not where.startswith("https://"):
        raise UsageError(
            "the token would travel in the clear",
            object_=where,
            hint="speak https:// to another machine, or reach it through a tunnel to 127.0.0.1",
            operation="connect",
        )
    return Place(where, secret, str(ca or env.get("LOCKGATE_CA") or ""), local)


def _host(url: str) -> str:
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        host, parts = None, urlsplit("")
    if parts.scheme not in {"http", "https"} or not host or parts.username or parts.query:
        raise UsageError(
            "this is no address of a Lockgate server",
            object_="a URL with credentials" if parts.username else url,
            hint=f"write http://HOST:PORT or https://HOST:PORT, such as {DEFAULT_URL}",
            operation="connect",
        )
    return host


def _token(given: str | Secret | None, env: Mapping[str, str], home: Path) -> Secret:
    if given:
        return _sendable(given if isinstance(given, Secret) else Secret(given), "the argument")
    if said := env.get("LOCKGATE_TOKEN"):
        return _sendable(Secret(said.strip()), "LOCKGATE_TOKEN")
    file = home / TOKEN_FILE
    try:
        return _sendable(Secret(file.read_text("utf-8").strip()), str(file))
    except FileNotFoundError:
        return Secret("")
    except (OSError, UnicodeDecodeError) as error:
        raise Terminal(
            "the token cannot be read",
            object_=str(file),
            hint="run this as the user that runs the server, or set LOCKGATE_TOKEN",
            operation="connect",
            cause=error.strerror if isinstance(error, OSError) else "it is no text",
        ) from None


def _sendable(token: Secret, where: str) -> Secret:
    text = token.reveal()
    if not (text.isascii() and text.isprintable() and " " not in text):
        raise UsageError(
            "this is no token", object_=where, hint="a token is one word of letters and digits"
        )
    return token
