"""A table in two layers: the same answer before, during and after a drain (L1, L6, L8, L9)."""

import itertools
import random
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lockgate.endpoints.delta import drain_plan, draining, files, layered, pruning
from lockgate.endpoints.delta.changes import OP, POSITION, SEQ, ingest_schema
from lockgate.endpoints.delta.fenced import TableDead
from lockgate.endpoints.delta.files import DataFile, live_files
from lockgate.endpoints.delta.layered import DrainOvertaken, LayeredTable
from lockgate.endpoints.delta.place import Place
from lockgate.endpoints.delta.rewrite import rewrite
from lockgate.model.errors import DidNotLand, StaleOwner
from lockgate.model.ids import Token
from tests.support.lakes import DELETE, DISPATCHER, LEADER, PUT, ROWS, WIPE, Writer, rows_in


@pytest.fixture
def table(place: Place) -> LayeredTable:
    return LayeredTable.create(place, "h", ROWS, ["id", "part"], LEADER, DISPATCHER)


@pytest.fixture
def writer(table: LayeredTable) -> Writer:
    return Writer(table)


@pytest.fixture
def small_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drain_plan, "ROWS_MAX", 8)


# --- reading and draining -------------------------------------------------------------------------


changes = st.tuples(
    st.sampled_from([PUT] * 6 + [DELETE] * 3 + [WIPE]),
    st.integers(0, 40),
    st.sampled_from("ab"),
    st.none() | st.integers(0, 9),
)
batches = st.lists(changes, min_size=1, max_size=12)
steps = st.lists(batches | st.sampled_from(["drain", "drain", "prune"]), max_size=12)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(steps=steps)
def test_whatever_is_landed_drained_and_pruned_the_answer_is_the_same(
    steps: list[Any], tmp_path_factory: pytest.TempPathFactory, small_files: None
) -> None:
    folder = tmp_path_factory.mktemp("lake")
    table = LayeredTable.create(
        Place(str(folder), "t"), "h", ROWS, ["id", "part"], LEADER, DISPATCHER
    )
    writer = Writer(table)
    seen = table.snapshot()
    then = dict(writer.rows)
    for step in steps:
        if step == "drain":
            table.drain(LEADER)
        elif step == "prune":
            table.prune(DISPATCHER)
        else:
            writer.land(*step)
        assert rows_in(table.read()) == writer.rows
        assert rows_in(table.read(seen)) == then, "who began to read before sees what was there"
        seen, then = table.snapshot(), dict(writer.rows)
        assert _bytes_told(table) == _bytes_named(table)
    table.drain(LEADER)
    stable = pl.read_delta(str(folder / "stable")).to_arrow().cast(ROWS)
    assert rows_in(stable) == writer.rows, "any reader of Delta reads stable"


def _bytes_told(table: LayeredTable) -> int:
    layers = (table.stable, table.ingest)
    return sum(file.bytes for layer in layers for file in live_files(layer.handle))


def _bytes_named(table: LayeredTable) -> int:
    return sum(
        Path(layer.handle.table_uri.removeprefix("file://"), file.path).stat().st_size
        for layer in (table.stable, table.ingest)
        for file in live_files(layer.handle)
    )


def test_a_drain_that_is_run_again_changes_nothing(table: LayeredTable, writer: Writer) -> None:
    writer.put(1, 2, 3)
    assert table.drain(LEADER) is not None
    version = table.stable.look().version
    assert table.drain(LEADER) is None
    assert table.stable.look().version == version


def test_a_batch_that_is_landed_again_is_there_once(table: LayeredTable, writer: Writer) -> None:
    writer.put(1)
    again = pa.Table.from_pylist(
        [{"id": 1, "part": "a", "v": 0, POSITION: 10, SEQ: 1, OP: PUT}], schema=ingest_schema(ROWS)
    )
    table.land(DISPATCHER, again, 10)
    assert len(table.snapshot().ingest) == 1


def test_a_drain_that_was_overtaken_lands_nothing(
    table: LayeredTable, writer: Writer, place: Place
) -> None:
    writer.put(1, 2)
    table.drain(LEADER)
    writer.put(2, 3, v=1)
    plan = table.plan_drain()
    assert plan is not None
    new = [file for order in plan.orders for file in rewrite(place, order)]
    LayeredTable.open(place, "h").drain(LEADER)
    writer.put(4)
    with pytest.raises(DrainOvertaken):
        table.land_drain(LEADER, plan, new)
    assert rows_in(table.read()) == writer.rows


def test_a_long_ingest_is_drained_in_pieces(table: LayeredTable, writer: Writer) -> None:
    for id_ in range(5):
        writer.put(id_, id_ + 1, v=id_)
    upto = []
    while (plan := table.plan_drain(rows_max=4)) is not None:
        new = [file for order in plan.orders for file in rewrite(table.place, order)]
        upto.append(table.land_drain(LEADER, plan, new).to)
        table.forget_plan(plan)
        assert rows_in(table.read()) == writer.rows
    assert upto == [40, 80, 100]


@pytest.mark.parametrize("alike", [False, True], ids=["each its own", "all alike"])
def test_large_rows_are_drained_in_pieces_that_fit_in_memory(
    place: Place, monkeypatch: pytest.MonkeyPatch, alike: bool
) -> None:
    """Values that are all alike lie in a file once, and in memory once for each row."""
    rows = pa.schema([("id", pa.int64()), ("body", pa.string())])
    table = LayeredTable.create(place, "h", rows, ["id"], LEADER, DISPATCHER)
    sizes: list[int] = []
    made = draining.last_states

    def measured(changes: pa.Table, key: list[str]) -> tuple[pa.Table, bool]:
        sizes.append(changes.nbytes)
        return made(changes, key)

    monkeypatch.setattr(draining, "last_states", measured)
    wanted: dict[int, str] = {}
    for batch, count in enumerate([20, 20, 20, 90, 20, 20]):
        ids = [batch * 10 + n for n in range(count)]
        body = {id_: "same" * 250 if alike else random.randbytes(500).hex() for id_ in ids}
        wanted |= body
        at = 1000 * (batch + 1)
        found = [
            {"id": id_, "body": body[id_], POSITION: at, SEQ: at + id_, OP: PUT} for id_ in ids
        ]
        table.land(DISPATCHER, pa.Table.from_pylist(found, schema=ingest_schema(rows)), at)
    assert all((file.bytes < 10_000) == alike for file in table.snapshot().ingest)
    upto = []
    while (plan := table.plan_drain(bytes_max=50_000)) is not None:
        new = [file for order in plan.orders for file in rewrite(place, order)]
        upto.append(table.land_drain(LEADER, plan, new).to)
        table.forget_plan(plan)
    assert upto == [2000, 3000, 4000, 6000]
    assert [size < 50_000 for size in sizes] == [True, True, False, True], "a batch is not cut"
    assert {row["id"]: row["body"] for row in table.read().to_pylist()} == wanted
    assert not table.snapshot().ingest


def test_a_former_leader_drains_nothing(table: LayeredTable, writer: Writer) -> None:
    writer.put(1)
    table.stable.claim(Token(2, 1, 2))
    with pytest.raises(StaleOwner):
        table.drain(LEADER)
    assert table.stable.look().position == 0
    assert rows_in(table.read()) == writer.rows


def test_a_dropped_table_is_not_drained(table: LayeredTable, writer: Writer) -> None:
    writer.put(1)
    table.kill(LEADER)
    with pytest.raises(TableDead):
        table.drain(LEADER)


# --- pruning in the owner's name ------------------------------------------------------------------


def test_who_prunes_in_the_owners_name_takes_nothing_from_him(
    table: LayeredTable, writer: Writer, place: Place
) -> None:
    writer.put(1, 2)
    table.drain(LEADER)
    writer.put(3)
    before = table.ingest.look()
    assert LayeredTable.open(place, "h").prune(None) == 1
    after = table.ingest.look()
    assert (after.token, after.position) == (before.token, before.position)
    assert rows_in(table.read()) == writer.rows


def test_a_batch_that_meets_somebody_elses_prune_lands_once(
    table: LayeredTable, writer: Writer, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer.put(1, 2)
    table.drain(LEADER)
    pruned: list[int] = []

    def added(file: DataFile) -> Any:
        if not pruned:  # between the look at the table and the commit
            pruned.append(LayeredTable.open(place, "h").prune(None))
        return files.added(file)

    monkeypatch.setattr(layered, "added", added)
    writer.put(3)
    assert pruned == [1]
    assert len(table.snapshot().ingest) == 1
    assert rows_in(table.read()) == writer.rows


def test_a_prune_that_comes_late_gives_nothing_back_to_the_owner_before(
    table: LayeredTable, writer: Writer, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer.put(1, 2)
    table.drain(LEADER)
    newer = Token(6, 1, 1)

    def removed(file: DataFile) -> Any:
        LayeredTable.open(place, "h").ingest.claim(newer)
        return files.removed(file)

    monkeypatch.setattr(pruning, "removed", removed)
    assert table.prune(None) == 1
    assert table.ingest.look().token == newer
    with pytest.raises(StaleOwner):
        writer.put(3)


# --- what is rewritten ----------------------------------------------------------------------------


def test_only_files_that_hold_touched_keys_are_rewritten(
    table: LayeredTable, writer: Writer, small_files: None
) -> None:
    for at in range(0, 40, 8):
        writer.put(*range(at, at + 8))
        table.drain(LEADER)
    before = {file.path for file in table.snapshot().stable}
    assert len(before) == 5
    writer.put(17, v=5)
    writer.land((DELETE, 19, "a", None))
    table.drain(LEADER)
    assert len(before - {file.path for file in table.snapshot().stable}) == 1
    assert rows_in(table.read()) == writer.rows


def test_keys_that_only_grow_leave_full_files_alone(
    table: LayeredTable, writer: Writer, small_files: None
) -> None:
    writer.put(*range(8))
    table.drain(LEADER)
    before = {file.path for file in table.snapshot().stable}
    writer.put(100, 101)
    table.drain(LEADER)
    assert before < {file.path for file in table.snapshot().stable}


def test_small_files_are_filled_up(table: LayeredTable, writer: Writer, small_files: None) -> None:
    for id_ in range(4):
        writer.put(id_)
        table.drain(LEADER)
    assert len(table.snapshot().stable) == 1


def test_keys_that_come_in_any_order_make_many_files_with_ranges_of_their_own(
    table: LayeredTable, writer: Writer, small_files: None
) -> None:
    """One that had all keys was rewritten by every drain, by one task, for ever."""
    ids = list(range(64))
    random.Random(7).shuffle(ids)
    for at in range(0, 64, 4):
        writer.put(*ids[at : at + 4])
        table.drain(LEADER)
    files = sorted(table.snapshot().stable, key=lambda file: file.low["id"])
    assert max(file.rows for file in files) <= drain_plan.ROWS_MAX
    assert len(files) >= 64 // drain_plan.ROWS_MAX
    assert all(one.high["id"] < other.low["id"] for one, other in itertools.pairwise(files))
    assert rows_in(table.read()) == writer.rows


def test_a_file_that_was_deleted_before_the_commit_that_names_it_is_not_committed(
    writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its writer slept for longer than a vacuum leaves such a file alone."""
    write = layered.write_file

    def write_and_sleep(place: Place, *rest: Any) -> DataFile:
        file = write(place, *rest)
        Path(place.url, file.path).unlink()
        return file

    writer.put(1, 2)
    before = writer.position, dict(writer.rows)
    with monkeypatch.context() as patched:
        patched.setattr(layered, "write_file", write_and_sleep)
        with pytest.raises(DidNotLand, match="not there any more"):
            writer.put(7)
    assert rows_in(writer.table.read()) == before[1]
    writer.position, writer.rows = before
    writer.put(7)
    assert rows_in(writer.table.read()) == writer.rows
