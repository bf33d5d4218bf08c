"""Where incarnations of tables were: a mark outside of them, which outlives their files.

An incarnation's own log says that it is dead, until its files are deleted. From then on, and while
that is under way, its grave says so. Whoever slept through all of it may still make a directory of
the same name: it is nobody's table, and is deleted again.

Where the log is damaged, or gone by hand, the grave alone says it, and says so from the beginning.
It is empty then, and as old as the end is: the files stay for those who read them. One whose files
are going has a word in it. Torn, that is an empty one: the files go later, and never too early.
"""

from typing import Final

from pyarrow import fs

from lockgate.endpoints.delta.faults import faults
from lockgate.endpoints.delta.place import Place
from lockgate.endpoints.delta.store_time import changed_s

__all__ = ["around", "bury", "is_buried", "is_gone", "rests_since_s"]

_GRAVES: Final = "_lockgate/graves"
_GOING: Final = b"its files are being deleted"
_DEPTH: Final = 2
"""An incarnation is a number below a table below a lake."""


def bury(incarnation: Place, *, going: bool = True) -> None:
    """Say for ever that it is dead, and that its files are `going`, or are left alone for now.

    Said again, they are left alone since the first time; and what is going goes on."""
    if not going and is_buried(incarnation):
        return
    with faults("write", incarnation):
        files, path = _grave(incarnation)
        files.create_dir(path.rsplit("/", 1)[0], recursive=True)
        with files.open_output_stream(path) as out:
            out.write(_GOING if going else b"")
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


def rests_since_s(incarnation: Place) -> float | None:
    """Since when it is dead, by the store's clock, if its files are still left alone. None: they
    are going, or there is no grave."""
    with faults("read", incarnation):
        files, path = _grave(incarnation)
        info = files.get_file_info(path)
        return None if info.size or info.type is not fs.FileType.File else changed_s(info)


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
