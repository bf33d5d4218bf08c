"""One table that a feed takes, as it was when it was looked at."""

from typing import NamedTuple

import pyarrow as pa

from lockgate.endpoints.delta.types import lake_schema
from lockgate.endpoints.postgres.pgoutput import relations
from lockgate.endpoints.postgres.schema.compose import TablePlan
from lockgate.endpoints.postgres.schema.definitions import TableDefinition
from lockgate.model.selection import TableSelection
from lockgate.model.tables import TableShape

__all__ = ["Chosen"]


class Chosen(NamedTuple):
    """What the table is, and what the feed takes of it."""

    definition: TableDefinition
    selection: TableSelection

    @property
    def shape(self) -> TableShape:
        return self.selection.shape(self.definition.shape())

    @property
    def plan(self) -> TablePlan:
        """A copy is faster without the key, which is made when the rows are there."""
        return TablePlan.of(self.definition, self.selection, with_key=False)

    def lake_schema(self) -> pa.Schema:
        """What it is in a lake. Raises what keeps it from being there."""
        return lake_schema(relations.TablePlan(self.shape, self.selection.masks).travelling)
