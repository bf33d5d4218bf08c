"""The tables of the dispatcher manager and of an entry, walked cell by cell."""

import enum

import pytest

from lockgate.core.dispatchers import entry as entries
from lockgate.core.dispatchers.desk import Desk
from lockgate.core.dispatchers.entry import STAGE_OF, EntryState
from lockgate.core.dispatchers.manager import DispatcherManager, ManagerState
from lockgate.core.machine import Cell, Verdict
from lockgate.model.batch import Landed, Loaded, LoadFailed, NotLanded, Refused, Unknown
from lockgate.model.ddl import Ddl, DdlKind
from lockgate.model.events import (
    DispatcherAdvanced,
    DispatcherBlocked,
    DispatcherFailed,
    DispatcherHeat,
    DispatcherHeld,
    DispatcherRefused,
    DispatcherStarted,
    DispatcherStopped,
    Tick,
)
from lockgate.model.messages import Bootstrap, Close, HeartbeatReply, Requests
from lockgate.model.requests import Create, Hold, Pass, Prepare, Release, Remove, Write
from lockgate.model.statuses import Heat
from tests.core.dispatchers.station import EPOCH, OWNER, TROUBLE, Station, at
from tests.core.support import (
    CONFIG,
    FEED,
    assert_does_nothing,
    cell_name,
    cells,
    create,
    fingerprint,
    missing_cells,
    missing_methods,
    spec,
    token,
)

T10 = token(EPOCH, 10)
NEWER = token(EPOCH, 20)
DDL = Ddl(100, DdlKind.ALTER, ("t",))

EVENTS: dict[type, object] = {
    Tick: Tick(),
    Loaded: Loaded("node:n", 1, 0, ()),
    LoadFailed: LoadFailed("node:n"),
    Refused: Refused("node:n", 1, 2),
    Landed: Landed("node:n", 1),
    NotLanded: NotLanded("node:n", 1),
    Unknown: Unknown("node:n", 1),
    Bootstrap: Bootstrap(FEED, EPOCH, OWNER),
    Requests: Requests(FEED, EPOCH, OWNER, 1, (create("s", EPOCH, 1),)),
    HeartbeatReply: HeartbeatReply(FEED, EPOCH, OWNER, 1, 1),
    Close: Close(FEED, EPOCH, OWNER, 1),
    DispatcherStarted: DispatcherStarted(FEED, "s", T10, 7),
    DispatcherRefused: DispatcherRefused(FEED, "s", T10),
    DispatcherStopped: DispatcherStopped(FEED, "s", T10),
    DispatcherHeld: DispatcherHeld(FEED, "s", T10, "m"),
    DispatcherAdvanced: DispatcherAdvanced(FEED, "s", T10, 8),
    DispatcherBlocked: DispatcherBlocked(FEED, "s", T10, 100, DDL),
    DispatcherHeat: DispatcherHeat(FEED, "s", T10, Heat.HOT, (b"m",)),
    DispatcherFailed: DispatcherFailed(FEED, "s", T10, TROUBLE),
    Create: Create(spec("s"), NEWER),
    Prepare: Prepare(spec("s"), NEWER, "merge-2"),
    Remove: Remove("s", NEWER),
    Hold: Hold("s", T10, "merge-1"),
    Release: Release("s", T10, "merge-1"),
    Write: Write("s", T10, DDL),
    Pass: Pass("s", T10, 100),
}


def manager_in(state: enum.Enum) -> DispatcherManager:
    """A manager that got into this state by itself."""
    if state is ManagerState.LOADING:
        manager = DispatcherManager(CONFIG, Station().me)
        manager.handle(1_000, Tick())
        return manager
    manager = at(EntryState.WORKING).manager
    if state is ManagerState.LOST:
        manager.handle(1_000, Refused("node:n", 1, 2))
    assert manager.state is state
    return manager


# --- the manager --------------------------------------------------------------------------------


def test_every_pair_of_the_manager_has_a_cell() -> None:
    table = DispatcherManager.TABLE
    assert missing_cells(table, ManagerState, DispatcherManager.EVENTS) == []


def test_every_transition_of_the_manager_is_a_method() -> None:
    assert missing_methods(DispatcherManager.TABLE, DispatcherManager) == []


@pytest.mark.parametrize("pair", cells(DispatcherManager.TABLE), ids=cell_name)
def test_the_manager_takes_every_event_in_every_state(pair: tuple[enum.Enum, type, Cell]) -> None:
    state, event, cell = pair
    manager = manager_in(state)
    if cell.verdict is Verdict.IGNORE:
        assert_does_nothing(manager, EVENTS[event])
    else:
        manager.handle(manager.now, EVENTS[event])


def test_the_manager_has_no_pair_that_only_a_bug_can_make() -> None:
    """Its events come from other nodes, the metastore and the executor: all may be late."""
    assert Verdict.REJECT not in {cell.verdict for *_, cell in cells(DispatcherManager.TABLE)}


# --- an entry -----------------------------------------------------------------------------------


def test_every_pair_of_an_entry_has_a_cell() -> None:
    assert missing_cells(entries.TABLE, EntryState, entries.EVENTS) == []


def test_every_transition_of_an_entry_is_a_method_of_its_desk() -> None:
    assert missing_methods(entries.TABLE, Desk, prefix="_on_") == []


@pytest.mark.parametrize("pair", cells(entries.TABLE), ids=cell_name)
def test_an_entry_takes_every_event_in_every_state(pair: tuple[enum.Enum, type, Cell]) -> None:
    """Through the desk's own doors: requests are obeyed, the executor's word is taken."""
    state, event, cell = pair
    station = at(EntryState(state.value))
    before = fingerprint(station.entry())
    out = station.ask(EVENTS[event]) if is_request(event) else station.take(EVENTS[event])
    if cell.verdict is Verdict.IGNORE:
        assert fingerprint(station.entry()) == before
        assert [one for one in out if not is_heartbeat(one)] == []


def is_request(event: type) -> bool:
    return event in (Create, Prepare, Remove, Hold, Release, Write, Pass)


def is_heartbeat(instruction: object) -> bool:
    """Whoever asks is told how things stand, whatever came of it."""
    return type(getattr(instruction, "message", None)).__name__ == "Heartbeat"


def test_an_entry_has_no_pair_that_only_a_bug_can_make() -> None:
    """The desk looks at transitions alone: a reject would pass in silence."""
    assert Verdict.REJECT not in {cell.verdict for *_, cell in cells(entries.TABLE)}


def test_every_durable_state_of_an_entry_has_a_stage() -> None:
    assert set(EntryState) - set(STAGE_OF) == {EntryState.NOTED}


def test_every_event_of_both_tables_was_walked() -> None:
    assert {*DispatcherManager.EVENTS, *entries.EVENTS} == set(EVENTS)
