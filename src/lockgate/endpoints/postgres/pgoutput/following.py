"""Tables that the stream describes otherwise than before, where nothing else tells of DDL.

A source that keeps no log of its DDL still describes a table anew before the first row of another
form. Such a description then takes the place of a row of DDL: it has a position of its own, rows
before it are read as they were and rows after it as they are now.

What it means is asked at once, of somebody who knows what the change log last saw of the table:
the sooner the source's catalog is looked at, the less it has gone on since.
"""

from collections.abc import Callable
from typing import NamedTuple

from lockgate.endpoints.postgres.pgoutput.relations import Relation, TablePlan
from lockgate.model.positions import Position
from lockgate.model.schema_changes import SchemaStep
from lockgate.model.tables import TableShape

__all__ = ["Follow", "Followed", "ShapeChange"]


class Followed(NamedTuple):
    """What a new description of a table means."""

    step: SchemaStep
    shape: TableShape
    """What is known of the table from now on."""


Follow = Callable[[Relation, TablePlan | None], Followed | None]
"""Asked for each description that is new; None when it changes nothing for the feed."""


class ShapeChange(NamedTuple):
    """A change of a table, at its place in the stream."""

    position: Position
    number: int
    """The table's lasting number."""
    step: SchemaStep
    shape: TableShape
