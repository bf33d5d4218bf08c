"""A layered table at a position (L1, L10): exactly as it was there, or refused."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lockgate.endpoints.delta import drain_plan
from lockgate.endpoints.delta.changes import OP, POSITION, SEQ, ingest_schema
from lockgate.endpoints.delta.files import live_files
from lockgate.endpoints.delta.layered import LayeredTable
from lockgate.endpoints.delta.place import Place
from lockgate.endpoints.delta.rewrite import rewrite
from lockgate.endpoints.delta.travel import (
    PositionAhead,
    PositionGone,
    VersionGone,
    earliest,
    landed_by,
    snapshot_at,
    snapshot_of,
)
from lockgate.endpoints.delta.vacuum import vacuum
from lockgate.model.ids import Token
from tests.support.lakes import DELETE, DISPATCHER, LEADER, PUT, ROWS, WIPE, Rows, Writer, rows_in

FOLLOWER = Token(3, 1, 2)


@pytest.fixture
def table(place: Place) -> LayeredTable:
    return LayeredTable.create(place, "h", ROWS, ["id", "part"], LEADER, DISPATCHER, 1, settled=1)


@pytest.fixture
def writer(table: LayeredTable) -> Writer:
    return Writer(table)


@pytest.fixture
def small_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drain_plan, "ROWS_MAX", 8)


def _at(table: LayeredTable, position: int) -> Rows:
    return rows_in(table.read(snapshot_at(table, position)))


def _vacuum(table: LayeredTable, *, stable: bool, ingest: bool) -> None:
    """Remove all that the newest versions do not name."""
    for layer, wanted in ((table.stable, stable), (table.ingest, ingest)):
        layer.look()
        folder = Path(layer.handle.table_uri.removeprefix("file://"))
        names = {file.path for file in live_files(layer.handle)}
        for path in folder.glob("*.parquet") if wanted else ():
            if path.name not in names:
                path.unlink()


changes = st.tuples(
    st.sampled_from([PUT] * 6 + [DELETE] * 3 + [WIPE]),
    st.integers(0, 20),
    st.sampled_from("ab"),
    st.none() | st.integers(0, 9),
)
batches = st.lists(changes, min_size=1, max_size=6)
work = st.sampled_from(
    ["drain", "drain", "prune", "real vacuum", "vacuum", "vacuum stable", "vacuum ingest"]
)
steps = st.lists(batches | work, min_size=3, max_size=14)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30)
@given(steps=steps)
def test_every_position_is_answered_as_it_was_or_refused_from_where_on(
    steps: list[Any], tmp_path_factory: pytest.TempPathFactory, small_files: None
) -> None:
    place = Place(str(tmp_path_factory.mktemp("lake")), "t")
    table = LayeredTable.create(place, "h", ROWS, ["id", "part"], LEADER, DISPATCHER, 1, settled=1)
    writer = Writer(table)
    was: dict[int, Rows] = {1: {}}
    vacuumed = False
    for step in steps:
        if step == "drain":
            table.drain(LEADER)
        elif step == "prune":
            table.prune(DISPATCHER)
        elif step == "real vacuum":
            vacuum(place, retention_s=-10, grace_s=-10)
            vacuumed = True
        elif isinstance(step, str):
            _vacuum(table, stable="ingest" not in step, ingest="stable" not in step)
            vacuumed = True
        else:
            for change in step:  # the state after each of the changes, and between them
                writer.land(change)
                was[writer.position] = dict(writer.rows)
    first = earliest(table)
    assert vacuumed or first == 1
    refused: list[tuple[int, int]] = []
    for position, rows in was.items():
        for asked in (position, position + 5):
            if asked > writer.position:
                continue
            try:
                assert _at(table, asked) == rows
            except PositionGone as gone:
                refused.append((asked, gone.earliest))
    assert all(asked < first == said for asked, said in refused), "from there on all is read"


def _land_again(writer: Writer, table: LayeredTable, *changes: tuple[str, int, str, Any]) -> None:
    """The same changes by another home."""
    first = writer.position - 10 * len(changes)
    rows = [
        {"id": id_, "part": part, "v": v, POSITION: first + 10 * n, SEQ: 100 + first + n, OP: op}
        for n, (op, id_, part, v) in enumerate(changes, 1)
    ]
    batch = pa.Table.from_pylist(rows, schema=ingest_schema(ROWS))
    table.land(FOLLOWER, batch, writer.position)


def test_a_follower_gives_the_same_answer_as_the_leader(
    table: LayeredTable, writer: Writer
) -> None:
    other = LayeredTable.create(
        table.place, "other", ROWS, ["id", "part"], LEADER, FOLLOWER, position=0
    )
    was = {}
    for n in range(6):
        batch = ((PUT, n, "a", n), (PUT, 0, "a", 10 + n), (DELETE, n - 1, "a", None))
        writer.land(*batch)
        _land_again(writer, other, *batch)
        was[writer.position] = dict(writer.rows)
        if n % 2:
            table.drain(LEADER)
            table.prune(DISPATCHER)
            other.prune(FOLLOWER)
    for position, rows in was.items():
        assert _at(table, position) == rows
        assert _at(other, position) == rows


def test_a_home_that_lags_has_what_it_pruned_as_soon_as_it_came(
    table: LayeredTable, writer: Writer
) -> None:
    other = LayeredTable.create(
        table.place, "other", ROWS, ["id", "part"], LEADER, FOLLOWER, 1, settled=1
    )
    for id_ in (1, 2, 3):
        writer.put(id_)
    table.drain(LEADER)
    writer.position = 0
    for id_ in (1, 2, 3):
        writer.position += 10
        _land_again(writer, other, (PUT, id_, "a", 0))
        other.prune(FOLLOWER)
    assert _at(other, 20) == {(1, "a"): 0, (2, "a"): 0}


def test_a_home_that_came_later_has_nothing_from_before(
    table: LayeredTable, writer: Writer
) -> None:
    writer.put(1, 2)
    other = LayeredTable.create(
        table.place, "other", ROWS, ["id", "part"], LEADER, FOLLOWER, position=20
    )
    assert other.begins == 20
    table.drain(LEADER)
    with pytest.raises(PositionGone):
        snapshot_at(other, 10)
    assert _at(table, 10) == {(1, "a"): 0}


def test_a_position_reads_the_same_while_a_drain_is_under_way(
    table: LayeredTable, writer: Writer
) -> None:
    writer.put(1, 2, 3)
    table.drain(LEADER)
    writer.land((PUT, 2, "a", None), (DELETE, 3, "a", None), (PUT, 4, "b", 1))
    then, position = dict(writer.rows), writer.position
    plan = table.plan_drain()
    assert plan is not None
    new = [file for order in plan.orders for file in rewrite(table.place, order)]
    writer.put(1, 5, v=7)
    assert _at(table, position) == then
    table.land_drain(LEADER, plan, new)
    assert _at(table, position) == then
    table.drain(LEADER)
    table.prune(DISPATCHER)
    assert _at(table, position) == then
    assert rows_in(table.read()) == writer.rows


def test_what_has_not_come_yet_is_said(table: LayeredTable, writer: Writer) -> None:
    writer.put(1)
    with pytest.raises(PositionAhead, match="come to position 10, not to 11"):
        snapshot_at(table, 11)


def test_many_commits_back_a_position_is_found(table: LayeredTable, writer: Writer) -> None:
    was = {}
    for id_ in range(60):  # beyond a checkpoint of Delta's
        writer.put(id_ % 7, v=id_)
        was[writer.position] = dict(writer.rows)
        if id_ % 9 == 0:
            table.drain(LEADER)
            table.prune(DISPATCHER)
    for position in (10, 20, 90, 100, 110, 330, 590, 600):
        assert _at(table, position) == was[position]


def test_a_commit_that_is_not_ours_hides_no_position(table: LayeredTable, writer: Writer) -> None:
    writer.put(1)
    table.drain(LEADER)
    table.stable.handle.alter.set_table_properties({"delta.appendOnly": "false"})
    writer.put(2)
    table.drain(LEADER)
    assert _at(table, 10) == {(1, "a"): 0}


def test_a_version_is_stable_alone(table: LayeredTable, writer: Writer) -> None:
    writer.put(1)
    table.drain(LEADER)
    writer.put(2)
    table.drain(LEADER)
    writer.put(3)
    seen, _ = snapshot_of(table, 1)
    assert rows_in(table.read(seen)) == {(1, "a"): 0}
    with pytest.raises(VersionGone, match="no version 9"):
        snapshot_of(table, 9)
    _vacuum(table, stable=True, ingest=True)
    with pytest.raises(VersionGone, match="no version 1"):
        snapshot_of(table, 1)


def test_a_time_is_the_position_that_was_there_then(table: LayeredTable, writer: Writer) -> None:
    writer.put(1)
    then = table.ingest.handle.history(1)[0]["timestamp"]
    assert landed_by(table, then) == 10
    while table.ingest.handle.history(1)[0]["timestamp"] == then:
        writer.put(2)  # until the clock has gone on
    table.drain(LEADER)
    assert landed_by(table, then) < writer.position
    assert landed_by(table, then + 10_000) == writer.position
    assert landed_by(table, 1000) is None
