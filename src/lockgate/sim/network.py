"""The network between nodes: loses, repeats, delays and reorders, and splits in two.

A message is never altered. What a node sends to itself does not leave the process: it only
takes a moment.
"""

from collections.abc import Callable

from lockgate.model.ids import NodeId
from lockgate.model.messages import Bootstrap, Message
from lockgate.sim.faults import Faults
from lockgate.sim.loop import Loop
from lockgate.sim.probes import Probe, Probes

Deliver = Callable[[NodeId, Message], None]

TRANSIT_MS = (1, 25)
SLOW_MS = (100, 3_000)
LATE_MS = (1_000, 25_000)
SELF_MS = 1


class Network:
    """Carries messages by the rates of `Faults`, along links that may be cut one way."""

    def __init__(self, loop: Loop, faults: Faults, probes: Probes, deliver: Deliver) -> None:
        self._loop = loop
        self._faults = faults
        self._probes = probes
        self._deliver = deliver
        self.cut: dict[tuple[NodeId, NodeId], int] = {}
        """Links that carry nothing, with how many partitions cut them."""
        self.sent = 0
        self._past: list[tuple[NodeId, Message]] = []
        """The bootstraps of all owners so far: few, and dangerous for as long as they are about."""

    def send(self, sender: NodeId, to: NodeId, message: Message) -> None:
        """Try to hand `message` over."""
        self.sent += 1
        if type(message) is Bootstrap:
            self._past.append((to, message))
        loop, faults = self._loop, self._faults
        if sender == to:
            loop.after(SELF_MS, self._deliver, to, message)
            return
        if loop.chance(faults.repeat_late):
            faults.count += 1
            loop.after(loop.between(*LATE_MS), self._deliver_late, to, message)
        if self.cut and (sender, to) in self.cut:
            faults.count += 1
            return
        if loop.chance(faults.loss):
            faults.count += 1
            return
        if loop.chance(faults.repeat):
            faults.count += 1
            loop.after(loop.between(*SLOW_MS), self._deliver, to, message)
        slow = loop.chance(faults.slow)
        if slow:
            faults.count += 1
        loop.after(loop.between(*(SLOW_MS if slow else TRANSIT_MS)), self._deliver, to, message)

    def _deliver_late(self, to: NodeId, message: Message) -> None:
        self._probes.hit(Probe.MESSAGE_MUCH_LATER)
        self._deliver(to, message)

    def echo(self) -> None:
        """Some former owner's bootstrap comes again, however long ago it was sent."""
        if self._past:
            self._faults.count += 1
            self._deliver_late(*self._loop.rng.choice(self._past))

    # --- partitions -------------------------------------------------------------------------

    def partition(self, links: list[tuple[NodeId, NodeId]], duration: int) -> None:
        """Cut these links for a while."""
        self._faults.count += 1
        for link in links:
            self.cut[link] = self.cut.get(link, 0) + 1
        self._loop.after(duration, self._mend, links)

    def _mend(self, links: list[tuple[NodeId, NodeId]]) -> None:
        for link in links:
            if link in self.cut:
                self.cut[link] -= 1
                if self.cut[link] == 0:
                    del self.cut[link]

    def heal(self) -> None:
        """All links carry again."""
        self.cut.clear()
