"""A table of a feed whose log is damaged: what ends it ends, and nobody waits for it for ever."""

from pathlib import Path

import pytest

from lockgate.endpoints.delta.fenced import FencedTable
from lockgate.endpoints.delta.lake import STABLE, Lake, end
from lockgate.endpoints.delta.place import Place
from lockgate.endpoints.delta.sink import LakeSink
from lockgate.model.ddl import DdlKind
from lockgate.model.ids import Token
from lockgate.model.spans import TRIGGER
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


def test_a_schema_change_passes_by_a_table_that_was_dropped(dropped: LakeSink) -> None:
    advance(dropped, "s1", FIRST, 110, 199)
    advance(dropped, TRIGGER, TRIGGERS[0], 130, 199)
    alter = ddl(DdlKind.ALTER, 200)
    assert dropped.write_ddl(TRIGGERS[0], alter, (), {"public.t": T}, set()) == 200


def test_its_feed_stops(dropped: LakeSink) -> None:
    assert dropped.close(Token(2, 0, 2), forget=False)
    assert dropped.close(Token(2, 0, 2), forget=True)
