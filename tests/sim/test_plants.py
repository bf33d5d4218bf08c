"""Every planted bug is found, by the law that it says it breaks; without it the world is sound."""

import pytest

from lockgate.sim.plants import PLANTS
from lockgate.sim.runner import run

SEEDS_MAX = 2_000
PLANTS_MIN = 15
OTHERS_MAX = 20
"""Seeds in which it may first be seen as the breach of another law."""


def test_there_are_enough_of_them() -> None:
    assert len(PLANTS) >= PLANTS_MIN


def found_by_its_law(name: str) -> int:
    """The first seed in which the bug breaks the law that it says it breaks."""
    seed, seen = 0, []
    while seed < SEEDS_MAX and len(seen) < OTHERS_MAX:
        report = run(seed + 1, SEEDS_MAX - seed, 1, name)
        if not report.violations:
            break
        (violation,) = report.violations
        if violation.law == PLANTS[name].law:
            return violation.seed
        seed = violation.seed
        seen.append(violation.law)
    pytest.fail(f"{name} was not found as {PLANTS[name].law} in {SEEDS_MAX} seeds, but as {seen}")


@pytest.mark.slow
@pytest.mark.parametrize("name", PLANTS)
def test_a_planted_bug_is_found(name: str) -> None:
    seed = found_by_its_law(name)
    assert not run(seed, 1).violations, f"seed {seed} is not sound without the bug"
