"""Guards where the log of schema changes is: they are no schema changes, and a seal reads it."""

from collections.abc import Iterator

import psycopg
import pytest
from psycopg import sql

from lockgate.endpoints.postgres.cutover import (
    block,
    clean,
    guard,
    open_tables,
    rename,
    seal,
    unblock,
)
from lockgate.endpoints.postgres.ddl.log import add_capture, install, remove_capture
from lockgate.endpoints.postgres.schema.identifiers import identifier
from lockgate.model.tables import quoted
from tests.endpoints.postgres.cutover.side import Side

PUBLICATION = "lockgate_cutover"


@pytest.fixture
def logged(side: Side) -> Iterator[Side]:
    """A side whose tables, one with partitions among them, are captured by a feed."""
    parts = side.name("parts")
    side.do("CREATE TABLE {} (id int PRIMARY KEY) PARTITION BY RANGE (id)", parts)
    side.do("CREATE TABLE {} PARTITION OF {} DEFAULT", side.name("rest"), parts)
    side.tables.append(parts)
    install(side.admin)
    with side.admin.transaction():
        side.admin.execute(
            sql.SQL("CREATE PUBLICATION {} FOR TABLE {}").format(
                sql.Identifier(PUBLICATION), sql.SQL(", ").join(map(identifier, side.tables))
            )
        )
        add_capture(side.admin, "feed", PUBLICATION, [f"{quoted(side.schema)}.*"])
    yield side
    side.admin.execute(sql.SQL("DROP PUBLICATION {}").format(sql.Identifier(PUBLICATION)))
    remove_capture(side.admin, PUBLICATION)


def entries(side: Side) -> int:
    number: int = side.admin.execute("SELECT count(*) FROM lockgate.ddl_log").fetchone()[0]  # type: ignore[index]
    return number


def blocked(side: Side) -> int:
    return block(side.url, side.mark, side.tables, moved_to="new", deadline_s=60.0, patience_s=9.0)


def test_no_verb_is_taken_for_a_schema_change(logged: Side) -> None:
    before = entries(logged)
    blocked(logged)
    unblock(logged.url, logged.mark, logged.tables)
    assert seal(logged.url, logged.mark, logged.tables, blocked_at=blocked(logged))
    open_tables(logged.url, logged.mark, logged.tables)
    clean(logged.url, logged.mark, logged.tables, keep_guards=False)
    assert entries(logged) == before


def test_guards_on_a_fresh_side_are_none_either(logged: Side) -> None:
    before = entries(logged)
    guard(logged.url, logged.mark, logged.tables, at="shop")
    assert {enabled for _, enabled in logged.guards()} == {"A"}
    assert entries(logged) == before


def test_what_was_changed_and_changed_back_is_not_sealed(logged: Side) -> None:
    at = blocked(logged)
    logged.do("ALTER TABLE {} ADD COLUMN more int", logged.orders)
    logged.do("ALTER TABLE {} DROP COLUMN more", logged.orders)
    assert not seal(logged.url, logged.mark, logged.tables, blocked_at=at)


def test_changes_of_other_tables_are_nothing_to_it(logged: Side) -> None:
    at = blocked(logged)
    logged.do("CREATE TABLE {} (id int PRIMARY KEY)", logged.name("other"))
    assert entries(logged) > 0
    assert seal(logged.url, logged.mark, logged.tables, blocked_at=at)


def test_a_partition_cannot_be_emptied_past_its_guard(logged: Side) -> None:
    before = entries(logged)
    blocked(logged)
    with pytest.raises(psycopg.Error, match="is moving"):
        logged.do("TRUNCATE {}", logged.name("rest"))
    assert entries(logged) == before


def test_a_rename_is_a_change_for_feeds_that_still_have_the_table(logged: Side) -> None:
    before = entries(logged)
    assert seal(logged.url, logged.mark, logged.tables, blocked_at=blocked(logged))
    rename(logged.url, logged.mark, logged.tables)
    assert entries(logged) == before + len(logged.tables)
