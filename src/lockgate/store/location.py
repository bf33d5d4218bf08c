"""Where a metastore lies, read from a URL: `sqlite:///path` or `postgresql://user@host/db`.

A URL may hold a password. It is taken out here and kept as a `Secret`; everything that people
see is the label, which names the place and nobody's credentials. What cannot be parsed is not
quoted either, for a password may be the very part that confused the parser.
"""

from pathlib import Path
from typing import Final

import msgspec
import sqlalchemy as sa

from lockgate.model.errors import UsageError
from lockgate.model.secret import Secret

__all__ = ["PostgresLocation", "SqliteLocation", "locate"]

_POSTGRES: Final = frozenset({"postgres", "postgresql", "postgresql+psycopg"})
_SQLITE: Final = frozenset({"sqlite", "sqlite+pysqlite"})
_HINT: Final = "use sqlite:///path/to/file or postgresql://user:password@host:port/database"


class SqliteLocation(msgspec.Struct, frozen=True):
    """A file."""

    path: Path

    @property
    def label(self) -> str:
        return f"sqlite:///{self.path}"


class PostgresLocation(msgspec.Struct, frozen=True):
    """A database on a server. `url` has no password; `query` goes to libpq as it is."""

    url: sa.URL
    password: Secret

    @property
    def label(self) -> str:
        host = self.url.host or self.url.query.get("host") or "localhost"
        port = f":{self.url.port}" if self.url.port else ""
        return f"postgresql://{host}{port}/{self.url.database or ''}"


def locate(url: str | Secret) -> SqliteLocation | PostgresLocation:
    """The place that a URL names; UsageError when it names none."""
    parsed = _parsed(url.reveal() if isinstance(url, Secret) else url)
    if parsed is None:
        raise UsageError("the metastore's URL cannot be read", object_="", hint=_HINT)
    scheme = parsed.drivername
    if scheme in _SQLITE:
        if not parsed.database or parsed.database == ":memory:" or parsed.query:
            raise UsageError(
                "a metastore in SQLite must be a file, with no options", object_="", hint=_HINT
            )
        return SqliteLocation(Path(parsed.database).absolute())
    if scheme not in _POSTGRES:
        raise UsageError(
            "a metastore is in SQLite or PostgreSQL", object_=f"{scheme}://…", hint=_HINT
        )
    asked = parsed.query.get("password", "")
    password = parsed.password or (asked if isinstance(asked, str) else asked[-1])
    bare = sa.URL.create(
        "postgresql+psycopg",
        username=parsed.username,
        host=parsed.host,
        port=parsed.port,
        database=parsed.database,
        query=parsed.difference_update_query(["password"]).query,
    )
    return PostgresLocation(bare, Secret(str(password)))


def _parsed(url: str) -> sa.URL | None:
    """None instead of the parser's error, which would travel along as the cause of ours."""
    try:
        return sa.make_url(url)
    except (sa.exc.ArgumentError, ValueError):
        return None
