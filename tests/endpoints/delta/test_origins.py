"""A name in a lake is one table of one source: whoever else comes to it with a `CREATE TABLE` is
told so, and nothing of the one that is there is touched."""

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pytest

from lockgate.endpoints.delta.delete import delete
from lockgate.endpoints.delta.fenced import FencedTable
from lockgate.endpoints.delta.lake import STABLE, Lake
from lockgate.endpoints.delta.layered import LayeredTable
from lockgate.endpoints.delta.origins import MAKER, SOURCE
from lockgate.endpoints.delta.place import Place
from lockgate.endpoints.delta.sink import LakeSink
from lockgate.endpoints.delta.sink_tables import LakeTable
from lockgate.model.ddl import Ddl, DdlKind
from lockgate.model.errors import Conflict, NotFound
from lockgate.model.ids import Token
from lockgate.model.spans import TRIGGER, TRIGGER_SPEC, WHOLE, Birth, SpanSpec

T = "public.t"
TOKEN = Token(1, 1, 1)
ROWS = pa.schema([("id", pa.int64())])
START = 100


class Feed:
    """A feed that has no tables yet."""

    def __init__(
        self,
        place: Place,
        source: str = "",
        *,
        home: str = "one",
        birth: int = 1,
        names: Mapping[str, str] | None = None,
    ) -> None:
        """`names` are what tables of the source are called in the lake, where that is not so."""
        self.names = names or {}
        self.sink = LakeSink(place, f"feed{birth}", home, self.name, birth, lambda: source)
        self.sink.head.join()
        self.sink.claim(TRIGGER_SPEC, TOKEN, Birth(START, ()), {})

    def name(self, table: str) -> str:
        return self.names.get(table, table)

    def create(self, position: int, table: str = T) -> None:
        """Come to the table's creation, and write it."""
        self.write(Ddl(position, DdlKind.CREATE, (table,)))

    def drop(self, position: int, table: str = T) -> None:
        self.write(Ddl(position, DdlKind.DROP, (table,)))

    def rename(self, position: int, *renames: tuple[str, str]) -> None:
        tables = tuple({name for both in renames for name in both})
        self.write(Ddl(position, DdlKind.ALTER, tables, renames=renames))

    def write(self, ddl: Ddl) -> None:
        rows = self.sink.rows.read()
        moves = [
            (span, TOKEN, ((WHOLE, row.position),), ddl.position - 1)
            for span, row in rows.spans.items()
        ]
        assert rows.position is not None
        trigger = (TRIGGER, TOKEN, ((WHOLE, rows.position),), ddl.position - 1)
        self.sink.advance([*moves, trigger])
        new = ddl.tables if ddl.kind is DdlKind.CREATE else [now for _, now in ddl.renames]
        births = [SpanSpec(f"{table}@{ddl.position}", table) for table in new]
        after = {table: LakeTable(self.name(table), ROWS, ("id",)) for table in new}
        assert self.sink.write_ddl(TOKEN, ddl, births, after, set()) == ddl.position
        for spec in births:
            self.claim(spec)

    def claim(self, spec: SpanSpec) -> None:
        assert isinstance(self.sink.claim(spec, TOKEN), tuple)

    def table(self, position: int, table: str = T) -> LayeredTable:
        return self.sink.tables.open(self.sink.rows.spans()[f"{table}@{position}"])


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(str(tmp_path / "lake"), "lake")


@pytest.fixture
def first(place: Place) -> Feed:
    """It has the table, from 501 on."""
    feed = Feed(place, "a")
    feed.create(501)
    return feed


def stable_of(place: Place, incarnation: int) -> FencedTable:
    return FencedTable.open(Lake(place).place(T, incarnation).child(STABLE))


def drop(place: Place, incarnation: int) -> None:
    """A person drops it, and its files are deleted."""
    Lake(place).end(T, incarnation)
    delete(Lake(place), T, incarnation, 0)


@pytest.mark.parametrize("position", [701, 300, 501])
@pytest.mark.parametrize("home", ["one", "two"])
def test_a_table_of_another_source_takes_no_name_that_is_in_use(
    place: Place, first: Feed, position: int, home: str
) -> None:
    """Whichever has the higher number; of two servers that says nothing."""
    other = Feed(place, "b", home=home, birth=2)
    with pytest.raises(Conflict, match="another source") as caught:
        other.create(position)
    assert T in caught.value.object
    assert "lake drop" in caught.value.hint
    assert Lake(place).incarnations(T) == [501]
    assert Lake(place).homes(Lake(place).live(T)) == ["one-1"]
    assert other.sink.rows.spans() == {}
    first.claim(SpanSpec(f"{T}@501", T))


def test_it_takes_the_name_when_the_table_was_dropped_and_is_gone(
    place: Place, first: Feed
) -> None:
    other = Feed(place, "b", birth=2)
    drop(place, 501)
    other.create(300)
    assert Lake(place).newest(T) == 300


def test_while_the_files_of_a_dropped_table_with_a_higher_number_are_there_it_has_to_wait(
    place: Place, first: Feed
) -> None:
    """What is older by its number ends with them."""
    Lake(place).end(T, 501)
    other = Feed(place, "b", birth=2)
    with pytest.raises(Conflict, match="still there") as caught:
        other.create(300)
    assert "wait" in caught.value.hint
    assert Lake(place).incarnations(T) == [501]
    other.create(601)
    assert Lake(place).newest(T) == 601


def test_nobody_takes_part_in_a_table_of_another_source(place: Place, first: Feed) -> None:
    other = Feed(place, "b", home="two")
    born = {T: LakeTable(T, ROWS, ("id",), incarnation=501)}
    other.sink = LakeSink(place, "late", "two", lambda table: table, 2, lambda: "b")
    with pytest.raises(Conflict, match="another source"):
        other.sink.claim(TRIGGER_SPEC, TOKEN, Birth(600, (SpanSpec("s", T),)), born)
    assert Lake(place).homes(Lake(place).live(T)) == ["one-1"]


def test_who_finds_another_sources_table_in_the_place_of_its_own_does_not_go_on_in_it(
    place: Place, first: Feed
) -> None:
    """A person has dropped it and let another feed have the name while this one was away."""
    drop(place, 501)
    Feed(place, "b", birth=2).create(601)
    with pytest.raises(Conflict, match="another source"):
        first.sink.claim(SpanSpec(f"{T}@501", T), TOKEN)
    row = first.sink.rows.spans()[f"{T}@501"]
    assert (row.incarnation, row.dropped) == (501, False)
    assert Lake(place).homes(Lake(place).live(T)) == ["one-2"]
    drop(place, 601)
    first.claim(SpanSpec(f"{T}@501", T))
    assert first.sink.rows.spans()[f"{T}@501"].dropped


@pytest.mark.parametrize(("source", "home"), [("a", "one"), ("b", "one"), ("b", "two")])
def test_a_drop_at_the_source_ends_no_table_of_another_feed_that_has_the_name_since(
    place: Place, first: Feed, source: str, home: str
) -> None:
    drop(place, 501)
    first.claim(SpanSpec(f"{T}@501", T))
    Feed(place, source, home=home, birth=2).create(601)
    first.drop(700)
    assert Lake(place).live(T) == Lake(place).place(T, 601)


# --- feeds of one home from one source ------------------------------------------------------------


def test_two_feeds_of_one_home_do_not_make_one_table_of_what_each_takes_in_its_own_way(
    place: Place, first: Feed
) -> None:
    with pytest.raises(Conflict, match="another feed"):
        Feed(place, "a", birth=2).create(501)
    assert Lake(place).homes(Lake(place).live(T)) == ["one-1"]


def test_a_feed_takes_no_name_that_another_of_its_home_has_for_another_table(
    place: Place, first: Feed
) -> None:
    other = Feed(place, "a", birth=2, names={"public.u": T})
    with pytest.raises(Conflict, match="another feed"):
        other.create(701, "public.u")
    assert Lake(place).incarnations(T) == [501]


def test_nor_one_in_which_that_takes_part(place: Place, first: Feed) -> None:
    Feed(place, "a", home="two").create(501)
    other = Feed(place, "a", home="two", birth=2, names={"public.u": T})
    with pytest.raises(Conflict, match="another feed"):
        other.create(701, "public.u")
    assert Lake(place).incarnations(T) == [501]


def test_a_feed_takes_no_name_that_it_has_for_another_table_itself(place: Place) -> None:
    feed = Feed(place, "a", names={"public.u": T})
    feed.create(501, "public.u")
    with pytest.raises(Conflict, match=r"public\.u and public\.t"):
        feed.create(701)
    assert Lake(place).incarnations(T) == [501]


def test_a_table_that_takes_the_name_of_one_that_gives_it_up_in_the_same_change_has_it(
    place: Place, first: Feed
) -> None:
    first.create(601, "public.new")
    first.rename(701, (T, "public.old"), ("public.new", T))
    assert Lake(place).incarnations(T) == [501, 701]
    assert stable_of(place, 501).look().dead
    first.drop(801)
    first.create(901)
    assert Lake(place).newest(T) == 901


def test_another_home_takes_part_in_a_table_of_the_same_source(place: Place, first: Feed) -> None:
    Feed(place, "a", home="two", birth=1).create(501)
    assert Lake(place).homes(Lake(place).live(T)) == ["one-1", "two-1"]


# --- what nobody has noted ------------------------------------------------------------------------


def test_a_table_from_before_goes_on_and_is_noted_by_who_brings_it(place: Place) -> None:
    before = Feed(place, birth=0)
    before.create(501)
    assert SOURCE not in stable_of(place, 501).notes
    after = Feed(place, "a", birth=0)
    after.claim(SpanSpec(f"{T}@501", T))
    assert stable_of(place, 501).notes[SOURCE] == "a"
    with pytest.raises(Conflict, match="another source"):
        Feed(place, "b", birth=2).create(701)


def test_a_feed_that_does_not_know_its_source_yet_works(place: Place, first: Feed) -> None:
    unknown = Feed(place, "", home="two")
    unknown.create(501)
    unknown.drop(701)
    with pytest.raises(NotFound):
        Lake(place).live(T)


def test_a_note_that_cannot_be_made_now_is_in_nobodys_way(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    Feed(place, birth=0).create(501)
    after = Feed(place, "a", birth=0)
    with monkeypatch.context() as held:
        held.setattr(FencedTable, "note", _refuse)
        after.claim(SpanSpec(f"{T}@501", T))
    after.claim(SpanSpec(f"{T}@501", T))
    notes = stable_of(place, 501).notes
    assert (notes[SOURCE], notes[MAKER]) == ("a", "one")


def _refuse(*_: object) -> None:
    raise Conflict("not now", object_="t", hint="")
