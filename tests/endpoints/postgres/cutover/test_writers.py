"""Writers that keep what was acknowledged to them, while a side is blocked, sealed and opened.

The law: once a seal has answered True, nobody is acknowledged a write at that side; and what was
acknowledged before lies below the position of the block, so it was there when the block answered.
"""

import random
import threading

import pytest

from lockgate.endpoints.postgres.cutover import block, is_sealed, open_tables, seal, unblock
from lockgate.endpoints.postgres.cutover.visit import clock_us
from lockgate.model.errors import EndpointBusy
from lockgate.model.tables import TableName
from tests.endpoints.postgres.cutover.side import Side, Writers
from tests.support.waiting import until

REPEATABLE = "-c default_transaction_isolation=repeatable\\ read"


def blocked(side: Side, deadline_s: float) -> int:
    """With a deadline that this machine can meet while others use it."""
    while True:
        try:
            return block(
                side.url,
                side.mark,
                side.tables,
                moved_to="new",
                deadline_s=deadline_s,
                patience_s=15.0,
            )
        except EndpointBusy:
            assert deadline_s < 10.0
            deadline_s *= 2


def ids(side: Side) -> set[tuple[TableName, int]]:
    return {(table, row[0]) for table in side.tables for row in side.do("SELECT id FROM {}", table)}


@pytest.mark.parametrize("options", ["", REPEATABLE], ids=["read-committed", "repeatable-read"])
def test_nothing_is_acknowledged_behind_a_block_that_is_sealed(side: Side, options: str) -> None:
    with Writers(side, options=options) as writers:
        until(lambda: writers.rows() > 20)
        at = blocked(side, 30.0)
        there = ids(side)
        until(lambda: writers.refusals() > 20)
        assert seal(side.url, side.mark, side.tables, blocked_at=at)
        seen = writers.refusals()
        until(lambda: writers.refusals() > seen + 20)
    assert ids(side) == there == set(writers.acknowledged)
    assert set(writers.refused) == {"LK001", "LK002"}


def test_writers_go_on_when_the_deadline_is_over_and_nothing_is_sealed_then(side: Side) -> None:
    with Writers(side) as writers:
        until(lambda: writers.rows() > 20)
        at = blocked(side, 1.0)
        before = writers.rows()
        until(lambda: writers.rows() > before + 20)
        assert not seal(side.url, side.mark, side.tables, blocked_at=at, margin_s=0.0)
        assert not is_sealed(side.url, side.mark)
    assert set(writers.refused) <= {"LK002"}
    assert ids(side) == set(writers.acknowledged)


def test_writers_go_on_after_an_unblock_and_after_an_opening(here: Side) -> None:
    with Writers(here) as writers:
        for _ in range(3):
            at = blocked(here, 30.0)
            before = writers.rows()
            unblock(here.url, here.mark, here.tables)
            until(lambda before=before: writers.rows() > before + 10)  # type: ignore[misc]
            at = blocked(here, 30.0)
            assert seal(here.url, here.mark, here.tables, blocked_at=at)
            before = writers.rows()
            open_tables(here.url, here.mark, here.tables)
            until(lambda before=before: writers.rows() > before + 10)  # type: ignore[misc]
    assert ids(here) == set(writers.acknowledged)


def test_a_seal_and_a_deadline_never_both_win(here: Side) -> None:
    """Two who seal at chance moments around the deadline, and writers that press: whatever comes of
    it, it is one or the other."""
    chance = random.Random(here.number)
    outcomes = []
    with Writers(here, count=2) as writers:
        for _ in range(5):
            at = blocked(here, 1.2)
            there = ids(here)
            row = here.row()
            assert row is not None
            left_s = ((row.until_us or 0) - clock_us(here.admin.cursor())) / 1e6
            answers: list[bool] = []

            def ask(wait_s: float, at: int = at, answers: list[bool] = answers) -> None:
                threading.Event().wait(wait_s)
                answers.append(seal(here.url, here.mark, here.tables, blocked_at=at, margin_s=0.0))

            moments = [max(0.0, left_s + chance.uniform(-0.4, 0.05)) for _ in range(2)]
            threads = [threading.Thread(target=ask, args=(each,)) for each in moments]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(20.0)
            # Who came too late says the same as who was in time, or was the first to lose.
            assert len(answers) == 2
            assert len(set(answers)) == 1
            outcomes.append(answers[0])
            if answers[0]:
                seen = writers.refusals()
                until(lambda seen=seen: writers.refusals() > seen + 3)  # type: ignore[misc]
                assert ids(here) == there
                open_tables(here.url, here.mark, here.tables)
            else:
                unblock(here.url, here.mark, here.tables)
    assert ids(here) == set(writers.acknowledged)
    assert len(outcomes) == 5


def _waiting(side: Side) -> int:
    query = "SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype = 'relation'"
    number: int = side.admin.execute(query).fetchone()[0]  # type: ignore[index]
    return number


def test_blocks_of_two_keepers_leave_one(here: Side) -> None:
    """The one before is in the middle of its block when the later one comes."""
    with here.holding() as holder:
        answers: list[BaseException | int] = []

        def ask(number: int) -> None:
            try:
                answers.append(
                    block(
                        here.url,
                        here.keeper(number),
                        here.tables,
                        moved_to=f"keeper {number}",
                        deadline_s=30.0,
                        patience_s=1.0 if number == 3 else 20.0,
                    )
                )
            except BaseException as error:
                answers.append(error)

        first = threading.Thread(target=ask, args=(3,))
        second = threading.Thread(target=ask, args=(4,))
        first.start()
        until(lambda: _waiting(here) >= 1)
        second.start()
        until(lambda: not first.is_alive())
        holder.commit()
        second.join(20.0)
    row = here.row()
    assert row is not None
    assert (row.keeper, row.moved_to, row.blocked_at) == (4, "keeper 4", answers[1])
    assert isinstance(answers[0], EndpointBusy) or type(answers[0]).__name__ == "StaleOwner"
