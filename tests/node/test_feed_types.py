"""Every type through a feed: copied, then changed and inserted through the stream."""

from lockgate.endpoints.postgres.connect import connect
from tests.endpoints.postgres.sink.test_types import EXTENSIONS, KINDS, TYPES
from tests.support.feeds import Pair, level

MOVED = 1_000
"""Where keys of inserted rows begin."""


def test_every_type_comes_through_copy_and_stream(pair: Pair) -> None:
    """From 16, so the types are those that it knows. A table for each."""
    kinds = {f"t{n}": kind for n, kind in enumerate(KINDS) if kind.since <= 16}
    pair.at_target(EXTENSIONS)
    with connect(pair.source, purpose="test") as source:
        source.execute(f"{EXTENSIONS}; {TYPES}".encode())
        for table, kind in kinds.items():
            ddl = f"CREATE TABLE {table} (id int PRIMARY KEY, n int, c {kind.type})"
            source.execute(ddl.encode())
            insert = f"INSERT INTO {table} (id, c) VALUES (%s, %s)".encode()
            for key, literal in enumerate(kind.literals):
                source.execute(insert, (key, literal))
    names = [f"public.{table}" for table in kinds]
    with pair.running() as runner:
        level(runner)
        pair.assert_equal(*names)
        # Every second row gets the value of the next; of the others the value stays, and a large
        # one is not sent.
        pair.at_source(
            *(
                f"UPDATE {table} AS a SET n = 1, c = CASE WHEN id % 2 = 0 THEN c ELSE "
                f"(SELECT c FROM {table} AS b WHERE b.id = (a.id + 1) % {len(kind.literals)}) END"
                for table, kind in kinds.items()
            )
        )
        level(runner)
        pair.assert_equal(*names)
        pair.at_source(
            *(f"INSERT INTO {table} SELECT id + {MOVED}, n, c FROM {table}" for table in kinds)
        )
        level(runner)
        pair.assert_equal(*names)
        # Keys change: final rows are made of what the target has and what is sent.
        pair.at_source(*(f"UPDATE {table} SET id = -1 - id WHERE id < {MOVED}" for table in kinds))
        level(runner)
        pair.assert_equal(*names)
    for table, kind in kinds.items():
        assert pair.ask_target(f"SELECT count(*) FROM {table}") == [(2 * len(kind.literals),)], kind
