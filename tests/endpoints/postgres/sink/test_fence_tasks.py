"""Tasks in flight when a new owner claims: they are waited for, ended, or refused (F11)."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

import psycopg
import pytest

from lockgate.endpoints.postgres.sink.blockers import blockers
from lockgate.endpoints.postgres.sink.claim import claim_feed, claim_span
from lockgate.endpoints.postgres.sink.fence import PostgresSink
from lockgate.endpoints.postgres.sink.gate import Refused, enter, leave, part_landed
from lockgate.endpoints.postgres.sink.session import Limits, open_session
from lockgate.model.ddl import Ddl, DdlKind
from lockgate.model.errors import EndpointBusy
from lockgate.model.floors import Floors, Refusal
from lockgate.model.ids import Token
from lockgate.model.spans import TRIGGER_SPEC, WHOLE, Birth, Lineage
from tests.endpoints.postgres.sink.target import HIGH, LOW, A, B, Target, token
from tests.support.waiting import until

OLD, NEW = token(1, 2), token(2, 1)
START: Floors = ((WHOLE, 0),)


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(12) as pool:
        yield pool


@contextmanager
def inside(
    target: Target, by: Token = OLD, share: bool = False, part: int = 0
) -> Iterator[tuple[psycopg.Connection, psycopg.Cursor]]:
    """A task in the middle of its transaction: it has written a row."""
    with target.session() as connection, connection.cursor() as cursor:
        enter(cursor, target.feed, "a", by, START, share=share)
        if share:
            assert part_landed(cursor, target.feed, "a", part, 8, 7)
        target.write(cursor, "t00", part, 7)
        yield connection, cursor


def waits(target: Target, asked: Future[object], count: int = 1) -> None:
    """Until so many sessions wait for a lock, and one of them for `asked`."""
    until(lambda: asked.done() or len(target.waiting()) >= count)
    assert not asked.done(), asked.result()


# --- one task -------------------------------------------------------------------------------------


def test_a_claim_waits_for_a_task_and_reads_what_it_committed(
    target: Target, threads: ThreadPoolExecutor
) -> None:
    target.claim(A, OLD)
    with inside(target) as (connection, cursor):
        claimed = threads.submit(target.claim, A, NEW)
        waits(target, claimed)
        leave(cursor, target.feed, "a", OLD, START, 7)
        connection.commit()
    assert claimed.result() == ((WHOLE, 7),)
    assert target.rows() == {0: 7}


def test_after_the_grace_a_claim_ends_a_task_in_flight(hasty: Target) -> None:
    hasty.claim(A, OLD)
    with inside(hasty) as (connection, cursor):
        assert hasty.claim(A, NEW) == START
        with pytest.raises(psycopg.OperationalError):
            leave(cursor, hasty.feed, "a", OLD, START, 7)
        assert connection.closed
    assert (hasty.rows(), hasty.spans()["a"].token) == ({}, NEW)


def test_a_task_that_waited_for_the_claim_reads_the_new_token(
    target: Target, threads: ThreadPoolExecutor
) -> None:
    """Read committed, or it would compare with what the row said when it began to wait."""
    target.claim(A, OLD)
    with target.session() as claiming, claiming.cursor() as cursor:
        claim_span(cursor, target.feed, A, NEW, None)
        tasks = [threads.submit(_enter, target, share) for share in (False, True)]
        waits(target, tasks[0], 2)
        claiming.commit()
    assert [task.result() for task in tasks] == [Refusal.NEWER, Refusal.NEWER]


def test_a_row_lock_alone_makes_a_task_read_the_new_token(
    target: Target, threads: ThreadPoolExecutor
) -> None:
    """The turnstile is for fairness; this is the fence."""
    target.claim(A, OLD)
    with target.session() as claiming:
        claiming.execute(
            "UPDATE lockgate.progress SET epoch = 2 WHERE feed = %s AND span = 'a'", (target.feed,)
        )
        tasks = [threads.submit(_enter, target, share) for share in (False, True)]
        waits(target, tasks[0], 2)
        claiming.commit()
    assert [task.result() for task in tasks] == [Refusal.NEWER, Refusal.NEWER]


def test_a_role_that_defaults_to_repeatable_read_is_overruled(target: Target) -> None:
    role = f"role_{target.feed}"
    target.admin.execute(f"CREATE ROLE {role} LOGIN SUPERUSER PASSWORD 'p'")
    target.admin.execute(
        f"ALTER ROLE {role} SET default_transaction_isolation = 'repeatable read'; "
        f"ALTER ROLE {role} SET synchronous_commit = off"
    )
    at = target.url.split("@")[1]
    with open_session(f"postgresql://{role}:p@{at}", target.feed, "a") as connection:
        found = connection.execute(
            "SELECT current_setting('transaction_isolation'), current_setting('synchronous_commit')"
        ).fetchone()
    assert found == ("read committed", "on")


def _enter(target: Target, share: bool) -> Refusal | None:
    with target.session() as connection, connection.cursor() as cursor:
        try:
            enter(cursor, target.feed, "a", OLD, START, share=share)
        except Refused as refused:
            return refused.refusal
    return None


# --- many tasks -----------------------------------------------------------------------------------


def test_a_claim_waits_for_all_parts_in_flight_and_lets_no_new_one_in(
    target: Target, threads: ThreadPoolExecutor
) -> None:
    target.claim(A, OLD)
    target.sink.record_batch(target.feed, "a", OLD, START, 7, 8)
    with inside(target, share=True, part=0) as first, inside(target, share=True, part=1) as other:
        claimed = threads.submit(target.claim, A, NEW)
        waits(target, claimed)
        late = [threads.submit(_part, target, part) for part in range(2, 8)]
        waits(target, claimed, 7)
        first[0].commit()
        waits(target, claimed, 7)
        other[0].rollback()
    floors = claimed.result()
    assert [task.result() for task in late] == [Refusal.NEWER] * 6
    assert target.rows() == {0: 7}
    assert isinstance(floors, tuple)
    assert [position for _, position in floors] == [7, 0]  # part 0 landed, nothing else did


def test_a_claim_ends_many_parts_in_flight(hasty: Target) -> None:
    hasty.claim(A, OLD)
    hasty.sink.record_batch(hasty.feed, "a", OLD, START, 7, 8)
    with (
        inside(hasty, share=True, part=0) as first,
        inside(hasty, share=True, part=1) as second,
        inside(hasty, share=True, part=2) as third,
    ):
        assert hasty.claim(A, NEW) == START
        for connection, _ in (first, second, third):
            with pytest.raises(psycopg.OperationalError):
                connection.commit()
    assert hasty.rows() == {}


def _part(target: Target, part: int) -> Refusal | None:
    try:
        with inside(target, share=True, part=part) as (connection, _):
            connection.commit()
    except Refused as refused:
        return refused.refusal
    return None


@pytest.mark.parametrize("verb", ["claim", "close", "split"])
def test_an_unbroken_stream_of_tasks_keeps_nobody_out(
    target: Target, threads: ThreadPoolExecutor, verb: str
) -> None:
    """PostgreSQL itself lets a shared row lock in past an exclusive one that waits."""
    target.claim(A, OLD)
    target.sink.record_batch(target.feed, "a", OLD, START, 7, 100)
    verbs: dict[str, Callable[[], object]] = {
        "claim": lambda: target.claim(A, NEW),
        "close": lambda: target.sink.close(target.feed, NEW, False),
        "split": lambda: target.claim(LOW, NEW, lineage=Lineage(("a",), (LOW, HIGH))),
    }
    relay = _Relay(target, threads)
    relay.next()
    asked = threads.submit(verbs[verb])
    waits(target, asked)
    for _ in range(10):  # each runner enters, or stands in line, before the one before it ends
        relay.next()
    assert asked.result(timeout=20) in (START, True, ((LOW.range, 0),))
    assert relay.finished() in (Refusal.NEWER, Refusal.GONE)


class _Relay:
    """Tasks that share the row in such a way that it is never free."""

    def __init__(self, target: Target, threads: ThreadPoolExecutor) -> None:
        self._target = target
        self._threads = threads
        self._runners: list[tuple[threading.Event, Future[Refusal | None]]] = []

    def next(self) -> None:
        """Start one, see that it is inside or waits, and only then end the one before it."""
        entered, over = threading.Event(), threading.Event()
        pids: list[int] = []
        runner = self._threads.submit(self._run, entered, over, pids)
        until(lambda: entered.is_set() or runner.done() or (pids and self._target.waiting(pids[0])))
        for former, _ in self._runners:
            former.set()
        self._runners.append((over, runner))

    def finished(self) -> Refusal | None:
        """How the last one ended."""
        for over, _ in self._runners:
            over.set()
        return [runner.result() for _, runner in self._runners][-1]

    def _run(
        self, entered: threading.Event, over: threading.Event, pids: list[int]
    ) -> Refusal | None:
        target = self._target
        with target.session() as connection, connection.cursor() as cursor:
            pids.append(connection.info.backend_pid)
            try:
                enter(cursor, target.feed, "a", OLD, START, share=True)
            except Refused as refused:
                return refused.refusal
            entered.set()
            assert over.wait(30)
            connection.commit()
        return None


def test_closing_ends_what_is_in_flight(hasty: Target) -> None:
    hasty.claim(A, OLD)
    with inside(hasty) as (connection, _):
        assert hasty.sink.close(hasty.feed, NEW, forget=True)
        with pytest.raises(psycopg.OperationalError):
            connection.commit()
    assert hasty.rows() == {}


# --- who is ended, and who is not -----------------------------------------------------------------


def test_somebody_elses_session_is_named_and_left_alone(target: Target) -> None:
    target.claim(A, OLD)
    with psycopg.connect(target.url, application_name="an auditor") as auditor:
        auditor.execute("SELECT FROM lockgate.progress WHERE feed = %s FOR UPDATE", (target.feed,))
        pid = auditor.info.backend_pid
        with (
            PostgresSink(target.url, Limits(grace_s=0.05, patience_s=0.5)) as impatient,
            pytest.raises(EndpointBusy, match=rf"session {pid} \(an auditor\)"),
        ):
            impatient.claim(target.feed, A, NEW)
        auditor.execute("SELECT 1")  # still there
    assert target.claim(A, NEW) == START


def test_a_task_that_waits_for_somebody_else_is_ended_and_they_are_not(
    hasty: Target, threads: ThreadPoolExecutor
) -> None:
    hasty.claim(A, OLD)
    with psycopg.connect(hasty.url, application_name="a report") as report:
        report.execute(f"LOCK TABLE {hasty.name('t00')}")
        task = threads.submit(hasty.apply, A, OLD, START, 7, 3)
        waits(hasty, task)
        assert hasty.claim(A, NEW) == START
        with pytest.raises(psycopg.OperationalError):
            task.result()
        report.execute("SELECT 1")


def test_of_those_who_wait_for_each_other_only_the_last_is_in_the_way(
    target: Target, threads: ThreadPoolExecutor
) -> None:
    """Two claims wait for one stopped task; neither may end the other for it."""
    target.claim(A, OLD)
    with inside(target) as (connection, _):
        newer = threads.submit(target.claim, A, token(5, 1))
        waits(target, newer)
        older = threads.submit(target.claim, A, token(3, 1))
        waits(target, older, 2)
        found = {pid: blockers(target.admin, pid) for pid in target.waiting()}
        assert len(found) == 2
        for bottom in found.values():
            assert [one.pid for one in bottom] == [connection.info.backend_pid]
        connection.rollback()
    assert newer.result() == START
    assert older.result() is Refusal.NEWER


def test_a_claim_that_comes_too_late_goes_without_waiting(hasty: Target) -> None:
    hasty.claim(A, NEW)
    with inside(hasty, by=NEW) as (connection, cursor):
        assert hasty.claim(A, OLD) is Refusal.NEWER
        assert hasty.sink.close(hasty.feed, token(0, 9), False) is False
        leave(cursor, hasty.feed, "a", NEW, START, 7)
        connection.commit()
    assert hasty.rows() == {0: 7}


def test_a_task_on_another_span_is_not_in_the_way(hasty: Target) -> None:
    hasty.claim(A, OLD)
    with inside(hasty) as (connection, _):
        assert hasty.claim(B, NEW) == START
        connection.commit()


def test_the_server_ends_a_transaction_in_which_nothing_is_said(target: Target) -> None:
    target.claim(A, OLD)
    limits = Limits(idle_s=0.2)
    with open_session(target.url, target.feed, "a", limits=limits) as connection:
        with connection.cursor() as cursor:
            enter(cursor, target.feed, "a", OLD, START, share=False)
        assert target.claim(A, NEW) == START  # nobody is ended by the claim here
        with pytest.raises(psycopg.errors.IdleInTransactionSessionTimeout):
            connection.execute("SELECT 1")
        connection.close()


def test_two_first_claims_of_one_split_both_succeed(
    target: Target, threads: ThreadPoolExecutor
) -> None:
    target.claim(A, OLD)
    cut = Lineage(("a",), (LOW, HIGH))
    with inside(target) as (connection, cursor):  # holds both up until both wait
        claims = [
            threads.submit(target.claim, spec, by, lineage=cut)
            for spec, by in ((LOW, token(1, 3)), (HIGH, token(1, 4)))
        ]
        waits(target, claims[0], 2)
        leave(cursor, target.feed, "a", OLD, START, 7)
        connection.commit()
    assert [claim.result() for claim in claims] == [((LOW.range, 7),), ((HIGH.range, 7),)]
    assert sorted(target.spans()) == ["b", "high", "low"]


def test_two_claims_of_one_row_end_with_the_higher_token(
    target: Target, threads: ThreadPoolExecutor
) -> None:
    target.claim(A, OLD)
    with inside(target) as (connection, _):
        claims = [threads.submit(target.claim, A, token(2, number)) for number in (1, 2, 3)]
        waits(target, claims[0], 3)
        connection.commit()
    assert claims[-1].result() == START
    assert target.spans()["a"].token == token(2, 3)


def test_a_schema_change_does_not_miss_spans_that_a_split_is_making(
    target: Target, threads: ThreadPoolExecutor
) -> None:
    """It would look for them in a snapshot from before it began to wait for their source."""
    ddl = Ddl(1, DdlKind.ALTER, ("t00",))
    with target.session() as splitting, splitting.cursor() as cursor:
        claim_span(cursor, target.feed, LOW, OLD, Lineage(("a",), (LOW, HIGH)))
        written = threads.submit(target.sink.write_ddl, target.feed, token(), ddl, (), [])
        waits(target, written)
        splitting.commit()
    assert written.result() == 1
    spans = target.spans()
    assert (spans["low"].floors, spans["high"].floors) == (((LOW.range, 1),), ((HIGH.range, 1),))


def test_a_split_does_not_slip_through_under_a_schema_change(
    target: Target, threads: ThreadPoolExecutor
) -> None:
    split: list[Future[Floors | Refusal]] = []

    def change(_: psycopg.Cursor) -> None:
        cut = Lineage(("a",), (LOW, HIGH))
        split.append(threads.submit(target.claim, LOW, OLD, lineage=cut))
        waits(target, split[0])

    ddl = Ddl(1, DdlKind.ALTER, ("t00",))
    assert target.sink.write_ddl(target.feed, token(), ddl, (), change) == 1
    assert split[0].result() == ((LOW.range, 1),)


def test_of_two_births_at_once_one_happens(target: Target, threads: ThreadPoolExecutor) -> None:
    feed = target.feed + "-twice"
    first, second = Birth(3, (A,)), Birth(5, (B,))
    with target.session() as bearing, bearing.cursor() as cursor:
        claim_feed(cursor, feed, token(1, 1), first)
        other = threads.submit(target.sink.claim, feed, TRIGGER_SPEC, token(2, 1), None, second)
        waits(target, other)
        bearing.commit()
    assert other.result() == ((WHOLE, 3),)
    assert target.sink.claim(feed, B, token(9, 1)) is Refusal.GONE


def test_a_close_that_meets_a_birth_shuts_out_its_maker(
    target: Target, threads: ThreadPoolExecutor
) -> None:
    feed = target.feed + "-closed"
    with target.session() as bearing, bearing.cursor() as cursor:
        claim_feed(cursor, feed, token(1, 1), Birth(3, (A,)))
        closed = threads.submit(target.sink.close, feed, token(2, 9), True)
        waits(target, closed)
        bearing.commit()
    assert closed.result() is True
    assert target.sink.claim(feed, A, token(1, 5)) is Refusal.GONE
    assert target.sink.claim(feed, TRIGGER_SPEC, token(1, 6)) is Refusal.CLOSED
