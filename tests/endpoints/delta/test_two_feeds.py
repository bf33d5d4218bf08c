"""Feeds of one home that bring the same table of a lake, one after the other: what one of them has
landed, and under which token, means nothing to the next."""

from pathlib import Path

import pyarrow as pa
import pytest

from lockgate.endpoints.delta.changes import OP, POSITION, PUT, SEQ, ingest_schema
from lockgate.endpoints.delta.homes import of_home
from lockgate.endpoints.delta.lake import Lake
from lockgate.endpoints.delta.layered import LayeredTable
from lockgate.endpoints.delta.place import Place
from lockgate.endpoints.delta.sink import LakeSink
from lockgate.endpoints.delta.sink_tables import LakeTable
from lockgate.lake.opening import looked_up
from lockgate.model.errors import Conflict
from lockgate.model.ids import SEQ_MAX, Token
from lockgate.model.spans import TRIGGER_SPEC, WHOLE, Birth, SpanSpec
from lockgate.node.lake.surveying import Surveyor

ROWS = pa.schema([("id", pa.int64()), ("v", pa.int64())])
T = LakeTable("public.t", ROWS, ("id",))
SPAN = SpanSpec("s1", "public.t")
LEADER = Token(1, 0, 1)


class Feed:
    """A feed with the one table, under an epoch of its own."""

    def __init__(self, place: Place, name: str, home: str, birth: int, epoch: int) -> None:
        self.sink = LakeSink(place, name, home, lambda table: table, birth)
        self.sink.head.join()
        self.token = Token(epoch, 1, 1)

    def begin(self, position: int, incarnation: int = 0) -> object:
        """Be born with the table, and claim it."""
        table = LakeTable("public.t", ROWS, ("id",), incarnation)
        birth = Birth(position, (SPAN,))
        self.sink.claim(TRIGGER_SPEC, self.token, birth, {"public.t": table})
        return self.sink.claim(SPAN, self.token)

    @property
    def table(self) -> LayeredTable:
        return self.sink.tables.open(self.sink.rows.spans()["s1"])

    def copy(self) -> None:
        self.sink.copies.plan("s1", self.token, [(None, None)])
        self.sink.copies.chunk_landed("s1", self.token, 0, (), 0, 0, "snapshot")
        assert self.sink.copies.land("s1", self.token, 100) is None

    def land(self, *positions: int) -> None:
        for at in positions:
            row = {"id": at, "v": at, POSITION: at, SEQ: at, OP: PUT}
            changes = pa.Table.from_pylist([row], schema=ingest_schema(ROWS))
            self.table.land(self.token, changes, at)

    def close(self) -> None:
        assert self.sink.close(Token(self.token.epoch, SEQ_MAX, 0), forget=True)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(str(tmp_path / "lake"), "lake")


@pytest.fixture
def leader(place: Place) -> Feed:
    """Of the home that leads; its table is copied, and empty."""
    feed = Feed(place, "feed", "one", 1, 1)
    feed.begin(100)
    feed.copy()
    return feed


@pytest.fixture
def removed(place: Place, leader: Feed) -> Feed:
    """Of a home that follows: it had some owners, and came to 120, further than the leader."""
    feed = Feed(place, "first", "two", 7, 3)
    feed.begin(100, 100)
    feed.land(110, 120)
    leader.land(110)
    feed.close()
    return feed


@pytest.fixture
def second(place: Place, removed: Feed) -> Feed:
    """The home has another feed, which begins behind what the first one had."""
    return Feed(place, "second", "two", 8, 1)


def test_a_feed_comes_in_though_one_before_it_had_a_higher_token(second: Feed) -> None:
    assert second.begin(140, 100) == ((WHOLE, 140),)
    second.land(150)
    assert second.table.ingest.look().position == 150


def test_a_feed_that_is_made_again_does_not_go_on_where_the_one_before_it_stopped(
    place: Place, removed: Feed
) -> None:
    again = Feed(place, "first", "two", 8, 4)
    assert again.begin(140, 100) == ((WHOLE, 140),)
    assert again.table.begins == 140


def test_nobody_reads_over_what_came_between_two_feeds(
    place: Place, leader: Feed, second: Feed
) -> None:
    second.begin(140, 100)
    second.land(150)
    layered, seen = looked_up(place, "public.t")
    assert layered.read(seen)["id"].to_pylist() == [110, 120], "130 was nobody's of that home"
    leader.land(120, 130, 140)
    leader.table.stable.claim(LEADER)
    leader.table.drain(LEADER)
    layered, seen = looked_up(place, "public.t")
    assert sorted(layered.read(seen)["id"].to_pylist()) == [110, 120, 130, 140, 150]


def test_a_home_shows_and_drains_what_its_feeds_have_brought_as_far_as_there_is_no_gap(
    place: Place, leader: Feed, removed: Feed, second: Feed
) -> None:
    surveyor = Surveyor(place, "two")
    assert surveyor.survey("public.t")[1][0].figures.ingest_to == 120
    second.begin(140, 100)
    second.land(150)
    incarnation = Lake(place).live("public.t")
    assert surveyor.survey("public.t")[1][0].figures.ingest_to == 120
    assert of_home(incarnation, "two").home == removed.sink.tables.ingest
    leader.land(120, 130, 140)
    leader.table.stable.claim(LEADER)
    leader.table.drain(LEADER)
    assert surveyor.survey("public.t")[1][0].figures.ingest_to == 150
    assert of_home(incarnation, "two").home == second.sink.tables.ingest


def test_the_size_is_that_of_all_a_home_has_brought_by_whichever_feed(
    place: Place, leader: Feed, removed: Feed, second: Feed
) -> None:
    leader.table.stable.claim(LEADER)
    leader.table.drain(LEADER)
    surveyor = Surveyor(place, "two")
    for _ in range(2):
        folder = Path(Lake(place).live("public.t").url)
        layers = [folder / "stable", *folder.glob("ingest-two*")]
        files = [file for layer in layers for file in layer.glob("*.parquet")]
        [seen] = surveyor.survey("public.t")[1]
        assert seen.figures.size_bytes == sum(file.stat().st_size for file in files)
        second.begin(140, 100)
        second.land(150)
    assert len(layers) == 3


def test_a_survey_sees_what_a_home_has_brought_since_the_one_before(
    place: Place, leader: Feed
) -> None:
    surveyor = Surveyor(place, "two")
    assert surveyor.survey("public.t")[1][0].figures.ingest_to == 0
    feed = Feed(place, "first", "two", 7, 1)
    feed.begin(100, 100)
    feed.land(110)
    assert surveyor.survey("public.t")[1][0].figures.ingest_rows == 1


def test_a_feed_from_before_there_was_an_ingest_for_each_goes_on_with_its_homes(
    place: Place,
) -> None:
    before = Feed(place, "feed", "one", 0, 1)
    before.begin(100)
    before.copy()
    before.land(110)
    after = Feed(place, "feed", "one", 5, 2)
    assert after.begin(900) == ((WHOLE, 110),)
    after.land(120)
    assert Lake(place).homes(Lake(place).live("public.t")) == ["one"]
    assert sorted(after.table.read()["id"].to_pylist()) == [110, 120]
    assert after.sink.copies.renew("s1", after.token, 200, T) is None
    assert Lake(place).homes(Lake(place).place("public.t", 200)) == ["one-5"]


def test_a_directory_in_which_no_ingest_was_made_keeps_nobody_from_reading(
    place: Place, leader: Feed
) -> None:
    leader.land(110)
    incarnation = Lake(place).live("public.t")
    Path(incarnation.url, "ingest-two-9", "_delta_log").mkdir(parents=True)
    layered, seen = looked_up(place, "public.t")
    assert layered.read(seen).num_rows == 1
    assert Surveyor(place, "two").survey("public.t")[1][0].trouble is None
    assert Surveyor(place, "one").survey("public.t")[1][0].figures.ingest_rows == 1


def test_a_feed_that_would_be_born_below_what_was_dropped_is_not(place: Place) -> None:
    """Nobody would find its table, and it would be ended with the files of the other."""
    Feed(place, "feed", "one", 1, 1).begin(900)
    Lake(place).end("public.t", 900)
    with pytest.raises(Conflict, match="still there"):
        Feed(place, "other", "one", 2, 1).begin(500)
    assert Feed(place, "third", "one", 3, 1).begin(950) == ((WHOLE, 950),)
