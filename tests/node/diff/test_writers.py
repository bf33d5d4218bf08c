"""Both sides compared while people write: no false difference, in many rounds (D1)."""

import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from lockgate.model.diffs import DiffState
from lockgate.node.service import NodeService
from lockgate.node.service.positions import parse_lsn
from tests.node.diff.conftest import BY_FEED, run
from tests.support.feeds import Pair
from tests.support.waiting import until

ROUNDS = 8


class Writers:
    """Two applications: each changes some rows of both tables in every transaction."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._stopped = threading.Event()
        self.commits = 0

    def _run(self, seed: int) -> None:
        some = random.Random(seed)
        with psycopg.connect(self._url) as connection:
            number = 10_000 * seed
            while not self._stopped.is_set():
                number += 1
                row = some.randint(1, 2000)
                connection.execute(
                    "INSERT INTO orders VALUES (%s, 'new', %s)", (number, some.random())
                )
                connection.execute(
                    "UPDATE orders SET total = total + 1, note = note || '.' WHERE id = %s", (row,)
                )
                connection.execute("DELETE FROM orders WHERE id = %s", (number - 20,))
                connection.execute("UPDATE users SET name = %s WHERE id = 1", (str(number),))
                connection.commit()
                self.commits += 1

    @contextmanager
    def running(self) -> Iterator["Writers"]:
        threads = [threading.Thread(target=self._run, args=(seed,), daemon=True) for seed in (1, 2)]
        for thread in threads:
            thread.start()
        try:
            yield self
        finally:
            self._stopped.set()
            for thread in threads:
                thread.join(30.0)


def test_under_continuous_writes_there_is_no_false_difference(fed: NodeService, pair: Pair) -> None:
    positions = [0]
    with Writers(pair.source).running() as writers:
        until(lambda: writers.commits > 20, 60.0)
        for _ in range(ROUNDS):
            before = writers.commits
            diff = run(fed, BY_FEED)
            assert (diff.state, diff.error) == (DiffState.FINISHED, "")
            assert [each.samples for each in diff.tables] == [(), ()]
            assert diff.equal
            assert writers.commits > before, "nobody wrote meanwhile: this proves nothing"
            positions.append(parse_lsn(diff.position))
    assert positions == sorted(set(positions)), "every round is of a later position"


def test_under_continuous_writes_a_real_difference_is_found_and_nothing_else(
    fed: NodeService, pair: Pair
) -> None:
    pair.at_target("UPDATE users SET name = '' WHERE id = 50")
    with Writers(pair.source).running() as writers:
        until(lambda: writers.commits > 20, 60.0)
        users = next(each for each in run(fed, BY_FEED).tables if each.table == "public.users")
    assert [(each.kind.value, each.key) for each in users.samples] == [
        ("different", {"id": "50"}),
    ]
