"""Moves against real nodes, in samples: killed (M4, M9), there and back under load (M7), completed
under heavy writes (M8). `make matrix-moves` tries every step, `make soak-moves` goes on for longer.

One world for all of them: each leaves it as it found it, but for the move that is flipped.
"""

import contextlib
from collections.abc import Iterator
from urllib.parse import urlsplit

import psycopg
import pytest
from psycopg import sql

from lockgate.endpoints.postgres.embedded import EmbeddedPostgres
from lockgate.model.moves import MoveState
from soak.connect import ConnectServer
from soak.failpoints import FailPoint
from soak.moves.cells import MoveCell
from soak.moves.flips import run_flips
from soak.moves.leftovers import left_at
from soak.moves.renames import run_renames
from soak.moves.trial import attempt
from soak.moves.world import NODES, MoveWorld, open_move_world
from tests.support.databases import fresh_database

SAMPLE = (
    MoveCell("switch", "hook-before", "after", "keeper"),
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


def test_a_target_that_is_gone_is_given_up_whoever_is_killed_meanwhile(world: MoveWorld) -> None:
    """Its feed is removed by one keeper, and what that has left is told by the next one."""
    world.start(*NODES)
    world.make_tables("public.lost")
    world.create("lost", ["public.lost"])
    with _dropped(world.target):
        world.arm(FailPoint("lost", "step", "end-feed", "after"))
        world.ask(lambda moves: moves.cancel("lost", lost="target"))
        keeper = world.until(world.frozen, lambda: world.status("lost"))
        world.disarm()
        world.kill(keeper)
        status = world.rested("lost", MoveState.CANCELLED)
        world.start(keeper)
    left = [note.partition(": ")[2] for note in status.notes]
    assert left[0].startswith("rows of the feed lost--0 in lockgate.feeds"), left
    assert "lockgate.moves" in left[-1]
    assert left_at(world.source) == []
    assert world.client().routes.all().routes == ()
    world.client().moves.remove("lost")
    world.drop_tables("public.lost")


@contextlib.contextmanager
def _dropped(url: str) -> Iterator[None]:
    """There is no such database; afterwards there is an empty one."""
    parts = urlsplit(url)
    name = sql.Identifier(parts.path[1:])
    with psycopg.connect(parts._replace(path="/postgres").geturl(), autocommit=True) as admin:
        admin.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(name))
        try:
            yield
        finally:
            admin.execute(sql.SQL("CREATE DATABASE {}").format(name))


def test_there_and_back_and_there_under_load(world: MoveWorld) -> None:
    """The last one: it leaves its move."""
    report = run_flips(world, flips=3, writers=3)
    assert report.problems == []
    assert report.changes.keys() == {"insert", "update", "delete"}
