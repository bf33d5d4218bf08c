"""A copy whose process is killed in the middle, with SIGKILL, and taken up by another."""

import itertools
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import psycopg
import pytest

from lockgate.endpoints.postgres.embedded import EmbeddedPostgres
from lockgate.endpoints.postgres.url import PostgresUrl
from lockgate.model.ids import Token
from lockgate.pipeline.copy import copy_spans
from lockgate.pipeline.session import Spark, SparkOptions, start
from tests.support.copies import Scene, scene_of
from tests.support.databases import fresh_database
from tests.support.spark import ROOT
from tests.support.spark_servers import Errand
from tests.support.waiting import until

pytestmark = pytest.mark.slow

NEXT = Token(2, 1, 1)


@pytest.fixture
def scene(pg18: EmbeddedPostgres) -> Iterator[Scene]:
    with (
        fresh_database(pg18) as source,
        fresh_database(pg18) as target,
        scene_of(
            source,
            target,
            "CREATE TABLE keyed (id int PRIMARY KEY, v text)",
            "CREATE TABLE keyless (id int, v text)",
            "ALTER TABLE keyless REPLICA IDENTITY FULL",
        ) as scene,
    ):
        for name in ("keyed", "keyless"):
            scene.stream.execute(
                f"INSERT INTO {name} SELECT n, repeat('v', n % 300) FROM generate_series(1, 5000) n"
            )
        scene.stream.execute("ANALYZE")
        scene.begin()
        yield scene


def _landed(scene: Scene) -> int:
    found = scene.there.execute("SELECT count(*) FROM lockgate.chunks WHERE done").fetchone()
    assert found is not None
    return int(found[0])


def test_a_killed_copy_is_taken_up_at_the_chunk(spark: Spark, scene: Scene, tmp_path: Path) -> None:
    for order in scene.orders():
        edges = [None, *((str(n),) for n in range(1000, 5000, 1000)), None]
        if order.selection.table.name == "keyless":
            edges = [None, ("(10,0)",), ("(50,0)",), None]
        pairs = list(itertools.pairwise(edges))
        scene.sink.plan_chunks(scene.feed, order.span.id, order.token, pairs)
    errand = Errand(
        scene.feed,
        scene.source.to_wire().decode(),
        scene.target.to_wire().decode(),
        scene.orders(),
        "",
    )
    path = tmp_path / "errand"
    path.write_bytes(msgspec.json.encode(errand))
    with psycopg.connect(scene.target.to_wire().decode()) as holder:
        # Chunks that nobody gets into as long as this transaction lasts: so the copy is in the
        # middle when it is killed.
        holder.execute("SELECT FROM lockgate.chunks WHERE no = 2 FOR UPDATE")
        process = subprocess.Popen([sys.executable, "-m", __name__, str(path)], cwd=ROOT)
        try:
            until(lambda: process.poll() is not None or _landed(scene) == 6, 240, 0.1)
            assert process.poll() is None
        finally:
            process.kill()
            process.wait()
        scene.stream.execute("UPDATE keyed SET v = v || '!' WHERE id % 7 = 0")
        scene.stream.execute("DELETE FROM keyed WHERE id % 11 = 0")
        scene.stream.execute("UPDATE keyed SET id = id + 10000 WHERE id % 13 = 0")
        scene.stream.execute("UPDATE keyless SET v = v || '!' WHERE id % 7 = 0")
        scene.stream.execute("DELETE FROM keyless WHERE id % 11 = 0")
    # Whatever still runs of the killed one may get into its chunk now, or be shut out: either way
    # each chunk lands once.
    scene.claim(NEXT)
    outcomes = copy_spans(
        spark, scene.feed, scene.source, scene.target, scene.orders(NEXT), "again"
    )
    assert [(o.error, o.refusal) for o in outcomes] == [(None, None)] * 2
    scene.stream.execute("INSERT INTO keyed VALUES (0, 'late')")
    scene.catch_up(outcomes, NEXT)
    scene.assert_equal()


def _main(path: str) -> None:
    errand = msgspec.json.decode(Path(path).read_bytes(), type=Errand)
    source, target = PostgresUrl.parse(errand.source), PostgresUrl.parse(errand.target)
    # More slots than chunks that are locked, or nobody would be left for the others.
    with start(SparkOptions("local[4]")) as spark:
        copy_spans(spark, errand.feed, source, target, errand.orders, "copy")


if __name__ == "__main__":
    _main(*sys.argv[1:])
