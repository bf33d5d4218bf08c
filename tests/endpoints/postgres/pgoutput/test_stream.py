"""Streams of real servers: what transactions do to rows arrives as they did it."""

from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lockgate.endpoints.postgres.pgoutput.decoder import Decoded, Decoder
from lockgate.endpoints.postgres.pgoutput.frames import find_frames
from lockgate.endpoints.postgres.pgoutput.relations import Relation, TablePlan
from lockgate.endpoints.postgres.pgoutput.sources import xlog
from lockgate.endpoints.postgres.pgoutput.transactions import TooManyRuns
from lockgate.model.tables import Identity, TableName
from lockgate.store.changelog.shapes import shape_of
from tests.support.pgoutput_bytes import changes_of, comparable, joined
from tests.support.pgoutput_reference import ReferenceDecoder
from tests.support.streams import DDL_TABLE, Stream


def told(decoded: Decoded) -> list[tuple[str, str, Any, Any]]:
    """Table, operation, new and old of each change."""
    return [(each.table.name, each.op, each.new, each.old) for each in changes_of(decoded)]


def test_insert_update_and_delete_by_key(stream: Stream) -> None:
    stream.execute("CREATE TABLE t (id int PRIMARY KEY, v text)")
    stream.slot()
    stream.execute("INSERT INTO t VALUES (1, 'one'), (2, NULL), (3, '')")
    stream.execute("UPDATE t SET v = 'two' WHERE id = 2")
    stream.execute("UPDATE t SET id = 30 WHERE id = 3")
    stream.execute("DELETE FROM t WHERE id = 1")
    assert told(stream.decoded()) == [
        ("t", "I", {"id": 1, "v": "one"}, None),
        ("t", "I", {"id": 2, "v": None}, None),
        ("t", "I", {"id": 3, "v": ""}, None),
        ("t", "U", {"id": 2, "v": "two"}, None),
        ("t", "U", {"id": 30, "v": ""}, {"id": 3}),
        ("t", "D", None, {"id": 1}),
    ]


def test_under_full_identity_old_is_the_whole_row(stream: Stream) -> None:
    stream.execute("CREATE TABLE t (a int, b text)")
    stream.execute("ALTER TABLE t REPLICA IDENTITY FULL")
    stream.slot()
    stream.execute("INSERT INTO t VALUES (1, NULL), (1, NULL)")
    stream.execute("UPDATE t SET b = 'x' WHERE ctid = '(0,1)'")
    stream.execute("DELETE FROM t WHERE b IS NULL")
    decoded = stream.decoded()
    assert decoded.batches[0][0].identity is Identity.FULL
    assert told(decoded)[2:] == [
        ("t", "U", {"a": 1, "b": "x"}, {"a": 1, "b": None}),
        ("t", "D", None, {"a": 1, "b": None}),
    ]


def test_a_composite_key_by_an_index_of_its_own(stream: Stream) -> None:
    stream.execute('CREATE TABLE t (v text, "b B" int NOT NULL, a uuid NOT NULL)')
    stream.execute('CREATE UNIQUE INDEX i ON t (a, "b B")')
    stream.execute("ALTER TABLE t REPLICA IDENTITY USING INDEX i")
    stream.slot()
    stream.execute("INSERT INTO t VALUES ('x', 7, '00000000-0000-0000-0000-00000000000a')")
    stream.execute('UPDATE t SET "b B" = 8')
    stream.execute("DELETE FROM t")
    key = {"b B": 7, "a": "00000000-0000-0000-0000-00000000000a"}
    _, changed, deleted = told(stream.decoded())
    assert changed == ("t", "U", {"v": "x", **key, "b B": 8}, key)
    assert deleted == ("t", "D", None, {**key, "b B": 8})


def test_unchanged_toast_values_are_marked(stream: Stream) -> None:
    stream.execute(
        "CREATE TABLE t (id int PRIMARY KEY, a text, b int, c text, d1 int, d2 int, d3 int, "
        "d4 int, e bytea)"
    )
    for column in "ace":
        stream.execute(f"ALTER TABLE t ALTER {column} SET STORAGE EXTERNAL")
    stream.slot()
    stream.execute(
        r"INSERT INTO t SELECT i, repeat('a', 9000), 0, repeat('c', 9000), 1, 2, 3, 4, "
        r"decode(repeat('ef', 9000), 'hex') FROM generate_series(1, 2) i"
    )
    stream.execute("UPDATE t SET b = 1 WHERE id = 1")
    stream.execute("UPDATE t SET c = 'short', id = 20 WHERE id = 2")
    inserted, _, first, second = changes_of(stream.decoded())
    assert inserted.unchanged == set()
    assert inserted.new is not None
    assert inserted.new["e"] == b"\xef" * 9000
    assert first.unchanged == {"a", "c", "e"}
    assert first.new == dict.fromkeys("ace") | {
        "id": 1, "b": 1, "d1": 1, "d2": 2, "d3": 3, "d4": 4
    }  # fmt: skip
    assert second.unchanged == {"a", "e"}
    assert second.new is not None
    assert second.new["c"] == "short"
    assert second.old == {"id": 2}


def test_toast_under_full_identity_is_whole_in_old(stream: Stream) -> None:
    stream.execute("CREATE TABLE t (id int, a text)")
    stream.execute("ALTER TABLE t ALTER a SET STORAGE EXTERNAL, REPLICA IDENTITY FULL")
    stream.slot()
    stream.execute("INSERT INTO t VALUES (1, repeat('a', 9000))")
    stream.execute("UPDATE t SET id = 2")
    _, updated = changes_of(stream.decoded())
    assert updated.unchanged == {"a"}
    assert updated.old == {"id": 1, "a": "a" * 9000}


def test_truncate_is_one_change_per_wanted_table(stream: Stream) -> None:
    stream.execute("CREATE TABLE a (id int PRIMARY KEY)")
    stream.execute("CREATE TABLE b (id int PRIMARY KEY)")
    stream.execute("CREATE TABLE other (id int PRIMARY KEY)")
    stream.slot()
    stream.execute("INSERT INTO a VALUES (1); TRUNCATE other, a, b; INSERT INTO b VALUES (2)")
    buffer, starts, ends = joined(stream.messages())

    def plan(relation: Relation) -> TablePlan | None:
        return None if relation.table.name == "other" else stream.plan(relation)

    decoded = Decoder(DDL_TABLE, plan, 5).decode(buffer, starts, ends)
    changes = changes_of(decoded)
    assert [(each.table.name, each.op, each.new, each.old) for each in changes] == [
        ("a", "I", {"id": 1}, None),
        ("a", "T", None, None),
        ("b", "T", None, None),
        ("b", "I", {"id": 2}, None),
    ]
    assert [each.seq for each in changes] == [5, 6, 7, 8]
    assert decoded.rows == 4


def test_aborted_transactions_and_savepoints_leave_nothing(stream: Stream) -> None:
    stream.execute("CREATE TABLE t (id int PRIMARY KEY)")
    stream.slot()
    stream.execute("BEGIN; INSERT INTO t VALUES (1); ROLLBACK")
    stream.execute(
        "BEGIN; INSERT INTO t VALUES (2); SAVEPOINT s; INSERT INTO t VALUES (3); "
        "ROLLBACK TO s; SAVEPOINT u; INSERT INTO t VALUES (4); RELEASE u; COMMIT"
    )
    decoded = stream.decoded()
    assert [new for _, _, new, _ in told(decoded)] == [{"id": 2}, {"id": 4}]
    # The transaction's number is the top one's, also for what a savepoint did.
    assert len({each.xid for each in changes_of(decoded)}) == 1


def test_transactions_tell_their_position_number_and_time(stream: Stream) -> None:
    stream.execute("CREATE TABLE t (id int PRIMARY KEY, xid xid8)")
    stream.slot()
    for number in range(3):
        stream.execute(f"INSERT INTO t VALUES ({number}, pg_current_xact_id())")
    lsn = stream.rows("SELECT pg_current_wal_lsn() - '0/0'::pg_lsn")[0][0]
    decoded = stream.decoded()
    changes = changes_of(decoded)
    assert decoded.commit is not None
    assert [each.position for each in changes] == sorted({each.position for each in changes})
    assert decoded.commit.commit_lsn == changes[-1].position
    assert decoded.commit.commit_lsn + 34 <= decoded.commit.end_lsn <= lsn
    assert decoded.commit.time == changes[-1].time
    assert [each.new and each.new["xid"] for each in changes] == [str(c.xid) for c in changes]
    now = stream.rows("SELECT (extract(epoch FROM now()) * 1000000)::bigint")[0][0]
    assert now - 60_000_000 < changes[0].time <= changes[1].time <= changes[2].time <= now
    assert (decoded.transactions, decoded.open) == (3, False)


DDL_TRANSACTION = """
BEGIN;
INSERT INTO t VALUES (1);
INSERT INTO lockgate.ddl (statement) VALUES ('first'), ('second');
INSERT INTO unwanted VALUES (1);
INSERT INTO lockgate.ddl (statement) VALUES ('third');
INSERT INTO t VALUES (2);
INSERT INTO lockgate.ddl (statement) VALUES (NULL);
UPDATE lockgate.ddl SET statement = 'not a log entry';
DELETE FROM lockgate.ddl;
TRUNCATE t;
COMMIT
"""


def wanted(stream: Stream) -> Any:
    return lambda relation: None if relation.table.name == "unwanted" else stream.plan(relation)


def test_ddl_divides_a_transaction(stream: Stream) -> None:
    stream.execute("CREATE TABLE t (id int PRIMARY KEY)")
    stream.execute("CREATE TABLE unwanted (id int PRIMARY KEY)")
    stream.slot()
    stream.execute(DDL_TRANSACTION)
    stream.execute("INSERT INTO t VALUES (3)")
    buffer, starts, ends = joined(stream.messages())
    decoded = Decoder(DDL_TABLE, wanted(stream), 1).decode(buffer, starts, ends)
    first, second, truncated, next_one = changes_of(decoded)
    at = first.position
    assert (second.position, truncated.position) == (at + 2, at + 4)
    assert [(row.position, row.values["statement"]) for row in decoded.schema_rows] == [
        (at + 1, "first"),
        (at + 1, "second"),
        (at + 1, "third"),
        (at + 3, None),
    ]
    assert decoded.commit is not None
    assert next_one.position == decoded.commit.commit_lsn


def test_too_many_ddl_runs_are_refused_with_the_statement(stream: Stream) -> None:
    stream.execute("CREATE TABLE t (id int PRIMARY KEY)")
    stream.slot()
    turns = "".join(
        f"INSERT INTO t VALUES ({n}); INSERT INTO lockgate.ddl (statement) VALUES ('ALTER {n}');"
        for n in range(1, 17)
    )
    stream.execute(f"BEGIN; {turns} COMMIT")
    with pytest.raises(TooManyRuns, match="ALTER 16"):
        stream.decoded()


def test_a_changed_table_begins_a_new_batch_at_its_position(stream: Stream) -> None:
    stream.execute("CREATE TABLE t (id int PRIMARY KEY, v text)")
    stream.slot()
    stream.execute("INSERT INTO t VALUES (1, 'a')")
    stream.execute(
        "BEGIN; INSERT INTO t VALUES (2, 'b'); "
        "INSERT INTO lockgate.ddl (statement) VALUES ('ALTER TABLE'); "
        "ALTER TABLE t ADD w int, DROP v; INSERT INTO t VALUES (3, 30); COMMIT"
    )
    decoded = stream.decoded()
    assert told(decoded) == [
        ("t", "I", {"id": 1, "v": "a"}, None),
        ("t", "I", {"id": 2, "v": "b"}, None),
        ("t", "I", {"id": 3, "w": 30}, None),
    ]
    before, after = decoded.relations
    assert before.previous is None
    assert after.previous == before.relation
    assert [column.name for column in after.relation.columns] == ["id", "w"]
    assert before.position == changes_of(decoded)[0].position
    assert after.position == changes_of(decoded)[2].position


def test_a_table_described_again_without_change_goes_on(stream: Stream) -> None:
    stream.execute("CREATE TABLE t (id int PRIMARY KEY)")
    stream.slot()
    stream.execute("INSERT INTO t VALUES (1)")
    stream.execute("GRANT SELECT ON t TO PUBLIC")
    stream.execute("INSERT INTO t VALUES (2)")
    decoded = stream.decoded()
    assert len(decoded.batches) == 1
    assert len(decoded.relations) == 1


def test_a_renamed_table_is_asked_for_anew(stream: Stream) -> None:
    stream.execute("CREATE TABLE t (id int PRIMARY KEY)")
    stream.slot()
    stream.execute("INSERT INTO t VALUES (1)")
    stream.execute("ALTER TABLE t RENAME TO unwanted")
    stream.execute("INSERT INTO unwanted VALUES (2)")
    stream.execute("ALTER TABLE unwanted RENAME TO u")
    stream.execute("INSERT INTO u VALUES (3)")
    buffer, starts, ends = joined(stream.messages())
    decoded = Decoder(DDL_TABLE, wanted(stream), 1).decode(buffer, starts, ends)
    assert told(decoded) == [("t", "I", {"id": 1}, None), ("u", "I", {"id": 3}, None)]
    assert [each.relation.table.name for each in decoded.relations] == ["t", "unwanted", "u"]


def test_partitions_arrive_as_themselves_or_as_their_root(stream: Stream) -> None:
    stream.execute("CREATE TABLE t (id int PRIMARY KEY) PARTITION BY RANGE (id)")
    stream.execute("CREATE TABLE t1 PARTITION OF t FOR VALUES FROM (0) TO (10)")
    stream.execute("ALTER PUBLICATION pub SET (publish_via_partition_root = false)")
    stream.slot()
    stream.execute("INSERT INTO t VALUES (1)")
    assert told(stream.decoded()) == [("t1", "I", {"id": 1}, None)]
    stream.execute("ALTER PUBLICATION pub SET (publish_via_partition_root = true)")
    stream.slot("later")
    stream.execute("INSERT INTO t VALUES (2)")
    buffer, starts, ends = joined(stream.messages("later"))
    decoded = Decoder(DDL_TABLE, stream.plan, 1).decode(buffer, starts, ends)
    assert told(decoded) == [("t", "I", {"id": 2}, None)]


def test_identifiers_of_every_kind(stream: Stream) -> None:
    long = "ü" * 31
    stream.execute('CREATE SCHEMA "Sch.ema ""1"""')
    stream.execute(f'CREATE TABLE "Sch.ema ""1"""."Tä ;--" ("{long}" int PRIMARY KEY, "😀" text)')
    stream.slot()
    stream.execute('INSERT INTO "Sch.ema ""1"""."Tä ;--" VALUES (1, \'x\')')
    decoded = stream.decoded()
    [(shape, _)] = decoded.batches
    assert shape.table == TableName('Sch.ema "1"', "Tä ;--")
    assert changes_of(decoded)[0].new == {long: 1, "😀": "x"}


def fill(stream: Stream) -> None:
    """A bit of everything."""
    stream.execute("CREATE TYPE mood AS ENUM ('sad', 'ok')")
    stream.execute("CREATE TABLE t (id int PRIMARY KEY, v text, m mood)")
    stream.execute("CREATE TABLE f (a int, b text)")
    stream.execute("ALTER TABLE f REPLICA IDENTITY FULL")
    stream.execute("CREATE TABLE unwanted (id int PRIMARY KEY)")
    stream.slot()
    stream.execute("INSERT INTO t SELECT i, repeat('x', i), 'ok' FROM generate_series(1, 20) i")
    stream.execute(
        "BEGIN; UPDATE t SET v = NULL WHERE id % 3 = 0; INSERT INTO f VALUES (1, 'y'); "
        "UPDATE t SET id = -id WHERE id % 4 = 0; UPDATE f SET b = 'z'; DELETE FROM f; COMMIT"
    )
    stream.execute(DDL_TRANSACTION.replace("(1);", "(100);", 1).replace("(2);", "(200);"))
    stream.execute("INSERT INTO t SELECT i FROM generate_series(300, 310) i")


@pytest.mark.parametrize("pieces", ["one by one", "two"])
def test_a_stream_cut_at_every_boundary_gives_the_rows_of_the_plain_decoder(
    stream: Stream, pieces: str
) -> None:
    fill(stream)
    messages = stream.messages()
    plans: dict[int, Any] = {}

    def plan(relation: Relation) -> TablePlan | None:
        if relation.table.name == "unwanted":
            return None
        return plans.setdefault(relation.oid, stream.plan(relation))

    reference = ReferenceDecoder(DDL_TABLE, plan, 1)
    expected = comparable(reference.decode(messages))
    cuts = range(1, len(messages), 7) if pieces == "two" else [0]
    for cut in cuts:
        decoder = Decoder(DDL_TABLE, plan, 1)
        parts = [messages[:cut], messages[cut:]] if cut else [[each] for each in messages]
        results = [decoder.decode(*joined(part)) for part in parts]
        assert comparable(changes_of(*results)) == expected
        rows = [tuple(row) for decoded in results for row in decoded.schema_rows]
        assert rows == reference.schema_rows


def test_both_ways_of_asking_send_the_same(stream: Stream) -> None:
    fill(stream)
    messages = stream.messages()
    commits = sum(message[:1] == b"C" for message in messages)
    frames = stream.streamed(commits)
    found = find_frames(frames)
    assert found.consumed == len(frames)
    assert found.others == []
    log = xlog(frames, found.starts, found.ends)
    ends = zip(log.starts, log.ends, strict=True)
    assert [frames[start:end] for start, end in ends] == messages
    lsn = stream.rows("SELECT pg_current_wal_lsn() - '0/0'::pg_lsn")[0][0]
    assert log.wal_end is not None
    assert 0 < log.wal_end <= lsn

    streamed = Decoder(DDL_TABLE, stream.plan, 1).decode(frames, log.starts, log.ends)
    copied = Decoder(DDL_TABLE, stream.plan, 1).decode(*joined(messages))
    assert comparable(changes_of(streamed)) == comparable(changes_of(copied))


def test_batches_can_be_written_as_segments(stream: Stream, tmp_path: Any) -> None:
    fill(stream)
    decoded = stream.decoded()
    shape = decoded.batches[0][0]
    batches = [batch for of, batch in decoded.batches if of == shape]
    table = pa.Table.from_batches(batches)
    pq.write_table(table, tmp_path / "segment.parquet")
    back = pq.read_table(tmp_path / "segment.parquet")
    assert back.equals(table)
    assert shape_of(back.schema) == shape


def test_generated_columns_are_not_sent_and_identity_columns_are(stream: Stream) -> None:
    stream.execute(
        "CREATE TABLE t (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, v int, "
        "w int GENERATED ALWAYS AS (v * 2) STORED)"
    )
    stream.slot()
    stream.execute("INSERT INTO t (v) VALUES (5)")
    assert told(stream.decoded()) == [("t", "I", {"id": 1, "v": 5}, None)]


def test_a_table_without_columns_has_rows_of_nothing(stream: Stream) -> None:
    stream.execute("CREATE TABLE t ()")
    stream.slot()
    stream.execute("INSERT INTO t DEFAULT VALUES")
    assert told(stream.decoded()) == [("t", "I", {}, None)]


def test_columns_that_do_not_travel_are_stepped_over(stream: Stream) -> None:
    stream.execute("CREATE TABLE t (a text, id int PRIMARY KEY, b text, c numeric)")
    stream.slot()
    stream.execute("INSERT INTO t VALUES ('x', 1, repeat('y', 9000), NULL), (NULL, 2, NULL, 5)")
    stream.execute("DELETE FROM t WHERE id = 1")

    def plan(relation: Relation) -> TablePlan:
        shape = stream.plan(relation).shape
        columns = tuple(each for each in shape.columns if each.name in ("id", "c"))
        return TablePlan(msgspec.structs.replace(shape, columns=columns))

    decoded = Decoder(DDL_TABLE, plan, 1).decode(*joined(stream.messages()))
    assert told(decoded) == [
        ("t", "I", {"id": 1, "c": None}, None),
        ("t", "I", {"id": 2, "c": "5"}, None),
        ("t", "D", None, {"id": 1}),
    ]


def test_the_columns_of_a_publication_are_the_columns_of_the_table(stream: Stream) -> None:
    stream.execute("CREATE TABLE t (a text, id int PRIMARY KEY, b text)")
    stream.execute("DROP PUBLICATION pub; CREATE PUBLICATION pub FOR TABLE t (id, b)")
    stream.slot()
    stream.execute("INSERT INTO t VALUES ('a', 1, 'b')")
    assert told(stream.decoded()) == [("t", "I", {"id": 1, "b": "b"}, None)]
