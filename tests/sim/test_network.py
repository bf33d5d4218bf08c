"""The fake network does to messages what its rates say, and nothing else."""

from lockgate.model.ids import NodeRef
from lockgate.model.messages import Bootstrap, Message, Stale
from lockgate.sim.faults import Faults
from lockgate.sim.loop import Loop
from lockgate.sim.network import Network
from lockgate.sim.probes import Probes

MESSAGE = Stale("orders", 1, NodeRef("a", 1), 2)


class Wire:
    """A network without faults, and what came through it."""

    def __init__(self) -> None:
        self.loop = Loop(1)
        self.faults = Faults(self.loop.rng)
        self.faults.heal()
        self.heard: list[tuple[int, str, Message]] = []
        self.network = Network(
            self.loop,
            self.faults,
            Probes(),
            lambda to, message: self.heard.append((self.loop.now, to, message)),
        )

    def send(self, count: int = 1, sender: str = "a", to: str = "b") -> None:
        for _ in range(count):
            self.network.send(sender, to, MESSAGE)
        self.loop.run(self.loop.now + 60_000)


def test_without_faults_every_message_arrives_once() -> None:
    wire = Wire()
    wire.send(50)
    assert [(to, message) for _, to, message in wire.heard] == [("b", MESSAGE)] * 50


def test_loss_loses_some() -> None:
    wire = Wire()
    wire.faults.loss = 0.5
    wire.send(200)
    assert 0 < len(wire.heard) < 200
    assert wire.faults.count == 200 - len(wire.heard)


def test_repetition_brings_some_again_also_much_later() -> None:
    wire = Wire()
    wire.faults.repeat_late = 0.5
    wire.send(100)
    assert len(wire.heard) > 100
    assert max(when for when, _, _ in wire.heard) > 1_000


def test_a_cut_link_carries_nothing_in_its_direction_until_it_is_mended() -> None:
    wire = Wire()
    wire.network.partition([("a", "b")], duration=1_000)
    wire.network.send("a", "b", MESSAGE)
    wire.network.send("b", "a", MESSAGE)
    wire.loop.run(999)
    assert [to for _, to, _ in wire.heard] == ["a"]
    wire.loop.run(1_000)
    wire.send()
    assert [to for _, to, _ in wire.heard] == ["a", "b"]


def test_overlapping_partitions_are_mended_one_by_one() -> None:
    wire = Wire()
    wire.network.partition([("a", "b")], duration=1_000)
    wire.network.partition([("a", "b")], duration=2_000)
    wire.loop.run(1_500)
    assert ("a", "b") in wire.network.cut
    wire.loop.run(2_000)
    assert not wire.network.cut


def test_what_a_node_says_to_itself_is_never_lost() -> None:
    wire = Wire()
    wire.faults.loss = 1.0
    wire.send(sender="a", to="a")
    assert len(wire.heard) == 1


def test_a_bootstrap_of_the_past_comes_again() -> None:
    wire = Wire()
    wire.network.echo()
    wire.send()
    bootstrap = Bootstrap("orders", 1, NodeRef("a", 1))
    wire.network.send("a", "b", bootstrap)
    wire.loop.run(wire.loop.now + 60_000)
    wire.network.echo()
    assert [message for _, _, message in wire.heard] == [MESSAGE, bootstrap, bootstrap]
