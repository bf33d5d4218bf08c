"""Draining a node: its maintainers leave, done by its own word only, over failovers (O10)."""

import pytest

from lockgate.model.config import CoreConfig
from lockgate.model.events import DrainNode, Tick
from lockgate.model.instructions import Answer
from lockgate.model.messages import NodeReport
from lockgate.model.records import DrainState
from lockgate.model.statuses import Phase
from tests.core.bench import Bench, status

LEASE = CoreConfig().timing.lease_ms


@pytest.fixture
def bench() -> Bench:
    """Six feeds, two on each node, all reported."""
    bench = Bench("a", "b", "c")
    for number in range(6):
        bench.create(f"f{number}")
    for name in ("a", "b", "c"):
        said(bench, name)
    bench.pass_time(500)
    return bench


def said(bench: Bench, name: str, dispatchers: int = 0) -> None:
    """The node runs exactly what is recorded for it."""
    mine = [
        record
        for record in (bench.record(f"f{number}") for number in range(6))
        if record.owner == bench.refs[name]
    ]
    bench.says(name, *(status(r.feed, r.epoch) for r in mine), dispatchers=dispatchers)


def state(bench: Bench) -> DrainState | None:
    """Where the drain of node b is."""
    drain = bench.drain("b")
    return None if drain is None else drain.state


def owners(bench: Bench) -> set[str]:
    return {bench.owner(f"f{number}") for number in range(6)}


def test_a_drain_is_answered_when_it_is_recorded(bench: Bench) -> None:
    bench.hold = True
    bench.handle(DrainNode("d", "b"))
    assert "d" not in bench.answers
    bench.land()
    assert bench.answers["d"] == Answer("d")
    drain = bench.drain("b")
    assert drain is not None
    assert (drain.node, drain.state) == (bench.refs["b"], DrainState.DRAINING)


def test_maintainers_leave_a_draining_node_and_none_come(bench: Bench) -> None:
    bench.handle(DrainNode("d", "b"))
    bench.pass_time(1_000)
    assert owners(bench) == {"a", "c"}
    bench.create("g")
    assert bench.owner("g") != "b"
    stopped = {(to, stop.feed, stop.epoch) for to, stop in bench.take_stops()}
    assert {("b", "f1", 1), ("b", "f4", 1)} <= stopped


def test_a_node_with_a_maintainer_is_not_drained(bench: Bench) -> None:
    bench.handle(DrainNode("d", "b"))
    bench.says("b", status("f1", 1, Phase.ENDED))
    bench.pass_time(2 * LEASE)
    assert state(bench) is DrainState.DRAINING


def test_a_node_with_a_dispatcher_is_not_drained(bench: Bench) -> None:
    bench.handle(DrainNode("d", "b"))
    bench.says("b", dispatchers=1)
    bench.pass_time(2 * LEASE)
    assert state(bench) is DrainState.DRAINING


def test_an_empty_node_is_drained_by_its_own_word(bench: Bench) -> None:
    bench.handle(DrainNode("d", "b"))
    bench.says("b")
    bench.pass_time(LEASE + 1_000, quiet=["b"])
    assert state(bench) is DrainState.DRAINING
    bench.report("b")
    assert state(bench) is DrainState.DRAINED


def test_a_report_from_before_the_drain_does_not_count(bench: Bench) -> None:
    bench.report("b", beat=500)
    bench.handle(DrainNode("d", "b"))
    bench.pass_time(LEASE + 1_000, quiet=["b"])
    bench.report("b", beat=500)
    bench.report("b", beat=499)
    assert state(bench) is DrainState.DRAINING


def test_a_report_from_before_the_drain_that_comes_late_does_not_count(bench: Bench) -> None:
    """The coordinator was paused, or the network: it is the newest report that was heard."""
    bench.handle(DrainNode("d", "b"))
    bench.pass_time(LEASE + 1_000, quiet=["b"])
    bench.report("b", draining=False)
    assert state(bench) is DrainState.DRAINING
    bench.report("b")
    assert state(bench) is DrainState.DRAINED


def test_a_report_that_may_have_been_on_its_way_does_not_count(bench: Bench) -> None:
    bench.handle(DrainNode("d", "b"))
    bench.report("b")
    assert state(bench) is DrainState.DRAINING


def test_a_drained_node_on_which_something_shows_up_is_draining_again(bench: Bench) -> None:
    bench.handle(DrainNode("d", "b"))
    bench.says("b")
    bench.pass_time(LEASE + 1_000)
    assert state(bench) is DrainState.DRAINED
    bench.report("b", dispatchers=1)
    assert state(bench) is DrainState.DRAINING


def test_a_drain_goes_on_under_the_next_coordinator(bench: Bench) -> None:
    bench.handle(DrainNode("d", "b"))
    bench.elect("c")
    bench.pass_time(1_000)
    assert "b" not in owners(bench)
    assert state(bench) is DrainState.DRAINING
    bench.says("b")
    bench.pass_time(LEASE + 1_000)
    assert state(bench) is DrainState.DRAINED


def test_a_report_meant_for_the_former_coordinator_does_not_end_the_drain(
    bench: Bench,
) -> None:
    bench.handle(DrainNode("d", "b"))
    former = bench.coordinator.term
    bench.says("b", dispatchers=1)
    bench.elect("c")
    bench.pass_time(LEASE + 1_000)
    bench.handle(NodeReport(bench.refs["b"], former, 9_999, (), 0))
    assert state(bench) is DrainState.DRAINING


def test_the_drain_of_a_life_that_ended_is_deleted(bench: Bench) -> None:
    bench.handle(DrainNode("d", "b"))
    bench.die("b")
    bench.pass_time(500)
    assert bench.drain("b") is None


def test_a_node_that_started_again_is_not_draining(bench: Bench) -> None:
    bench.handle(DrainNode("d", "b"))
    bench.join("b")
    bench.pass_time(500)
    assert bench.drain("b") is None
    bench.create("g")
    bench.create("h")
    bench.create("i")
    assert "b" in {bench.owner(feed) for feed in ("g", "h", "i")}


def test_a_drain_whose_life_ended_during_a_failover_is_deleted(bench: Bench) -> None:
    bench.handle(DrainNode("d", "b"))
    bench.join("b")
    bench.elect("c")
    bench.handle(Tick())
    assert bench.drain("b") is None


def test_draining_a_draining_node_is_done_already(bench: Bench) -> None:
    bench.handle(DrainNode("d", "b"))
    bench.handle(DrainNode("again", "b"))
    assert bench.answers["again"] == Answer("again")


def test_the_last_node_is_not_drained(bench: Bench) -> None:
    bench.handle(DrainNode("d", "a"))
    bench.handle(DrainNode("e", "b"))
    bench.handle(DrainNode("f", "c"))
    assert bench.answers["f"].code == "last-node"
    assert bench.drain("c") is None


def test_when_only_the_draining_node_is_left_it_is_given_the_feeds(bench: Bench) -> None:
    bench.handle(DrainNode("d", "b"))
    bench.pass_time(1_000)
    bench.pass_time(CoreConfig().timing.silence_ms + 1_000, quiet=["a", "c"])
    assert owners(bench) == {"b"}
