"""Where no log of DDL travels in the stream, a table's new description stands where it came."""

import pytest

from lockgate.endpoints.postgres.pgoutput.decoder import Decoder
from lockgate.endpoints.postgres.pgoutput.following import Followed, ShapeChange
from lockgate.endpoints.postgres.pgoutput.relations import Relation, TablePlan
from lockgate.endpoints.postgres.pgoutput.transactions import TooManyRuns
from lockgate.model.schema_changes import SchemaStep
from lockgate.model.tables import TableName, TableShape
from tests.support.pgoutput_bytes import changes_of, joined
from tests.support.streams import DDL_TABLE, Stream


class Known:
    """Remembers the names of columns, and says when they are others."""

    def __init__(self) -> None:
        self.names: dict[TableName, str] = {}
        self.asked = 0

    def __call__(self, relation: Relation, plan: TablePlan | None) -> Followed | None:
        assert plan is not None
        self.asked += 1
        was = self.names.get(relation.table)
        now = self.names[relation.table] = _names(plan.shape)
        if was is None or was == now:
            return None
        return Followed(SchemaStep(f"{relation.table.name}: {was} to {now}", ()), plan.shape)


def _names(shape: TableShape) -> str:
    return ",".join(column.name for column in shape.columns)


def decoded(
    stream: Stream, known: Known, resolved: int = 0, size: int = 1_000_000
) -> tuple[list[tuple[str, int, object]], list[ShapeChange], list[int]]:
    """Changes of rows, changes of tables and the ends of transactions, in buffers of `size`."""
    decoder = Decoder(DDL_TABLE, stream.plan, 1, follow=known, resolved=resolved)
    buffer, starts, ends = joined(stream.messages())
    rows, shapes, commits = [], [], []
    for cut in range(0, len(starts), size):
        part = slice(cut, cut + size)
        found = decoder.decode(buffer, starts[part], ends[part])
        rows += [(one.table.name, one.position, one.new) for one in changes_of(found)]
        shapes += found.shape_changes
        commits += [found.commit.commit_lsn] if found.commit else []
    return rows, shapes, commits


def fill(stream: Stream) -> None:
    stream.execute("CREATE TABLE t (id int PRIMARY KEY, v text)")
    stream.execute("CREATE TABLE u (id int PRIMARY KEY)")
    stream.slot()
    stream.execute("INSERT INTO t VALUES (1, 'a')")
    stream.execute(
        "BEGIN; INSERT INTO u VALUES (1); INSERT INTO t VALUES (2, 'b'); "
        "ALTER TABLE t ADD w int; ALTER TABLE u ADD n int; "
        "INSERT INTO t VALUES (3, 'c', 30); INSERT INTO u VALUES (2, 20); "
        "ALTER TABLE t DROP v; INSERT INTO t VALUES (4, 40); COMMIT"
    )
    stream.execute("INSERT INTO t VALUES (5, 50)")


@pytest.mark.parametrize("size", [1, 2, 1_000_000])
def test_rows_before_and_after_have_positions_of_their_own(stream: Stream, size: int) -> None:
    fill(stream)
    rows, shapes, _ = decoded(stream, Known(), size=size)
    at = rows[1][1]
    assert rows[1:] == [
        ("u", at, {"id": 1}),
        ("t", at, {"id": 2, "v": "b"}),
        ("t", at + 2, {"id": 3, "v": "c", "w": 30}),
        ("u", at + 4, {"id": 2, "n": 20}),
        ("t", at + 6, {"id": 4, "w": 40}),
        ("t", rows[-1][1], {"id": 5, "w": 50}),
    ]
    assert rows[-1][1] > at + 6
    assert [(one.position - at, one.step.statement) for one in shapes] == [
        (1, "t: id,v to id,v,w"),
        (3, "u: id to id,n"),
        (5, "t: id,v,w to id,w"),
    ]
    assert shapes[0].number == shapes[2].number != shapes[1].number
    assert _names(shapes[-1].shape) == "id,w"


def test_up_to_where_all_is_known_nothing_is_asked(stream: Stream) -> None:
    fill(stream)
    everything, first, second = Known(), Known(), Known()
    rows, all_of_it, commits = decoded(stream, everything, size=1)
    assert everything.asked == 5
    # The tables as they were after the first transaction.
    first.names = {table: "id,v" if table.name == "t" else "id" for table in everything.names}
    again, shapes, _ = decoded(stream, first, resolved=commits[0])
    assert (again, shapes) == (rows, all_of_it)
    # After the second: its changes are not changes any more.
    second.names = dict(everything.names)
    again, shapes, _ = decoded(stream, second, resolved=commits[1])
    assert (shapes, second.asked) == ([], 0)
    assert [new for _, _, new in again] == [new for _, _, new in rows]


def test_a_table_that_was_changed_while_nobody_read_is_held_against_what_was_known(
    stream: Stream,
) -> None:
    stream.execute("CREATE TABLE t (id int PRIMARY KEY)")
    stream.slot()
    stream.execute("ALTER TABLE t ADD a int")
    stream.execute("INSERT INTO t VALUES (1, 2)")
    known = Known()
    known.names = {TableName("public", "t"): "id"}
    [(_, at, new)], [change], _ = decoded(stream, known)
    assert (change.position, new) == (at - 1, {"id": 1, "a": 2})


def test_too_many_turns_in_one_transaction_are_refused(stream: Stream) -> None:
    stream.execute("CREATE TABLE t (id int PRIMARY KEY)")
    stream.slot()
    turns = "".join(
        f"INSERT INTO t (id) VALUES ({n}); ALTER TABLE t ADD c{n} int;" for n in range(1, 17)
    )
    stream.execute(f"BEGIN; {turns} INSERT INTO t (id) VALUES (99); COMMIT")
    with pytest.raises(TooManyRuns, match="c16"):
        decoded(stream, Known())
