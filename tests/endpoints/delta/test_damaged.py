"""A table of a feed whose log is damaged: what ends it ends, and nobody waits for it for ever."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from lockgate.endpoints.delta.delete import delete
from lockgate.endpoints.delta.faults import FileCorrupt
from lockgate.endpoints.delta.fenced import FencedTable
from lockgate.endpoints.delta.graves import is_buried, is_gone
from lockgate.endpoints.delta.lake import STABLE, Lake, end
from lockgate.endpoints.delta.place import Place
from lockgate.endpoints.delta.sink import LakeSink
from lockgate.endpoints.delta.url import LakeUrl
from lockgate.model.ddl import DdlKind
from lockgate.model.errors import LockgateError, NotFound, StaleOwner
from lockgate.model.events import SinkClosed, SinkCloseFailed
from lockgate.model.floors import Refusal
from lockgate.model.ids import Token
from lockgate.model.instructions import CloseSink
from lockgate.model.spans import TRIGGER, WHOLE
from lockgate.node.executor import SinkCloser
from lockgate.node.lake.surveying import Surveyor
from lockgate.node.service.forcing import GIVEN_UP, left_at_target
from lockgate.store.feeds import FeedEntry
from tests.endpoints.delta.test_sink import (
    FIRST,
    SECOND,
    SPAN,
    TRIGGERS,
    T,
    advance,
    born,
    ddl,
    land,
    sink_of,
    table_of,
)

HARMS = ["empty", "half"]
"""What is left of the newest commit of a log."""


@pytest.fixture
def lake(tmp_path: Path) -> Place:
    return Place(str(tmp_path / "lake"), "lake")


@pytest.fixture
def sink(lake: Place) -> LakeSink:
    """A feed that has landed something, and knows it."""
    sink = born(lake)
    land(table_of(lake), FIRST, 110)
    sink.landed("s1", FIRST, 110, 100)
    advance(sink, TRIGGER, TRIGGERS[0], 100, 130)
    return sink


def damage(layer: Place, harm: str) -> tuple[Path, bytes]:
    newest = max(Path(layer.url, "_delta_log").glob("*.json"))
    content = newest.read_bytes()
    newest.write_bytes(b"" if harm == "empty" else content[: len(content) // 2])
    return newest, content


def layer_of(lake: Place, layer: str) -> Place:
    return Lake(lake).place("public.t", 100).child(layer)


# --- dropped in the lake --------------------------------------------------------------------------


@pytest.fixture(params=HARMS)
def dropped(request: pytest.FixtureRequest, lake: Place, sink: LakeSink) -> LakeSink:
    """As `lake drop` leaves it: the files stay for a day."""
    damage(layer_of(lake, "ingest-one"), request.param)
    FencedTable.open(layer_of(lake, STABLE)).kill_whoever()
    end(Lake(lake).place("public.t", 100))
    return sink_of(lake)


def test_its_own_feed_learns_that_it_was_dropped(dropped: LakeSink) -> None:
    dropped.claim(SPAN, SECOND)
    assert dropped.rows.spans()["s1"].dropped


def test_that_what_has_come_in_its_place_is_damaged_is_said_of_that_table(
    lake: Place, sink: LakeSink
) -> None:
    """Not of the feed's document, in which its row is being changed."""
    Lake(lake).end("public.t", 100)
    sink_of(lake, "two").tables.make(T, 200, empty=True)
    layer = Lake(lake).place("public.t", 200).child(STABLE)
    damage(layer, "half")
    with pytest.raises(FileCorrupt) as caught:
        sink_of(lake).claim(SPAN, SECOND)
    assert caught.value.object.startswith(layer.label)
    assert "resync" in caught.value.hint
    assert "lake drop" not in caught.value.hint


def test_a_schema_change_passes_by_a_table_that_was_dropped(dropped: LakeSink) -> None:
    advance(dropped, "s1", FIRST, 110, 199)
    advance(dropped, TRIGGER, TRIGGERS[0], 130, 199)
    alter = ddl(DdlKind.ALTER, 200)
    assert dropped.write_ddl(TRIGGERS[0], alter, (), {"public.t": T}, set()) == 200


def test_its_feed_stops(dropped: LakeSink) -> None:
    assert dropped.close(Token(2, 0, 2), forget=False)
    assert dropped.close(Token(2, 0, 2), forget=True)


# --- its feed stops, or is removed ----------------------------------------------------------------

CLOSE, THIRD = Token(2, 0, 2), Token(3, 1, 3)


@pytest.mark.parametrize("harm", HARMS)
def test_a_feed_stops_though_a_table_is_damaged(lake: Place, sink: LakeSink, harm: str) -> None:
    damage(layer_of(lake, "ingest-one"), harm)
    assert sink.close(CLOSE, forget=False)
    assert advance(sink, "s1", FIRST, 110, 140) is Refusal.NEWER


@pytest.mark.parametrize("harm", HARMS)
def test_put_back_what_a_straggler_brings_until_the_next_claim_is_counted_and_then_nothing(
    lake: Place, sink: LakeSink, harm: str
) -> None:
    path, content = damage(layer_of(lake, "ingest-one"), harm)
    sink.close(CLOSE, forget=False)
    path.write_bytes(content)
    land(table_of(lake), FIRST, 150)
    assert sink_of(lake).claim(SPAN, THIRD) == ((WHOLE, 150),)
    with pytest.raises(StaleOwner):
        land(table_of(lake), FIRST, 160)
    assert table_of(lake).read()["v"].to_pylist() == [150]


@pytest.mark.parametrize("harm", HARMS)
def test_a_feed_is_not_forgotten_before_its_tokens_are_void(
    lake: Place, sink: LakeSink, harm: str
) -> None:
    path, content = damage(layer_of(lake, "ingest-one"), harm)
    with pytest.raises(FileCorrupt):
        sink.close(CLOSE, forget=True)
    assert "s1" in sink.rows.spans()
    path.write_bytes(content)
    assert sink.close(CLOSE, forget=True)
    with pytest.raises(StaleOwner):
        land(table_of(lake), FIRST, 150)


@pytest.mark.parametrize("harm", HARMS)
def test_who_gives_a_damaged_table_up_is_told_which_one_before_the_feed_is_forgotten(
    lake: Place, sink: LakeSink, harm: str
) -> None:
    damage(layer_of(lake, "ingest-one"), harm)
    given_up: list[str] = []

    def give_up(error: LockgateError) -> bool:
        assert "s1" in sink.rows.spans()
        given_up.append(error.object)
        return True

    assert sink.close(CLOSE, forget=True, give_up=give_up)
    assert ["public.t/100/ingest-one" in name for name in given_up] == [True]
    assert sink.rows.spans() == {}


def test_a_feed_is_removed_though_the_rows_of_a_table_are_damaged(
    lake: Place, sink: LakeSink
) -> None:
    table = table_of(lake)
    path, content = damage(layer_of(lake, STABLE), "half")
    assert sink.close(CLOSE, forget=True)
    path.write_bytes(content)
    with pytest.raises(StaleOwner):
        land(table, FIRST, 150)


def test_a_removal_by_force_names_the_damaged_table_and_forgets_the_feed(
    lake: Place, sink: LakeSink
) -> None:
    damage(layer_of(lake, "ingest-one"), "half")
    left: list[str] = []
    entry = FeedEntry("feed", msgspec.Raw(b"{}"), "slot", "publication")

    def give_up(_: str, error: LockgateError) -> bool:
        assert isinstance(error, GIVEN_UP)
        left.extend(left_at_target(entry, LakeUrl.parse(f"delta:{lake.url}"), error))
        return True

    @contextmanager
    def gate(_: str) -> Iterator[LakeSink]:
        yield sink

    close = CloseSink("feed", CLOSE, forget=True)
    assert isinstance(SinkCloser(gate).close(close), SinkCloseFailed)
    assert isinstance(SinkCloser(gate, give_up).close(close), SinkClosed)
    [name] = left
    assert "public.t/100/ingest-one, damaged" in name
    assert sink.rows.spans() == {}


# --- dropped at the source ------------------------------------------------------------------------

DROP = ddl(DdlKind.DROP, 200)
LOSSES = [*((layer, harm) for layer in ("ingest-one", STABLE) for harm in HARMS), ("all", "gone")]


def lose(lake: Place, layer: str, harm: str) -> None:
    if harm == "gone":
        shutil.rmtree(Lake(lake).place("public.t", 100).url)
    else:
        damage(layer_of(lake, layer), harm)


@pytest.mark.parametrize(("layer", "harm"), LOSSES)
def test_a_drop_at_the_source_asks_nothing_of_the_table_that_it_ends(
    lake: Place, sink: LakeSink, layer: str, harm: str
) -> None:
    advance(sink, "s1", FIRST, 130, 199)
    advance(sink, TRIGGER, TRIGGERS[0], 130, 199)
    lose(lake, layer, harm)
    assert sink.write_ddl(TRIGGERS[0], DROP, (), {}, set()) == 200
    assert sink.rows.spans() == {}
    assert Lake(lake).living("public.t") is None


def test_of_what_was_deleted_by_hand_the_rest_goes_with_a_drop_at_the_source(
    lake: Place, sink: LakeSink
) -> None:
    """Without its rows it looks like a table that is being made, and would lie there for ever."""
    advance(sink, "s1", FIRST, 130, 199)
    advance(sink, TRIGGER, TRIGGERS[0], 130, 199)
    shutil.rmtree(layer_of(lake, STABLE).url)
    assert Surveyor(lake, "one").survey("public.t")[1] == ()
    assert sink.write_ddl(TRIGGERS[0], DROP, (), {}, set()) == 200
    [seen] = Surveyor(lake, "one").survey("public.t")[1]
    assert seen.dead
    assert delete(Lake(lake), "public.t", 100).waits_for, "readers may be at it"
    assert not delete(Lake(lake), "public.t", 100, 0.0).waits_for
    assert is_gone(Lake(lake).place("public.t", 100))


def test_what_is_left_of_a_table_that_the_feed_has_no_part_in_is_not_its_to_end(
    lake: Place, sink: LakeSink
) -> None:
    shutil.rmtree(layer_of(lake, STABLE).url)
    sink_of(lake, "two").tables.end("public.t", 200)
    assert not is_buried(Lake(lake).place("public.t", 100))


def test_another_change_of_a_table_that_is_lost_waits(lake: Place, sink: LakeSink) -> None:
    advance(sink, "s1", FIRST, 130, 199)
    advance(sink, TRIGGER, TRIGGERS[0], 130, 199)
    lose(lake, STABLE, "half")
    with pytest.raises(FileCorrupt):
        sink.write_ddl(TRIGGERS[0], ddl(DdlKind.ALTER, 200), (), {"public.t": T}, set())


# One of which a commit of stable alone is empty can be claimed.
@pytest.mark.parametrize(("layer", "harm"), [one for one in LOSSES if one != (STABLE, "empty")])
def test_a_table_that_is_lost_in_the_lake_and_at_the_source_is_passed_by_to_its_end(
    lake: Place, sink: LakeSink, layer: str, harm: str
) -> None:
    lose(lake, layer, harm)
    with pytest.raises((FileCorrupt, NotFound)):
        sink.claim(SPAN, SECOND)
    at = sink.pass_by(SPAN, SECOND)
    assert isinstance(at, tuple)
    assert at == sink.claim(SPAN, SECOND)
    assert sink.rows.spans()["s1"].dropped
    assert advance(sink, "s1", SECOND, at[0][1], 199) == ((WHOLE, 199),)
    advance(sink, TRIGGER, TRIGGERS[0], 130, 199)
    assert sink.write_ddl(TRIGGERS[0], DROP, (), {}, set()) == 200
    assert Lake(lake).living("public.t") is None


def test_only_the_newest_owner_passes_a_table_by(lake: Place, sink: LakeSink) -> None:
    lose(lake, "ingest-one", "half")
    sink.pass_by(SPAN, SECOND)
    assert sink.pass_by(SPAN, FIRST) is Refusal.NEWER


@pytest.mark.parametrize("kind", [DdlKind.DROP, DdlKind.ALTER])
def test_no_schema_change_waits_for_what_a_dropped_table_passes_by(
    lake: Place, sink: LakeSink, kind: DdlKind
) -> None:
    """How far it has come is noted with the next advance, and while all wait there is none."""
    Lake(lake).end("public.t", 100)
    sink.claim(SPAN, SECOND)
    sink.landed("s1", SECOND, 199)
    advance(sink_of(lake), TRIGGER, TRIGGERS[0], 130, 199)
    assert sink.write_ddl(TRIGGERS[0], ddl(kind, 200), (), {"public.t": T}, set()) == 200


# --- begun anew, and killed -----------------------------------------------------------------------


def begun_anew(sink: LakeSink, lake: Place, harm: str) -> Path:
    """A resync that made an incarnation and came no further. Then the power failed."""
    sink.tables.make(T, 120)
    advance(sink, "s1", FIRST, 110, 140)
    log, _ = damage(Lake(lake).place("public.t", 120).child(STABLE), harm)
    return log.parents[2]


@pytest.mark.parametrize("harm", HARMS)
def test_one_that_never_came_to_be_the_table_and_is_damaged_ends_with_the_next_claim(
    lake: Place, sink: LakeSink, harm: str
) -> None:
    begun_anew(sink, lake, harm)
    with pytest.raises(FileCorrupt):
        Lake(lake).living("public.t")
    assert sink_of(lake).claim(SPAN, SECOND) == ((WHOLE, 140),)
    assert Lake(lake).living("public.t") == 100
    assert table_of(lake).read()["v"].to_pylist() == [110]


def test_one_that_is_damaged_and_anothers_too_is_left_to_them_and_fails_no_claim(
    lake: Place, sink: LakeSink
) -> None:
    incarnation = begun_anew(sink, lake, "half")
    (incarnation / "ingest-two").mkdir()
    assert sink_of(lake).claim(SPAN, SECOND) == ((WHOLE, 140),)
    with pytest.raises(FileCorrupt):
        Lake(lake).living("public.t")
