"""A commit that is there by its name only: said on its table alone, and nobody goes on over it."""

from pathlib import Path

import msgspec
import pytest

from lockgate.endpoints.delta.document import Document
from lockgate.endpoints.delta.faults import FileCorrupt
from lockgate.endpoints.delta.fenced import FencedTable
from lockgate.endpoints.delta.files import live_files, removed
from lockgate.endpoints.delta.head import LakeHead
from lockgate.endpoints.delta.layered import LayeredTable
from lockgate.endpoints.delta.place import Place
from lockgate.endpoints.delta.rows import SpanRow
from lockgate.endpoints.delta.travel import snapshot_of
from lockgate.endpoints.delta.vacuum import vacuum
from lockgate.model.ddl import DdlKind
from lockgate.model.ids import NO_TOKEN, Token
from lockgate.model.spans import TRIGGER, WHOLE
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


@pytest.fixture
def lake(tmp_path: Path) -> Place:
    return Place(str(tmp_path / "lake"), "lake")


def _commits(place: Place, layer: str = "") -> list[Path]:
    return sorted(Path(place.url, layer, "_delta_log").glob("*.json"))


@pytest.fixture
def writer(place: Place) -> Writer:
    """What is drained is pruned: stable alone has it."""
    writer = Writer(LayeredTable.create(place, "h", ROWS, ["id", "part"], LEADER, DISPATCHER))
    writer.put(1, 2)
    writer.table.drain(LEADER)
    writer.table.prune(DISPATCHER)
    writer.put(3)
    return writer


# --- tables ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("layer", ["stable", "ingest-h"])
@pytest.mark.parametrize("left", [b"", b"\n"], ids=["nothing", "an empty line"])
def test_nobody_goes_on_over_it_and_put_back_it_is_as_it_was(
    writer: Writer, place: Place, layer: str, left: bytes
) -> None:
    newest = _commits(place, layer)[-1]
    content = newest.read_bytes()
    newest.write_bytes(left)
    owner = LEADER if layer == "stable" else DISPATCHER
    for work in (
        lambda table: table.read(),
        lambda table: table.drain(LEADER),
        lambda table: FencedTable.open(place.child(layer)).claim(owner),
        lambda table: FencedTable.open(place.child(layer)).claim(Token(9, 1, 1)),
        lambda table: FencedTable.open(place.child(layer)).commit(owner, lambda _: []),
    ):
        with pytest.raises(FileCorrupt, match="empty") as caught:
            work(LayeredTable.open(place, "h"))
        assert caught.value.object.endswith(newest.name)
        assert "resync" in caught.value.hint
    vacuum(place, 0.0, 0.0)
    newest.write_bytes(content)
    table = LayeredTable.open(place, "h")
    assert rows_in(table.read()) == writer.rows
    table.drain(LEADER)
    assert rows_in(table.read()) == writer.rows


def test_it_is_not_read_at_a_version_either(writer: Writer, place: Place) -> None:
    _commits(place, "stable")[-1].write_bytes(b"")
    with pytest.raises(FileCorrupt):
        snapshot_of(LayeredTable.open(place, "h"), 1)


def test_such_a_table_can_be_dropped(writer: Writer, place: Place) -> None:
    for layer in ("stable", "ingest-h"):
        _commits(place, layer)[-1].write_bytes(b"")
    LayeredTable.open(place, "h").kill(LEADER)
    assert FencedTable.open(place.child("stable")).look().dead
    assert FencedTable.open(place.child("ingest-h")).look().dead


# --- where a feed goes on -------------------------------------------------------------------------


def _landed(lake: Place) -> None:
    """A feed's row knows of two batches, and of a stretch after them that had nothing in it."""
    sink = born(lake)
    table = table_of(lake)
    for position in (110, 120):
        land(table, FIRST, position, position)
        sink.landed("s1", FIRST, position, 100)
    advance(sink, TRIGGER, TRIGGERS[0], 100, 130)
    advance(sink, "s1", FIRST, 120, 130)


def _copied_anew(lake: Place) -> None:
    """What the hint says is done, and the table goes on as another one."""
    sink = sink_of(lake)
    assert sink.copies.renew("s1", SECOND, 140, T) is None
    assert sink.claim(SPAN, SECOND) != 0
    sink.copies.plan("s1", SECOND, [(None, None)])
    sink.copies.chunk_landed("s1", SECOND, 0, (), 0, 0, "snapshot")
    assert sink.copies.land("s1", SECOND, 140) is None
    land(table_of(lake), SECOND, 150)
    assert table_of(lake).read().num_rows == 1


@pytest.mark.parametrize("harm", ["empty", "gone", "half"])
def test_it_does_not_go_on_over_changes_that_are_lost(lake: Place, harm: str) -> None:
    _landed(lake)
    newest = _commits(table_of(lake).ingest.place)[-1]
    content = newest.read_bytes()
    if harm == "gone":
        newest.unlink()
    else:
        newest.write_bytes(content[: len(content) // 2] if harm == "half" else b"")
    for _ in range(2):
        with pytest.raises(FileCorrupt) as caught:
            sink_of(lake).claim(SPAN, SECOND)
        assert "resync" in caught.value.hint
    if harm == "gone":
        assert "120" in caught.value.what
        assert "110" in caught.value.what
    _copied_anew(lake)


def test_put_back_it_goes_on_from_where_it_was(lake: Place) -> None:
    _landed(lake)
    newest = _commits(table_of(lake).ingest.place)[-1]
    content = newest.read_bytes()
    newest.unlink()
    with pytest.raises(FileCorrupt):
        sink_of(lake).claim(SPAN, SECOND)
    newest.write_bytes(content)
    assert sink_of(lake).claim(SPAN, SECOND) == ((WHOLE, 130),)
    assert table_of(lake).read().num_rows == 2


def test_of_changes_that_are_drained_nothing_is_lost(lake: Place) -> None:
    _landed(lake)
    table = table_of(lake)
    leader = sink_of(lake).head.token()
    assert leader is not None
    table.drain(leader)
    _commits(table.ingest.place)[-1].unlink()
    assert sink_of(lake).claim(SPAN, SECOND) == ((WHOLE, 130),)
    land(table_of(lake), SECOND, 140, 140)
    assert table_of(lake).read().num_rows == 3


def test_a_schema_change_does_not_go_on_over_it_either(lake: Place) -> None:
    _landed(lake)
    _commits(table_of(lake).ingest.place)[-1].unlink()
    with pytest.raises(FileCorrupt):
        sink_of(lake).write_ddl(TRIGGERS[0], ddl(DdlKind.ALTER, 131), (), {"public.t": T}, set())


def test_a_row_from_before_this_was_kept_is_read(lake: Place) -> None:
    _landed(lake)
    row = msgspec.json.decode(msgspec.json.encode(sink_of(lake).rows.spans()["s1"]))
    assert row.pop("landed") == 120
    assert msgspec.convert(row, SpanRow).landed == 0


# --- documents ------------------------------------------------------------------------------------


@pytest.mark.parametrize("epoch", [1, 2])
def test_a_lake_whose_head_is_damaged_begins_no_epoch_anew(lake: Place, epoch: int) -> None:
    head = LakeHead(lake, "one")
    head.join()
    if epoch > 1:
        head.take(1, 1, 1)
    newest = _commits(lake.child("_lockgate").child("head"))[-1]
    content = newest.read_bytes()
    newest.write_bytes(b"")
    held = LakeHead(lake, "one")
    for work in (held.read, LakeHead(lake, "two").join, lambda: held.take(2, 1, epoch)):
        with pytest.raises(FileCorrupt, match="document") as caught:
            work()
        assert newest.name in caught.value.object
        assert "_lockgate/head" in caught.value.hint
    newest.write_bytes(content)
    assert held.read().epoch == LakeHead(lake, "one").read().epoch == epoch


def test_a_feed_whose_rows_are_damaged_is_not_taken_for_a_new_one(lake: Place) -> None:
    born(lake)
    _commits(lake.child("_lockgate").child("feeds").child("feed-one"))[-1].write_bytes(b"")
    with pytest.raises(FileCorrupt, match="document") as caught:
        sink_of(lake).claim(SPAN, SECOND)
    assert "lake drop" in caught.value.hint
    assert "feed resync" not in caught.value.hint


def test_a_document_that_lost_what_it_said_is_not_a_new_one(tmp_path: Path) -> None:
    place = Place(str(tmp_path / "d"), "d")
    document: Document[int] = Document(place, int, 0)
    document.change(lambda _: 5)
    table = FencedTable.open(place)
    table.commit(NO_TOKEN, lambda _: [removed(file) for file in live_files(table.handle)])
    for each in (document, Document(place, int, 0)):
        for work in (each.read, lambda each=each: each.change(lambda count: count + 1)):
            with pytest.raises(FileCorrupt, match="says nothing"):
                work()


def test_a_document_whose_file_is_gone_says_what_helps(tmp_path: Path) -> None:
    place = Place(str(tmp_path / "d"), "d")
    Document(place, int, 0).change(lambda _: 5)
    [file] = Path(place.url).glob("*.parquet")
    content = file.read_bytes()
    file.unlink()
    document: Document[int] = Document(place, int, 0, "count again")
    with pytest.raises(FileCorrupt) as caught:
        document.read()
    assert file.name in caught.value.object
    assert "count again" in caught.value.hint
    file.write_bytes(content)
    assert document.read() == 5


def test_a_document_that_nobody_wrote_yet_says_nothing(tmp_path: Path) -> None:
    place = Place(str(tmp_path / "d"), "d")
    Document(place, int, 0).change(lambda count: count)
    assert _commits(place)
    assert Document(place, int, 7).read() == 7
