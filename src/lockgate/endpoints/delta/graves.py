"""Where incarnations of tables were: a mark outside of them, which outlives their files.

An incarnation's own log says that it is dead, until its files are deleted. From then on, and while
that is under way, its grave says so. Whoever slept through all of it may still make a directory of
the same name: it is nobody's table, and is deleted again.
"""

from typing import Final

from pyarrow import fs

from lockgate.endpoints.delta.faults import faults
from lockgate.endpoints.delta.place import Place

__all__ = ["around", "bury", "is_buried", "is_gone"]

_GRAVES: Final = "_lockgate/graves"
_DEPTH: Final = 2
"""An incarnation is a number below a table below a lake."""


def bury(incarnation: Place) -> None:
    """Say for ever that it is dead."""
    with faults("write", incarnation):
        files, path = _grave(incarnation)
        files.create_dir(path.rsplit("/", 1)[0], recursive=True)
        files.open_output_stream(path).close()
        # Before anything is deleted: a power failure leaves no grave open.
        lake, table, number = incarnation.url.rstrip("/").rsplit("/", 2)
        around_it = Place(f"{lake}/{_GRAVES}/{table}", incarnation.label, incarnation.settings)
        around_it.flush(number, above=True)


def is_buried(incarnation: Place) -> bool:
    with faults("read", incarnation):
        files, base = incarnation.filesystem()
        if base.rstrip("/").count("/") < _DEPTH:
            return False  # of a lake that is a whole bucket, what is no table lies as high as that
        files, path = _grave(incarnation)
        return files.get_file_info(path).type is fs.FileType.File


def around(layer: Place) -> Place:
    """The incarnation that a layer belongs to."""
    return Place(layer.url.rsplit("/", 1)[0], layer.label.rsplit("/", 1)[0], layer.settings)


def is_gone(incarnation: Place) -> bool:
    """Whether nothing is left of it: deleted by us, or by hand."""
    with faults("read", incarnation):
        files, base = incarnation.filesystem()
        return files.get_file_info(base).type is fs.FileType.NotFound


def _grave(incarnation: Place) -> tuple[fs.FileSystem, str]:
    files, base = incarnation.filesystem()
    lake, table, number = base.rstrip("/").rsplit("/", 2)
    return files, f"{lake}/{_GRAVES}/{table}/{number}"
