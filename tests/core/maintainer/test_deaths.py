"""Every operator, in every state of it, and somebody dies: it converges, each key covered once,
no ghost, no human (B1, B2, O1 to O7).

The world's laws are checked after every small step, so "no second writer", "recorded before asked
for" and "tokens rise" hold on the whole way, not only at its end.
"""

import enum
from collections.abc import Callable

import pytest

from lockgate.core.operators.add import Add, AddState
from lockgate.core.operators.base import Operator
from lockgate.core.operators.merge import Merge, MergeState
from lockgate.core.operators.move import Move, MoveState
from lockgate.core.operators.remove import Remove, RemoveState
from lockgate.core.operators.split import Split, SplitState
from lockgate.model.ddl import DdlKind
from lockgate.model.events import MergeSpans, MoveSpan, SplitSpan
from lockgate.model.records import SpanRecord
from lockgate.model.spans import WHOLE, KeyRange
from tests.core.maintainer.world import OWNERS_NODE, World
from tests.core.support import FEED

# --- what is under way --------------------------------------------------------------------------


def world_of_two_spans() -> World:
    """Table t cut at m, its spans on nodes a and b, the trigger on one of them; c beside them."""
    world = World("a", "b", "c")
    world.heal()
    (span,) = spans(world)
    world.ask(SplitSpan("cut", FEED, span, (b"m",)))
    world.heal()
    for span, node in zip(spans(world), ("a", "b"), strict=True):
        world.ask(MoveSpan("", FEED, span, node))
        world.heal()
    return world


def spans(world: World) -> list[str]:
    """The table's spans, in the order of their keys."""
    records = [one for one in world.records(SpanRecord).values() if one.span.table == "t"]
    return [one.id for one in sorted(records, key=lambda one: one.span.range.low)]


def add(world: World) -> None:
    world.kill_node("b")
    world.see_members()


def remove(world: World) -> None:
    world.ddl(DdlKind.DROP, "t")


def move(world: World) -> None:
    world.ask(MoveSpan("r", FEED, spans(world)[0], "c"))


def split(world: World) -> None:
    world.ask(SplitSpan("r", FEED, spans(world)[0], (b"f",)))


def merge(world: World) -> None:
    world.ask(MergeSpans("r", FEED, tuple(spans(world))))


Way = Callable[[World], None]
CASES: dict[type[Operator], tuple[Way, type[enum.Enum]]] = {
    Add: (add, AddState),
    Remove: (remove, RemoveState),
    Move: (move, MoveState),
    Split: (split, SplitState),
    Merge: (merge, MergeState),
}


def has(world: World, operator: type[Operator], state: enum.Enum) -> bool:
    return any(
        isinstance(one, operator) and one.state is state for one in world.owner.operators.values()
    )


# --- who dies -----------------------------------------------------------------------------------


def the_owner(world: World) -> None:
    world.start_owner()


def the_owner_before_its_commit_landed(world: World) -> None:
    world.answer("not landed")
    world.start_owner()


def the_owner_after_its_commit_landed(world: World) -> None:
    if world.commits:
        world.commit(world.commits[0])
    world.start_owner()


def the_owner_and_all_it_had_said(world: World) -> None:
    world.mail = [mail for mail in world.mail if mail.to == OWNERS_NODE]
    world.start_owner()


def the_origin(world: World) -> None:
    if "a" in world.nodes:
        world.kill_node("a")


def the_origin_and_starts_anew(world: World) -> None:
    world.start_node("a")


def the_destination(world: World) -> None:
    world.kill_node("c")


def all_but_one(world: World) -> None:
    for name in list(world.nodes)[:-1]:
        world.kill_node(name)


def the_owner_and_the_origin(world: World) -> None:
    the_origin(world)
    world.start_owner()


def nobody_but_messages_are_lost(world: World) -> None:
    world.mail.clear()


DEATHS = [
    the_owner,
    the_owner_before_its_commit_landed,
    the_owner_after_its_commit_landed,
    the_owner_and_all_it_had_said,
    the_origin,
    the_origin_and_starts_anew,
    the_destination,
    all_but_one,
    the_owner_and_the_origin,
    nobody_but_messages_are_lost,
]
WALK = [
    (operator, state)
    for operator, (_, states) in CASES.items()
    for state in states
    if state.name != "DONE"
]


@pytest.mark.parametrize("dies", DEATHS, ids=lambda death: death.__name__)
@pytest.mark.parametrize(
    ("operator", "state"), WALK, ids=[f"{one.kind.value} {state.value}" for one, state in WALK]
)
def test_b1_it_converges(operator: type[Operator], state: enum.Enum, dies: Way) -> None:
    world = world_of_two_spans()
    CASES[operator][0](world)
    world.run_until(lambda: has(world, operator, state))
    dies(world)
    world.heal()
    ranges = {one.span.range for one in world.records(SpanRecord).values() if one.span.table == "t"}
    assert ranges in possible_ends(operator)


def possible_ends(operator: type[Operator]) -> list[set[KeyRange]]:
    """As it was, or as it was to be; a dropped table is gone for good (O3, B5)."""
    if operator is Remove:
        return [set()]
    before = set(WHOLE.divided((b"m",)))
    if operator is Split:
        return [before, set(WHOLE.divided((b"f", b"m")))]
    if operator is Merge:
        return [before, {WHOLE}]
    return [before]


@pytest.mark.parametrize(
    ("operator", "state"),
    [(one, state) for one, state in WALK if one in (Move, Split, Merge)],
    ids=[f"{one.kind.value} {state.value}" for one, state in WALK if one in (Move, Split, Merge)],
)
def test_b1_what_was_recorded_is_not_forgotten_with_its_owner(
    operator: type[Operator], state: enum.Enum
) -> None:
    """Before the commit point it is done anew, after it it is finished: either way it comes."""
    world = world_of_two_spans()
    CASES[operator][0](world)
    world.run_until(lambda: has(world, operator, state))
    the_owner_after_its_commit_landed(world)
    world.heal()
    if operator is Move:
        node = world.records(SpanRecord)[spans(world)[0]].node
        assert node is not None
        assert node.node == "c"
    else:
        assert len(spans(world)) == (3 if operator is Split else 1)
