"""One of the ingests of a table is damaged, and the others are whole: who needs just that one is
told, and everybody else goes on."""

from pathlib import Path

import pytest

from lockgate.endpoints.delta.faults import FileCorrupt
from lockgate.endpoints.delta.homes import of_home
from lockgate.endpoints.delta.lake import Lake
from lockgate.endpoints.delta.place import Place
from lockgate.endpoints.delta.travel import PositionAhead
from lockgate.lake.opening import looked_up
from lockgate.node.lake.surveying import Surveyor
from tests.endpoints.delta.test_two_feeds import LEADER, Feed

T = "public.t"
HARMS = ["empty", "half", "first"]
"""What is left of a log: its newest commit, or its first one, says nothing any more."""


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(str(tmp_path / "lake"), "lake")


@pytest.fixture
def leads(place: Place) -> Feed:
    feed = Feed(place, "feed", "one", 1, 1)
    feed.begin(100)
    feed.copy()
    return feed


@pytest.fixture
def joined(place: Place, leads: Feed) -> Feed:
    """Another home, which has two changes."""
    feed = Feed(place, "feed", "two", 7, 1)
    feed.begin(100, 100)
    feed.land(110, 120)
    return feed


def damage(feed: Feed, harm: str) -> tuple[Path, bytes]:
    commits = sorted(Path(feed.table.ingest.place.url, "_delta_log").glob("*.json"))
    path = commits[0] if harm == "first" else commits[-1]
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2] if harm == "half" else b"")
    return path, content


def read(place: Place, as_of: int | None = None) -> list[int]:
    table, seen = looked_up(place, T, as_of)
    return sorted(table.read(seen)["id"].to_pylist())


def drain(feed: Feed) -> None:
    table = feed.table
    table.stable.claim(LEADER)
    table.drain(LEADER)


# --- readers --------------------------------------------------------------------------------------


@pytest.mark.parametrize("harm", HARMS)
def test_another_ones_damage_is_in_nobodys_way(
    place: Place, leads: Feed, joined: Feed, harm: str
) -> None:
    damage(joined, harm)
    leads.land(110, 120)
    assert read(place) == [110, 120]
    assert read(place, 110) == [110]
    with pytest.raises(PositionAhead):
        read(place, 130)


@pytest.mark.parametrize("harm", HARMS)
def test_nobody_is_shown_less_than_what_is_damaged_had(
    place: Place, leads: Feed, joined: Feed, harm: str
) -> None:
    leads.land(110)
    path, content = damage(joined, harm)
    # Of a newest commit that tells nothing, nobody knows how far it came: behind the one before it.
    with pytest.raises(FileCorrupt):
        read(place)
    path.write_bytes(content)
    assert read(place) == [110, 120]


def test_what_was_drained_of_it_is_not_missing(place: Place, leads: Feed, joined: Feed) -> None:
    drain(joined)
    damage(joined, "first")
    assert read(place) == [110, 120]


def test_one_that_begins_behind_a_gap_is_no_substitute(
    place: Place, leads: Feed, joined: Feed
) -> None:
    late = Feed(place, "late", "three", 9, 1)
    late.begin(140, 100)
    late.land(150)
    damage(joined, "first")
    with pytest.raises(FileCorrupt):
        read(place)


@pytest.mark.parametrize("harm", HARMS)
def test_where_no_other_is_left_it_is_said(place: Place, leads: Feed, harm: str) -> None:
    leads.land(110)
    damage(leads, harm)
    with pytest.raises(FileCorrupt):
        read(place)


# --- the feeds of one home ------------------------------------------------------------------------


@pytest.fixture
def after(place: Place, joined: Feed) -> Feed:
    """The home's feed was removed, and another one brings the table since."""
    joined.close()
    feed = Feed(place, "second", "two", 8, 1)
    feed.begin(120, 100)
    return feed


@pytest.mark.parametrize("harm", HARMS)
def test_a_home_drains_by_its_present_feed_though_what_a_former_one_left_is_damaged(
    place: Place, leads: Feed, after: Feed, joined: Feed, harm: str
) -> None:
    leads.land(110, 120)
    drain(leads)
    after.land(130)
    table = joined.sink.tables.lake.place(T, 100).child(f"ingest-{joined.sink.tables.ingest}")
    path = sorted(Path(table.url, "_delta_log").glob("*.json"))[0 if harm == "first" else -1]
    path.write_bytes(b"" if harm != "half" else path.read_bytes()[:80])
    assert of_home(Lake(place).live(T), "two").home == after.sink.tables.ingest
    [seen] = Surveyor(place, "two").survey(T)[1]
    assert seen.trouble is None
    assert (seen.figures.ingest_to, seen.figures.ingest_rows) == (130, 1)


def test_a_home_does_not_call_drained_what_a_damaged_ingest_still_has(
    place: Place, leads: Feed, after: Feed, joined: Feed
) -> None:
    after.land(130)
    ingest = Lake(place).live(T).child(f"ingest-{joined.sink.tables.ingest}")
    min(Path(ingest.url, "_delta_log").glob("*.json")).write_bytes(b"")
    with pytest.raises(FileCorrupt):
        of_home(Lake(place).live(T), "two")
    [seen] = Surveyor(place, "two").survey(T)[1]
    assert seen.trouble is not None
