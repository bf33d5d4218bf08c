"""The capture's buffers: however changes come and are taken out, each comes out once, in order."""

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from lockgate.endpoints.postgres.capture.buffers import Buffers
from lockgate.store.changelog.shapes import shape_of
from tests.support.segments import changes

steps = st.lists(
    st.tuples(st.sampled_from("tu"), st.lists(st.integers(0, 2), max_size=5), st.integers(-1, 3))
)


@settings(deadline=None)
@given(steps)
def test_what_goes_in_comes_out_once_cut_at_the_position(
    given: list[tuple[str, list[int], int]],
) -> None:
    """Batches of two tables with rising positions; after some, everything up to one is taken."""
    buffers = Buffers()
    position = seq = 0
    wanted: dict[str, list[tuple[int, int]]] = {"t": [], "u": []}
    taken: dict[str, list[tuple[int, int]]] = {"t": [], "u": []}

    def take(upto: int | None) -> None:
        for table in buffers.take(upto):
            found = list(zip(table["position"].to_pylist(), table["seq"].to_pylist(), strict=True))
            assert found, "an empty table"
            assert upto is None or all(at <= upto for at, _ in found)
            taken[shape_of(table.schema).table.name] += found
        left = [at for name in wanted for at in wanted[name][len(taken[name]) :]]
        assert buffers.rows == len(left)
        assert (buffers.bytes > 0) == bool(left)
        assert buffers.low == min((at for at, _ in left), default=None)
        assert upto is None or all(at > upto for at, _ in left)

    for table, rises, back in given:
        positions = []
        for rise in rises:
            position += rise
            positions.append(position)
        made = changes(positions, seq, table=table)
        batches = made.to_batches() or [pa.RecordBatch.from_pylist([], made.schema)]
        for batch in batches:
            buffers.add(shape_of(made.schema), batch)
        wanted[table] += zip(positions, range(seq, seq + len(positions)), strict=True)
        seq += len(positions)
        if back >= 0:
            take(position - back)
    take(None)
    assert taken == wanted
