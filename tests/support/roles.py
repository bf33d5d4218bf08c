"""Roles of a test's own on a server that it shares."""

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import quote

import psycopg
from psycopg import sql

from lockgate.endpoints.postgres.url import PostgresUrl

_NUMBERS = itertools.count(1)


@contextmanager
def role(database: str, attributes: str = "") -> Iterator[tuple[str, str]]:
    """A role that may log in, and the URL by which it comes to the database (a superuser's URL).

    Its name is as odd as names may be. It is gone afterwards, with all that it owns there.
    """
    name = f"r{next(_NUMBERS)} \"q'; --ü"
    password = "p@ss:/ü"
    with psycopg.connect(database, autocommit=True) as admin:
        admin.execute(
            sql.SQL("CREATE ROLE {} LOGIN PASSWORD {} " + attributes).format(  # type: ignore[arg-type]
                sql.Identifier(name), sql.Literal(password)
            )
        )
    whole = PostgresUrl.parse(database)
    login = f"{quote(name, safe='')}:{quote(password, safe='')}"
    yield name, f"postgres://{login}@{whole.host}:{whole.port}/{whole.database}"
    with psycopg.connect(database, autocommit=True) as admin:
        admin.execute(sql.SQL("DROP OWNED BY {} CASCADE").format(sql.Identifier(name)))
        admin.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(name)))
