"""Both sides of a move compared: by the feed that runs now, and refused while there is none."""

import pytest

from lockgate.model.diffs import DiffOrder, DiffState
from lockgate.model.errors import Conflict, NotFound
from lockgate.model.secret import Secret
from lockgate.node.service import NodeService
from tests.node.diff.conftest import over
from tests.support.moves import (
    CANCEL,
    CONFIG,
    REVERSE,
    SWITCH,
    Moved,
    Writer,
    copied,
    elsewise,
    notes,
)


def test_both_ways_no_false_difference_while_people_write(moved: Moved) -> None:
    service, pair = moved
    with Writer(pair.source, pair.target).running() as writer:
        for source, target, then in (("shop", "copy", SWITCH), ("copy", "shop", REVERSE)):
            writer.wrote_more()
            begun = service.diffs.run_of_move(CONFIG.name, "test")
            diff = over(service, begun.id)
            assert (diff.state, diff.equal) == (DiffState.FINISHED, True), diff
            assert (diff.source, diff.target, diff.move) == (source, target, CONFIG.name)
            assert service.diffs.last_of_move(CONFIG.name).id == diff.id
            assert service.moves.command(CONFIG.name, then, "test").verdict == "done"


def test_a_repair_without_the_feed_is_refused_while_the_move_has_the_tables(moved: Moved) -> None:
    """Whichever side is right: rows of before a switch would be written over those of after."""
    for source, target in (("shop", "copy"), ("copy", "shop")):
        order = DiffOrder(source=source, target=target, tables=("public.*",), repair=True)
        with pytest.raises(Conflict, match=f"the move {CONFIG.name} has the table") as refused:
            moved.service.diffs.run(order, "test")
        assert refused.value.hint == f"lockgate move diff {CONFIG.name} --repair"
    assert not [one for one in moved.service.diffs.all() if one.repair]


def test_a_repair_under_another_name_of_the_side_is_refused_too(moved: Moved) -> None:
    for source, target in (("shop", moved.pair.target), ("copy", moved.pair.source)):
        alias = f"not-{source}"
        moved.service.add_endpoint(alias, Secret(elsewise(target)), "test")
        order = DiffOrder(source=source, target=alias, tables=("public.orders",), repair=True)
        with pytest.raises(Conflict, match=f"the move {CONFIG.name} has the table"):
            moved.service.diffs.run(order, "test")


def test_the_feed_of_a_move_repairs_past_the_guards(moved: Moved) -> None:
    moved.pair.at_target("SET lockgate.applies = on", "UPDATE orders SET note = '' WHERE id = 7")
    begun = moved.service.diffs.run_of_move(CONFIG.name, "test", repair=True)
    diff = over(moved.service, begun.id)
    assert (diff.state, diff.equal) == (DiffState.FINISHED, True), diff
    assert notes(moved.pair.target) == notes(moved.pair.source)


def test_a_move_that_is_over_or_unknown_is_refused(service: NodeService) -> None:
    with pytest.raises(NotFound):
        service.diffs.run_of_move("nobody", "test")
    with pytest.raises(NotFound):
        service.diffs.last_of_move("nobody")
    copied(service)
    service.moves.command(CONFIG.name, CANCEL, "test")
    with pytest.raises(Conflict, match="cancelled"):
        service.diffs.run_of_move(CONFIG.name, "test")
    assert service.diffs.all() == []
