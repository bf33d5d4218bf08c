"""How a metastore of any age becomes one of today.

A migration is a function that takes version n-1 to n. It is written once and never changed:
it describes the tables as they were on its day, so it imports nothing that moves on. All
missing ones run in the caller's single transaction, which holds the metastore's migration
lock: of two processes that open an old home at once, one migrates and the other waits and
finds it done.
"""

from collections.abc import Callable, Sequence
from typing import Final

import sqlalchemy as sa

from lockgate.store.faults import Unfit
from lockgate.store.migrations import (
    v1_tables,
    v2_lease_length,
    v3_changelog,
    v4_feeds,
    v5_log_shapes,
    v6_service,
    v7_lakes,
    v8_diffs,
    v9_moves,
)
from lockgate.store.tables import schema_version

__all__ = ["MIGRATIONS", "NEWEST", "Migration", "migrate", "version_of"]

Migration = Callable[[sa.Connection], None]

MIGRATIONS: Final[tuple[Migration, ...]] = (
    v1_tables.migrate,
    v2_lease_length.migrate,
    v3_changelog.migrate,
    v4_feeds.migrate,
    v5_log_shapes.migrate,
    v6_service.migrate,
    v7_lakes.migrate,
    v8_diffs.migrate,
    v9_moves.migrate,
)
"""MIGRATIONS[n - 1] makes version n."""

NEWEST: Final = len(MIGRATIONS)


def version_of(connection: sa.Connection) -> int:
    """The version of a metastore that has a version table. Raises `Unfit` if it says none.

    Also writes to that table, for nothing: a metastore that can be read and not be written is
    no use, and whoever opens it should learn so now.
    """
    connection.execute(sa.update(schema_version).values(version=schema_version.c.version))
    version = connection.execute(sa.select(schema_version.c.version)).scalar()
    if not isinstance(version, int) or version < 1:
        raise Unfit(f"its version is {version!r}")
    return version


def migrate(
    connection: sa.Connection, version: int, migrations: Sequence[Migration] = MIGRATIONS
) -> None:
    """Run every migration after `version`; 0 is a metastore with nothing in it."""
    for number, step in enumerate(migrations, start=1):
        if number > version:
            step(connection)
            connection.execute(sa.update(schema_version).values(version=number))
