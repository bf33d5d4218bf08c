"""Every machine has an answer to every event in every state, and every route leads somewhere."""

import importlib
import pkgutil
import typing

import pytest

import lockgate.core
from lockgate.core.coordinator.feeds import LIFE_CYCLE, LIVES, Life, Occasion
from lockgate.core.machine import StateMachine, Verdict
from lockgate.core.node import NodeCore
from lockgate.core.routes import ROUTES
from lockgate.model.events import Event


def _machines() -> list[type[StateMachine[typing.Any]]]:
    for module in pkgutil.walk_packages(lockgate.core.__path__, "lockgate.core."):
        importlib.import_module(module.name)
    found: list[type[StateMachine[typing.Any]]] = []
    waiting: list[type[StateMachine[typing.Any]]] = [StateMachine]
    while waiting:
        for machine in waiting.pop().__subclasses__():
            waiting.append(machine)
            if machine.__module__.startswith("lockgate.core.") and hasattr(machine, "TABLE"):
                found.append(machine)
    return found


MACHINES = _machines()


def test_the_machines_are_found() -> None:
    assert {"MemberMachine", "Coordinator", "Slot", "LakeKeeper", "MoveKeeper"} <= {
        machine.__name__ for machine in MACHINES
    }


@pytest.mark.parametrize("machine", MACHINES, ids=lambda m: m.__name__)
def test_every_pair_of_state_and_event_has_a_cell(machine: type[StateMachine[typing.Any]]) -> None:
    states = type(next(iter(machine.TABLE)))
    events = {event for row in machine.TABLE.values() for event in row}
    assert set(machine.TABLE) == set(states)
    for state, row in machine.TABLE.items():
        assert set(row) == events, state


@pytest.mark.parametrize("machine", MACHINES, ids=lambda m: m.__name__)
def test_every_transition_is_a_method_and_every_other_cell_says_why(
    machine: type[StateMachine[typing.Any]],
) -> None:
    for state, row in machine.TABLE.items():
        for event, (verdict, detail) in row.items():
            if verdict is Verdict.DO:
                assert callable(getattr(machine, detail, None)), (state, event, detail)
            else:
                assert detail, (state, event)


def test_a_feeds_life_has_an_answer_to_everything() -> None:
    assert set(LIFE_CYCLE) == set(Life)
    for life, row in LIFE_CYCLE.items():
        assert set(row) == set(Occasion), life


def test_a_feeds_record_tells_its_life() -> None:
    assert set(LIVES) == set(Life) - {Life.ABSENT}
    assert len(set(LIVES.values())) == len(LIVES)


def test_every_event_has_a_route_to_a_method() -> None:
    assert set(ROUTES) == set(typing.get_args(Event))
    for method in ROUTES.values():
        assert callable(getattr(NodeCore, method)), method
