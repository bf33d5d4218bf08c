"""Tables copied into a lake by real Spark tasks: every row once, taken up at the chunk."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import psycopg
import pytest

from lockgate.endpoints.delta.copy_task import LakeCopyItem, LakeCopyPart, copy_chunks
from lockgate.endpoints.delta.files import read_file
from lockgate.endpoints.delta.types import lake_schema
from lockgate.endpoints.postgres.copy.items import CopyPart
from lockgate.endpoints.postgres.copy.snapshot import held_snapshot
from lockgate.endpoints.postgres.copy.survey import survey_source
from lockgate.endpoints.postgres.embedded import EmbeddedPostgres
from lockgate.endpoints.postgres.sink.chunks import Chunk
from lockgate.model.feed_config import Mask, MaskKind
from lockgate.model.feed_status import CopyProgress
from lockgate.model.floors import Refusal
from lockgate.model.ids import Token
from lockgate.model.tables import TableName
from lockgate.pipeline.jobs import Interrupted, SparkLost, interrupt
from lockgate.pipeline.session import Spark
from tests.pipeline.test_copy import KEYS, ROWS
from tests.support.databases import fresh_database
from tests.support.lake_copies import TOKEN, LakeScene, lake_scene
from tests.support.waiting import until

ONE, TWO = TableName("public", "one"), TableName("public", "two")
EDGES = [(None, ("500",)), (("500",), None)]


@pytest.fixture
def plain(pg18: EmbeddedPostgres, tmp_path: Path) -> Iterator[LakeScene]:
    """Two tables, 1,000 rows each, in two chunks each."""
    ddl = [
        statement
        for name in ("one", "two")
        for statement in (
            f"CREATE TABLE {name} (id int PRIMARY KEY, v text)",
            f"INSERT INTO {name} SELECT n, 'v' || n FROM generate_series(1, 1000) n",
        )
    ]
    with fresh_database(pg18) as url, lake_scene(url, tmp_path, *ddl, "ANALYZE") as scene:
        scene.begin()
        for name in (ONE, TWO):
            scene.record.plan_chunks(scene.span(name), TOKEN, EDGES)
        yield scene


def clean(outcomes: list) -> None:
    assert [one for one in outcomes if one.refusal or one.error] == []


def test_rows_of_every_kind_of_key_are_copied(
    spark: Spark, pg18: EmbeddedPostgres, tmp_path: Path
) -> None:
    ddl = ["CREATE TYPE mood AS ENUM ('sad', 'ok', 'glad')"]
    for name, (columns, names, key) in KEYS.items():
        ddl += [
            f'CREATE TABLE "{name}" ({columns}, v int, w text)',
            f'INSERT INTO "{name}" ({names}, v, w) SELECT {key.format(n="n")}, n % 7, '
            f"repeat('w', n % 50) FROM generate_series(1, {ROWS}) n",
        ]
    ddl += [
        "CREATE TABLE parted (id int, v int, PRIMARY KEY (id, v)) PARTITION BY RANGE (v)",
        "CREATE TABLE parted_0 PARTITION OF parted FOR VALUES FROM (0) TO (100)",
        "CREATE TABLE parted_1 PARTITION OF parted FOR VALUES FROM (100) TO (300)",
        f"INSERT INTO parted SELECT n, n % 300 FROM generate_series(1, {ROWS}) n",
        "CREATE TABLE nothing (id int PRIMARY KEY)",
        "ANALYZE",
    ]
    told: list[CopyProgress] = []
    with fresh_database(pg18) as url, lake_scene(url, tmp_path, *ddl) as scene:
        scene.begin()
        outcomes = scene.copy(spark, report=told.append)
        clean(outcomes)
        assert {len(outcome.snapshots) for outcome in outcomes} == {1}
        for name in scene.shapes:
            scene.assert_equal(name)
            assert len(scene.record.chunks(scene.span(name))) > 1 or name.name == "nothing"
        rows = (len(KEYS) + 1) * ROWS
        assert (told[-1].rows_done, told[-1].rows_total, told[-1].percent) == (rows, rows, 100.0)
        assert told[0].rows_done == 0


def test_what_is_recorded_is_a_table_for_readers_of_delta(spark: Spark, plain: LakeScene) -> None:
    clean(plain.copy(spark))
    found = plain.table(ONE).stable.handle.to_pyarrow_table().sort_by("id")
    assert found["id"].to_pylist() == list(range(1, 1001))
    assert found["v"].to_pylist() == [f"v{n}" for n in range(1, 1001)]


def test_files_are_sorted_by_key_and_say_their_edges(spark: Spark, plain: LakeScene) -> None:
    plain.here.execute("UPDATE one SET v = v || '!' WHERE id % 3 = 0")  # so they lie elsewhere
    clean(plain.copy(spark))
    files = plain.record.files(plain.span(ONE))
    assert [(file.low, file.high) for file in files] == [
        ({"id": 1}, {"id": 499}),
        ({"id": 500}, {"id": 1000}),
    ]
    for file in files:
        ids = read_file(plain.place(ONE).child("stable"), file.path)["id"].to_pylist()
        assert ids == sorted(ids)


def test_a_second_run_goes_on_under_another_snapshot(spark: Spark, plain: LakeScene) -> None:
    """What landed is not read again: it is as it was."""
    plain.record.landed(plain.span(ONE), TOKEN, 0, (), 499, 10, "1:1:")
    plain.record.calls.clear()
    outcomes = plain.copy(spark)
    clean(outcomes)
    assert sorted(plain.record.calls) == [("s-one", 1), ("s-two", 0), ("s-two", 1)]
    assert [len(outcome.snapshots) for outcome in outcomes] == [2, 1]
    assert [outcome.rows for outcome in outcomes] == [1000, 1000]
    assert outcomes[0].settled > 0
    plain.record.calls.clear()
    again = plain.copy(spark)
    assert plain.record.calls == []
    assert [outcome.snapshots for outcome in again] == [o.snapshots for o in outcomes]


def _worker_of(scene: LakeScene) -> int:
    """The process of the task that waits for a lock at the source."""
    found = scene.here.execute(
        "SELECT client_port FROM pg_stat_activity WHERE wait_event_type = 'Lock' "
        "AND datname = current_database() AND application_name = 'lockgate feed copy'"
    ).fetchone()
    if found is None:
        return 0
    ends = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    inodes = {end[9] for end in ends if int(end[1].split(":")[1], 16) == found[0]}
    for process in Path("/proc").iterdir():
        if not process.name.isdecimal():
            continue
        try:
            links = [str(link.readlink()) for link in (process / "fd").iterdir()]
        except OSError:  # it has ended meanwhile
            continue
        if any(f"socket:[{inode}]" in links for inode in inodes):
            return int(process.name)
    return 0


@contextmanager
def _held(spark: Spark, scene: LakeScene, failed: list[BaseException]) -> Iterator[None]:
    """A copy that has come as far as it can while the table two is locked."""
    with psycopg.connect(scene.url.to_wire().decode()) as holder:

        def run() -> None:
            try:
                # Before the snapshot is taken, a look at the table's size would wait, too.
                scene.copy(spark, check=lambda: holder.execute("LOCK TABLE two") and None)
            except BaseException as error:
                failed.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        until(lambda: scene.record.done() == 2 and _worker_of(scene), 120)
        yield
        thread.join(120)


def test_a_task_that_is_killed_loses_its_chunk_and_no_other(spark: Spark, plain: LakeScene) -> None:
    failed: list[BaseException] = []
    with _held(spark, plain, failed):
        os.kill(_worker_of(plain), signal.SIGKILL)
    assert isinstance(failed[0], SparkLost)
    assert sorted(plain.record.calls) == [("s-one", 0), ("s-one", 1)]
    plain.here.execute("UPDATE one SET v = 'late'; UPDATE two SET v = 'late'")
    clean(plain.copy(spark))
    assert sorted(plain.record.calls[2:]) == [("s-two", 0), ("s-two", 1)]
    plain.assert_equal(TWO)
    assert {row[1] for row in plain.rows(ONE)} == {f"v{n}" for n in range(1, 1001)}


def test_a_copy_that_is_interrupted_is_taken_up_later(spark: Spark, plain: LakeScene) -> None:
    failed: list[BaseException] = []
    with _held(spark, plain, failed):
        assert interrupt(spark, "copy")
    assert isinstance(failed[0], Interrupted)
    clean(plain.copy(spark))
    assert sorted(plain.record.calls[2:]) == [("s-two", 0), ("s-two", 1)]
    plain.assert_equal(TWO)


def test_a_stale_owner_records_nothing(spark: Spark, plain: LakeScene) -> None:
    plain.record.owner = Token(2, 1, 1)
    outcomes = plain.copy(spark)
    assert [outcome.refusal for outcome in outcomes] == [Refusal.NEWER] * 2
    assert plain.record.done() == 0


def test_tables_that_cannot_be_in_a_lake_are_refused_alone(
    spark: Spark, pg18: EmbeddedPostgres, tmp_path: Path
) -> None:
    ddl = [
        "CREATE TABLE fit (id int PRIMARY KEY)",
        "INSERT INTO fit VALUES (1)",
        "CREATE TABLE keyless (id int)",
        "ALTER TABLE keyless REPLICA IDENTITY FULL",
        'CREATE TABLE alike (id int PRIMARY KEY, "Id" int)',
        "CREATE TABLE sums (id int PRIMARY KEY, n numeric(5,2))",
        "INSERT INTO sums VALUES (1, 'NaN')",
    ]
    with fresh_database(pg18) as url, lake_scene(url, tmp_path, *ddl) as scene:
        scene.begin()
        outcomes = {outcome.span: outcome for outcome in scene.copy(spark)}
        errors = {span: one.error for span, one in outcomes.items() if one.error}
        assert {span: (error.code, error.object) for span, error in errors.items()} == {
            "s-keyless": ("lake-key-required", "public.keyless"),
            "s-alike": ("lake-column-refused", 'public.alike."Id"'),
            "s-sums": ("value-unrepresentable", "public.sums.n"),
        }
        assert not any(error.retryable for error in errors.values())
        scene.assert_equal(TableName("public", "fit"))
        assert list(Path(scene.place(TableName("public", "sums")).url).glob("*/*.parquet")) == []


def test_columns_are_masked_and_left_out_and_rows_filtered(
    spark: Spark, pg18: EmbeddedPostgres, tmp_path: Path
) -> None:
    ddl = [
        "CREATE TABLE t (id int PRIMARY KEY, secret int, hidden int, seen int)",
        "INSERT INTO t SELECT n, n, n, n FROM generate_series(1, 10) n",
    ]
    with fresh_database(pg18) as url, lake_scene(url, tmp_path, *ddl) as scene:
        scene.begin(
            masks={"hidden": Mask(MaskKind.FIXED, "x")},
            left_out=frozenset({"secret"}),
            row_filter="id > 7",
        )
        clean(scene.copy(spark))
        wanted = [("10", "x", "10"), ("8", "x", "8"), ("9", "x", "9")]
        assert scene.rows(TableName("public", "t")) == wanted


def _item(scene: LakeScene, name: TableName, held_id: str, **more: object) -> LakeCopyItem:
    [order] = [order for order in scene.orders() if order.selection.table == name]
    known = survey_source(scene.url, "feed", [order])[name]
    schema = lake_schema(known.shape).serialize().to_pybytes()
    part = LakeCopyPart(
        CopyPart(order.span.id, TOKEN, known.table, Chunk(0)),
        order.place.to_wire(),
        known.shape,
        schema,
        ordered=True,
    )
    return msgspec.structs.replace(
        LakeCopyItem("feed", scene.url.to_wire(), held_id, (part,)), **more
    )


def test_a_chunk_of_many_rows_is_several_files_of_neighbouring_keys(plain: LakeScene) -> None:
    plain.here.execute("UPDATE one SET v = v || '!' WHERE id % 3 = 0")
    with held_snapshot(plain.url, "feed", []) as held:
        [receipt] = copy_chunks(_item(plain, ONE, held.id, file_rows_max=300))
    assert receipt.error is None
    assert [file.rows for file in receipt.files] == [300, 300, 300, 100]
    edges = [(file.low["id"], file.high["id"]) for file in receipt.files]
    assert edges == [(1, 300), (301, 600), (601, 900), (901, 1000)]


def test_what_was_written_of_a_chunk_that_fails_is_removed(plain: LakeScene) -> None:
    plain.here.execute("ALTER TABLE one ALTER v TYPE numeric(9,2) USING id")
    plain.shapes.clear()
    with held_snapshot(plain.url, "feed", []) as held:
        item = _item(plain, ONE, held.id, file_rows_max=300)
        plain.here.execute("UPDATE one SET v = 'NaN' WHERE id = 1000")
    with held_snapshot(plain.url, "feed", []) as held:
        [receipt] = copy_chunks(msgspec.structs.replace(item, snapshot_id=held.id))
    assert receipt.error is not None
    assert receipt.error.object == "public.one.v"
    assert list(Path(plain.place(ONE).url, "stable").glob("*.parquet")) == []


def test_a_table_that_is_truncated_meanwhile_is_not_taken_for_empty(plain: LakeScene) -> None:
    """To the snapshot it looks so."""
    known = survey_source(plain.url, "feed", plain.orders())[ONE]
    with held_snapshot(plain.url, "feed", known.parts) as held:
        item = _item(plain, ONE, held.id)
        plain.here.execute("TRUNCATE one")
        part = item.parts[0].part
        table = msgspec.structs.replace(part.table, storage=tuple(held.storage.items()))
        part = msgspec.structs.replace(part, table=table)
        parts = (msgspec.structs.replace(item.parts[0], part=part),)
        [receipt] = copy_chunks(msgspec.structs.replace(item, parts=parts))
    assert receipt.error is not None
    assert (receipt.error.code, receipt.error.retryable) == ("table-rewritten", True)
