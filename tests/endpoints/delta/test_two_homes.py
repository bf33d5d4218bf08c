"""Two homes feed the same log into one lake, at paces of their own: neither is held up by what the
other, or a person, has done to a table that it has not come to yet (L4, L5)."""

import shutil
from pathlib import Path

import pyarrow as pa
import pytest

from lockgate.endpoints.delta import delete as deleting
from lockgate.endpoints.delta.changes import OP, POSITION, PUT, SEQ, ingest_schema
from lockgate.endpoints.delta.delete import delete
from lockgate.endpoints.delta.draining import ChangesMissing
from lockgate.endpoints.delta.fenced import FencedTable
from lockgate.endpoints.delta.files import write_file
from lockgate.endpoints.delta.lake import Lake
from lockgate.endpoints.delta.layered import LayeredTable
from lockgate.endpoints.delta.place import Place
from lockgate.endpoints.delta.sink import LakeSink
from lockgate.endpoints.delta.sink_copy import NoLeader
from lockgate.endpoints.delta.sink_tables import LakeTable
from lockgate.endpoints.delta.travel import PositionAhead
from lockgate.lake.opening import looked_up
from lockgate.model.ddl import Ddl, DdlKind
from lockgate.model.errors import NotFound
from lockgate.model.floors import Refusal
from lockgate.model.ids import Token
from lockgate.model.spans import TRIGGER, TRIGGER_SPEC, WHOLE, Birth, SpanSpec

T = "public.t"
TOKEN = Token(1, 1, 1)
ROWS = pa.schema([("id", pa.int64()), ("v", pa.int64())])
WIDE = ROWS.append(pa.field("w", pa.int64()))


class Home:
    """A feed of one home; there is no table at first."""

    def __init__(self, place: Place, name: str) -> None:
        self.sink = LakeSink(place, "feed", name, lambda table: table, 1, lambda: "source")
        self.sink.head.join()
        self.sink.claim(TRIGGER_SPEC, TOKEN, Birth(100, ()), {})
        self.at = 100

    def ddl(self, kind: DdlKind, position: int, schema: pa.Schema = ROWS) -> None:
        """Come to a schema change, with all spans, and write it."""
        spans = self.sink.rows.spans()
        moves = [
            (span, TOKEN, ((WHOLE, row.position),), position - 1) for span, row in spans.items()
        ]
        self.sink.advance([*moves, (TRIGGER, TOKEN, ((WHOLE, self.at),), position - 1)])
        births = (SpanSpec(f"s{position}", T),) if kind is DdlKind.CREATE else ()
        after = {T: LakeTable(T, schema, ("id",))}
        answer = self.sink.write_ddl(TOKEN, Ddl(position, kind, (T,)), births, after, set())
        assert answer == position
        self.at = position

    def claim(self, span: str) -> int:
        floors = self.sink.claim(SpanSpec(span, T), TOKEN)
        assert isinstance(floors, tuple)
        return floors[0][1]

    def land(self, span: str, id_: int, position: int) -> None:
        table = self.table(span)
        row = {"id": id_, "v": 0, POSITION: position, SEQ: position, OP: PUT}
        changes = pa.Table.from_pylist([row], schema=ingest_schema(ROWS))
        table.land(TOKEN, changes, position)

    def table(self, span: str) -> LayeredTable:
        return self.sink.tables.open(self.sink.rows.spans()[span])

    def copy(self, span: str, ids: list[int], settled: int) -> None:
        stable = self.table(span).place.child("stable")
        file = write_file(stable, pa.table({"id": ids, "v": ids}, schema=ROWS), ["id"])
        self.sink.copies.plan(span, TOKEN, [(None, None)])
        self.sink.copies.chunk_landed(span, TOKEN, 0, (file,), len(ids), 0, "snapshot")
        assert self.sink.copies.land(span, TOKEN, settled) is None


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(str(tmp_path / "lake"), "lake")


@pytest.fixture
def ahead(place: Place) -> Home:
    return Home(place, "ahead")


@pytest.fixture
def behind(place: Place, ahead: Home) -> Home:
    """The one that is ahead leads: it was first."""
    return Home(place, "behind")


@pytest.fixture
def both(ahead: Home, behind: Home) -> None:
    for home in (ahead, behind):
        home.ddl(DdlKind.CREATE, 110)
        home.claim("s110")


def drop(place: Place, incarnation: int) -> None:
    """A person drops it, and its files are deleted."""
    Lake(place).end(T, incarnation)
    delete(Lake(place), T, incarnation, 0)


@pytest.mark.usefixtures("both")
def test_a_home_that_is_behind_passes_by_what_came_before_the_table_that_has_the_name_now(
    place: Place, ahead: Home, behind: Home
) -> None:
    ahead.ddl(DdlKind.DROP, 200)
    ahead.ddl(DdlKind.CREATE, 210)
    delete(Lake(place), T, 110, 0)
    assert behind.claim("s110") == 210
    behind.land("s110", 1, 150)
    assert behind.table("s110").read().num_rows == 0, "that was a row of the table before"
    behind.ddl(DdlKind.DROP, 200)
    behind.ddl(DdlKind.CREATE, 210)
    behind.claim("s210")
    behind.land("s210", 2, 220)
    assert behind.table("s210").read()["id"].to_pylist() == [2]


def test_a_home_comes_to_the_creation_of_a_table_that_is_dropped_and_deleted_already(
    place: Place, ahead: Home, behind: Home
) -> None:
    ahead.ddl(DdlKind.CREATE, 110)
    drop(place, 110)
    behind.ddl(DdlKind.CREATE, 110)
    behind.claim("s110")
    assert behind.sink.rows.spans()["s110"].dropped
    assert Lake(place).tables() == []


@pytest.mark.usefixtures("both")
@pytest.mark.parametrize("kind", [DdlKind.ALTER, DdlKind.DROP])
def test_a_schema_change_of_a_table_that_somebody_has_dropped_is_passed(
    place: Place, behind: Home, kind: DdlKind
) -> None:
    drop(place, 110)
    behind.ddl(kind, 200, WIDE)
    assert behind.at == 200


@pytest.mark.usefixtures("both")
def test_what_replaced_a_table_while_a_home_was_behind_gets_the_columns_that_come_with_it(
    place: Place, ahead: Home, behind: Home
) -> None:
    ahead.sink.copies.renew("s110", TOKEN, 150, LakeTable(T, ROWS, ("id",)))
    ahead.copy("s110", [1], 150)
    delete(Lake(place), T, 110, 0)
    behind.ddl(DdlKind.ALTER, 200, WIDE)
    behind.claim("s110")
    assert behind.table("s110").rows.names == ["id", "v", "w"]


@pytest.mark.usefixtures("both")
def test_a_home_takes_part_in_what_replaced_its_table_with_all_columns_that_anybody_has(
    ahead: Home, behind: Home
) -> None:
    ahead.sink.copies.renew("s110", TOKEN, 150, LakeTable(T, ROWS, ("id",)))
    ahead.copy("s110", [1], 150)
    ahead.ddl(DdlKind.ALTER, 200, WIDE)
    assert behind.claim("s110") == 150
    assert behind.table("s110").rows.names == ["id", "v", "w"]
    assert behind.table("s110").read().num_rows == 1


@pytest.mark.usefixtures("both")
def test_who_takes_part_while_a_schema_change_waits_owns_what_he_lands_in(
    place: Place, ahead: Home, behind: Home
) -> None:
    ahead.sink.copies.renew("s110", TOKEN, 150, LakeTable(T, ROWS, ("id",)))
    ahead.copy("s110", [1], 150)
    delete(Lake(place), T, 110, 0)
    behind.sink.advance([(TRIGGER, TOKEN, ((WHOLE, 110),), 199)])
    alter = Ddl(200, DdlKind.ALTER, (T,))
    answer = behind.sink.write_ddl(TOKEN, alter, (), {T: LakeTable(T, WIDE, ("id",))}, set())
    assert answer is Refusal.BEHIND
    behind.land("s110", 2, 160)
    assert behind.table("s110").read().num_rows == 2


@pytest.mark.usefixtures("both")
def test_a_copy_that_lost_the_lake_is_not_told_that_it_lost_the_span(
    ahead: Home, behind: Home
) -> None:
    ahead.sink.copies.renew("s110", TOKEN, 150, LakeTable(T, ROWS, ("id",)))
    ahead.table("s110").stable.claim(Token(99, 0, 2))
    with pytest.raises(NoLeader):
        ahead.copy("s110", [1], 150)


@pytest.mark.usefixtures("both")
def test_a_drop_at_the_source_that_meets_files_going_away_is_written(
    place: Place, behind: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    Lake(place).end(T, 110)
    remove = deleting._remove_file

    def part(files: object, path: str) -> None:
        if path.endswith("00000000000000000001.json"):
            raise KeyboardInterrupt
        remove(files, path)

    monkeypatch.setattr(deleting, "_remove_file", part)
    with pytest.raises(KeyboardInterrupt):
        delete(Lake(place), T, 110, 0)
    behind.ddl(DdlKind.DROP, 200)
    assert "s110" not in behind.sink.rows.spans()


@pytest.mark.usefixtures("both")
def test_where_nobody_could_bring_rows_no_table_is_begun_anew(place: Place, behind: Home) -> None:
    with pytest.raises(NoLeader):
        behind.sink.copies.renew("s110", TOKEN, 150, LakeTable(T, ROWS, ("id",)))
    assert Lake(place).incarnations(T) == [110]


@pytest.mark.usefixtures("both")
def test_a_copy_lands_although_its_feed_has_not_come_to_the_birth_of_the_new_table(
    place: Place, ahead: Home
) -> None:
    ahead.sink.copies.renew("s110", TOKEN, 150, LakeTable(T, ROWS, ("id",)))
    assert ahead.sink.rows.spans()["s110"].position < 150
    ahead.copy("s110", [1, 2], 155)
    assert Lake(place).newest(T) == 150


@pytest.mark.usefixtures("both")
def test_what_was_begun_anew_and_given_up_is_ended_once_its_table_has_gone_past_it(
    place: Place, ahead: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(ahead.sink.rows, "change_row", _die)
        with pytest.raises(KeyboardInterrupt):
            ahead.sink.copies.renew("s110", TOKEN, 150, LakeTable(T, ROWS, ("id",)))
    ahead.claim("s110")
    assert not FencedTable.open(Lake(place).place(T, 150).child("stable")).look().dead
    ahead.sink.advance([("s110", TOKEN, ((WHOLE, 110),), 180)])
    ahead.claim("s110")
    assert FencedTable.open(Lake(place).place(T, 150).child("stable")).look().dead
    assert Lake(place).newest(T) == 110


@pytest.mark.usefixtures("both")
@pytest.mark.parametrize("noted", [True, False])
def test_a_home_that_is_further_than_the_new_table_has_changes_of_it_from_there_on_only(
    place: Place, ahead: Home, behind: Home, noted: bool
) -> None:
    """The one that leads is behind for once."""
    for position in (120, 130, 140):
        behind.land("s110", position, position)
    if noted:
        behind.sink.advance([("s110", TOKEN, ((WHOLE, 110),), 140)])
    ahead.sink.copies.renew("s110", TOKEN, 125, LakeTable(T, ROWS, ("id",)))
    ahead.copy("s110", [120], 125)
    assert behind.claim("s110") == 140
    assert behind.table("s110").begins == 140
    assert not behind.sink.rows.spans()["s110"].copied
    behind.land("s110", 150, 150)
    ahead.land("s110", 130, 130)
    seen = looked_up(place, T, 130)
    assert sorted(seen[0].read(seen[1])["id"].to_pylist()) == [120, 130]
    with pytest.raises(PositionAhead):
        looked_up(place, T, 145)


def _die(*_: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.usefixtures("both")
def test_a_leader_does_not_copy_into_rows_of_another_home_that_leave_a_gap(
    ahead: Home, behind: Home
) -> None:
    ahead.sink.copies.renew("s110", TOKEN, 150, LakeTable(T, ROWS, ("id",)))
    behind.sink.advance([("s110", TOKEN, ((WHOLE, 110),), 180)])
    ahead.copy("s110", [1], 150)
    behind.claim("s110")
    assert not behind.sink.rows.spans()["s110"].copied, "what it landed up to 180 is not there"
    assert behind.sink.copies.taken("s110", TOKEN) is True
    assert ahead.sink.copies.taken("s110", TOKEN) is False


@pytest.mark.usefixtures("both")
def test_who_had_copied_everything_when_another_home_brought_its_rows_leaves_no_gap(
    ahead: Home, behind: Home
) -> None:
    """It lost the lake right before it could land them, and has it again."""
    ahead.sink.copies.renew("s110", TOKEN, 150, LakeTable(T, ROWS, ("id",)))
    ahead.sink.advance([("s110", TOKEN, ((WHOLE, 110),), 180)])
    ahead.sink.copies.plan("s110", TOKEN, [(None, None)])
    ahead.sink.copies.chunk_landed("s110", TOKEN, 0, (), 0, 0, "snapshot")
    behind.sink.head.take(1, 1, ahead.sink.head.read().epoch)
    behind.sink.tables.take_part(behind.sink.rows.spans()["s110"])
    behind.sink.copies.renew("s110", TOKEN, 150, LakeTable(T, ROWS, ("id",)))
    behind.copy("s110", [1], 150)
    ahead.sink.head.take(1, 1, behind.sink.head.read().epoch)
    assert ahead.sink.copies.taken("s110", TOKEN) is True, "of what came up to 180 it has nothing"


@pytest.mark.usefixtures("both")
def test_who_leads_drains_nothing_over_changes_that_only_another_home_has(
    ahead: Home, behind: Home
) -> None:
    """It took part when the other one had more than was drained, and that one is lost."""
    ahead.land("s110", 1, 120)
    behind.sink.advance([("s110", TOKEN, ((WHOLE, 110),), 130)])
    shutil.rmtree(behind.table("s110").ingest.place.url)
    behind.claim("s110")
    table = behind.table("s110")
    assert table.begins == 130
    behind.land("s110", 2, 140)
    leader = Token(9, 0, 9)
    table.stable.claim(leader)
    with pytest.raises(ChangesMissing) as caught:
        table.drain(leader)
    assert "copies the table anew" in caught.value.hint
    assert table.stable.look().position == 110
    other = ahead.table("s110")
    other.drain(leader)
    with pytest.raises(ChangesMissing):
        table.drain(leader)
    other.note_position(TOKEN, 130)
    other.drain(leader)
    assert table.drain(leader) is not None
    assert sorted(table.read()["id"].to_pylist()) == [1, 2]


# --- columns that were dropped --------------------------------------------------------------------


@pytest.mark.usefixtures("both")
def test_a_column_that_comes_again_has_no_values_of_the_one_that_was_dropped(
    place: Place, ahead: Home, behind: Home
) -> None:
    for home in (ahead, behind):
        home.ddl(DdlKind.ALTER, 120, WIDE)
        home.ddl(DdlKind.ALTER, 130, ROWS)
        home.ddl(DdlKind.ALTER, 140, WIDE)
        row = home.sink.rows.spans()["s110"]
        assert (row.incarnation, row.copied) == (140, False), "it is copied anew"
    assert Lake(place).incarnations(T) == [110, 140]


@pytest.mark.usefixtures("both")
def test_a_column_that_is_dropped_and_another_that_comes_are_no_reason_for_a_copy(
    ahead: Home,
) -> None:
    other = ROWS.append(pa.field("u", pa.int64()))
    ahead.ddl(DdlKind.ALTER, 120, WIDE)
    ahead.ddl(DdlKind.ALTER, 130, ROWS)
    ahead.ddl(DdlKind.ALTER, 140, other)
    row = ahead.sink.rows.spans()["s110"]
    assert (row.incarnation, row.copied) == (110, True)
    assert ahead.table("s110").rows.names == ["id", "v", "w", "u"]
    assert ahead.table("s110").dropped == {"w": 130}


@pytest.mark.usefixtures("both")
def test_who_takes_part_later_knows_what_was_dropped_and_when(
    place: Place, ahead: Home, behind: Home
) -> None:
    """It has not come to the column's birth, its end and its second birth itself."""
    ahead.ddl(DdlKind.ALTER, 120, WIDE)
    ahead.ddl(DdlKind.ALTER, 130, ROWS)
    shutil.rmtree(behind.table("s110").ingest.place.url)
    behind.claim("s110")
    assert behind.table("s110").dropped == {"w": 130}
    behind.ddl(DdlKind.ALTER, 120, WIDE)
    assert behind.sink.rows.spans()["s110"].incarnation == 110, "it was there then"
    behind.ddl(DdlKind.ALTER, 130, ROWS)
    behind.ddl(DdlKind.ALTER, 140, WIDE)
    assert behind.sink.rows.spans()["s110"].incarnation == 140


@pytest.mark.usefixtures("both")
def test_a_column_of_another_type_needs_a_copy_though_there_were_no_rows(ahead: Home) -> None:
    ahead.ddl(DdlKind.ALTER, 120, pa.schema([("id", pa.int64()), ("v", pa.string())]))
    row = ahead.sink.rows.spans()["s110"]
    assert (row.incarnation, row.copied) == (120, False)


@pytest.mark.usefixtures("both")
def test_a_schema_change_that_was_broken_off_between_its_notes_is_finished(
    ahead: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    ahead.ddl(DdlKind.ALTER, 120, WIDE)
    with monkeypatch.context() as killed:
        killed.setattr(LayeredTable, "evolve", _die)
        with pytest.raises(KeyboardInterrupt):
            ahead.ddl(DdlKind.ALTER, 130, ROWS)
    ahead.at = 129
    ahead.ddl(DdlKind.ALTER, 130, ROWS)
    assert ahead.sink.rows.spans()["s110"].incarnation == 110
    assert ahead.table("s110").dropped == {"w": 130}


# --- a table that was deleted by hand -------------------------------------------------------------


@pytest.mark.usefixtures("both")
def test_a_table_that_is_lost_and_made_anew_is_so_for_every_home(
    place: Place, ahead: Home, behind: Home
) -> None:
    shutil.rmtree(Path(place.url, T))
    for home in (ahead, behind):
        with pytest.raises(NotFound):
            home.claim("s110")
    assert ahead.sink.copies.renew("s110", TOKEN, 300, LakeTable(T, ROWS, ("id",))) is None
    assert ahead.claim("s110") == 300
    with pytest.raises(NotFound):
        behind.claim("s110")
    assert not behind.sink.rows.spans()["s110"].dropped, "nobody has dropped it"
    ahead.copy("s110", [1, 2], 310)
    assert behind.claim("s110") == 300
    behind.land("s110", 3, 320)
    assert sorted(behind.table("s110").read()["id"].to_pylist()) == [1, 2, 3]


def test_who_has_not_come_to_claim_a_table_may_begin_it_anew_unless_somebody_newer_has_it(
    ahead: Home,
) -> None:
    """A claim fails for a table that is lost, perhaps before it has reached the row."""
    ahead.ddl(DdlKind.CREATE, 110)
    ahead.claim("s110")
    table = LakeTable(T, ROWS, ("id",))
    newer, older = Token(1, 2, 1), Token(1, 1, 0)
    assert ahead.sink.copies.renew("s110", older, 290, table) is Refusal.NEWER
    assert ahead.sink.rows.spans()["s110"].incarnation == 110
    assert ahead.sink.copies.renew("s110", newer, 300, table) is None
    row = ahead.sink.rows.spans()["s110"]
    assert (row.token, row.incarnation) == (newer, 300)
    assert ahead.sink.copies.renew("s110", TOKEN, 310, table) is Refusal.NEWER
