"""What goes wrong where the files of a dead table are being deleted is its death, and nothing else.

Whoever was about to read or write there may find anything: a file that is gone, half a log, no
directory. The grave was there first, and tells.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from lockgate.endpoints.delta.faults import faults
from lockgate.endpoints.delta.graves import around, is_buried
from lockgate.endpoints.delta.place import Place
from lockgate.model.errors import LockgateError, StaleOwner

__all__ = ["TableDead", "layer_faults", "table_dead"]


class TableDead(StaleOwner):
    """The table was dropped. What is still under way for it ends here."""

    code = "table-dead"


@contextmanager
def layer_faults(operation: str, layer: Place, path: str = "") -> Iterator[None]:
    """`faults`, of a layer or another directory of an incarnation: TableDead if that is going."""
    try:
        with faults(operation, layer, path):
            yield
    except TableDead:
        raise
    except LockgateError as error:
        if is_buried(around(layer)):
            raise table_dead(layer, operation) from error
        raise


def table_dead(place: Place, operation: str = "read") -> TableDead:
    """What to say of it."""
    return TableDead(
        "the table was dropped",
        object_=place.label,
        hint="nothing: what was under way for it ends",
        operation=operation,
    )
