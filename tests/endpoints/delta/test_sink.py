"""A feed's fence at a lake: who may write, and that whoever comes late can do no harm."""

import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from msgspec import structs

from lockgate.endpoints.delta.changes import OP, POSITION, PUT, SEQ, ingest_schema
from lockgate.endpoints.delta.fenced import FencedTable
from lockgate.endpoints.delta.files import write_file
from lockgate.endpoints.delta.lake import Lake
from lockgate.endpoints.delta.layered import LayeredTable
from lockgate.endpoints.delta.marks import Marks
from lockgate.endpoints.delta.place import Place
from lockgate.endpoints.delta.sink import LakeSink
from lockgate.endpoints.delta.sink_tables import LakeTable
from lockgate.model.ddl import Ddl, DdlKind
from lockgate.model.errors import DidNotLand, EndpointRefused, NotFound, StaleOwner
from lockgate.model.floors import Refusal
from lockgate.model.ids import SEQ_MAX, Token
from lockgate.model.spans import TRIGGER, TRIGGER_SPEC, WHOLE, Birth, SpanSpec

ROWS = pa.schema([("id", pa.int64()), ("v", pa.int64())])
T = LakeTable("public.t", ROWS, ("id",))
SPAN = SpanSpec("s1", "public.t")
BIRTH = Birth(100, (SPAN,))
FIRST, SECOND = Token(1, 1, 1), Token(2, 1, 2)
TRIGGERS = Token(1, 2, 1), Token(2, 2, 2)


@pytest.fixture
def lake(tmp_path: Path) -> Place:
    return Place(str(tmp_path / "lake"), "lake")


def sink_of(lake: Place, home: str = "one") -> LakeSink:
    sink = LakeSink(lake, "feed", home, lambda table: table)
    sink.head.join()
    return sink


def born(lake: Place) -> LakeSink:
    """A feed whose table is copied, and empty."""
    sink = sink_of(lake)
    assert sink.claim(TRIGGER_SPEC, TRIGGERS[0], BIRTH, {"public.t": T}) == ((WHOLE, 100),)
    assert sink.claim(SPAN, FIRST) == ((WHOLE, 100),)
    sink.copies.plan("s1", FIRST, [(None, None)])
    sink.copies.chunk_landed("s1", FIRST, 0, (), 0, 0, "snapshot")
    assert sink.copies.land("s1", FIRST, 100) is None
    return sink


def table_of(lake: Place, incarnation: int | None = None) -> LayeredTable:
    found = Lake(lake)
    place = found.place("public.t", incarnation) if incarnation else found.live("public.t")
    return LayeredTable.open(place, "one")


def land(table: LayeredTable, token: Token, position: int, id_: int = 1) -> None:
    row = {"id": id_, "v": position, POSITION: position, SEQ: position, OP: PUT}
    changes = pa.Table.from_pylist([row], schema=ingest_schema(ROWS))
    table.land(token, changes, position)


def ddl(kind: DdlKind, position: int) -> Ddl:
    return Ddl(position, kind, ("public.t",))


def advance(sink: LakeSink, span: str, token: Token, at: int, to: int) -> object:
    return sink.advance([(span, token, ((WHOLE, at),), to)])[span]


def test_a_successor_voids_its_predecessor_in_the_rows_and_in_the_table(lake: Place) -> None:
    first, second = born(lake), sink_of(lake)
    assert second.claim(SPAN, SECOND) == ((WHOLE, 100),)
    with pytest.raises(StaleOwner):
        land(table_of(lake), FIRST, 110)
    assert advance(first, "s1", FIRST, 100, 120) is Refusal.NEWER
    assert first.claim(SPAN, FIRST) is Refusal.NEWER
    assert advance(second, "s1", SECOND, 100, 120) == ((WHOLE, 120),)


def test_a_successor_goes_on_from_what_has_landed_not_from_what_was_noted(lake: Place) -> None:
    born(lake)
    land(table_of(lake), FIRST, 130)
    assert sink_of(lake).claim(SPAN, SECOND) == ((WHOLE, 130),)


def test_what_a_table_has_is_noted_with_the_next_advance_and_never_goes_back(lake: Place) -> None:
    sink = born(lake)
    sink.landed("s1", FIRST, 150)
    assert sink.least_position() == 100
    advance(sink, TRIGGER, TRIGGERS[0], 100, 140)
    assert sink.rows.spans()["s1"].position == 150
    sink.landed("s1", FIRST, 120)
    advance(sink, TRIGGER, TRIGGERS[0], 140, 160)
    assert sink.rows.spans()["s1"].position == 150
    assert sink.least_position() == 150


def test_what_an_owner_knows_of_a_table_moves_no_row_of_whoever_came_after_it(lake: Place) -> None:
    """It was paused; the feed was removed, and made again from a source that is not so far."""
    paused, later = born(lake), sink_of(lake)
    paused.landed("s1", FIRST, 150)
    assert later.close(Token(2, 0, 2), forget=True)
    second = Token(3, 1, 2), Token(3, 2, 2)
    again = Birth(40, (SPAN,))
    assert later.claim(TRIGGER_SPEC, second[1], again, {"public.t": T}) == ((WHOLE, 40),)
    assert later.claim(SPAN, second[0]) == ((WHOLE, 40),)
    assert advance(paused, TRIGGER, TRIGGERS[0], 100, 140) is Refusal.NEWER
    assert later.rows.spans()["s1"].position == 40
    paused.landed("s1", second[0], 60)
    advance(paused, TRIGGER, TRIGGERS[0], 100, 140)
    assert later.rows.spans()["s1"].position == 60, "what the row's own token brought is noted"


def test_a_trigger_that_is_not_where_it_believes_is_told_so(lake: Place) -> None:
    sink = born(lake)
    advance(sink, TRIGGER, TRIGGERS[0], 100, 140)
    assert advance(sink, TRIGGER, TRIGGERS[0], 100, 150) is Refusal.MOVED


def test_a_schema_change_waits_for_everybody_concerned(lake: Place) -> None:
    sink = born(lake)
    advance(sink, TRIGGER, TRIGGERS[0], 100, 199)
    drop = ddl(DdlKind.DROP, 200)
    assert sink.write_ddl(TRIGGERS[0], drop, (), {}, set()) is Refusal.BEHIND
    assert Lake(lake).live("public.t")
    land(table_of(lake), FIRST, 199)
    assert sink.write_ddl(TRIGGERS[0], drop, (), {}, set()) == 200
    with pytest.raises(NotFound):
        Lake(lake).live("public.t")
    assert "s1" not in sink.rows.spans()


def test_a_drop_that_is_done_late_ends_nothing_that_came_after_it(lake: Place) -> None:
    """L5: the table was dropped, made again and filled while somebody slept over his drop."""
    sink, late = born(lake), sink_of(lake)
    advance(sink, TRIGGER, TRIGGERS[0], 100, 199)
    land(table_of(lake), FIRST, 199)
    sink.write_ddl(TRIGGERS[0], ddl(DdlKind.DROP, 200), (), {}, set())
    advance(sink, TRIGGER, TRIGGERS[0], 200, 249)
    new = SpanSpec("s2", "public.t")
    sink.write_ddl(TRIGGERS[0], ddl(DdlKind.CREATE, 250), (new,), {"public.t": T}, set())
    sink.claim(new, Token(1, 3, 1))
    land(table_of(lake), Token(1, 3, 1), 260)
    late.tables.end("public.t", 200)
    assert table_of(lake).read().num_rows == 1


def test_a_schema_change_that_was_broken_off_is_finished_by_the_next(lake: Place) -> None:
    """The tables are done, the rows are not: whoever comes finds the tables as they are to be."""
    sink = born(lake)
    advance(sink, TRIGGER, TRIGGERS[0], 100, 199)
    land(table_of(lake), FIRST, 199)
    wider = LakeTable("public.t", ROWS.append(pa.field("w", pa.string())), ("id",))
    sink.tables.open(sink.rows.spans()["s1"]).evolve(wider.rows, 200)
    after = sink_of(lake)
    assert after.claim(TRIGGER_SPEC, TRIGGERS[1]) == ((WHOLE, 199),)
    alter = ddl(DdlKind.ALTER, 200)
    assert after.write_ddl(TRIGGERS[1], alter, (), {"public.t": wider}, set()) == 200
    assert after.write_ddl(TRIGGERS[1], alter, (), {"public.t": wider}, set()) == 200
    assert sink.write_ddl(TRIGGERS[0], alter, (), {"public.t": wider}, set()) is Refusal.NEWER
    assert table_of(lake).read().column_names == ["id", "v", "w"]


def test_a_table_whose_directory_was_deleted_by_hand_can_be_made_anew(lake: Place) -> None:
    sink = born(lake)
    shutil.rmtree(f"{lake.url}/public.t")
    assert sink.copies.renew("s1", FIRST, 160, T) is None
    sink.copies.plan("s1", FIRST, [(None, None)])
    sink.copies.chunk_landed("s1", FIRST, 0, (), 0, 0, "snapshot")
    assert sink.copies.land("s1", FIRST, 170) is None
    land(table_of(lake), FIRST, 180)
    assert table_of(lake).read().num_rows == 1


def test_a_table_that_is_made_anew_is_read_as_the_old_one_until_it_is_copied(lake: Place) -> None:
    sink = born(lake)
    land(table_of(lake), FIRST, 150)
    assert sink.copies.renew("s1", FIRST, 160, T) is None
    assert table_of(lake).read().num_rows == 1
    assert not sink.copies_over()
    sink.copies.plan("s1", FIRST, [(None, None)])
    sink.copies.chunk_landed("s1", FIRST, 0, (), 0, 0, "snapshot")
    assert sink.copies.land("s1", FIRST, 160) is None
    assert Lake(lake).newest("public.t") == 160
    assert table_of(lake).read().num_rows == 0


def test_whoever_was_outrun_makes_no_table_of_anybodys(lake: Place) -> None:
    """A resync that was asked of a stale owner: its directory is there, and is not the table."""
    first = born(lake)
    sink_of(lake).claim(SPAN, SECOND)
    assert first.copies.renew("s1", FIRST, 160, T) is Refusal.NEWER
    assert Lake(lake).newest("public.t") == 100


@pytest.mark.parametrize("harm", ["gone", "cut off"])
def test_a_chunk_whose_file_was_lost_is_copied_once_more(lake: Place, harm: str) -> None:
    sink = sink_of(lake)
    sink.claim(TRIGGER_SPEC, TRIGGERS[0], BIRTH, {"public.t": T})
    sink.claim(SPAN, FIRST)
    table = sink.tables.open(sink.rows.spans()["s1"])
    sink.copies.plan("s1", FIRST, [(None, ("5",)), (("5",), None)])
    files = []
    for no, snapshot in enumerate("ab"):
        rows = pa.table({"id": [no * 5], "v": [1]}, schema=ROWS)
        files.append(write_file(table.stable.place, rows, ["id"]))
        sink.copies.chunk_landed("s1", FIRST, no, (files[no],), 1, 1, snapshot)
    path = Path(table.stable.place.url, files[0].path)
    path.unlink() if harm == "gone" else path.write_bytes(b"PAR1")
    with pytest.raises(DidNotLand):
        sink.copies.land("s1", FIRST, 110)
    first, second = sink.rows.spans()["s1"].chunks
    assert (first.done, second.done) == (False, True)
    assert (first.low, first.high, first.files) == (None, ("5",), ())
    assert sink.copies.land("s1", FIRST, 110) is Refusal.BEHIND
    again = write_file(table.stable.place, pa.table({"id": [0], "v": [2]}, schema=ROWS), ["id"])
    sink.copies.chunk_landed("s1", FIRST, 0, (again,), 1, 1, "c")
    assert sink.copies.land("s1", FIRST, 120) is None
    assert sorted(table_of(lake).read()["v"].to_pylist()) == [1, 2]
    assert sorted(table_of(lake).snapshots) == ["b", "c"]


def test_a_copy_lands_once_whoever_lands_it(lake: Place) -> None:
    sink = born(lake)
    assert sink.copies.land("s1", FIRST, 100) is None
    assert sink.copies.chunk_landed("s1", SECOND, 0, (), 0, 0, "x") is Refusal.NEWER


def test_a_copy_that_landed_and_was_not_recorded_is_taken_up_by_the_next(
    lake: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed between the two, and the source has gone on when the successor comes."""
    first = born(lake)
    first.copies.renew("s1", FIRST, 160, T)
    first.copies.plan("s1", FIRST, [(None, None)])
    stable = first.tables.open(first.rows.spans()["s1"]).place.child("stable")
    file = write_file(stable, pa.table({"id": [1], "v": [1]}, schema=ROWS), ["id"])
    first.copies.chunk_landed("s1", FIRST, 0, (file,), 1, 0, "snapshot")
    with monkeypatch.context() as killed:
        killed.setattr(first.rows, "change_row", _die)
        with pytest.raises(KeyboardInterrupt):
            first.copies.land("s1", FIRST, 165)
    second = sink_of(lake)
    second.claim(SPAN, SECOND)
    assert not second.copies_over()
    assert second.copies.taken("s1", SECOND) is False, "the rows are its own home's"
    assert second.copies.land("s1", SECOND, 300) is None
    assert second.copies_over()
    table = table_of(lake)
    assert (table.read().num_rows, table.snapshot().settled) == (1, 165)


def _die(*_: object) -> None:
    raise KeyboardInterrupt


def test_a_closed_feed_lets_nobody_in_and_can_be_born_again(lake: Place) -> None:
    sink = born(lake)
    close = Token(1, SEQ_MAX, 0)
    assert sink.close(close, forget=True)
    with pytest.raises(StaleOwner):
        land(table_of(lake), FIRST, 300)
    assert sink.claim(SPAN, FIRST) is Refusal.GONE
    assert sink.claim(TRIGGER_SPEC, TRIGGERS[0], BIRTH, {"public.t": T}) is Refusal.CLOSED
    again = Birth(500, (SPAN,))
    assert sink.claim(TRIGGER_SPEC, TRIGGERS[1], again, {"public.t": T}) == ((WHOLE, 500),)
    assert sink.rows.spans()["s1"].incarnation == 500


def test_a_removal_that_was_broken_off_voids_the_ingests_when_it_is_repeated(
    lake: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A task that outlived its driver has the token of the ingest until somebody claims that."""
    sink, close = born(lake), Token(1, SEQ_MAX, 0)
    with monkeypatch.context() as killed:
        killed.setattr(FencedTable, "claim", _die)
        with pytest.raises(KeyboardInterrupt):
            sink.close(close, forget=True)
    assert sink_of(lake).close(close, forget=True)
    assert sink.rows.read().closed
    with pytest.raises(StaleOwner):
        land(table_of(lake), FIRST, 300)


def test_an_ingest_that_cannot_be_voided_keeps_a_feed_from_being_forgotten_and_no_other_open(
    lake: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink, close, u = sink_of(lake), Token(1, SEQ_MAX, 0), SpanSpec("s2", "public.u")
    born_ = {"public.t": T, "public.u": structs.replace(T, name="public.u")}
    sink.claim(TRIGGER_SPEC, TRIGGERS[0], Birth(100, (SPAN, u)), born_)
    for spec in (SPAN, u):
        sink.claim(spec, FIRST)
    claim = FencedTable.claim

    def damaged(table: FencedTable, token: Token) -> Marks:
        if "public.t" in table.place.url:
            raise EndpointRefused("the log is damaged", object_="public.t", hint="")
        return claim(table, token)

    with monkeypatch.context() as broken:
        broken.setattr(FencedTable, "claim", damaged)
        for _ in range(2):
            with pytest.raises(EndpointRefused):
                sink.close(close, forget=True)
    assert not sink.rows.read().closed
    rows = sink.rows.spans()
    assert sink.tables.open(rows["s2"]).ingest.look().token == close
    assert sink.close(close, forget=True)
    assert sink.rows.read().closed
    assert table_of(lake, 100).ingest.look().token == close


def test_an_older_owner_closes_nothing(lake: Place) -> None:
    sink = born(lake)
    sink.claim(TRIGGER_SPEC, TRIGGERS[1])
    assert not sink.close(Token(1, SEQ_MAX, 0), forget=False)


def test_a_follower_takes_part_in_the_leaders_table_and_has_no_copy_of_its_own(
    lake: Place,
) -> None:
    born(lake)
    leader = sink_of(lake).head.token()
    assert leader is not None
    table = table_of(lake)
    land(table, FIRST, 150)
    follower = sink_of(lake, "two")
    joined = LakeTable("public.t", ROWS, ("id",), incarnation=100)
    follower.claim(TRIGGER_SPEC, TRIGGERS[0], Birth(140, (SPAN,)), {"public.t": joined})
    follower.claim(SPAN, FIRST)
    with pytest.raises(Exception, match="lead"):
        follower.copies.joined("s1", FIRST, 140)
    table.stable.claim(leader)
    table.drain(leader)
    assert follower.copies.joined("s1", FIRST, 140) is None
    assert follower.copies_over()
    mine = follower.tables.open(follower.rows.spans()["s1"])
    land(mine, FIRST, 160, id_=2)
    assert mine.read().num_rows == 2
