"""Bugs of the coordinator: what it takes for done."""

from lockgate.core.coordinator.drain import Drains
from lockgate.model.ids import Millis
from lockgate.model.messages import NodeReport
from lockgate.model.records import DrainState
from lockgate.sim.plants.registry import plant
from lockgate.sim.violation import Law


@plant(
    "drained-too-soon",
    "a drain is done as soon as its node is heard, whatever still runs there",
    Law.DRAIN,
    Drains,
    "hear",
)
def _drained_too_soon(self: Drains, now: Millis, report: NodeReport) -> None:
    record = self.decided.get(report.node.node)
    if record is None or record.node != report.node or report.node not in self._known_since:
        return
    if self._is_younger(now, report):
        self._turn(record, DrainState.DRAINED)
