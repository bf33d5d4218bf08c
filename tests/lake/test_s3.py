"""A lake in a store that speaks S3: all that it does in a directory, and that its fence holds.

Spark's own Parquet reader needs hadoop-aws, which is not here: what is said then, another test says
(`test_object_store`). All else that reads and writes a lake goes through pyarrow and delta-rs.
"""

import contextlib
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from typing import TypeVar

import polars as pl
import pytest
from deltalake import DeltaTable
from pyarrow import fs

import lockgate
from lockgate.endpoints.delta.delete import delete
from lockgate.endpoints.delta.document import Document
from lockgate.endpoints.delta.fenced import FencedTable, TableDead
from lockgate.endpoints.delta.head import LakeHead
from lockgate.endpoints.delta.lake import Lake
from lockgate.endpoints.delta.layered import LayeredTable
from lockgate.endpoints.delta.marks import marks_of
from lockgate.endpoints.delta.pins import holding
from lockgate.endpoints.delta.place import Place
from lockgate.endpoints.delta.travel import snapshot_at
from lockgate.endpoints.delta.vacuum import vacuum
from lockgate.endpoints.postgres.embedded import EmbeddedPostgres
from lockgate.lake.opening import place_of
from lockgate.model.errors import StaleOwner
from lockgate.model.ids import Token
from lockgate.model.value import Value
from lockgate.pipeline.drain import drain
from lockgate.pipeline.session import Spark
from tests.lake.conftest import TABLE
from tests.support.databases import fresh_database
from tests.support.feeds import level
from tests.support.lake_feeds import Shore
from tests.support.lakes import DELETE, DISPATCHER, LEADER, PUT, ROWS, Writer, rows_in
from tests.support.object_store import OPTIONS, PYTHON, serving

T = TypeVar("T")

BUCKET, WHOLE = "bucket", "whole"
SIDES = 3
pytestmark = pytest.mark.skipif(not PYTHON.exists(), reason="`make object-store` has not been run")


class Counter(Value, frozen=True):
    count: int = 0


@pytest.fixture(scope="module")
def store() -> Iterator[str]:
    """The address of a store with an empty bucket."""
    with serving() as url:
        assert [_put(f"{url}/{bucket}") for bucket in (BUCKET, WHOLE)] == [200, 200]
        yield url


_prefixes = count(1)
_CREDENTIAL = f"{OPTIONS['aws_access_key_id']}/20260101/{OPTIONS['aws_region']}/s3/aws4_request"
_SIGNED = f"AWS4-HMAC-SHA256 Credential={_CREDENTIAL}, SignedHeaders=host, Signature=0"
"""Who is asking: the store looks at that, and not at signatures."""


def _put(url: str, **headers: str) -> int:
    """What the store answers."""
    headers = {"Authorization": _SIGNED, **headers}
    request = urllib.request.Request(url, data=b"", method="PUT", headers=headers)
    try:
        with urllib.request.urlopen(request) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as refused:
        return refused.code


@pytest.fixture
def options(store: str) -> dict[str, str]:
    return {**OPTIONS, "aws_endpoint_url": store}


@pytest.fixture
def root(options: dict[str, str]) -> Place:
    return place_of(f"s3://{BUCKET}/lake{next(_prefixes)}", options)


def _at_once(work: Callable[[int], T]) -> list[T]:
    """What came of it, done by several at the same time."""
    with ThreadPoolExecutor(SIDES) as pool:
        return list(pool.map(work, range(SIDES)))


# --- what the fence is built on -------------------------------------------------------------------


def test_of_several_who_make_the_same_object_the_store_lets_one_through(store: str) -> None:
    """All else here is worth nothing with a store that does not."""

    all_here = threading.Barrier(SIDES)

    def answer(key: int) -> int:
        all_here.wait()
        return _put(f"{store}/{BUCKET}/raced/{key}", **{"If-None-Match": "*"})

    def answers(_: int) -> list[int]:
        return [answer(key) for key in range(100)]

    for told in zip(*_at_once(answers), strict=True):
        assert sorted(told) == [200] + [412] * (SIDES - 1)


def test_changes_of_a_document_are_made_one_after_the_other(root: Place) -> None:
    def add(_: int) -> None:
        document = Document(root.child("_lockgate").child("counter"), Counter, Counter())
        for _ in range(3):
            document.change(lambda counter: Counter(counter.count + 1))

    _at_once(add)
    document = Document(root.child("_lockgate").child("counter"), Counter, Counter())
    assert document.read() == Counter(3 * SIDES)


def test_owners_who_fight_for_a_table_never_commit_for_each_other(root: Place) -> None:
    """Each claims under a token of its own and moves the table on, until a newer one has it."""
    place = root.child("t")
    FencedTable.create(place, ROWS, Token(1, 0, 0))
    tokens = [Token(epoch, 0, 0) for epoch in range(2, 2 + 2 * SIDES)]

    def fight(side: int) -> int:
        table = FencedTable.open(place)
        landed = 0
        for token in tokens[side::SIDES]:
            with contextlib.suppress(StaleOwner):
                table.claim(token)
                landed += 1
                for _ in range(2):
                    table.commit(token, lambda _: [])
                    landed += 1
        return landed

    landed = sum(_at_once(fight))
    last = FencedTable.open(place).look()
    assert last.version == landed, "who was told that it landed has a version of his own"
    owners = [
        marks_of(DeltaTable(place.url, version=version, storage_options=place.options)).token
        for version in range(last.version + 1)
    ]
    assert owners == sorted(owners)
    assert owners[-1] == tokens[-1]


# --- a table --------------------------------------------------------------------------------------


def test_a_table_lives_and_dies_there_as_in_a_directory(root: Place, writer: Writer) -> None:
    table, place = writer.table, writer.table.place
    writer.put(1, 2, 3)
    assert rows_in(table.read()) == writer.rows
    then, position = dict(writer.rows), writer.position
    table.drain(LEADER)
    writer.land((PUT, 2, "a", None), (DELETE, 3, "a", None), (PUT, 4, "b", 1))
    table.drain(LEADER)
    assert table.prune(None) == 2
    assert rows_in(LayeredTable.open(place, "h").read()) == writer.rows
    assert rows_in(table.read(snapshot_at(table, position))) == then

    files, base = place.filesystem()
    with holding(place, "h", snapshot_at(table, position), "a reader"):
        vacuum(place, retention_s=-60, grace_s=-60)
        assert rows_in(table.read(snapshot_at(table, position))) == then
    assert vacuum(place, retention_s=-60, grace_s=-60).files > 0
    lying = files.get_file_info(fs.FileSelector(f"{base}/stable"))
    assert [one.base_name for one in lying if one.is_file] == [
        file.path for file in table.snapshot().stable
    ]

    lake = Lake(root)
    assert lake.tables() == [TABLE]
    table.kill(LEADER)
    with pytest.raises(TableDead):
        writer.put(5)
    delete(lake, TABLE, 1, 0)
    left = files.get_file_info(fs.FileSelector(base, recursive=True, allow_not_found=True))
    assert [one.path for one in left if one.is_file] == []
    with pytest.raises(TableDead):
        LayeredTable.open(place, "h")


def test_a_lake_may_be_a_whole_bucket(options: dict[str, str]) -> None:
    root = place_of(f"s3://{WHOLE}", options)
    head = LakeHead(root, "h")
    assert head.join().leader == "h"
    place = Lake(root).place(TABLE, 1)
    table = LayeredTable.create(place, "h", ROWS, ["id", "part"], LEADER, DISPATCHER, 1, settled=1)
    writer = Writer(table)
    writer.put(1, 2)
    table.drain(LEADER)
    assert rows_in(table.read()) == writer.rows
    assert Lake(root).live(TABLE) == place
    table.kill(LEADER)
    delete(Lake(root), TABLE, 1, 0)
    assert head.read().leader == "h", "what is no table's stays"


def test_another_reader_is_told_where_a_table_lies(
    root: Place, writer: Writer, options: dict[str, str]
) -> None:
    writer.put(1, 2)
    writer.table.drain(LEADER)
    url = lockgate.lake.stable(root.url, TABLE, options=options)
    assert url == f"{writer.table.place.url}/stable"
    assert pl.read_delta(url, storage_options=options).height == 2


def test_sparks_tasks_drain_it_and_read_it(
    spark: Spark, root: Place, writer: Writer, options: dict[str, str]
) -> None:
    writer.put(1, 2, 3)
    drained = drain(spark, writer.table, LEADER, "test")
    assert drained is not None
    assert drained.to == writer.position
    writer.land((PUT, 2, "a", 9), (DELETE, 3, "a", None))
    lockgate.lake.register(spark.session, options=options)
    reader = spark.session.read.format("lockgate")
    found = reader.option("path", root.url).option("table", TABLE).load().collect()
    assert {(row.id, row.part): row.v for row in found} == writer.rows
    assert len(found) == len(writer.rows)


# --- a feed ---------------------------------------------------------------------------------------


def test_a_feed_brings_a_databases_rows_there(
    pg16: EmbeddedPostgres, spark: Spark, tmp_path: Path, root: Place, options: dict[str, str]
) -> None:
    said = "&".join(f"{name}={value}" for name, value in options.items())
    with fresh_database(pg16) as source:
        shore = Shore(source, tmp_path, tmp_path / "home", spark, f"delta:{root.url}?{said}")
        shore.at_source(
            "CREATE TABLE orders (id int PRIMARY KEY, note text)",
            "INSERT INTO orders SELECT n, 'note ' || n FROM generate_series(1, 500) n",
        )
        with shore.running(chunk_rows=200) as runner:
            level(runner)
            shore.at_source(
                "ALTER TABLE orders ADD COLUMN price int",
                "UPDATE orders SET price = id WHERE id % 7 = 0",
                "DELETE FROM orders WHERE id % 10 = 0",
                "INSERT INTO orders VALUES (1000, 'late', 1)",
            )
            level(runner)
            shore.assert_equal("public.orders")
        assert shore.table("public.orders").snapshot().ingest, "changes are to wait in ingest"
