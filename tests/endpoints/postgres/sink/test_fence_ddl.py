"""Schema changes at a real sink: once, in order, together with everybody's rows."""

import pytest
from psycopg import Cursor, sql

from lockgate.model.ddl import Ddl, DdlKind
from lockgate.model.errors import DataRefused, Terminal
from lockgate.model.floors import Refusal
from lockgate.model.positions import Position
from lockgate.model.spans import TRIGGER_SPEC, WHOLE, SpanSpec
from tests.endpoints.postgres.sink.target import A, Target, token

ME = token(1, 2)


def alter(target: Target, table: str = "t01") -> list[sql.Composed]:
    name = sql.Identifier(target.name(table))
    return [sql.SQL("ALTER TABLE {} ADD COLUMN note text").format(name)]


def columns(target: Target, table: str = "t01") -> int:
    found = target.admin.execute(
        "SELECT count(*) FROM information_schema.columns WHERE table_name = %s",
        (target.name(table),),
    ).fetchone()
    assert found is not None
    return int(found[0])


def write(
    target: Target, ddl: Ddl, *births: SpanSpec, by: tuple[int, int] = (1, 1)
) -> Position | Refusal:
    return target.sink.write_ddl(target.feed, token(*by), ddl, births, alter(target))


def test_a_ddl_is_written_once(target: Target) -> None:
    ddl = Ddl(1, DdlKind.ALTER, ("t01",))
    assert write(target, ddl) == 1
    assert write(target, ddl) == 1
    assert columns(target) == 3


def test_a_ddl_moves_the_rows_of_everybody_concerned(target: Target) -> None:
    write(target, Ddl(1, DdlKind.ALTER, ("t01",)))
    spans = target.spans()
    assert (spans["a"].floors, spans["b"].floors) == (((WHOLE, 0),), ((WHOLE, 1),))
    assert target.trigger() == 1


def test_a_ddl_of_every_table_concerns_every_span(target: Target) -> None:
    target.advance_trigger(4)
    ddl = Ddl(5, DdlKind.SYNC, every_table=True)
    assert write(target, ddl) is Refusal.BEHIND
    floors = target.floors(A, ME)
    target.advance(A, ME, floors, 4)
    assert write(target, ddl) is Refusal.BEHIND  # b is still at 0
    assert columns(target) == 2


def test_a_ddl_waits_for_everybody_concerned(target: Target) -> None:
    target.advance_trigger(4)
    drop = Ddl(5, DdlKind.DROP, ("t00",))
    assert write(target, drop) is Refusal.BEHIND
    target.advance(A, ME, target.floors(A, ME), 4)
    assert write(target, drop) == 5
    assert sorted(target.spans()) == ["b"]


def test_a_ddl_waits_for_a_recorded_batch(target: Target) -> None:
    target.claim(A, ME)
    target.sink.record_batch(target.feed, "a", ME, ((WHOLE, 0),), 9, 2)
    assert write(target, Ddl(1, DdlKind.ALTER, ("t00",))) is Refusal.BEHIND


def test_a_ddl_does_not_overtake_the_trigger(target: Target) -> None:
    assert write(target, Ddl(5, DdlKind.CREATE, ("t02",))) is Refusal.BEHIND


def test_an_old_trigger_writes_no_ddl(target: Target) -> None:
    target.claim(TRIGGER_SPEC, token(2, 1))
    assert write(target, Ddl(1, DdlKind.ALTER, ("t01",))) is Refusal.NEWER
    assert columns(target) == 2


def test_a_closed_feed_writes_no_ddl(target: Target) -> None:
    target.sink.close(target.feed, token(1, 9), forget=True)
    assert write(target, Ddl(1, DdlKind.ALTER, ("t01",))) is Refusal.CLOSED


def test_a_created_table_is_born_at_its_ddl_under_its_makers_epoch(target: Target) -> None:
    target.claim(TRIGGER_SPEC, token(2, 1))
    new = SpanSpec("new", "t02")
    assert write(target, Ddl(1, DdlKind.CREATE, ("t02",)), new, by=(2, 1)) == 1
    assert target.claim(new, token(1, 9)) is Refusal.NEWER
    assert target.claim(new, token(2, 2)) == ((WHOLE, 1),)


def test_a_zombie_of_a_dropped_table_cannot_bring_it_back(target: Target) -> None:
    floors = target.floors(A, ME)
    target.sink.record_batch(target.feed, "a", ME, floors, 9, 2)
    target.claim(A, ME)  # dissolves it
    drop = sql.SQL("DROP TABLE {}").format(sql.Identifier(target.name("t00")))
    ddl = Ddl(1, DdlKind.DROP, ("t00",))
    assert target.sink.write_ddl(target.feed, token(), ddl, (), [drop]) == 1
    assert target.apply(A, ME, floors, 7, key=1) is Refusal.GONE
    assert target.advance(A, ME, floors, 7) is Refusal.GONE
    assert target.claim(A, token(9, 9)) is Refusal.GONE
    assert sorted(target.spans()) == ["b"]


def test_a_table_created_again_is_not_the_zombies(target: Target) -> None:
    floors = target.floors(A, ME)
    drop, create = Ddl(1, DdlKind.DROP, ("t00",)), Ddl(2, DdlKind.CREATE, ("t00",))
    new = SpanSpec("a2", "t00")
    assert target.sink.write_ddl(target.feed, token(), drop, (), []) == 1
    assert target.sink.write_ddl(target.feed, token(), create, (new,), []) == 2
    assert target.apply(A, ME, floors, 7, key=1) is Refusal.GONE
    assert target.rows() == {}


def test_statements_may_be_somebody_who_executes_them(target: Target) -> None:
    def change(cursor: Cursor) -> None:
        for statement in alter(target):
            cursor.execute(statement)

    ddl = Ddl(1, DdlKind.ALTER, ("t01",))
    assert target.sink.write_ddl(target.feed, token(), ddl, (), change) == 1
    assert columns(target) == 3


def test_a_ddl_that_fails_names_its_statement_and_changes_nothing(target: Target) -> None:
    ddl = Ddl(1, DdlKind.ALTER, ("t01",), statement="ALTER TABLE\n  t01 ADD COLUMN x nonsense")
    broken = [*alter(target), sql.SQL("ALTER TABLE nowhere ADD COLUMN x nonsense")]
    with pytest.raises(Terminal, match="ALTER TABLE t01 ADD COLUMN x nonsense"):
        target.sink.write_ddl(target.feed, token(), ddl, (), broken)
    assert (columns(target), target.trigger(), target.spans()["b"].floors) == (2, 0, ((WHOLE, 0),))
    assert write(target, ddl) == 1


def test_a_ddl_that_the_rows_do_not_allow_is_refused(target: Target) -> None:
    target.apply(A, ME, target.floors(A, ME), 0, key=1)
    name = sql.Identifier(target.name("t00"))
    check = [sql.SQL("ALTER TABLE {} ADD CHECK (key > 5)").format(name)]
    ddl = Ddl(1, DdlKind.ALTER, ("t00",))
    with pytest.raises(DataRefused):
        target.sink.write_ddl(target.feed, token(), ddl, (), check)
