"""A commit that is there by its name only: said on its table alone, and nobody goes on over it."""

from pathlib import Path

import pytest

from lockgate.endpoints.delta.faults import FileCorrupt
from lockgate.endpoints.delta.fenced import FencedTable
from lockgate.endpoints.delta.layered import LayeredTable
from lockgate.endpoints.delta.place import Place
from lockgate.endpoints.delta.travel import snapshot_of
from lockgate.endpoints.delta.vacuum import vacuum
from lockgate.model.ids import Token
from tests.support.lakes import DISPATCHER, LEADER, ROWS, Writer, rows_in


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
