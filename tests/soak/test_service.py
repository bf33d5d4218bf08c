"""The soak of the service: its rule about the spared node, its eyes, and a short one of all."""

import json
import random
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest

from soak.service import verdict
from soak.service.faults import KINDS, Faults
from soak.service.soak import Plan, Soak
from soak.service.supervisor import Supervisor
from soak.service.world import NODES, World


def _world() -> World:
    nothing: dict[str, object] = {}
    return World(1.0, SimpleNamespace(nodes={}), nothing, None, nothing, nothing, nothing)  # type: ignore[arg-type]


def test_the_spared_node_is_nobodys_and_the_others_are_in_one_hand_at_a_time() -> None:
    world = _world()
    world.spared = "two"
    assert [name for name in NODES if world.take("killed", name)] == ["one", "three"]
    assert not any(world.take("paused", name) for name in NODES)
    assert world.well == ["two"]
    world.give_back("three")
    assert world.take("paused", "three")


def test_no_fault_finds_a_node_when_two_are_away() -> None:
    world = _world()
    world.spared = "one"
    for name in ("two", "three"):
        world.take("drained", name)
    faults = Faults(world, Supervisor(world), random.Random(1))
    of_nodes = [kind for kind in KINDS if kind.endswith("node") or kind == "partition metastore"]
    assert [faults.once(kind) for kind in of_nodes] == [""] * 4
    assert faults.done == Counter()


def test_traces_and_warnings_in_logs_are_seen(tmp_path: Path) -> None:
    lines = {
        "one": [json.dumps({"event": "fine", "level": "info"})],
        "two": [json.dumps({"event": "bug", "level": "error", "trace": "Traceback …"})],
        "three": [
            "error: no metastore",
            "Segmentation fault",
            json.dumps({"event": "slow", "level": "warning"}),
        ],
    }
    nodes = {}
    for name, said in lines.items():
        log = tmp_path / f"{name}.log"
        log.write_text("\n".join(said), "utf-8")
        nodes[name] = SimpleNamespace(log=log)
    world = _world()
    world.cluster.nodes.update(nodes)  # type: ignore[arg-type]
    traces, told = verdict.read_logs(world)
    assert [trace.split(":")[0] for trace in traces] == ["two", "three"]
    assert told == {"error: bug": 1, "warning: slow": 1}


@pytest.mark.slow
def test_a_short_soak_of_the_service_loses_nothing(tmp_path: Path) -> None:
    plan = Plan(
        seconds=0.0,
        rows=2000,
        lease_s=3.0,
        faults=("kill node", "pause node", "partition metastore", "kill worker", "kill node"),
        verbs=("split", "move", "merge"),
        every_s=3.0,
    )
    result = Soak(tmp_path, seed=4, plan=plan).run()
    assert result["found"] == []
    assert (result["missing"], result["extra"], result["different"]) == (0, 0, 0)
    assert result["passed"]
    assert sum(result["kills"].values()) == 3
    assert result["transactions"] > 0
