"""Small files become fewer, and nothing else changes (L10)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockgate.endpoints.delta import drain_plan
from lockgate.endpoints.delta.compact import compact, groups, land_compaction, plan_compaction
from lockgate.endpoints.delta.files import DataFile
from lockgate.endpoints.delta.layered import DrainOvertaken, LayeredTable
from lockgate.endpoints.delta.place import Place
from lockgate.endpoints.delta.rewrite import rewrite
from lockgate.model.errors import StaleOwner
from lockgate.model.ids import Token
from tests.support.lakes import DISPATCHER, LEADER, ROWS, Writer, rows_in

MAX = 64


def _files(sizes: list[tuple[int, int | None]]) -> list[DataFile]:
    return [
        DataFile(
            f"{number}.parquet",
            rows,
            rows * 10,
            {} if low is None else {"id": low},
            {} if low is None else {"id": low + 1},
        )
        for number, (rows, low) in enumerate(sizes)
    ]


sizes = st.lists(st.tuples(st.integers(1, MAX), st.none() | st.integers(0, 99)), max_size=40)


@given(sizes)
def test_what_becomes_one_are_small_neighbours_with_room_for_all(
    found: list[tuple[int, int | None]],
) -> None:
    files = _files(found)
    grouped = groups(files, "id", MAX)
    taken = [file.path for group in grouped for file in group]
    assert len(taken) == len(set(taken)), "each file is in one group"
    ranked = sorted(files, key=lambda f: (not f.low, f.low.get("id", 0), f.path))
    place = {file.path: at for at, file in enumerate(ranked)}
    for group in grouped:
        assert len(group) > 1
        assert sum(file.rows for file in group) <= MAX
        at = [place[file.path] for file in group]
        assert at == list(range(at[0], at[0] + len(at))), "nothing lies between them"


@given(sizes)
def test_done_once_there_is_nothing_left_to_do(found: list[tuple[int, int | None]]) -> None:
    files = _files(found)
    grouped = groups(files, "id", MAX)
    gone = {file.path for group in grouped for file in group}
    made = [
        DataFile(
            f"new-{group[0].path}",
            sum(file.rows for file in group),
            1,
            group[0].low,
            group[0].high,
        )
        for group in grouped
    ]
    left = [file for file in files if file.path not in gone] + made
    for group in groups(left, "id", MAX):
        assert sum(file.rows for file in group) < MAX // 4, "only what is small still"


@pytest.fixture
def writer(place: Place, monkeypatch: pytest.MonkeyPatch) -> Writer:
    """A table of eight files, of one row each."""
    writer = Writer(LayeredTable.create(place, "h", ROWS, ["id", "part"], LEADER, DISPATCHER))
    with monkeypatch.context() as patched:
        patched.setattr(drain_plan, "ROWS_MAX", 2)
        for id_ in range(8):
            writer.put(id_)
            writer.table.drain(LEADER)
    assert len(writer.table.snapshot().stable) == 8
    return writer


def test_rows_and_position_stay_and_files_become_one(writer: Writer) -> None:
    before = writer.table.stable.look()
    done = compact(writer.table, LEADER)
    assert done is not None
    assert (done.files_before, done.files_after) == (8, 1)
    assert rows_in(writer.table.read()) == writer.rows
    after = writer.table.stable.look()
    assert (after.position, after.version) == (before.position, before.version + 1)
    assert compact(writer.table, LEADER) is None


def test_landed_twice_it_lands_once(writer: Writer, place: Place) -> None:
    plan = plan_compaction(writer.table)
    assert plan is not None
    new = [file for order in plan.orders for file in rewrite(place, order)]
    land_compaction(writer.table, LEADER, plan, new)
    with pytest.raises(DrainOvertaken):
        land_compaction(LayeredTable.open(place, "h"), LEADER, plan, new)
    assert rows_in(writer.table.read()) == writer.rows


def test_overtaken_by_a_drain_it_lands_nothing(writer: Writer, place: Place) -> None:
    plan = plan_compaction(writer.table)
    assert plan is not None
    new = [file for order in plan.orders for file in rewrite(place, order)]
    writer.put(3, v=9)
    LayeredTable.open(place, "h").drain(LEADER)
    with pytest.raises(DrainOvertaken):
        land_compaction(writer.table, LEADER, plan, new)
    assert rows_in(writer.table.read()) == writer.rows


def test_a_drain_that_it_overtook_is_planned_anew(writer: Writer, place: Place) -> None:
    writer.put(3, v=9)
    plan = writer.table.plan_drain()
    assert plan is not None
    new = [file for order in plan.orders for file in rewrite(place, order)]
    compact(LayeredTable.open(place, "h"), LEADER)
    with pytest.raises(DrainOvertaken):
        writer.table.land_drain(LEADER, plan, new)
    writer.table.drain(LEADER)
    assert rows_in(writer.table.read()) == writer.rows


def test_who_does_not_lead_compacts_nothing(writer: Writer) -> None:
    writer.table.stable.claim(Token(2, 0, 1))
    with pytest.raises(StaleOwner):
        compact(writer.table, LEADER)
    assert len(writer.table.snapshot().stable) == 8
