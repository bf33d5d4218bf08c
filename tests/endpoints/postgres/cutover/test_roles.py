"""A role that owns the tables and is no superuser can do everything for them."""

from collections.abc import Iterator

import psycopg
import pytest
from psycopg import sql

from lockgate.endpoints.postgres.cutover import (
    block,
    clean,
    drop,
    guard,
    open_tables,
    rename,
    seal,
    unblock,
)
from lockgate.endpoints.postgres.url import PostgresUrl
from lockgate.model.errors import MissingPrivilege
from tests.endpoints.postgres.cutover.side import Side
from tests.support.roles import role


@pytest.fixture
def owners(database_of: str) -> Iterator[Side]:
    """A side whose URL is that of the tables' owner."""
    side = Side(database_of)
    with role(database_of) as (name, url):
        who = sql.Identifier(name)
        db = sql.Identifier(PostgresUrl.parse(database_of).database)
        run = side.admin.execute
        run(sql.SQL("GRANT CREATE ON DATABASE {} TO {}").format(db, who))
        run(sql.SQL("ALTER SCHEMA {} OWNER TO {}").format(sql.Identifier(side.schema), who))
        for table in side.tables:
            run(
                sql.SQL("ALTER TABLE {} OWNER TO {}").format(
                    sql.Identifier(table.schema, table.name), who
                )
            )
        side.url = url
        yield side
        side.admin.close()


def test_the_owner_flips_and_renames(owners: Side) -> None:
    def blocked() -> int:
        return block(
            owners.url, owners.mark, owners.tables, moved_to="x", deadline_s=60.0, patience_s=9.0
        )

    blocked()
    unblock(owners.url, owners.mark, owners.tables)
    assert seal(owners.url, owners.mark, owners.tables, blocked_at=blocked())
    # Superusers are held up as well, who are not Lockgate.
    with pytest.raises(psycopg.Error, match="has moved"):
        owners.insert()
    open_tables(owners.url, owners.mark, owners.tables)
    assert seal(owners.url, owners.mark, owners.tables, blocked_at=blocked())
    rename(owners.url, owners.mark, owners.tables)
    assert clean(owners.url, owners.mark, owners.tables, keep_guards=False) == []


def test_the_owner_guards_and_drops(owners: Side) -> None:
    guard(owners.url, owners.mark, owners.tables, at="shop")
    drop(owners.url, owners.mark, owners.tables)
    assert clean(owners.url, owners.mark, owners.tables, keep_guards=False) == []


def test_who_does_not_own_a_table_is_told(owners: Side) -> None:
    owners.do("ALTER TABLE {} OWNER TO CURRENT_USER", owners.orders)
    with pytest.raises(MissingPrivilege):
        guard(owners.url, owners.mark, owners.tables, at="shop")
    owners.insert()
