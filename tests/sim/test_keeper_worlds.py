"""The worlds of keepers, a lake's and a move's: a seed is a world, the laws hold in it, and rare
paths are reached."""

from collections.abc import Callable
from enum import Enum
from typing import Any, NamedTuple

import pytest

from lockgate.sim.keeping import KeeperWorld
from lockgate.sim.lake.probes import LakeProbe
from lockgate.sim.lake.story import LakeStory
from lockgate.sim.lake.world import LakeWorld
from lockgate.sim.move.probes import MoveProbe
from lockgate.sim.move.story import MoveStory
from lockgate.sim.move.world import MoveWorld
from lockgate.sim.plants import PLANTS
from lockgate.sim.plants.registry import LAKE, MOVE
from lockgate.sim.runner import run, run_seed

SEEDS = 200
CLASSIC = {
    LAKE: {
        "lake-no-table-lock",
        "lake-no-dead-check-at-queueing",
        "lake-no-dead-check-acquired",
    },
    MOVE: {
        "move-rename-before-drain",
        "move-no-revoke",
        "move-rollback-forgotten",
        "move-route-before-seal",
        "move-way-back-late",
        "move-lost-side-answers",
    },
}
TOLD = ("LakeAnswer", "RunStep", "RunWork")


class Kind(NamedTuple):
    """One of the two."""

    name: str
    new: Callable[..., KeeperWorld]
    new_story: Callable[[], Any]
    probes: type[Enum]
    taken: str
    """A path that seed 3 takes."""
    faults_min: int
    missed_part: int
    """Less than one in so many paths is missed."""

    def ran(self, seed: int, story: Any = None) -> KeeperWorld:
        world = self.new(seed, story)
        world.run()
        return world


KINDS = (
    Kind(LAKE, LakeWorld, LakeStory, LakeProbe, "lake_taken", faults_min=1_000, missed_part=5),
    Kind(MOVE, MoveWorld, MoveStory, MoveProbe, "move_switched", faults_min=5_000, missed_part=10),
)


@pytest.fixture(params=KINDS, ids=lambda kind: kind.name)
def kind(request: pytest.FixtureRequest) -> Kind:
    return request.param


def test_a_seed_is_a_world(kind: Kind) -> None:
    assert kind.ran(3).trace_hash == kind.ran(3).trace_hash


def test_other_seeds_are_other_worlds(kind: Kind) -> None:
    assert kind.ran(3).trace_hash != kind.ran(4).trace_hash


def test_taking_notes_changes_nothing(kind: Kind) -> None:
    assert kind.ran(5, kind.new_story()).trace_hash == kind.ran(5).trace_hash


def test_the_laws_hold_and_most_paths_are_taken_in_a_few_worlds(kind: Kind) -> None:
    missed = set(kind.probes)
    faults = 0
    for seed in range(1, SEEDS + 1):
        world = kind.ran(seed)
        faults += world.faults.count
        missed -= set(world.probes.hits)
    assert faults > kind.faults_min
    assert len(missed) < len(kind.probes) // kind.missed_part, missed


def test_it_is_part_of_every_seed(kind: Kind) -> None:
    result = run_seed(3)
    assert result.probes[kind.taken] > 0
    assert result.violation is None


def test_a_plant_is_looked_for_in_its_world_only(kind: Kind) -> None:
    result = run_seed(1, f"{kind.name}-act-before-record")
    assert set(result.probes) == {probe.name.lower() for probe in kind.probes}


def test_the_classic_mistakes_are_among_the_plants(kind: Kind) -> None:
    planted = {name for name, plant in PLANTS.items() if plant.world == kind.name}
    assert planted > CLASSIC[kind.name]


@pytest.mark.parametrize("name", sorted(CLASSIC[LAKE] | CLASSIC[MOVE]))
def test_a_classic_mistake_is_found_at_once_and_told_as_a_story(name: str) -> None:
    [violation] = run(1, 50, plant=name).violations
    assert any(what in line for line in violation.story for what in TOLD)
