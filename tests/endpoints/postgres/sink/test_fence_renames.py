"""Tables that get another name at a real sink: how far their copies are goes with them."""

import pytest
from psycopg import sql

from lockgate.endpoints.postgres.sink.chunks import Chunk
from lockgate.endpoints.postgres.sink.gate import chunk_done, enter_copy
from lockgate.endpoints.postgres.sink.rows import SpanRow
from lockgate.endpoints.postgres.sink.snapshots import BLIND
from lockgate.model.ddl import Ddl, DdlKind
from lockgate.model.floors import Refusal
from lockgate.model.spans import WHOLE, Lineage, SpanSpec
from tests.endpoints.postgres.sink.target import HIGH, LOW, A, B, Target, token

ME = token(1, 2)
SNAPSHOT = "740:745:741,743"
SWAP = Ddl(
    1,
    DdlKind.CREATE,
    ("t00", "t01"),
    statement="ALTER TABLE t00 …",
    renames=(("t00", "t01"), ("t01", "t00")),
)


def copied(target: Target, spec: SpanSpec) -> None:
    target.claim(spec, ME)
    assert target.sink.forget_chunks(target.feed, spec.id, ME, uncopied=True) is None


def built(target: Target, spec: SpanSpec) -> None:
    """All rows are there, and their snapshot is not forgotten yet."""
    landed(target, spec)
    assert target.sink.mark_built(target.feed, spec.id, ME) is None


def landed(target: Target, spec: SpanSpec) -> None:
    target.claim(spec, ME)
    target.sink.plan_chunks(target.feed, spec.id, ME, [(None, None)])
    with target.session(spec.id) as connection, connection.cursor() as cursor:
        assert enter_copy(cursor, target.feed, spec.id, ME, 0)
        chunk_done(cursor, target.feed, spec.id, 0, snapshot=SNAPSHOT, rows=7, bytes_=70)
        connection.commit()


def write(target: Target, ddl: Ddl, *tables: str) -> dict[str, SpanRow]:
    """The rows afterwards, by table."""
    births = [SpanSpec(f"new-{table}", table) for table in tables]
    assert target.sink.write_ddl(target.feed, token(), ddl, births, []) == ddl.position
    found = target.spans()
    assert not {one.id for one in (A, B, LOW, HIGH) if one.table in ddl.ended} & found.keys()
    return {row.spec.table: row for row in found.values()}


def test_tables_that_swap_names_swap_how_far_their_copies_are(target: Target) -> None:
    copied(target, A)
    found = write(target, SWAP, "t00", "t01")
    assert {table: row.copied for table, row in found.items()} == {"t00": False, "t01": True}
    assert {row.floors for row in found.values()} == {((WHOLE, 1),)}


def test_a_dispatcher_from_before_the_swap_writes_nothing_after_it(target: Target) -> None:
    copied(target, A)
    floors = target.floors(A, ME)
    name = [sql.Identifier(target.name(table)) for table in ("t00", "t01")]
    births = [SpanSpec(f"new-{table}", table) for table in ("t00", "t01")]
    statements = [
        sql.SQL("ALTER TABLE {} RENAME TO aside").format(name[0]),
        sql.SQL("ALTER TABLE {} RENAME TO {}").format(name[1], name[0]),
        sql.SQL("ALTER TABLE aside RENAME TO {}").format(name[1]),
    ]
    assert target.sink.write_ddl(target.feed, token(), SWAP, births, statements) == 1
    assert target.apply(A, ME, floors, 7, key=1) is Refusal.GONE
    assert target.claim(A, token(9, 9)) is Refusal.GONE
    assert (target.rows("t00"), target.rows("t01")) == ({}, {})


def test_a_table_takes_the_place_of_one_that_steps_aside(target: Target) -> None:
    """t00 is called old now, and t01 is called t00."""
    copied(target, A)
    renames = (("t00", "old"), ("t01", "t00"))
    ddl = Ddl(1, DdlKind.CREATE, ("old", "t00", "t01"), drops=("t01",), renames=renames)
    found = write(target, ddl, "old", "t00")
    assert {table: row.copied for table, row in found.items()} == {"old": True, "t00": False}


def test_a_table_takes_the_place_of_one_that_is_dropped(target: Target) -> None:
    copied(target, A)
    ddl = Ddl(1, DdlKind.CREATE, ("t00", "t01"), drops=("t01",), renames=(("t01", "t00"),))
    found = write(target, ddl, "t00")
    assert {table: row.copied for table, row in found.items()} == {"t00": False}


def test_a_new_table_under_an_old_name_is_not_copied(target: Target) -> None:
    """t00, which is not copied, is called old now, and another t00 is made."""
    ddl = Ddl(1, DdlKind.CREATE, ("old", "t00"), renames=(("t00", "old"),))
    births = [SpanSpec("old", "old"), SpanSpec("new", "t00")]
    assert target.sink.write_ddl(target.feed, token(), ddl, births, []) == 1
    assert target.sink.all_done(target.feed, "old") is False
    assert target.sink.all_done(target.feed, "new") is True


def test_of_tables_renamed_together_each_keeps_how_far_it_is(target: Target) -> None:
    copied(target, A)
    renames = (("t00", "x00"), ("t01", "x01"))
    names = ("t00", "t01", "x00", "x01")
    ddl = Ddl(1, DdlKind.CREATE, names, drops=("t00", "t01"), renames=renames)
    found = write(target, ddl, "x00", "x01")
    assert {table: row.copied for table, row in found.items()} == {"x00": True, "x01": False}


RENAME = Ddl(1, DdlKind.CREATE, ("t00", "x00"), drops=("t00",), renames=(("t00", "x00"),))


@pytest.mark.parametrize("so_far", [copied, built])
def test_a_table_whose_rows_are_there_is_not_copied_under_its_new_name(
    target: Target, so_far: object
) -> None:
    assert callable(so_far)
    so_far(target, A)
    target.sink.write_ddl(target.feed, token(), RENAME, [SpanSpec("new", "x00")], [])
    assert target.sink.all_done(target.feed, "new") is True
    assert target.sink.chunks(target.feed, "new") == []
    assert target.spans()["new"].copied is True


def test_a_plan_of_which_nothing_has_landed_is_made_anew(target: Target) -> None:
    target.claim(A, ME)
    target.sink.plan_chunks(target.feed, "a", ME, [(None, ("5",)), (("5",), None)])
    found = write(target, RENAME, "x00")
    assert found["x00"].copied is False
    assert target.sink.chunks(target.feed, "new-x00") == []


def test_chunks_that_have_landed_are_not_forgotten(target: Target) -> None:
    landed(target, A)
    found = write(target, RENAME, "x00")
    assert (found["x00"].copied, found["x00"].built) == (False, False)
    chunks = target.sink.chunks(target.feed, "new-x00")
    assert chunks == [Chunk(0, snapshot=SNAPSHOT, rows=7, bytes=70, done=True)]


@pytest.mark.parametrize("so_far", [copied, built])
def test_of_a_split_table_that_is_renamed_the_rest_is_copied(
    target: Target, so_far: object
) -> None:
    assert callable(so_far)
    target.claim(LOW, ME, lineage=Lineage(("a",), (LOW, HIGH)))
    so_far(target, LOW)
    found = write(target, RENAME, "x00")
    assert found["x00"].copied is False
    assert target.sink.all_done(target.feed, "new-x00") is False
    chunks = target.sink.chunks(target.feed, "new-x00")
    assert {(chunk.keys, chunk.snapshot, chunk.done) for chunk in chunks} == {
        (LOW.range, BLIND, True),
        (HIGH.range, None, False),
    }


def test_others_that_the_step_concerns_stay(target: Target) -> None:
    copied(target, B)
    ddl = Ddl(1, DdlKind.CREATE, ("t00", "t01", "x00"), drops=("t00",), renames=(("t00", "x00"),))
    target.sink.write_ddl(target.feed, token(), ddl, [SpanSpec("new", "x00")], [])
    found = target.spans()
    assert sorted(found) == ["b", "new"]
    assert (found["b"].copied, found["b"].floors) == (True, ((WHOLE, 1),))
