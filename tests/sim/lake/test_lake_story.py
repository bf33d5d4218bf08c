"""The lake's world: a seed is a world, the laws hold in it, and rare paths are reached."""

import pytest

from lockgate.sim.lake.probes import LakeProbe
from lockgate.sim.lake.story import LakeStory
from lockgate.sim.lake.world import LakeWorld
from lockgate.sim.plants import PLANTS
from lockgate.sim.plants.registry import LAKE
from lockgate.sim.runner import run, run_seed
from lockgate.sim.violation import LawBroken

CLASSIC = {
    "lake-no-table-lock",
    "lake-no-dead-check-at-queueing",
    "lake-no-dead-check-acquired",
}


def ran(seed: int, story: LakeStory | None = None) -> LakeWorld:
    world = LakeWorld(seed, story)
    world.run()
    return world


def test_a_seed_is_a_world() -> None:
    assert ran(3).trace_hash == ran(3).trace_hash


def test_other_seeds_are_other_worlds() -> None:
    assert ran(3).trace_hash != ran(4).trace_hash


def test_taking_notes_changes_nothing() -> None:
    assert ran(5, LakeStory()).trace_hash == ran(5).trace_hash


def test_the_laws_hold_and_most_paths_are_taken_in_a_few_worlds() -> None:
    missed = set(LakeProbe)
    faults = 0
    for seed in range(1, 201):
        world = ran(seed)
        faults += world.faults.count
        missed -= set(world.probes.hits)
    assert faults > 1_000
    assert len(missed) < len(LakeProbe) // 5, missed


def test_the_lake_is_part_of_every_seed() -> None:
    result = run_seed(3)
    assert result.probes["lake_taken"] > 0
    assert result.violation is None


def test_a_plant_of_the_lake_is_looked_for_in_its_world_only() -> None:
    result = run_seed(1, "lake-act-before-record")
    assert set(result.probes) == {probe.name.lower() for probe in LakeProbe}


def test_the_three_classic_mistakes_are_among_the_plants() -> None:
    assert {name for name, plant in PLANTS.items() if plant.world == LAKE} > CLASSIC


@pytest.mark.parametrize("name", sorted(CLASSIC))
def test_a_violation_comes_with_its_story(name: str) -> None:
    [violation] = run(1, 50, plant=name).violations
    assert any("RunWork" in line or "LakeAnswer" in line for line in violation.story)


def test_a_story_keeps_to_those_it_is_about() -> None:
    name = "lake-no-dead-check-acquired"
    [violation] = run(1, 50, plant=name).violations
    story = LakeStory()
    with PLANTS[name].install(), pytest.raises(LawBroken) as broken:
        ran(violation.seed, story)
    [table] = [name for name in broken.value.about if name.startswith("table:")]
    told = story.about((table,))
    assert told
    others = {"orders", "items", "users"} - {table.removeprefix("table:").split("/")[0]}
    assert not [line for line in told if any(f"table='{name}'" in line for name in others)]
