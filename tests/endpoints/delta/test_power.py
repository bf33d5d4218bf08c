"""A power failure takes nothing that somebody was told of; what it has taken is not passed over."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError, DeltaError

from lockgate.endpoints.delta import fenced, rewrite
from lockgate.endpoints.delta.delete import delete
from lockgate.endpoints.delta.document import Document
from lockgate.endpoints.delta.files import DataFile, write_file
from lockgate.endpoints.delta.graves import is_buried
from lockgate.endpoints.delta.lake import Lake
from lockgate.endpoints.delta.layered import LayeredTable
from lockgate.endpoints.delta.place import Place
from lockgate.endpoints.delta.rewrite import (
    RewriteOrder,
    RewriteTask,
    Rewritten,
    rewrite_tasks,
)
from lockgate.endpoints.delta.sink import LakeSink
from lockgate.endpoints.delta.sink_tables import LakeTable
from lockgate.model.errors import EndpointUnavailable, OutcomeUnknown
from lockgate.model.ids import Token
from lockgate.model.spans import TRIGGER, TRIGGER_SPEC, WHOLE, Birth, SpanSpec
from lockgate.model.value import Value
from tests.support.lakes import DISPATCHER, LEADER, PUT, ROWS, Writer, rows_in
from tests.support.power import Disk

OWNER, NEXT = Token(5, 2, 1), Token(6, 1, 1)


class Counter(Value, frozen=True):
    count: int = 0


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(tmp_path, monkeypatch)


@pytest.fixture
def writer(place: Place, disk: Disk) -> Writer:
    assert str(disk.root) in place.url
    return Writer(LayeredTable.create(place, "h", ROWS, ["id", "part"], LEADER, DISPATCHER))


def _there(writer: Writer) -> LayeredTable:
    table = LayeredTable.open(writer.table.place, "h")
    assert rows_in(table.read()) == writer.rows
    return table


# --- what is on the disk before it is told ------------------------------------------------------


def test_a_table_that_was_made_is_there_after_it(writer: Writer, disk: Disk) -> None:
    disk.lose_power()
    _there(writer)


def test_what_has_landed_is_there_after_it(writer: Writer, disk: Disk) -> None:
    writer.put(1, 2)
    disk.lose_power()
    assert _there(writer).ingest.look().position == writer.position


def test_what_is_drained_and_pruned_is_there_after_it(writer: Writer, disk: Disk) -> None:
    writer.put(1, 2)
    writer.put(2, v=3)
    writer.table.drain(LEADER)
    assert writer.table.prune(DISPATCHER) == 2
    disk.lose_power()
    assert _there(writer).stable.look().position == writer.position


def test_a_rewritten_file_is_flushed_by_who_wrote_it(writer: Writer, disk: Disk) -> None:
    """Tasks do it side by side; the driver would do one after the other."""
    writer.put(1, 2)
    plan = writer.table.plan_drain()
    assert plan is not None
    told = rewrite_tasks(_tasks(writer, plan.orders))
    new = [file for one in told for file in msgspec.msgpack.decode(one, type=Rewritten).files]
    stable = Path(writer.table.place.url, "stable")
    assert {stable, *(stable / file.path for file in new)} <= set(disk.flushed)
    disk.flushed.clear()
    writer.table.land_drain(LEADER, plan, new)
    assert not [path for path in disk.flushed if path.suffix == ".parquet"]
    disk.lose_power()
    _there(writer)


def _tasks(writer: Writer, orders: Iterable[RewriteOrder]) -> list[bytes]:
    place = writer.table.place.to_wire()
    return [msgspec.msgpack.encode(RewriteTask(place, order)) for order in orders]


def test_what_a_document_says_is_there_after_it(tmp_path: Path, disk: Disk) -> None:
    place = Place(str(tmp_path / "lake" / "_lockgate" / "d"), "d")
    for count in (1, 2, 3):
        Document(place, Counter, Counter()).change(lambda _, to=count: Counter(to))
        disk.lose_power()
        assert Document(place, Counter, Counter()).read() == Counter(count)


def test_a_table_with_many_commits_opens_after_it(writer: Writer, disk: Disk) -> None:
    """What Delta begins with, instead of with the first commit, is a file as well."""
    for number in range(50):
        writer.put(number)
    [checkpoint] = Path(writer.table.place.url).rglob("*.checkpoint.parquet")
    assert {checkpoint, checkpoint.with_name("_last_checkpoint")} <= set(disk.flushed)
    disk.lose_power()
    _there(writer)


def test_a_feed_goes_on_after_it_from_where_it_was(tmp_path: Path, disk: Disk) -> None:
    lake = Place(str(tmp_path / "lake"), "lake")
    sink = LakeSink(lake, "feed", "h", lambda table: table)
    sink.head.join()
    span = SpanSpec("s", "public.t")
    sink.claim(TRIGGER_SPEC, OWNER, Birth(100, (span,)), {"public.t": _shape()})
    sink.claim(span, DISPATCHER)
    stable = sink.tables.place_of(sink.rows.spans()["s"]).child("stable")
    file = write_file(stable, pa.Table.from_pylist([{"id": 1, "part": "a", "v": 1}], ROWS), [])
    sink.copies.plan("s", DISPATCHER, [(None, None)])
    sink.copies.chunk_landed("s", DISPATCHER, 0, (file,), 1, 1, "snapshot")
    assert sink.copies.land("s", DISPATCHER, 110) is None
    writer = Writer(sink.tables.open(sink.rows.spans()["s"]))
    writer.position, writer.rows = 110, {(1, "a"): 1}
    writer.put(2)
    sink.landed("s", DISPATCHER, 120, 100)
    sink.advance([(TRIGGER, OWNER, ((WHOLE, 100),), 120)])
    disk.lose_power()
    after = LakeSink(lake, "feed", "h", lambda table: table)
    assert after.head.read().leader == "h"
    assert after.claim(span, NEXT) == ((WHOLE, 120),)
    assert rows_in(after.tables.open(after.rows.spans()["s"]).read()) == writer.rows


def _shape() -> LakeTable:
    return LakeTable("public.t", ROWS, ("id", "part"))


def test_a_grave_is_there_before_anything_is_deleted(tmp_path: Path, disk: Disk) -> None:
    lake = Lake(Place(str(tmp_path / "lake"), "lake"))
    place = lake.place("public.t", 7)
    table = LayeredTable.create(place, "h", ROWS, ["id", "part"], LEADER, DISPATCHER)
    table.kill(LEADER)
    assert delete(lake, "public.t", 7, 0.0).waits_for == ""
    disk.lose_power()
    assert is_buried(place)


# --- of others ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "goes_by_it",
    [
        lambda table: table.ingest.look(),
        lambda table: table.has_landed(DISPATCHER, 10),
        lambda table: table.ingest.claim(DISPATCHER),
        lambda table: table.note_position(DISPATCHER, 20),
    ],
    ids=["looks", "finds it landed", "claims", "commits"],
)
def test_who_goes_by_what_another_has_committed_flushes_it_first(
    writer: Writer,
    disk: Disk,
    monkeypatch: pytest.MonkeyPatch,
    goes_by_it: Callable[[LayeredTable], Any],
) -> None:
    """The other one has committed, and has not come to flush it."""
    with monkeypatch.context() as patched:
        patched.setattr(fenced, "flush_own", _killed)
        with pytest.raises(KeyboardInterrupt):
            writer.put(1)
    goes_by_it(LayeredTable.open(writer.table.place, "h"))
    disk.lose_power()
    _there(writer)


def _killed(*_: Any) -> None:
    raise KeyboardInterrupt


# --- a disk that does not take it -----------------------------------------------------------------


def test_a_commit_that_cannot_be_flushed_is_not_known_to_have_landed(
    writer: Writer, disk: Disk
) -> None:
    disk.broken = "ingest-h/_delta_log/00000000000000000001"
    with pytest.raises(OutcomeUnknown, match="keeps a commit") as caught:
        writer.put(1)
    assert "00000000000000000001.json" in caught.value.object
    disk.broken = ""
    table = LayeredTable.open(writer.table.place, "h")
    assert table.has_landed(DISPATCHER, writer.position), "looked up, it is there"
    disk.lose_power()
    _there(writer)


def test_of_a_file_that_cannot_be_flushed_nothing_is_committed(writer: Writer, disk: Disk) -> None:
    disk.broken = ".parquet"
    with pytest.raises(EndpointUnavailable):
        writer.put(1)
    assert writer.table.ingest.look().version == 0
    assert not list(Path(writer.table.place.url, "ingest-h").glob("*.parquet"))


def test_a_task_tells_of_files_that_cannot_be_flushed_and_leaves_none(
    writer: Writer, disk: Disk
) -> None:
    writer.put(1, 2)
    plan = writer.table.plan_drain()
    assert plan is not None
    disk.broken = ".parquet"
    # Twice the same order: what fails of one is told of that one.
    [one, other] = [
        msgspec.msgpack.decode(told, type=Rewritten)
        for told in rewrite_tasks(_tasks(writer, [*plan.orders, *plan.orders]))
    ]
    assert (one.files, other.files) == ((), ())
    assert one.error["code"] == other.error["code"] == EndpointUnavailable.code
    assert not list(Path(writer.table.place.url, "stable").glob("*.parquet"))


def test_a_task_that_fails_in_the_middle_leaves_no_file_of_the_orders_before(
    writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody has heard of those, and each try would leave them once more."""
    writer.land((PUT, 1, "a", 1))
    plan = writer.table.plan_drain()
    assert plan is not None
    first, second = _tasks(writer, [*plan.orders, *plan.orders])
    stable = Path(writer.table.place.url, "stable")
    before = set(stable.glob("*.parquet"))
    done = rewrite.rewrite

    def fail_later(*args: Any) -> list[DataFile]:
        if set(stable.glob("*.parquet")) > before:
            raise ZeroDivisionError
        return done(*args)

    monkeypatch.setattr(rewrite, "rewrite", fail_later)
    with pytest.raises(ZeroDivisionError):
        rewrite_tasks([first, second])
    assert set(stable.glob("*.parquet")) == before


@pytest.mark.parametrize(
    "failure",
    [DeltaError("No space left on device"), CommitFailedError("version 1 exists")],
    ids=["a checkpoint finds no room", "the store was asked twice"],
)
def test_a_commit_after_which_something_fails_has_landed(
    writer: Writer, monkeypatch: pytest.MonkeyPatch, failure: DeltaError
) -> None:
    write = DeltaTable.create_write_transaction

    def commit_and_fail(*args: Any, **named: Any) -> None:
        write(*args, **named)
        raise failure

    with monkeypatch.context() as patched:
        patched.setattr(DeltaTable, "create_write_transaction", commit_and_fail)
        writer.land((PUT, 1, "a", 1))
    assert _there(writer).ingest.look().version == 1
