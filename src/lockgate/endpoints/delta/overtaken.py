"""A batch of changes that is not the next one any more: a part of it has landed meanwhile."""

from lockgate.endpoints.delta.marks import Marks
from lockgate.model.errors import Transient
from lockgate.model.positions import Position

__all__ = ["BatchOvertaken", "refuse_overtaken"]


class BatchOvertaken(Transient):
    """A part of the batch has landed since it was planned. Nothing of it was landed now."""

    code = "batch-overtaken"


def refuse_overtaken(label: str, marks: Marks, after: Position | None) -> None:
    """BatchOvertaken where an ingest has some of what lies after that."""
    if after is not None and marks.position > after:
        raise BatchOvertaken(
            f"the table is at {marks.position} already, the batch begins after {after}",
            object_=label,
            hint="nothing: what is left is landed from there on",
            operation="land changes",
        )
