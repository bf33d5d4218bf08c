"""Ten rounds of changes into a lake table: what is written for each byte that changed.

Lockgate lands every round, and readers see it; it drains when its policy says so, at its defaults,
and once more at the end. delta-rs merges every round. So that it is the policy that is measured and
not whose files are smaller, Lockgate is also made to drain every round.

Written counts every data file: those of ingest, of stable, and the states that a drain leaves for
its tasks. The changes count as they are in memory.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Final

from bench.figures import Figure, Limit
from bench.registry import Benchmark, Case
from bench.rig import ours
from bench.watch import seconds

if TYPE_CHECKING:
    from bench.rig.lake_tables import Upsert

ROWS, CHANGES, ROUNDS = 5_000_000, 100_000, 10
QUICK: Final = 20
OURS, EVERY, MERGE = "Lockgate", "Lockgate, drained every round", "delta-rs merge"
RATIO = "write amplification, by that of merging every round"


def _name(rows: int) -> str:
    return f"{ROUNDS} rounds into {rows:,} rows"


def cases(quick: bool) -> tuple[Case, ...]:
    """One size."""
    rows = ROWS // QUICK if quick else ROWS
    return (Case(_name(rows), rows),)


def measure(case: Case, directory: Path) -> tuple[Figure, ...]:
    """All three on the same rounds, round by round in turns."""
    from bench.rig.lake_peers import Merged
    from bench.rig.lake_rows import changes
    from bench.rig.lake_tables import Base, Layered, Lazy

    count = CHANGES * case.size // ROWS
    changed = 0
    with ours.warm_spark() as spark:
        base = Base(directory, case.size, smaller=ROWS // case.size)
        lazy = Lazy(directory, base, spark)
        peers = {OURS: lazy, EVERY: Layered(directory, base, spark), MERGE: Merged(directory, base)}
        taken: dict[str, list[Upsert]] = {name: [] for name in peers}
        for number in range(1, ROUNDS + 1):
            given = changes(case.size, count, number)
            changed += given.as_rows().nbytes
            for name, peer in peers.items():
                taken[name].append(peer.upsert(given))
        taken[OURS].append(lazy.timed(lazy.drain))
        found = {peer.digest() for peer in peers.values()}
        if len(found) > 1:
            raise RuntimeError(f"the rows differ: {found}")
    written = {name: sum(one.written for one in some) for name, some in taken.items()}
    factor = {name: size / changed for name, size in written.items()}
    return (
        Figure("changes", count * ROUNDS, "rows"),
        Figure("changes, size", round(changed / 1e6, 1), "MB"),
        Figure("drains", lazy.drains, ""),
        *(Figure(f"{name}, written", round(size / 1e6, 1), "MB") for name, size in written.items()),
        *(
            Figure(f"{name}, write amplification", round(value, 2), "")
            for name, value in factor.items()
        ),
        *(seconds(name, sum(one.seconds for one in some)) for name, some in taken.items()),
        Figure(RATIO, round(factor[OURS] / min(factor[EVERY], factor[MERGE]), 3), ""),
    )


BENCHMARK = Benchmark(
    name="lake-rounds",
    title=f"{ROUNDS} rounds of {CHANGES:,} changes each into a lake table: bytes written",
    cases=cases,
    measure=measure,
    limits=(
        Limit(
            _name(ROWS),
            RATIO,
            0.5,
            "",
            f"{ROUNDS} rounds written with at most half of the bytes of merging every round",
        ),
    ),
)
