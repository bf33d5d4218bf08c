"""The story of a lake's broken law."""

import pytest

from lockgate.sim.lake.story import LakeStory
from lockgate.sim.lake.world import LakeWorld
from lockgate.sim.plants import PLANTS
from lockgate.sim.runner import run
from lockgate.sim.violation import LawBroken


def test_a_story_keeps_to_those_it_is_about() -> None:
    name = "lake-no-dead-check-acquired"
    [violation] = run(1, 50, plant=name).violations
    story = LakeStory()
    with PLANTS[name].install(), pytest.raises(LawBroken) as broken:
        LakeWorld(violation.seed, story).run()
    [table] = [name for name in broken.value.about if name.startswith("table:")]
    told = story.about((table,))
    assert told
    others = {"orders", "items", "users"} - {table.removeprefix("table:").split("/")[0]}
    assert not [line for line in told if any(f"table='{name}'" in line for name in others)]
