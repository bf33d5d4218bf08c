"""B1, in samples: one cell or two of each operator's; `make matrix` tries all of them."""

import pytest

from soak.matrix.cells import Cell
from soak.matrix.trial import attempt
from soak.matrix.world import World

SAMPLE = (
    Cell("add", "creating", "before", "destination"),
    Cell("remove", "removing", "after", "owner"),
    Cell("move", "stopping", "after", "origin"),
    Cell("move", "placing", "before", "destination"),
    Cell("split", "committing", "before", "owner"),
    Cell("merge", "holding", "after", "origin"),
    Cell("merge", "committing", "after", "owner"),
)
"""Commit points above all: decided and not recorded, recorded and nobody told."""


@pytest.mark.parametrize("cell", SAMPLE, ids=lambda cell: cell.name)
def test_a_node_is_killed_while_an_operator_is_in_that_state(world: World, cell: Cell) -> None:
    outcome = attempt(world, cell, SAMPLE.index(cell))
    assert outcome.passed, outcome.why
