"""Moves against real nodes, in samples: killed (M4, M9), there and back under load (M7), completed
under heavy writes (M8). `make matrix-moves` tries every step, `make soak-moves` goes on for longer.

One world for all of them: each leaves it as it found it, but for the move that is flipped.
"""

from collections.abc import Iterator

import pytest

from lockgate.endpoints.postgres.embedded import EmbeddedPostgres
from soak.connect import ConnectServer
from soak.moves.cells import MoveCell
from soak.moves.flips import run_flips
from soak.moves.renames import run_renames
from soak.moves.trial import attempt
from soak.moves.world import MoveWorld, open_move_world
from tests.support.databases import fresh_database

SAMPLE = (
    MoveCell("switch", "block", "after", "keeper"),
    MoveCell("switch", "way-back", "after", "keeper", undo=True),
    MoveCell("switch", "seal", "after", "keeper"),
    MoveCell("reverse", "open", "before", "all"),
    MoveCell("complete", "run-out", "after", "keeper"),
    MoveCell("cancel", "end-feed", "after", "keeper"),
)
"""The moments in which most is half done: blocked, sealed and not open, run out and not removed."""


@pytest.fixture(scope="module")
def world(
    pg16: EmbeddedPostgres,
    pg18: EmbeddedPostgres,
    connect: ConnectServer,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[MoveWorld]:
    """Two nodes that are killed, and two databases."""
    folder = tmp_path_factory.mktemp("moves")
    with (
        fresh_database(pg16) as source,
        fresh_database(pg18) as target,
        fresh_database(pg18) as metastore,
        open_move_world(folder, metastore, connect.url, source, target) as made,
    ):
        yield made


@pytest.mark.parametrize("cell", SAMPLE, ids=lambda cell: cell.name)
def test_a_node_is_killed_at_a_step_and_the_command_is_ended_or_put_back(
    world: MoveWorld, cell: MoveCell
) -> None:
    outcome = attempt(world, cell)
    assert outcome.passed, outcome.why


def test_complete_renames_what_nobody_can_apply_to_any_more(world: MoveWorld) -> None:
    report = run_renames(world, rounds=20, at_once=3)
    assert [one.why for one in report.rounds if not one.passed] == []
    assert report.apply_errors == []
    assert sum(one.transactions for one in report.rounds) > 0


def test_there_and_back_and_there_under_load(world: MoveWorld) -> None:
    """The last one: it leaves its move."""
    report = run_flips(world, flips=3, writers=3)
    assert report.problems == []
    assert report.changes.keys() == {"insert", "update", "delete"}
