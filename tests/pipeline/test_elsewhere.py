"""The same jobs on other kinds of Spark: a standalone cluster, and through Spark Connect."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from lockgate.endpoints.postgres.embedded import EmbeddedPostgres
from tests.support.copies import Scene, scene_of
from tests.support.databases import fresh_database
from tests.support.spark_servers import Errand, Errands, connect_server, standalone_cluster, use

pytestmark = pytest.mark.slow


@pytest.fixture
def scene(pg18: EmbeddedPostgres) -> Iterator[Scene]:
    ddl = [f"CREATE TABLE {name} (id int PRIMARY KEY, v text)" for name in ("one", "two")]
    with (
        fresh_database(pg18) as source,
        fresh_database(pg18) as target,
        scene_of(source, target, *ddl) as scene,
    ):
        for name in ("one", "two"):
            scene.stream.execute(
                f"INSERT INTO {name} SELECT n, 'v' || n FROM generate_series(1, 1000) n"
            )
        scene.stream.execute("ANALYZE")
        scene.begin()
        yield scene


def _use(master: str, scene: Scene, directory: Path) -> Errands:
    errand = Errand(
        scene.feed,
        scene.source.to_wire().decode(),
        scene.target.to_wire().decode(),
        scene.orders(),
        str(directory / "mark"),
    )
    return use(master, errand, directory)


def _check(done: Errands, scene: Scene) -> None:
    assert done.interrupted
    assert [(o.rows, o.error, o.refusal) for o in done.outcomes] == [(1000, None, None)] * 2
    scene.stream.execute("UPDATE one SET v = 'changed' WHERE id % 3 = 0")
    scene.catch_up(done.outcomes)
    scene.assert_equal()


def test_jobs_run_on_a_standalone_cluster(scene: Scene, tmp_path: Path) -> None:
    with standalone_cluster(tmp_path) as master:
        done = _use(master, scene, tmp_path)
    _check(done, scene)
    files, parents = zip(*(home.rsplit(" ", 1) for home in done.homes), strict=True)
    assert all("lockgate.zip" in file for file in files)  # driver and tasks are of one version
    assert len(set(parents)) == 2  # each worker had a part in it


def test_jobs_run_through_spark_connect(scene: Scene, tmp_path: Path) -> None:
    with connect_server(tmp_path) as master:
        done = _use(master, scene, tmp_path)
    _check(done, scene)
    assert all("lockgate.zip" in home for home in done.homes)
    # S3: neither the server's log nor its record of events shows what items hold.
    logs = [tmp_path / "connect.log", *(tmp_path / "events").rglob("*")]
    text = "".join(log.read_text("utf-8", "replace") for log in logs if log.is_file())
    assert "map_partitions" in text
    assert "SparkListenerConnectOperationStarted" in text
    assert scene.source.password.reveal() not in text
