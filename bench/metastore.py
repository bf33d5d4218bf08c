"""Span records in batches of 5,000 into an empty metastore, and all of them out again.

Both databases keep their promise of durability: SQLite with `synchronous=FULL`, PostgreSQL with
`fsync` on. PostgreSQL is on this machine, so the network's part is missing.
"""

import itertools
import time
from contextlib import ExitStack
from pathlib import Path

from bench import world
from bench.figures import Figure
from bench.registry import Benchmark, Case, NotThere
from bench.watch import seconds
from lockgate.model.batch import Batch, Landed, Loaded
from lockgate.model.records import feed_scope
from lockgate.store.metastore import SqlMetastore

SQLITE = "SQLite"
POSTGRES = "PostgreSQL"
RECORDS = 100_000
RECORDS_QUICK = 500
BATCH = world.CONFIG.policy.batch_records_max


def cases(quick: bool) -> tuple[Case, ...]:
    """One per database."""
    count = RECORDS_QUICK if quick else RECORDS
    return tuple(Case(f"{kind}, {count:,} records", count) for kind in (SQLITE, POSTGRES))


def measure(case: Case, directory: Path) -> tuple[Figure, ...]:
    """Write everything, load everything."""
    with ExitStack() as stack:
        if case.name.startswith(SQLITE):
            url = f"sqlite:///{directory / 'metastore.db'}"
        else:
            url = _postgres(stack)
        store = stack.enter_context(SqlMetastore.open(url, lease_ms=world.CONFIG.timing.lease_ms))
        return _measure(store, case.size)


def _postgres(stack: ExitStack) -> str:
    try:
        from lockgate.endpoints.postgres.embedded import EmbeddedPostgres
    except ImportError as error:
        raise NotThere(f"there is no PostgreSQL to embed: {error}") from error
    return stack.enter_context(EmbeddedPostgres()).url()


def _measure(store: SqlMetastore, size: int) -> tuple[Figure, ...]:
    scope = feed_scope(world.FEED)
    # One record is not a span's: the feed's progress.
    records = list(itertools.islice(world.records(size), size))
    spent = []
    for serial, first in enumerate(range(0, size, BATCH), start=1):
        batch = Batch(scope, 0, serial, tuple(records[first : first + BATCH]))
        began = time.perf_counter()
        answer = store.commit(batch)
        spent.append(time.perf_counter() - began)
        if not isinstance(answer, Landed):
            raise RuntimeError(f"a batch did not land: {answer}")
    began = time.perf_counter()
    loaded = store.load(scope)
    loading = time.perf_counter() - began
    if not isinstance(loaded, Loaded) or len(loaded.records) != size:
        raise RuntimeError("not everything that was written was read")
    return (
        seconds("write", sum(spent)),
        seconds("slowest batch", max(spent)),
        Figure("write rate", round(size / sum(spent)), "records/s"),
        seconds("load", loading),
        Figure("load rate", round(size / loading), "records/s"),
    )


BENCHMARK = Benchmark(
    name="metastore",
    title="Span records into the metastore in batches of 5,000, and out again",
    cases=cases,
    measure=measure,
)
