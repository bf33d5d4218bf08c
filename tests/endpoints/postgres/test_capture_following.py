"""Column changes that only the stream tells of: each once, in its place, whoever dies when."""

import os
import random
import re
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from lockgate.endpoints.postgres.embedded import EmbeddedPostgres
from lockgate.model.ids import Token
from lockgate.model.schema_changes import step_from_json
from tests.endpoints.postgres.test_capture_kills import listen, process
from tests.support.captures import FEED, Workshop, follower, names, workshop
from tests.support.databases import fresh_database
from tests.support.stores import sqlite_url

AT_START = {"a": "id,note", "b": "id,n"}


@pytest.fixture
def shop(pg18: EmbeddedPostgres, tmp_path: Path) -> Iterator[Workshop]:
    with fresh_database(pg18) as url, workshop(url, tmp_path / "log", sqlite_url(tmp_path)) as shop:
        yield shop


def history(shop: Workshop) -> list[tuple[str, str]]:
    """The log as it is read: rows with the columns that they have, and changes between them.

    Everything that is in it stands in order, and no row is of another form than its table.
    """
    changes = shop.log.read(FEED, shop.start - 1).changes
    told = [(one.position, 0, step_from_json(one.body).statement) for one in changes]
    rows = [(one.position, one.seq + 1, one) for one in shop.changes()]
    state = dict(AT_START)
    found = []
    for _, _, one in sorted([*told, *rows], key=lambda each: each[:2]):
        if isinstance(one, str):
            for change in one.split("; "):
                table, was, now = re.fullmatch(r"(\w+): ([\w,]+) to ([\w,]+)", change).groups()  # type: ignore[union-attr]
                assert state[table] == was, "each change begins where the last one ended"
                state[table] = now
            found.append(("ddl", one))
        else:
            table = one.table.removeprefix("public.")
            assert ",".join(one.new or {}) == state[table]
            found.append((table, str((one.new or {})["id"])))
    kept = {shape.table.name: names(shape) for shape in shop.log.shapes(FEED).values()}
    assert {**AT_START, **kept} == state, "what is kept is what the log's end looks like"
    return found


def test_a_change_in_mid_transaction_stands_between_its_rows(shop: Workshop) -> None:
    with shop.running(follower=follower(AT_START)) as run:
        shop.execute(
            "INSERT INTO a VALUES (1)",
            "ALTER TABLE a ADD x int",
            "ALTER TABLE b ADD y int",
            "INSERT INTO a VALUES (2)",
            "INSERT INTO b VALUES (1)",
        )
        run.until_resolved(shop.end())
    assert history(shop) == [
        ("a", "1"),
        ("ddl", "a: id,note to id,note,x"),
        ("a", "2"),
        ("ddl", "b: id,n to id,n,y"),
        ("b", "1"),
    ]


def test_a_new_owner_knows_what_the_log_last_saw(shop: Workshop) -> None:
    with shop.running(follower=follower(AT_START)) as run:
        shop.execute("ALTER TABLE a ADD x int", "INSERT INTO a VALUES (1)")
        run.until_resolved(shop.end())
    shop.execute("INSERT INTO a VALUES (2)")
    shop.execute("ALTER TABLE a DROP x")
    with shop.running(Token(1, 2, 1), follower=follower(AT_START)) as run:
        run.until_resolved(shop.end())
    shop.execute("INSERT INTO a VALUES (3)")
    with shop.running(Token(1, 3, 1), follower=follower(AT_START)) as run:
        run.until_resolved(shop.end())
    assert history(shop) == [
        ("ddl", "a: id,note to id,note,x"),
        ("a", "1"),
        ("a", "2"),
        ("ddl", "a: id,note,x to id,note"),
        ("a", "3"),
    ]


@contextmanager
def altering(url: str, seed: int) -> Iterator[list[int]]:
    """Somebody who writes and changes columns all the time. Yields how many rows there are."""
    over = threading.Event()
    written = [0]
    errors: list[BaseException] = []

    def work() -> None:
        dice = random.Random(seed)
        has = False
        try:
            with psycopg.connect(url) as connection:
                while not over.is_set():
                    rows, now = 0, has
                    for _ in range(dice.choice([1, 2, 4])):
                        more = dice.choice([1, 3, 60])
                        connection.execute(
                            "INSERT INTO a (id) SELECT generate_series(%s::bigint, %s)",
                            (written[0] + rows + 1, written[0] + rows + more),
                        )
                        rows += more
                        if dice.random() < 0.4:
                            now = not now
                            connection.execute(f"ALTER TABLE a {'ADD x int' if now else 'DROP x'}")
                    if dice.random() < 0.1:
                        connection.rollback()
                        continue
                    connection.commit()
                    written[0] += rows
                    has = now
                    over.wait(0.01)
        except BaseException as error:
            errors.append(error)

    writer = threading.Thread(target=work)
    writer.start()
    try:
        yield written
    finally:
        over.set()
        writer.join(60)
    assert not errors, errors


def test_killed_again_and_again_it_tells_each_change_once(shop: Workshop) -> None:
    dice = random.Random(3)
    with altering(shop.dsn, seed=5) as written:
        for life in range(1, 7):
            running = process(shop, f"{life}.1.1", following=True)
            says = listen(running)
            for _ in range(dice.randrange(1, 8)):
                says.get(timeout=120)
            time.sleep(dice.random() / 30)
            os.kill(running.pid, signal.SIGKILL)
            assert running.wait() == -signal.SIGKILL
    last = process(shop, "7.1.1", upto=shop.end(), following=True)
    last.communicate(timeout=240)
    assert last.returncode == 0
    found = history(shop)
    assert [int(what) for kind, what in found if kind == "a"] == [*range(1, written[0] + 1)]
    assert sum(kind == "ddl" for kind, _ in found) > 10
