"""Rows that another program has brought or taken are found, said, and built upon by nobody."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from lockgate.endpoints.delta import layered
from lockgate.endpoints.delta.changes import OP, POSITION, PUT, SEQ, ingest_schema
from lockgate.endpoints.delta.fenced import FencedTable
from lockgate.endpoints.delta.foreign import ForeignCommit
from lockgate.endpoints.delta.layered import LayeredTable
from lockgate.endpoints.delta.place import Place
from lockgate.endpoints.delta.rewrite import rewrite
from lockgate.model.errors import LockgateError, OutcomeUnknown, StaleOwner
from lockgate.model.ids import Token
from tests.support.lake_files import data_files
from tests.support.lakes import DISPATCHER, LEADER, ROWS, Writer, rows_in

STRANGE = pa.table({"id": [77], "part": ["a"], "v": [7]}, schema=ROWS)


@pytest.fixture
def writer(place: Place) -> Writer:
    table = LayeredTable.create(place, "h", ROWS, ["id", "part"], LEADER, DISPATCHER)
    writer = Writer(table)
    writer.put(1, 2, 3)
    table.drain(LEADER)
    writer.put(4)
    return writer


def _append(stable: str) -> None:
    write_deltalake(stable, STRANGE, mode="append")


def _delete(stable: str) -> None:
    DeltaTable(stable).delete("id = 1")


def _overwrite(stable: str) -> None:
    write_deltalake(stable, STRANGE, mode="overwrite")


def _go_back(stable: str) -> None:
    DeltaTable(stable).restore(0)


@pytest.mark.parametrize("harm", [_append, _delete, _overwrite, _go_back])
def test_nothing_is_drained_over_it_and_nothing_is_lost(
    writer: Writer, place: Place, harm: Callable[[str], None]
) -> None:
    harm(f"{place.url}/stable")
    for table in (writer.table, LayeredTable.open(place, "h")):
        with pytest.raises(ForeignCommit, match="first in version 2") as caught:
            table.drain(LEADER)
        assert "version 1" in caught.value.hint
        assert rows_in(table.read()) == writer.rows, "it is read as it was before"
    writer.put(5)
    assert rows_in(writer.table.read()) == writer.rows, "changes still come in"


def test_come_between_the_plan_and_the_commit_it_is_seen(writer: Writer, place: Place) -> None:
    plan = writer.table.plan_drain()
    assert plan is not None
    new = [file for order in plan.orders for file in rewrite(place, order)]
    _append(f"{place.url}/stable")
    with pytest.raises(ForeignCommit):
        writer.table.land_drain(LEADER, plan, new)
    assert rows_in(writer.table.read()) == writer.rows


def test_put_back_it_goes_on(writer: Writer, place: Place) -> None:
    _append(f"{place.url}/stable")
    with pytest.raises(ForeignCommit):
        writer.table.drain(LEADER)
    DeltaTable(f"{place.url}/stable").restore(1)
    assert writer.table.drain(LEADER) is not None
    assert writer.table.stable.look().foreign == 0
    assert rows_in(writer.table.read()) == writer.rows


def test_a_new_leader_does_not_cover_it_up(writer: Writer, place: Place) -> None:
    _append(f"{place.url}/stable")
    newer = Token(2, 0, 1)
    assert writer.table.stable.claim(newer).foreign == 2
    table = LayeredTable.open(place, "h")
    with pytest.raises(ForeignCommit, match="first in version 2"):
        table.drain(newer)
    assert rows_in(table.read()) == writer.rows
    DeltaTable(f"{place.url}/stable").restore(1)
    assert table.drain(newer) is not None, "put back it goes on"


def test_such_a_table_can_be_dropped(writer: Writer, place: Place) -> None:
    _append(f"{place.url}/stable")
    writer.table.kill(LEADER)
    assert FencedTable.open(place.child("stable")).look().dead


def test_files_put_together_by_another_program_are_as_good(writer: Writer, place: Place) -> None:
    writer.put(-4)
    writer.table.drain(LEADER)
    DeltaTable(f"{place.url}/stable").optimize.compact()
    assert writer.table.stable.look().foreign == 0
    writer.put(2, v=9)
    assert writer.table.drain(LEADER) is not None
    assert rows_in(writer.table.read()) == writer.rows


def test_a_property_that_is_set_is_no_harm(writer: Writer, place: Place) -> None:
    stable = DeltaTable(f"{place.url}/stable")
    stable.alter.set_table_properties({"delta.checkpointInterval": "20"})
    assert writer.table.drain(LEADER) is not None
    assert rows_in(writer.table.read()) == writer.rows


def test_changes_that_another_program_brings_are_not_taken_in(writer: Writer, place: Place) -> None:
    ingest = DeltaTable(f"{place.url}/ingest-h")
    write_deltalake(ingest, ingest.to_pyarrow_table(), mode="append")
    with pytest.raises(ForeignCommit, match="first in version 3"):
        writer.table.drain(LEADER)
    assert rows_in(writer.table.read()) == writer.rows


# --- in ingest, where batches come again and again ------------------------------------------------


def _append_changes(ingest: str) -> None:
    row = {"id": 77, "part": "a", "v": 7, POSITION: 15, SEQ: 1, OP: PUT}
    strange = pa.Table.from_pylist([row], schema=ingest_schema(ROWS))
    write_deltalake(ingest, strange, mode="append")


def _take_over(ingest: str) -> None:
    FencedTable.open(Place(ingest, "ingest")).claim(Token(9, 1, 1))


HARMS = [(_append_changes, ForeignCommit), (_take_over, StaleOwner)]


@pytest.mark.parametrize(("harm", "refused"), HARMS)
def test_a_batch_that_would_be_refused_is_not_written(
    writer: Writer,
    place: Place,
    monkeypatch: pytest.MonkeyPatch,
    harm: Callable[[str], None],
    refused: type[LockgateError],
) -> None:
    harm(f"{place.url}/ingest-h")
    monkeypatch.setattr(layered, "write_file", None)
    with pytest.raises(refused):
        writer.put(5)


@pytest.mark.parametrize(("harm", "refused"), HARMS)
def test_a_batch_that_is_refused_leaves_no_file(
    writer: Writer,
    place: Place,
    monkeypatch: pytest.MonkeyPatch,
    harm: Callable[[str], None],
    refused: type[LockgateError],
) -> None:
    written = _after_writing(monkeypatch, lambda: harm(f"{place.url}/ingest-h"))
    with pytest.raises(refused):
        writer.put(5)
    assert len(written) == 1
    assert not set(written) & data_files(f"{place.url}/ingest-h")
    assert rows_in(writer.table.read()) == {(id_, "a"): 0 for id_ in (1, 2, 3, 4)}


def test_a_batch_of_which_nobody_knows_whether_it_landed_keeps_its_file(
    writer: Writer, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = DeltaTable.create_write_transaction
    damaged = Path(place.url, "ingest-h", "_delta_log", f"{4:020d}.json")

    def commit_before_a_damaged_one(*args: Any, **named: Any) -> None:
        write(*args, **named)
        damaged.write_bytes(b'{"add"')

    with monkeypatch.context() as patched:
        patched.setattr(DeltaTable, "create_write_transaction", commit_before_a_damaged_one)
        with pytest.raises(OutcomeUnknown, match="a commit is there"):
            writer.put(5)
    damaged.unlink()
    assert rows_in(LayeredTable.open(place, "h").read()) == writer.rows


def _after_writing(patched: pytest.MonkeyPatch, happens: Callable[[], None]) -> list[str]:
    """What happens between a batch's file and its commit; the files that are written."""
    write, written = layered.write_file, []

    def write_and_then(*args: Any) -> Any:
        file = write(*args)
        written.append(file.path)
        happens()
        return file

    patched.setattr(layered, "write_file", write_and_then)
    return written
