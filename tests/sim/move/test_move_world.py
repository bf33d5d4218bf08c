"""A move's world: a seed is a world, the laws hold in it, and rare paths are reached."""

import pytest

from lockgate.sim.move.probes import MoveProbe
from lockgate.sim.move.story import MoveStory
from lockgate.sim.move.world import MoveWorld
from lockgate.sim.plants import PLANTS
from lockgate.sim.plants.registry import MOVE
from lockgate.sim.runner import run, run_seed

SEEDS = 200
CLASSIC = {
    "move-rename-before-drain",
    "move-no-revoke",
    "move-rollback-forgotten",
    "move-route-before-seal",
    "move-way-back-late",
    "move-lost-side-answers",
}


def ran(seed: int, story: MoveStory | None = None) -> MoveWorld:
    world = MoveWorld(seed, story)
    world.run()
    return world


def test_a_seed_is_a_world() -> None:
    assert ran(3).trace_hash == ran(3).trace_hash


def test_other_seeds_are_other_worlds() -> None:
    assert ran(3).trace_hash != ran(4).trace_hash


def test_taking_notes_changes_nothing() -> None:
    assert ran(5, MoveStory()).trace_hash == ran(5).trace_hash


def test_the_laws_hold_and_most_paths_are_taken_in_a_few_worlds() -> None:
    missed = set(MoveProbe)
    faults = 0
    for seed in range(1, SEEDS + 1):
        world = ran(seed)
        faults += world.faults.count
        missed -= set(world.probes.hits)
    assert faults > 5_000
    assert len(missed) < len(MoveProbe) // 10, missed


def test_a_move_is_part_of_every_seed() -> None:
    result = run_seed(3)
    assert result.probes["move_switched"] > 0
    assert result.violation is None


def test_a_plant_of_a_move_is_looked_for_in_its_world_only() -> None:
    result = run_seed(1, "move-act-before-record")
    assert set(result.probes) == {probe.name.lower() for probe in MoveProbe}


def test_the_classic_mistakes_are_among_the_plants() -> None:
    assert {name for name, plant in PLANTS.items() if plant.world == MOVE} > CLASSIC


@pytest.mark.parametrize("name", sorted(CLASSIC))
def test_a_classic_mistake_is_found_at_once_and_told_as_a_story(name: str) -> None:
    [violation] = run(1, 50, plant=name).violations
    assert any("RunStep" in line for line in violation.story)
