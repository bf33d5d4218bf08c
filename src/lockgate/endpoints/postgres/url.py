"""Where a PostgreSQL endpoint is: `postgres://user:password@host:port/database?sslmode=…`.

The address is kept as it was written, references to secrets (`${env:…}`, `${file:…}`)
unresolved; they are looked up when somebody connects. Three texts come out of it:

    label          host:port/database, for people and logs
    text           the address with a literal password as `***`: safe to show, stable to compare
    to_wire()      everything, as bytes: for the metastore and for Spark tasks

`to_wire` is the one way by which a *literal* password leaves this process: a task on another
machine must connect, and a URL that holds a password holds it there too. With a reference only
the reference travels, and the task's machine looks it up. Pickle is refused (by `Secret`), so
nothing travels by accident.

What cannot be read is not quoted: a password may be the very part that confused the reader.
"""

import re
from collections.abc import Mapping
from typing import Final, Self
from urllib.parse import quote

import msgspec

from lockgate.endpoints.secrets import REFERENCE, only_references, references, resolve
from lockgate.model.errors import UsageError
from lockgate.model.secret import MASK, Secret

__all__ = ["OPTIONS", "PostgresUrl"]

_HINT: Final = (
    "write postgres://user:password@host:port/database?sslmode=verify-full, one server, "
    "with characters like @ : / ? % in user and password percent-encoded"
)

_SECRET_OPTIONS: Final = frozenset({"sslpassword"})

# fmt: off
OPTIONS: Final = frozenset({
    "channel_binding", "connect_timeout", "gssencmode", "hostaddr", "keepalives",
    "keepalives_count", "keepalives_idle", "keepalives_interval", "krbsrvname", "options",
    "passfile", "require_auth", "requirepeer", "ssl_max_protocol_version",
    "ssl_min_protocol_version", "sslcert", "sslcertmode", "sslcrl", "sslcrldir", "sslkey",
    "sslmode", "sslnegotiation", "sslpassword", "sslrootcert", "sslsni", "tcp_user_timeout",
})
"""What may follow the question mark. Names and meanings are libpq's."""
# fmt: on

_PARTS: Final = frozenset({"dbname", "host", "password", "port", "user"})
"""May follow the question mark too, instead of standing in front of it, as libpq has it."""

_OURS: Final = frozenset(
    {"application_name", "client_encoding", "fallback_application_name", "replication"}
)

_SHAPE: Final = re.compile(
    r"(?P<scheme>[a-z]+)://"
    r"(?:(?P<user>[^:@/?]*)(?::(?P<password>[^@/?]*))?@)?"
    r"(?P<host>\[[^\]/?@]+\]|[^:/?@\[\],]*)"
    r"(?::(?P<port>[^:/?@,]*))?"
    r"(?:/(?P<database>[^/?]*))?"
    r"(?:\?(?P<query>.*))?",
    re.DOTALL,
)
_SSLMODES: Final = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")


class PostgresUrl(msgspec.Struct, frozen=True):
    """An address, as written: percent-encoded, references unresolved. Made by `parse`."""

    host: str
    database: str
    user: str = ""
    password: Secret = Secret("")
    port: str = "5432"
    options: tuple[tuple[str, str], ...] = ()
    secret_options: tuple[tuple[str, Secret], ...] = ()

    @classmethod
    def parse(cls, text: "str | Secret | PostgresUrl") -> "PostgresUrl":
        """The address that a text stands for; UsageError, quoting nothing, when it is none."""
        if isinstance(text, PostgresUrl):
            return text
        return _parsed(text.reveal() if isinstance(text, Secret) else text)

    @property
    def label(self) -> str:
        """`host:port/database`, for people."""
        host = _shown(self.host)
        if host.startswith("/") and not references(self.host):
            host = f"[{host}]"  # a directory of Unix sockets
        return f"{host}:{_shown(self.port)}/{_shown(self.database)}"

    @property
    def text(self) -> str:
        """The address as written, with `***` in the place of a literal password."""
        password = self.password.reveal()
        return self._text(
            password if only_references(password) else MASK if password else "",
            [(name, _masked(value)) for name, value in self.secret_options],
        )

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"PostgresUrl({self.text!r})"

    def to_wire(self) -> bytes:
        """The whole address, a literal password included: hand it to whoever has to connect."""
        secret = [(name, value.reveal()) for name, value in self.secret_options]
        return self._text(self.password.reveal(), secret).encode()

    @classmethod
    def from_wire(cls, data: bytes) -> Self:
        """The address that `to_wire` wrote."""
        return _parsed(data.decode())  # type: ignore[return-value]  # final in all but name

    def parameters(self, environ: Mapping[str, str] | None = None) -> dict[str, str]:
        """What libpq is to be told, references looked up. The password is in it: show nobody."""
        found = {"host": resolve(self.host, environ), "port": resolve(self.port, environ)}
        found["dbname"] = resolve(self.database, environ)
        if self.user:
            found["user"] = resolve(self.user, environ)
        if self.password:
            found["password"] = resolve(self.password.reveal(), environ)
        found |= {name: resolve(value, environ) for name, value in self.options}
        found |= {name: resolve(value.reveal(), environ) for name, value in self.secret_options}
        if not found["port"].isdecimal() or not 0 < int(found["port"]) < 65536:
            raise _unreadable("the port is no number from 1 to 65535", self.label)
        if "\0" in "".join(found.values()):
            raise _unreadable("a part of the address holds a zero byte", self.label)
        return found

    def _text(self, password: str, secret_options: list[tuple[str, str]]) -> str:
        login = self.user + (f":{password}" if password else "")
        query = "&".join(f"{name}={value}" for name, value in [*self.options, *secret_options])
        host = f"[{self.host}]" if ":" in REFERENCE.sub("", self.host) else self.host
        return (
            f"postgres://{login}{'@' if login else ''}{host}:{self.port}/{self.database}"
            f"{'?' if query else ''}{query}"
        )


def _shown(part: str) -> str:
    return part if references(part) else resolve(part)


def _masked(value: Secret) -> str:
    return value.reveal() if only_references(value.reveal()) else MASK


def _unreadable(what: str, label: str = "") -> UsageError:
    return UsageError(what, object_=label, hint=_HINT)


def _parsed(text: str) -> PostgresUrl:
    # References may hold any of the characters that separate parts, so they step aside first.
    found: list[str] = []

    def set_aside(match: re.Match[str]) -> str:
        found.append(match.group())
        return f"\0{len(found) - 1}\0"

    def put_back(part: str | None) -> str:
        return re.sub("\0(\\d+)\0", lambda match: found[int(match.group(1))], part or "")

    if "\0" in text:
        raise _unreadable("the URL of a PostgreSQL endpoint cannot be read")
    outside = REFERENCE.sub(set_aside, text.strip())
    if "${" in outside:
        raise _unreadable("a reference in a URL is written ${env:NAME} or ${file:/path}")
    match = _SHAPE.fullmatch(outside)
    if match is None:
        raise _unreadable("the URL of a PostgreSQL endpoint cannot be read")
    if match["scheme"] not in {"postgres", "postgresql"}:
        raise _unreadable(f"{match['scheme']}:// is no PostgreSQL endpoint")
    given = {
        "user": _written(put_back(match["user"])),
        "password": _written(put_back(match["password"])),
        "host": _written(put_back(match["host"]).removeprefix("[").removesuffix("]"), "-._~:"),
        "port": _written(put_back(match["port"])),
        "dbname": _written(put_back(match["database"])),
    }
    options: dict[str, str] = {}
    for pair in filter(None, (match["query"] or "").split("&")):
        name, equals, value = pair.partition("=")
        name = put_back(name)
        value = _written(put_back(value), "-._~" if name in _PARTS else "-._~:/")
        if not equals or name in options or (name in _PARTS and given[name]):
            raise _unreadable(f"the option {name!r} has no value, or more than one")
        if name in _OURS:
            raise _unreadable(f"the option {name!r} is set by Lockgate itself")
        if name not in OPTIONS | _PARTS:
            raise _unreadable(f"a PostgreSQL endpoint has no option {name!r}")
        (given if name in _PARTS else options)[name] = value
    for name, word in (("host", "host"), ("dbname", "database")):
        if not given[name]:
            raise _unreadable(f"the URL of a PostgreSQL endpoint names no {word}")
    mode = options.get("sslmode", "prefer")
    if mode not in _SSLMODES and not references(mode):
        raise _unreadable(f"sslmode is one of {', '.join(_SSLMODES)}")
    url = PostgresUrl(
        host=given["host"],
        database=given["dbname"],
        user=given["user"],
        password=Secret(given["password"]),
        port=given["port"] or "5432",
        options=tuple(sorted((n, v) for n, v in options.items() if n not in _SECRET_OPTIONS)),
        secret_options=tuple(
            sorted((n, Secret(v)) for n, v in options.items() if n in _SECRET_OPTIONS)
        ),
    )
    if not references(url.port):
        plain = resolve(url.port)
        if not plain.isdecimal() or not 0 < int(plain) < 65536:
            raise _unreadable("the port is no number from 1 to 65535")
    return url


def _written(part: str, safe: str = "-._~") -> str:
    """One spelling per part, whoever wrote it: what needs no encoding has none."""
    pieces: list[str] = []
    end = 0
    for match in REFERENCE.finditer(part):
        pieces += [quote(resolve(part[end : match.start()]), safe=safe), match.group()]
        end = match.end()
    return "".join([*pieces, quote(resolve(part[end:]), safe=safe)])
