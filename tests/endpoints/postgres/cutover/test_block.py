"""Blocking writes: who is refused and how, who passes, who is waited for, and that it ends."""

import threading
import time

import psycopg
import pytest

from lockgate.endpoints.postgres.cutover import (
    SideState,
    block,
    guard,
    open_tables,
    seal,
    unblock,
)
from lockgate.endpoints.postgres.cutover.visit import clock_us
from lockgate.endpoints.postgres.sink.session import open_session
from lockgate.model.errors import Conflict, EndpointBusy, ObjectMissing, StaleOwner
from lockgate.model.positions import Position
from tests.endpoints.postgres.cutover.side import Side
from tests.support.waiting import until


def blocked(side: Side, deadline_s: float = 60.0, patience_s: float = 20.0) -> Position:
    return block(
        side.url,
        side.mark,
        side.tables,
        moved_to="shop-new",
        deadline_s=deadline_s,
        patience_s=patience_s,
    )


def log_end(side: Side) -> Position:
    query = "SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint"
    end: Position = side.admin.execute(query).fetchone()[0]  # type: ignore[index]
    return end


def test_writers_are_told_where_the_table_goes(side: Side) -> None:
    blocked(side)
    for table in side.tables:
        with pytest.raises(psycopg.Error) as refused:
            side.insert(table)
        assert refused.value.sqlstate == "LK002"
        assert (
            refused.value.diag.message_primary == f"LOCKGATE: table {table} is moving to shop-new"
        )


def test_the_position_is_behind_everything_that_was_written(side: Side) -> None:
    side.insert()
    before = log_end(side)
    position = blocked(side)
    assert before <= position <= log_end(side)
    row = side.row()
    assert row is not None
    assert (row.state, row.blocked_at, row.block) == (SideState.BLOCKED, position, 1)


def test_who_wrote_is_waited_for_and_is_below_the_position(side: Side) -> None:
    answer: list[Position] = []
    with side.holding() as writer:
        thread = threading.Thread(target=lambda: answer.append(blocked(side)))
        thread.start()
        until(lambda: _waits(side))
        assert not answer
        writer.commit()
        committed = log_end(side)
        thread.join(20.0)
    assert answer[0] >= committed
    assert side.count() == 1


def _waits(side: Side) -> bool:
    return bool(
        side.admin.execute(
            "SELECT FROM pg_locks l JOIN pg_stat_activity a USING (pid) WHERE NOT l.granted "
            "AND a.application_name = %s",
            (f"lockgate move {side.mark.move}",),
        ).fetchall()
    )


def test_who_holds_a_table_for_long_is_named_and_nothing_is_left(side: Side) -> None:
    with side.holding() as writer:
        with pytest.raises(EndpointBusy) as busy:
            blocked(side, patience_s=0.3)
        assert f"session {writer.info.backend_pid} (app, idle in transaction since" in str(
            busy.value
        )
        assert str(side.orders) in str(busy.value)
    assert side.guards() == []
    side.insert()


def test_an_application_is_never_the_one_to_lose_a_deadlock(side: Side) -> None:
    """It has the second table and comes to wait for the first, which the block has by then."""
    with side.holding(side.tables[1]) as writer:
        thread = threading.Thread(target=lambda: blocked(side))
        thread.start()
        until(lambda: _waits(side))
        for _ in range(4):  # whichever of the two comes first to a table
            side.insert(side.tables[0], by=writer)
        writer.commit()
        thread.join(20.0)
    assert side.count(side.tables[0]) == 4


def test_the_block_ends_by_itself(side: Side) -> None:
    blocked(side, deadline_s=2.0)
    with pytest.raises(psycopg.Error, match="is moving"):
        side.insert()
    until(lambda: _inserted(side), 10.0)
    row = side.row()
    assert row is not None
    assert row.until_us is not None
    assert clock_us(side.admin.cursor()) >= row.until_us


def _inserted(side: Side) -> bool:
    try:
        side.insert()
    except psycopg.Error:
        return False
    return True


def test_the_deadline_counts_from_the_call(here: Side) -> None:
    with here.holding(), pytest.raises(EndpointBusy):
        blocked(here, deadline_s=0.3, patience_s=20.0)
    here.insert()


def test_unblocked_tables_are_open_and_have_no_trigger(side: Side) -> None:
    blocked(side)
    unblock(side.url, side.mark, side.tables)
    side.insert()
    assert side.guards() == []
    row = side.row()
    assert row is not None
    assert row.state is SideState.OPEN


def test_readers_hold_up_neither_block_nor_unblock(here: Side) -> None:
    with here.person() as reader:
        here.do("SELECT * FROM {} FOR SHARE", here.orders, by=reader)
        blocked(here)
        began = time.monotonic()
        unblock(here.url, here.mark, here.tables)
        assert time.monotonic() - began < 5.0
        here.insert()
        # Its trigger stays for now, and holds up nobody.
        assert [name for name, _ in here.guards()] == ["orders"]


def test_unblock_twice_and_without_a_block_changes_nothing(here: Side) -> None:
    unblock(here.url, here.mark, here.tables)
    blocked(here)
    unblock(here.url, here.mark, here.tables)
    unblock(here.url, here.mark, here.tables)
    here.insert()


def test_a_block_that_ran_out_is_unblocked_under_writers(here: Side) -> None:
    blocked(here, deadline_s=2.0)
    until(lambda: _inserted(here))
    with here.holding(), pytest.MonkeyPatch.context() as patch:
        patch.setattr("lockgate.endpoints.postgres.cutover.guards.PATIENCE_S", 0.2)
        unblock(here.url, here.mark, here.tables)
    row = here.row()
    assert row is not None
    assert row.state is SideState.OPEN


def test_blocked_again_it_is_another_block(side: Side) -> None:
    first = blocked(side, deadline_s=60.0)
    second = blocked(side, deadline_s=50.0)
    assert second > first
    assert not seal(side.url, side.mark, side.tables, blocked_at=first)
    assert seal(side.url, side.mark, side.tables, blocked_at=second)


def test_a_stale_keeper_changes_nothing(here: Side) -> None:
    blocked(here)
    late = here.keeper(here.mark.keeper - 1)
    before = here.row()
    verbs = [
        lambda: block(here.url, late, here.tables, moved_to="x", deadline_s=9.0, patience_s=1.0),
        lambda: unblock(here.url, late, here.tables),
        lambda: seal(here.url, late, here.tables, blocked_at=before.blocked_at or 0),  # type: ignore[union-attr]
        lambda: guard(here.url, late, here.tables, at="x"),
        lambda: open_tables(here.url, late, here.tables),
    ]
    for verb in verbs:
        with pytest.raises(StaleOwner, match="keeper 3 of the move was here"):
            verb()  # type: ignore[no-untyped-call]
    assert here.row() == before
    with pytest.raises(psycopg.Error, match="is moving"):
        here.insert()


def test_a_successor_goes_on(here: Side) -> None:
    blocked(here)
    unblock(here.url, here.keeper(9), here.tables)
    here.insert()
    with pytest.raises(StaleOwner):
        blocked(here)


def test_who_sleeps_with_the_row_in_his_hands_is_ended_by_a_successor(here: Side) -> None:
    blocked(here)
    with psycopg.connect(here.url, application_name="lockgate move paused") as paused:
        paused.execute("SELECT FROM lockgate.moves WHERE move = %s FOR UPDATE", (here.mark.move,))
        unblock(here.url, here.keeper(4), here.tables)
        assert here.do("INSERT INTO {} (note) VALUES ('x') RETURNING true", here.orders)
        with pytest.raises(psycopg.OperationalError):
            paused.execute("SELECT 1")
        paused.close()


def test_a_missing_table_is_named_and_the_others_stay_open(here: Side) -> None:
    here.do("DROP TABLE {}", here.tables[1])
    with pytest.raises(ObjectMissing, match="there is no such table"):
        blocked(here)
    here.insert()


def test_the_guard_of_another_move_is_not_replaced(here: Side) -> None:
    guard(here.url, here.mark, here.tables, at="shop")
    here.mark = here.keeper(3)
    other = type(here.mark)("other", 8, 1)
    with pytest.raises(Conflict, match=f"the guard of another move is on .*: {here.mark.move}"):
        block(here.url, other, here.tables, moved_to="x", deadline_s=9.0, patience_s=1.0)


def test_a_closed_side_cannot_be_blocked(here: Side) -> None:
    guard(here.url, here.mark, here.tables, at="shop")
    with pytest.raises(Conflict, match="another side has the traffic"):
        blocked(here)


def test_sessions_of_the_sink_pass(side: Side) -> None:
    blocked(side)
    with open_session(side.url, "feed", "span", autocommit=True) as connection:
        side.insert(by=connection)
        side.do("TRUNCATE {}", side.orders, by=connection)
    assert side.count() == 0


def test_ten_tables_are_blocked_in_a_moment(side: Side) -> None:
    tables = [side.name(f"t{number}") for number in range(10)]
    for table in tables:
        side.do("CREATE TABLE {} (id bigserial PRIMARY KEY, a int, b text)", table)
    took = []
    for _ in range(3):
        began = time.perf_counter()
        block(side.url, side.mark, tables, moved_to="x", deadline_s=60.0, patience_s=9.0)
        took.append(time.perf_counter() - began)
        unblock(side.url, side.mark, tables)
    # Tens of milliseconds on a quiet machine; the limit is for busy ones.
    assert min(took) < 5.0, took
