"""The newest commits of stable are gone, and Delta opens what was before them without a word: said
where something is lost by it, and nobody drains on top of it."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from lockgate.endpoints.delta.compact import plan_compaction
from lockgate.endpoints.delta.faults import FileCorrupt
from lockgate.endpoints.delta.fenced import FencedTable
from lockgate.endpoints.delta.lake import STABLE, Lake
from lockgate.endpoints.delta.layered import LayeredTable
from lockgate.endpoints.delta.marks import Marks
from lockgate.endpoints.delta.place import Place
from lockgate.endpoints.delta.sink import LakeSink
from lockgate.endpoints.delta.vacuum import vacuum
from lockgate.lake.opening import looked_up
from lockgate.model.ddl import DdlKind
from lockgate.model.ids import Token
from lockgate.model.spans import TRIGGER, WHOLE
from lockgate.node.lake.surveying import Surveyor
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
from tests.support.lakes import DISPATCHER, LEADER, ROWS, Writer, rows_in


def _writer(place: Place, home: str = "h") -> Writer:
    return Writer(LayeredTable.create(place, home, ROWS, ["id", "part"], LEADER, DISPATCHER))


def _brought(writer: Writer, *ids: int) -> None:
    writer.put(*ids)
    writer.table.drain(LEADER)


def _cut(stable: Place) -> tuple[Path, bytes]:
    """Its newest commit is gone, and what it was."""
    newest = max(Path(stable.url, "_delta_log").glob("*.json"))
    content = newest.read_bytes()
    newest.unlink()
    return newest, content


@pytest.fixture
def writer(place: Place) -> Writer:
    """1 and 2 are in stable alone, 3 is not drained yet."""
    writer = _writer(place)
    for id_ in (1, 2):
        _brought(writer, id_)
        writer.table.prune(DISPATCHER)
    writer.put(3)
    return writer


def test_nobody_goes_on_over_it_and_put_back_it_is_as_it_was(writer: Writer, place: Place) -> None:
    newest, content = _cut(place.child(STABLE))
    for work in (
        lambda table: table.read(),
        lambda table: table.plan_drain(),
        lambda table: table.follow_ingest(LEADER),
        lambda table: table.prune(None),
        plan_compaction,
    ):
        with pytest.raises(FileCorrupt, match=r"position 20, .* stands at 10") as caught:
            work(LayeredTable.open(place, "h"))
        assert caught.value.object.endswith(STABLE)
        assert "resync" in caught.value.hint
    newest.write_bytes(content)
    table = LayeredTable.open(place, "h")
    assert rows_in(table.read()) == writer.rows
    table.drain(LEADER)
    assert rows_in(table.read()) == writer.rows


def test_no_vacuum_deletes_what_is_to_be_put_back(writer: Writer, place: Place) -> None:
    log = Path(place.child(STABLE).url, "_delta_log")
    copy = log.with_name("copy")
    shutil.copytree(log, copy)
    _cut(place.child(STABLE))
    with pytest.raises(FileCorrupt):
        vacuum(place, 0.0, 0.0)
    shutil.rmtree(log)
    copy.rename(log)
    assert rows_in(LayeredTable.open(place, "h").read()) == writer.rows


def test_it_is_known_whatever_comes_after_it_into_ingest(writer: Writer, place: Place) -> None:
    table = LayeredTable.open(place, "h")
    table.ingest.claim(Token(9, 1, 1))
    table.note_position(Token(9, 1, 1), 100)
    _cut(place.child(STABLE))
    with pytest.raises(FileCorrupt):
        LayeredTable.open(place, "h").read()


def test_a_commit_of_it_that_is_empty_is_said_to_be(writer: Writer, place: Place) -> None:
    newest, _ = _cut(place.child(STABLE))
    newest.write_bytes(b"")
    for work in (lambda table: table.read(), lambda table: table.prune(None)):
        with pytest.raises(FileCorrupt, match="empty"):
            work(LayeredTable.open(place, "h"))


def test_what_ingest_has_still_is_drained_again(place: Place) -> None:
    writer = _writer(place)
    _brought(writer, 1)
    writer.table.prune(DISPATCHER)
    _brought(writer, 2)
    _cut(place.child(STABLE))
    table = LayeredTable.open(place, "h")
    assert rows_in(table.read()) == writer.rows
    table.drain(LEADER)
    assert rows_in(table.read()) == writer.rows


def test_another_ingest_that_has_all_of_it_makes_it_whole(writer: Writer, place: Place) -> None:
    other = _writer(place, "other")
    other.put(1, 2, 3)
    _cut(place.child(STABLE))
    table = LayeredTable.open(place, "other")
    assert rows_in(table.read()) == writer.rows
    with pytest.raises(FileCorrupt):
        LayeredTable.open(place, "h").read()
    table.drain(LEADER)
    for home in ("h", "other"):
        assert rows_in(LayeredTable.open(place, home).read()) == writer.rows


@pytest.mark.parametrize(
    "work",
    [lambda table: table.snapshot(), lambda table: table.prune(None)],
    ids=["read", "prune"],
)
def test_what_is_drained_and_pruned_between_two_looks_is_not_lost(
    writer: Writer, place: Place, monkeypatch: pytest.MonkeyPatch, work: Callable[..., object]
) -> None:
    """Before every look of the one, another has come by."""
    table = LayeredTable.open(place, "h")
    look = FencedTable.look

    def after_others(layer: FencedTable) -> Marks:
        if layer in (table.stable, table.ingest):
            with monkeypatch.context() as patched:
                patched.setattr(FencedTable, "look", look)
                writer.table = LayeredTable.open(place, "h")
                _brought(writer, 4)
                assert writer.table.prune(None)
        return look(layer)

    monkeypatch.setattr(FencedTable, "look", after_others)
    work(table)
    assert rows_in(table.read()) == writer.rows


# --- a feed's ----------------------------------------------------------------------------------


@pytest.fixture
def lake(tmp_path: Path) -> Place:
    return Place(str(tmp_path / "lake"), "lake")


@pytest.fixture
def sink(lake: Place) -> LakeSink:
    """Of two rows stable has lost the second one; a third is in ingest."""
    sink = born(lake)
    leader = sink.head.token()
    assert leader is not None
    table = table_of(lake)
    for position in (110, 120, 130):
        land(table, FIRST, position, position)
        sink.landed("s1", FIRST, position, 100)
        if position < 130:
            table.drain(leader)
            table.prune(FIRST)
    advance(sink, TRIGGER, TRIGGERS[0], 100, 140)
    advance(sink, "s1", FIRST, 130, 140)
    return sink


def test_its_feed_does_not_go_on_and_copies_it_anew(lake: Place, sink: LakeSink) -> None:
    _cut(table_of(lake).stable.place)
    for _ in range(2):
        with pytest.raises(FileCorrupt, match="120"):
            sink_of(lake).claim(SPAN, SECOND)
    with pytest.raises(FileCorrupt):
        sink.write_ddl(TRIGGERS[0], ddl(DdlKind.ALTER, 141), (), {"public.t": T}, set())
    sink = sink_of(lake)
    assert sink.copies.renew("s1", SECOND, 150, T) is None
    assert sink.claim(SPAN, SECOND) == ((WHOLE, 150),)
    sink.copies.plan("s1", SECOND, [(None, None)])
    sink.copies.chunk_landed("s1", SECOND, 0, (), 0, 0, "snapshot")
    assert sink.copies.land("s1", SECOND, 150) is None
    assert Lake(lake).living("public.t") == 150


def test_put_back_it_goes_on(lake: Place, sink: LakeSink) -> None:
    newest, content = _cut(table_of(lake).stable.place)
    with pytest.raises(FileCorrupt):
        sink_of(lake).claim(SPAN, SECOND)
    newest.write_bytes(content)
    assert sink_of(lake).claim(SPAN, SECOND) == ((WHOLE, 140),)
    assert sorted(table_of(lake).read()["id"].to_pylist()) == [110, 120, 130]


def test_readers_and_the_survey_say_so(lake: Place, sink: LakeSink) -> None:
    _cut(table_of(lake).stable.place)
    with pytest.raises(FileCorrupt):
        looked_up(lake, "public.t")
    [seen] = Surveyor(lake, "one").survey("public.t")[1]
    assert seen.trouble is not None
    assert "resync" in seen.trouble.hint


def test_dropped_in_the_lake_or_at_the_source_it_is_let_go(lake: Place, sink: LakeSink) -> None:
    _cut(table_of(lake).stable.place)
    assert sink.write_ddl(TRIGGERS[0], ddl(DdlKind.DROP, 141), (), {}, set()) == 141
    assert Lake(lake).living("public.t") is None


def test_that_it_is_dead_comes_first(lake: Place, sink: LakeSink) -> None:
    table = table_of(lake)
    _cut(table.stable.place)
    FencedTable.open(table.stable.place).kill_whoever()
    assert sink_of(lake).claim(SPAN, SECOND) == ((WHOLE, 140),)
    Lake(lake).end("public.t", 100)
    assert sink_of(lake).claim(SPAN, Token(3, 1, 3)) == ((WHOLE, 140),)
    assert sink.rows.spans()["s1"].dropped
