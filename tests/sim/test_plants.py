"""Every planted bug is found, by the law that it says it breaks; without it the world is sound."""

import pytest

from lockgate.sim.plants import PLANTS
from lockgate.sim.runner import run

SEEDS_MAX = 2_000
PLANTS_MIN = 15


def test_there_are_enough_of_them() -> None:
    assert len(PLANTS) >= PLANTS_MIN


@pytest.mark.parametrize("name", PLANTS)
def test_a_planted_bug_is_found(name: str) -> None:
    report = run(1, SEEDS_MAX, 1, name)
    assert report.violations, f"{name} was not found in {SEEDS_MAX} seeds"
    (violation,) = report.violations
    assert violation.law == PLANTS[name].law, violation.what
    sound = run(violation.seed, 1)
    assert not sound.violations, f"seed {violation.seed} is not sound without the bug"
