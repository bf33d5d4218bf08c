"""What is in the way of a move, brought about for real on two servers (M1)."""

from collections.abc import Iterable, Iterator, Sequence

import psycopg
import pytest

from lockgate.endpoints.postgres.cutover import (
    MoveMark,
    block,
    complete_findings,
    create_findings,
    flip_findings,
    followed_findings,
    guard,
    seal,
)
from lockgate.endpoints.postgres.embedded import EmbeddedPostgres
from lockgate.endpoints.postgres.sink.fence import PostgresSink
from lockgate.model.findings import Finding, Severity
from lockgate.model.moves import Disposal
from lockgate.model.tables import TableName
from tests.endpoints.postgres.cutover.side import ODD
from tests.support.databases import fresh_database, left_open
from tests.support.roles import role
from tests.support.waiting import until

T = TableName("public", "t")
ODDLY = TableName("public", ODD)
MARK = MoveMark("m", 1, 1)


class Pair:
    """Source and target, as superuser."""

    def __init__(self, source: str, target: str) -> None:
        self.source = source
        self.target = target
        self.here = psycopg.connect(source, autocommit=True)
        self.there = psycopg.connect(target, autocommit=True)

    def both(self, statement: str) -> None:
        self.here.execute(statement.encode())
        self.there.execute(statement.encode())

    def created(self, *tables: TableName, **more: Iterable[TableName]) -> list[Finding]:
        return create_findings(self.source, self.target, tables or [T], **more)  # type: ignore[arg-type]

    def flipped(self, *tables: TableName, own: Sequence[str] = ()) -> list[Finding]:
        return flip_findings(self.source, self.target, tables or [T], own=own)

    def completed(self, disposal: Disposal, *, own: Sequence[str] = ()) -> list[Finding]:
        return complete_findings(self.source, [T], disposal, own=own)


@pytest.fixture(scope="module")
def databases(pg18: EmbeddedPostgres, pg16: EmbeddedPostgres) -> Iterator[tuple[str, str]]:
    with fresh_database(pg18) as source, fresh_database(pg16) as target:
        yield source, target


@pytest.fixture
def pair(databases: tuple[str, str]) -> Iterator[Pair]:
    made = Pair(*databases)
    made.here.execute("CREATE TABLE t (id serial PRIMARY KEY, note text)")
    yield made
    for connection in (made.here, made.there):
        connection.execute(
            "DROP SCHEMA public CASCADE; DROP SCHEMA IF EXISTS lockgate CASCADE; "
            "CREATE SCHEMA public"
        )
        connection.close()


def errors(found: Iterable[Finding]) -> dict[str, str]:
    return {each.code: each.object for each in found if each.severity is Severity.ERROR}


def one(found: Iterable[Finding], code: str) -> Finding:
    chosen = [each for each in found if each.code == code and each.severity is not Severity.OK]
    assert len(chosen) == 1, (code, chosen)
    assert chosen[0].hint
    return chosen[0]


# --- create ------------------------------------------------------------------------------------


def test_tables_of_every_sort_can_be_moved(pair: Pair) -> None:
    odd = ODD.replace('"', '""')
    pair.here.execute(
        f'CREATE TABLE "{odd}" (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, '
        "twice bigint GENERATED ALWAYS AS (id * 2) STORED)".encode()
    )
    pair.here.execute("CREATE TABLE p (id int PRIMARY KEY) PARTITION BY RANGE (id)")
    pair.here.execute("CREATE TABLE p1 PARTITION OF p DEFAULT")
    found = pair.created(T, ODDLY, TableName("public", "p"))
    assert errors(found) == {}
    assert len(found) == len(set(found))


def test_nothing_is_left_behind(pair: Pair) -> None:
    pair.created()
    for connection in (pair.here, pair.there):
        found = connection.execute("SELECT to_regnamespace('lockgate')").fetchone()
        assert found == (None,)
    assert pair.there.execute("SELECT to_regclass('t')").fetchone() == (None,)


def test_one_database_is_no_way_to_go(pair: Pair) -> None:
    found = create_findings(pair.source, pair.source, [T])
    assert one(found, "same-database").severity is Severity.ERROR


def test_a_server_that_does_not_answer_is_a_finding(pair: Pair) -> None:
    found = create_findings(pair.source, "postgres://127.0.0.1:1/x", [T])
    assert [each.code for each in found] == ["endpoint-unavailable"]


def test_unknown_tables(pair: Pair) -> None:
    assert errors(pair.created(T, TableName("public", "nowhere"))) == {"no-table": "public.nowhere"}


def test_a_table_at_the_target_with_rows_that_are_not_ours(pair: Pair) -> None:
    pair.there.execute("CREATE TABLE t (id serial PRIMARY KEY, note text)")
    assert errors(pair.created()) == {}
    pair.there.execute("INSERT INTO t DEFAULT VALUES")
    assert errors(pair.created()) == {"target-not-empty": "public.t"}
    assert errors(pair.created(made=[T])) == {}


def test_the_old_name_is_in_use(pair: Pair) -> None:
    pair.here.execute("CREATE TABLE _t_old (id int)")
    assert errors(pair.created()) == {"old-name": "public._t_old"}


def test_roles_that_may_not_do_it_are_told_for_both_sides(pair: Pair) -> None:
    pair.there.execute("CREATE TABLE t (id serial PRIMARY KEY, note text)")
    with role(pair.source, "REPLICATION") as (_, source), role(pair.target) as (_, target):
        found = create_findings(source, target, [T])
        owners = [each for each in found if each.code == "owner"]
        assert {each.severity for each in owners} == {Severity.ERROR}
        assert len(owners) >= 2
        assert {"owner", "rename", "replication", "create", "write", "select"} <= set(errors(found))


def test_tables_without_a_key(pair: Pair) -> None:
    pair.here.execute("CREATE TABLE bare (a int)")
    bare = TableName("public", "bare")
    assert errors(pair.created(T, bare)) == {"no-identity": "public.bare"}
    pair.here.execute("ALTER TABLE bare REPLICA IDENTITY FULL")
    assert errors(pair.created(T, bare)) == {}
    assert one(pair.created(T, bare), "no-key").severity is Severity.WARNING


def test_foreign_keys_that_leave_and_that_come_in(pair: Pair) -> None:
    pair.here.execute("CREATE TABLE parent (id int PRIMARY KEY)")
    pair.here.execute(
        "ALTER TABLE t ADD CONSTRAINT up FOREIGN KEY (id) REFERENCES parent ON DELETE CASCADE"
    )
    pair.here.execute("CREATE TABLE child (id int CONSTRAINT down REFERENCES t)")
    found = pair.created()
    assert errors(found) == {}
    leaving = one(found, "foreign-key-out")
    assert "up leads to public.parent" in leaving.what
    assert "every DELETE of public.parent fails" in leaving.what
    coming = one(found, "foreign-key-in")
    assert "down of public.child" in coming.what
    names = [TableName("public", name) for name in ("t", "parent", "child")]
    assert not [each for each in pair.created(*names) if each.code.startswith("foreign-key")]


def test_a_table_that_inherits_from_one_that_stays(pair: Pair) -> None:
    pair.here.execute("CREATE TABLE base (id int)")
    pair.here.execute("ALTER TABLE t INHERIT base")
    assert errors(pair.created()) == {"heir": "public.t"}


def test_a_guard_of_a_former_move(pair: Pair) -> None:
    guard(pair.source, MARK, [T], at="x")
    assert errors(pair.created()) == {"guarded": "public.t"}


def fed(url: str, connection: psycopg.Connection) -> None:
    """Have a feed `in` that ends in the table."""
    with PostgresSink(url) as sink:
        sink.prepare()
    connection.execute("INSERT INTO lockgate.feeds VALUES ('in', 1, 1, 1, 5, false)")
    connection.execute(
        "INSERT INTO lockgate.progress (feed, span, table_id, low, epoch, seq, incarnation, "
        "floors, position) VALUES ('in', 's', 'public.t', '', 1, 1, 1, '[]', 5)"
    )


def test_a_feed_that_ends_in_the_table(pair: Pair) -> None:
    fed(pair.source, pair.here)
    assert "the feed in writes to it" in one(pair.created(), "fed").what
    pair.here.execute("UPDATE lockgate.feeds SET closed = true")
    assert errors(pair.created()) == {}


def test_a_feed_that_ends_in_the_targets_table(pair: Pair) -> None:
    pair.there.execute("CREATE TABLE t (id serial PRIMARY KEY, note text)")
    fed(pair.target, pair.there)
    assert errors(pair.created()) == {"fed": "public.t"}
    assert errors(pair.created(made=[T])) == {}


def test_sequences_near_their_end(pair: Pair) -> None:
    pair.here.execute("SELECT setval('t_id_seq', 2147483647 / 10 * 9 + 10000)")
    assert "9 % of its values left" in one(pair.created(), "sequence-end").what
    pair.here.execute("SELECT setval('t_id_seq', 2147483647)")
    assert "is at its end" in one(pair.created(), "sequence-end").what


# --- flip --------------------------------------------------------------------------------------


@pytest.fixture
def running(pair: Pair) -> Pair:
    """A move that could be switched."""
    pair.there.execute("CREATE TABLE t (id serial PRIMARY KEY, note text)")
    guard(pair.target, MARK, [T], at="source")
    return pair


def test_a_move_that_can_be_switched(running: Pair) -> None:
    found = running.flipped()
    assert errors(found) == {}
    assert "sequences" in {each.code for each in found}


def test_a_move_cannot_be_switched_the_wrong_way(running: Pair) -> None:
    found = flip_findings(running.target, running.source, [T])
    assert {"guarded", "not-guarded"} <= set(errors(found))


def test_a_guard_that_was_taken_away(running: Pair) -> None:
    running.there.execute("DROP TRIGGER lockgate_guard ON t")
    assert errors(running.flipped()) == {"not-guarded": "public.t"}


def test_a_target_table_that_somebody_dropped(running: Pair) -> None:
    running.there.execute("DROP TABLE t")
    assert "no-table" in errors(running.flipped())


@pytest.mark.parametrize("side", ["giving", "taking"])
def test_a_feed_that_ends_in_the_table_and_is_not_the_moves(running: Pair, side: str) -> None:
    giving = (running.source, running.here)
    fed(*giving if side == "giving" else (running.target, running.there))
    assert "the feed in writes to it" in one(running.flipped(), "fed").what
    assert errors(running.flipped(own=["in"])) == {}


def test_transactions_that_hold_a_table(running: Pair) -> None:
    with psycopg.connect(running.source, application_name="app") as holder:
        holder.execute("INSERT INTO t DEFAULT VALUES")
        holder.execute("SELECT pg_sleep(1.1)")
        held = one(running.flipped(), "held")
        assert held.severity is Severity.WARNING
        assert f"session {holder.info.backend_pid} (app, idle in transaction since" in held.what
        holder.rollback()
    assert errors(running.flipped()) == {}


def test_a_sequence_that_does_not_fit_at_the_other_side(running: Pair) -> None:
    running.there.execute("ALTER SEQUENCE t_id_seq MAXVALUE 10")
    running.here.execute("SELECT setval('t_id_seq', 11)")
    assert "ends at 10" in one(running.flipped(), "sequence-bounds").what


def test_a_sequence_that_is_not_at_the_other_side(running: Pair) -> None:
    running.there.execute("ALTER TABLE t ALTER id DROP DEFAULT; DROP SEQUENCE t_id_seq")
    assert errors(running.flipped()) == {"sequence-missing": "public.t"}


# --- complete ----------------------------------------------------------------------------------


@pytest.fixture
def switched(pair: Pair) -> Pair:
    """A move that could be completed."""
    at = block(pair.source, MARK, [T], moved_to="x", deadline_s=60.0, patience_s=9.0)
    assert seal(pair.source, MARK, [T], blocked_at=at)
    return pair


@pytest.mark.parametrize("disposal", list(Disposal))
def test_a_move_that_can_be_completed(switched: Pair, disposal: Disposal) -> None:
    assert errors(switched.completed(disposal)) == {}


@pytest.mark.parametrize("disposal", list(Disposal))
def test_a_feed_into_what_is_to_be_disposed_of(switched: Pair, disposal: Disposal) -> None:
    fed(switched.source, switched.here)
    assert "the feed in writes to it" in one(switched.completed(disposal), "fed").what
    assert errors(switched.completed(disposal, own=["in"])) == {}


def test_what_uses_a_table_follows_a_rename_and_is_in_the_way_of_a_drop(switched: Pair) -> None:
    switched.here.execute("CREATE VIEW v AS SELECT * FROM t")
    switched.here.execute("CREATE TABLE child (id int CONSTRAINT down REFERENCES t)")
    renamed = [e for e in switched.completed(Disposal.RENAME) if e.code == "dependent"]
    assert {each.severity for each in renamed} == {Severity.WARNING}
    assert any("constraint down on table child" in each.what for each in renamed)
    assert any("view v" in each.what for each in renamed)
    dropped = [e for e in switched.completed(Disposal.DROP) if e.code == "dependent"]
    assert {each.severity for each in dropped} == {Severity.ERROR}
    assert len(dropped) == len(renamed) == 2


def test_tables_that_others_follow(pair: Pair) -> None:
    def followers(own: Sequence[str] = (), *, stays: bool = False) -> list[tuple[str, Severity]]:
        found = followed_findings(pair.source, [T], own, stays=stays)
        assert all(each.code == "followed" and each.object == "t" for each in found)
        return [(each.what.split(":")[0].split(",")[0], each.severity) for each in found]

    assert followers() == []
    pair.here.execute("CREATE PUBLICATION lockgate_ours FOR TABLE t")
    pair.here.execute("CREATE PUBLICATION lockgate_shop FOR TABLE t")
    pair.here.execute("CREATE PUBLICATION theirs FOR TABLE t")
    ours, theirs = "a feed of Lockgate follows it", "the publication theirs has it"
    assert followers(["lockgate_ours"]) == [(ours, Severity.ERROR), (theirs, Severity.WARNING)]
    assert followers(["lockgate_ours"], stays=True) == [
        (ours, Severity.WARNING),
        (theirs, Severity.WARNING),
    ]
    pair.here.execute("DROP PUBLICATION lockgate_shop, theirs, lockgate_ours")
    assert followers() == []


def test_an_old_name_that_came_meanwhile(switched: Pair) -> None:
    switched.here.execute("CREATE TABLE _t_old (id int)")
    assert errors(switched.completed(Disposal.RENAME)) == {"old-name": "public._t_old"}
    assert errors(switched.completed(Disposal.DROP)) == {}


def test_a_table_that_is_not_closed_is_not_disposed_of(pair: Pair) -> None:
    for disposal in Disposal:
        assert errors(pair.completed(disposal)) == {"not-guarded": "public.t"}


def test_a_table_that_is_gone_is_told(switched: Pair) -> None:
    switched.here.execute("DROP TABLE t")
    found = switched.completed(Disposal.RENAME)
    assert errors(found) == {}
    assert one(found, "no-table").severity is Severity.WARNING


# --- who would hold up the way back ---------------------------------------------------------------


@pytest.mark.parametrize("told", [True, False])
def test_an_old_transaction_in_another_database_is_an_error_whether_its_age_is_told_or_not(
    pair: Pair, told: bool
) -> None:
    with role(pair.target) as (_, stranger), left_open(pair.target):

        def found() -> list[Finding]:
            url = pair.target if told else stranger
            return flip_findings(pair.source, url, [T], within_s=6.0)

        if told:
            until(lambda: "open-transaction" in errors(found()), 30.0, 0.1)
        last = one(found(), "open-transaction")
    assert last.severity is Severity.ERROR
    assert "nightly job, database postgres" in last.what


def test_prepared_transactions_are_errors_but_for_those_that_end_at_once(pair: Pair) -> None:
    with left_open(pair.target) as holder:
        holder.execute("PREPARE TRANSACTION 'o''clock'")
        try:
            found = one(pair.flipped(), "prepared")
        finally:
            holder.autocommit = True
            holder.execute("ROLLBACK PREPARED 'o''clock'")
    assert found.severity is Severity.ERROR
    assert "ROLLBACK PREPARED 'o''clock'" in found.hint
