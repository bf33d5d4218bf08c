"""Schema changes of a feed: from what the change log says to what the target is told.

body of a schema change ──► SchemaStep ──► Ddl, which the barrier stops for
                                └────────► the target, when it is its turn
"""

import msgspec

from lockgate.endpoints.postgres.ddl.changes import Chooser, interpret
from lockgate.endpoints.postgres.ddl.entries import read_row
from lockgate.model.ddl import Ddl
from lockgate.model.ids import FeedId
from lockgate.model.positions import Position
from lockgate.model.schema_changes import SchemaStep, step_from_json
from lockgate.store.changelog import SchemaChange

__all__ = ["SchemaSteps"]


class SchemaSteps:
    """The steps that were read from the log, kept until they are written."""

    def __init__(self, feed: FeedId, choose: Chooser) -> None:
        self._feed = feed
        self._choose = choose
        self._steps: dict[Position, SchemaStep] = {}

    def ddl(self, change: SchemaChange) -> Ddl | None:
        """What the source said about its schema, as a barrier; None if it does not concern us."""
        step = self._read(change.body)
        if step is None or not step.has_effect:
            return None
        self._steps[change.position] = step
        return step.ddl(change.position)

    def _read(self, body: str) -> SchemaStep | None:
        """Rows of the source's log of schema changes are a list; without it, the step itself."""
        if body.startswith("{"):
            return step_from_json(body)
        rows = [read_row(row) for row in msgspec.json.decode(body)]
        return interpret(rows, self._choose, feed=self._feed)

    def knows(self, ddl: Ddl) -> bool:
        """False before this life has read the change from the log."""
        return ddl.position in self._steps

    def step(self, ddl: Ddl) -> SchemaStep:
        """What a schema change that was read from the log means."""
        return self._steps[ddl.position]
