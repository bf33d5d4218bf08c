"""A lake as a feed's target: what a copy is told of a table that was dropped meanwhile (L4), and
what becomes of one whose copy cannot be brought level."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from lockgate.endpoints.delta.death import table_dead
from lockgate.endpoints.delta.delete import delete
from lockgate.endpoints.delta.faults import FileCorrupt
from lockgate.endpoints.delta.lake import Lake
from lockgate.endpoints.delta.land import CopyTorn
from lockgate.endpoints.delta.place import Place
from lockgate.endpoints.delta.sink import LakeSink
from lockgate.endpoints.delta.sink_tables import LakeTable
from lockgate.model.apply import ApplyError, Receipt
from lockgate.model.errors import EndpointUnavailable
from lockgate.model.floors import Refusal
from lockgate.model.ids import Token
from lockgate.model.instructions import StartDispatcher
from lockgate.model.spans import TRIGGER_SPEC, WHOLE, Birth, SpanSpec
from lockgate.node.feed.targets import lake as targets
from lockgate.node.feed.targets.lake import LakeTarget
from lockgate.pipeline.copy import CopyOutcome

T = LakeTable("public.t", pa.schema([("id", pa.int64())]), ("id",))
SPAN = SpanSpec("s1", "public.t")
TOKEN = Token(1, 1, 1)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(str(tmp_path / "lake"), "lake")


@pytest.fixture
def target(place: Place) -> LakeTarget:
    """Of a feed whose table awaits its first copy."""
    sink = LakeSink(place, "feed", "home", lambda table: table)
    sink.head.join()
    sink.claim(TRIGGER_SPEC, Token(1, 2, 1), Birth(100, (SPAN,)), {"public.t": T})
    sink.claim(SPAN, TOKEN)
    target = LakeTarget.__new__(LakeTarget)
    target._sink = sink
    config = SimpleNamespace(chunk_rows=10)
    target._context = SimpleNamespace(feed="feed", source=None, tag="", config=config)  # type: ignore[assignment]
    return target


def _copied(
    target: LakeTarget, monkeypatch: pytest.MonkeyPatch, outcome: CopyOutcome
) -> tuple[list[CopyOutcome], int]:
    """What the engine hears, and how many tables were read for it."""
    ordered: list[Any] = []

    def copy(_spark: object, _feed: object, _source: object, orders: Any, *_: object, **__: object):  # type: ignore[no-untyped-def]
        ordered.extend(orders)
        return [outcome for _ in orders]

    monkeypatch.setattr(targets, "copy_to_lake", copy)
    one = SimpleNamespace(
        span="s1", spec=SPAN, token=TOKEN, table="public.t", copy_run=1, low=100, copying=True
    )
    selection = SimpleNamespace(table="public.t")
    job = SimpleNamespace(
        spans=[one],
        look={"public.t": SimpleNamespace(selection=selection)},
        report=None,
        check=None,
    )
    monkeypatch.setattr(targets, "LakeCopyOrder", lambda *args, **how: (args, how))
    return target.copy(None, job), len(ordered)  # type: ignore[arg-type]


def test_a_table_that_is_dropped_while_it_is_copied_is_claimed_again(
    target: LakeTarget, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = ApplyError.of(table_dead(place, "write"))
    [heard], _ = _copied(target, monkeypatch, CopyOutcome("s1", TOKEN, error=error))
    assert (heard.refusal, heard.error) == (Refusal.MOVED, None)


def test_a_table_that_is_gone_before_it_is_copied_is_claimed_again_and_not_read(
    target: LakeTarget, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = Lake(place)
    lake.end("public.t", 100)
    delete(lake, "public.t", 100, 0)
    [heard], read = _copied(target, monkeypatch, CopyOutcome("s1", TOKEN))
    assert heard.refusal is Refusal.GONE
    assert read == 0
    target._sink.claim(SPAN, TOKEN)
    assert target._sink.rows.spans()["s1"].dropped, "and then it passes its changes by"


def test_a_table_whose_copy_is_torn_is_begun_anew_and_copied_again(
    target: LakeTarget, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = target._sink
    sink.copies.plan("s1", TOKEN, [(None, None)])
    sink.copies.chunk_landed("s1", TOKEN, 0, (), 0, 0, "1:1:")
    assert sink.copies.land("s1", TOKEN, 150) is None
    torn = ApplyError.of(CopyTorn("gone", object_="t", hint="", operation="land changes"))
    monkeypatch.setattr(targets, "land_items", lambda *_: [Receipt("s1", error=torn)])
    monkeypatch.setattr(target, "_item", lambda *_: None)
    monkeypatch.setattr(target, "_as", lambda _: T)
    target._context.copies = SimpleNamespace(  # type: ignore[misc]
        look=lambda _: {"public.t": SimpleNamespace(shape=None)}, end_of_log=lambda: 170
    )
    one = SimpleNamespace(span="s1", token=TOKEN, table="public.t", copy_in_doubt=False)
    work = SimpleNamespace(running=one, to=160)
    [heard] = target.apply(None, [work])  # type: ignore[arg-type,list-item]
    assert (heard.refusal, heard.error) == (Refusal.MOVED, None)
    assert one.copy_in_doubt, "what it asks with its next claim, and then it is copied"
    row = sink.rows.spans()["s1"]
    assert (row.incarnation, row.copied) == (170, False)
    assert Lake(place).live("public.t") == Lake(place).place("public.t", 100), "for readers"


# --- a table that is damaged in the lake ----------------------------------------------------------


def _claimed(target: LakeTarget, place: Place, look: Any) -> object:
    """What a claim answers when the log of the table's ingest is damaged."""
    log = Path(place.url, "public.t", "100", "ingest-home", "_delta_log")
    max(log.glob("*.json")).write_bytes(b"{")
    target._context.copies = SimpleNamespace(look=look)  # type: ignore[misc]
    return target.claim(StartDispatcher("feed", SPAN, TOKEN))


def test_one_that_the_source_has_dropped_is_passed_by(target: LakeTarget, place: Place) -> None:
    assert _claimed(target, place, lambda _: {}) == ((WHOLE, 100),)
    assert target._sink.rows.spans()["s1"].dropped


def _away(_: object) -> object:
    raise EndpointUnavailable("the source is away", object_="source", hint="")


@pytest.mark.parametrize("look", [dict.fromkeys, _away])
def test_one_that_the_source_has_or_nobody_can_tell_is_said(
    target: LakeTarget, place: Place, look: Any
) -> None:
    with pytest.raises(FileCorrupt):
        _claimed(target, place, look)
    assert not target._sink.rows.spans()["s1"].dropped
