"""The soak sees what it is for: rows that are missing, extra or different."""

import json
import random
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from lockgate.endpoints.postgres.embedded import EmbeddedPostgres
from soak.compare import Difference, compare
from soak.process import descendants, write_config
from soak.runner import main
from soak.tables import prepare
from soak.writers import KINDS, Work, Writers, reshape
from tests.support.databases import fresh_database
from tests.support.waiting import until

ROWS = 500


@pytest.fixture
def source(pg18: EmbeddedPostgres) -> Iterator[str]:
    with fresh_database(pg18) as url:
        prepare(url, ROWS)
        yield url


@pytest.fixture
def target(pg16: EmbeddedPostgres) -> Iterator[str]:
    with fresh_database(pg16) as url:
        prepare(url, ROWS)
        with psycopg.connect(url) as connection:
            connection.execute("UPDATE accounts SET changed = '2020-01-01'")
        yield url


def _differences(source: str, target: str) -> dict[str, Difference]:
    with psycopg.connect(source) as connection:
        connection.execute("UPDATE accounts SET changed = '2020-01-01'")
    return {one.table: one for one in compare(source, target) if not one.equal}


def test_equal_sides_are_equal(source: str, target: str) -> None:
    assert _differences(source, target) == {}


def test_each_kind_of_difference_is_counted(source: str, target: str) -> None:
    with psycopg.connect(target) as connection:
        connection.execute("UPDATE pairs SET v = v + 1 WHERE a IN (1, 2)")
        connection.execute("DELETE FROM notes WHERE id < 4")
        connection.execute("INSERT INTO wide VALUES (-1, NULL), (-2, 0)")
        connection.execute("INSERT INTO events SELECT * FROM events WHERE n = 7")
        connection.execute("CREATE TABLE unknown AS SELECT 1 AS n")
        connection.execute("DROP TABLE documents")
    found = {
        table: (one.missing, one.extra, one.different)
        for table, one in _differences(source, target).items()
    }
    events = len([n for n in range(1, ROWS // 20 + 1) if n % 100 == 7])
    assert found == {
        "documents": (ROWS // 50, 0, 0),
        "events": (0, events, 0),
        "notes": (3, 0, 0),
        "pairs": (0, 0, 2),
        "unknown": (0, 1, 0),
        "wide": (0, 2, 0),
    }


@pytest.mark.parametrize("work", [*KINDS, reshape])
def test_a_writer_writes(source: str, work: Work) -> None:
    rng = random.Random(1)
    with psycopg.connect(source) as connection:
        before = connection.execute("SELECT pg_current_xact_id()").fetchone()
        connection.commit()
        for _ in range(20):
            try:
                work(connection, rng)
                connection.commit()
            except psycopg.errors.IntegrityError:
                connection.rollback()
        after = connection.execute("SELECT pg_current_xact_id()").fetchone()
    assert before is not None
    assert after is not None
    assert int(after[0]) > int(before[0]) + 5


def test_writers_come_back_after_their_server_was_killed() -> None:
    with EmbeddedPostgres(18, settings={"fsync": "off"}, start_timeout_s=120) as server:
        prepare(server.url(), ROWS)
        writers = Writers(server.url())
        writers.start()
        try:
            until(lambda: writers.transactions > 5, 60)
            server.stop("kill")
            until(lambda: writers.lost > 0, 60)
            before = writers.transactions
            server.start()
            until(lambda: writers.transactions > before + 5, 60)
        finally:
            writers.stop()
        assert writers.bugs == []


def test_a_configuration_can_be_read_back(tmp_path: Path) -> None:
    import tomllib

    document = {"source": 'postgres://u:"p"\\@h/d', "tables": ["a.*", "!a.b"], "chunk_rows": 5}
    path = write_config(tmp_path / "feed.toml", document)
    assert tomllib.loads(path.read_text()) == document
    assert path.stat().st_mode & 0o077 == 0


def test_descendants_of_the_first_process_are_found() -> None:
    import os

    assert os.getpid() in descendants(1) or os.getpid() in descendants(os.getppid())


@pytest.mark.slow
def test_a_short_soak_loses_nothing(tmp_path: Path) -> None:
    results = tmp_path / "soak.json"
    bounds = ["--kills", "3", "--minutes", "15", "--rows", "2000", "--transactions", "2000"]
    assert main([*bounds, "--results", str(results)]) == 0
    result = json.loads(results.read_text())
    assert result["kills"] == 3
    assert result["transactions"] > 0
    assert (result["missing"], result["extra"], result["different"]) == (0, 0, 0)
