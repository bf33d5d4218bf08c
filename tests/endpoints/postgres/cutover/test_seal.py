"""The seal: it lands or it does not, once and for all, and says so to whoever asks later."""

import threading
import time

import psycopg
import pytest

from lockgate.endpoints.postgres.cutover import (
    SideState,
    block,
    is_sealed,
    open_tables,
    seal,
    unblock,
)
from lockgate.model.errors import Conflict, EndpointBusy, StaleOwner
from lockgate.model.positions import Position
from tests.endpoints.postgres.cutover.side import Side
from tests.support.waiting import until


def blocked(side: Side, deadline_s: float = 60.0) -> Position:
    return block(
        side.url, side.mark, side.tables, moved_to="new", deadline_s=deadline_s, patience_s=9.0
    )


def sealed(side: Side, at: Position, margin_s: float = 0.5) -> bool:
    return seal(side.url, side.mark, side.tables, blocked_at=at, margin_s=margin_s)


def test_a_sealed_side_tells_where_its_tables_are(side: Side) -> None:
    assert sealed(side, blocked(side))
    for table in side.tables:
        with pytest.raises(psycopg.Error) as refused:
            side.insert(table)
        assert refused.value.sqlstate == "LK001"
        assert refused.value.diag.message_primary == f"LOCKGATE: table {table} has moved to new"
    assert is_sealed(side.url, side.mark)


def test_it_outlasts_the_deadline(here: Side) -> None:
    at = blocked(here, deadline_s=2.5)
    assert sealed(here, at)
    row = here.row()
    assert row is not None
    until(lambda: time.time() * 1e6 > (row.until_us or 0))
    with pytest.raises(psycopg.Error, match="has moved"):
        here.insert()


def test_asked_again_it_says_the_same(here: Side) -> None:
    at = blocked(here)
    assert sealed(here, at)
    assert sealed(here, at)
    here.mark = here.keeper(8)
    assert sealed(here, at)
    assert is_sealed(here.url, here.mark)


def test_a_deadline_that_is_over_or_near_is_no_seal_ever(here: Side) -> None:
    at = blocked(here, deadline_s=30.0)
    assert not sealed(here, at, margin_s=40.0)
    assert not sealed(here, at, margin_s=0.0)
    row = here.row()
    assert row is not None
    assert row.state is SideState.BLOCKED
    unblock(here.url, here.mark, here.tables)
    here.insert()


def test_nothing_is_sealed_that_was_not_blocked_or_was_unblocked(here: Side) -> None:
    assert not sealed(here, 0)
    at = blocked(here)
    unblock(here.url, here.mark, here.tables)
    assert not sealed(here, at)
    here.insert()


def test_what_is_sealed_cannot_be_unblocked_or_blocked(here: Side) -> None:
    at = blocked(here)
    assert sealed(here, at)
    with pytest.raises(Conflict, match="it is sealed"):
        unblock(here.url, here.mark, here.tables)
    with pytest.raises(Conflict, match="sealed"):
        blocked(here)
    with pytest.raises(Conflict, match="another block is sealed"):
        sealed(here, at + 1)


def test_who_has_asked_a_side_need_not_fear_the_one_before(here: Side) -> None:
    """A seal that was on its way when the successor asked does not land afterwards."""
    at = blocked(here)
    assert not is_sealed(here.url, here.keeper(4))
    with pytest.raises(StaleOwner):
        sealed(here, at)
    unblock(here.url, here.keeper(4), here.tables)
    here.insert()


CHANGES = [
    "ALTER TABLE {} ADD COLUMN more int",
    "ALTER TABLE {} DROP COLUMN note",
    "ALTER TABLE {} ALTER COLUMN note TYPE text USING 'same type, other values'",
    "CREATE INDEX ON {} (note)",
    "DROP TABLE {}",
    "ALTER TABLE {} DISABLE TRIGGER lockgate_guard",
    "DROP TRIGGER lockgate_guard ON {}",
]


@pytest.mark.parametrize("change", CHANGES, ids=lambda text: text.replace(" {}", "")[:28])
def test_a_table_that_was_changed_is_not_sealed(here: Side, change: str) -> None:
    here.do("INSERT INTO {} (note) VALUES ('x')", here.orders)
    at = blocked(here)
    here.do(change, here.orders)
    assert not sealed(here, at)
    # Not even when it was changed back.
    unblock(here.url, here.mark, here.tables)


def test_another_owner_is_no_change(here: Side) -> None:
    at = blocked(here)
    here.do("ALTER TABLE {} OWNER TO pg_database_owner", here.orders)
    assert sealed(here, at)


def test_a_partition_that_came_is_a_change(here: Side) -> None:
    root, part = here.name("parts"), here.name("part")
    here.do("CREATE TABLE {} (id int PRIMARY KEY) PARTITION BY RANGE (id)", root)
    here.tables = [root]
    at = blocked(here)
    here.do("CREATE TABLE {} PARTITION OF {} DEFAULT", part, root)
    assert not sealed(here, at)


def test_a_reader_does_not_hold_it_up(here: Side) -> None:
    at = blocked(here)
    with here.person() as reader:
        here.do("SELECT * FROM {} FOR UPDATE", here.orders, by=reader)
        assert sealed(here, at)


def test_who_holds_a_table_until_the_deadline_keeps_it_from_being_sealed(here: Side) -> None:
    at = blocked(here, deadline_s=2.5)
    with here.person() as other:
        here.do("LOCK TABLE {} IN SHARE MODE", here.orders, by=other)
        assert not sealed(here, at)
    assert not sealed(here, at, margin_s=0.0)


def test_who_holds_a_table_for_a_while_is_waited_for(here: Side) -> None:
    at = blocked(here)
    with here.person() as other:
        here.do("LOCK TABLE {} IN SHARE MODE", here.orders, by=other)
        answer: list[bool] = []
        thread = threading.Thread(target=lambda: answer.append(sealed(here, at)))
        thread.start()
        until(lambda: here.admin.execute("SELECT FROM pg_locks WHERE NOT granted").fetchall())
        other.rollback()
        thread.join(20.0)
    assert answer == [True]


def test_a_flip_back_opens_what_was_sealed(here: Side) -> None:
    assert sealed(here, blocked(here))
    for _ in range(2):
        open_tables(here.url, here.mark, here.tables)
        here.insert()
    assert here.guards() == []
    assert sealed(here, blocked(here))


def test_open_waits_politely_and_opens_all_or_nothing(
    here: Side, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lockgate.endpoints.postgres.cutover.guards.PATIENCE_S", 0.3)
    assert sealed(here, blocked(here))
    with here.person() as other:
        here.do("LOCK TABLE {} IN SHARE MODE", here.tables[1], by=other)
        with pytest.raises(EndpointBusy, match=r"session \d+ \(app"):
            open_tables(here.url, here.mark, here.tables)
        with pytest.raises(psycopg.Error, match="has moved"):
            here.insert(here.tables[0])
    open_tables(here.url, here.mark, here.tables)
    here.insert(here.tables[0])


def test_a_side_that_is_blocked_is_not_opened(here: Side) -> None:
    blocked(here)
    with pytest.raises(Conflict, match="gives the traffic away"):
        open_tables(here.url, here.mark, here.tables)
