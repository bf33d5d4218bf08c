"""What it means that a data file is not there: the marks tell.

A file that somebody has just been told of may be gone a moment later, and mostly that is right: the
table was dropped, or a drain has put another file in its place and a vacuum came after it. Only a
file that the newest state still names is truly missing.
"""

from collections.abc import Collection, Iterator

import pyarrow as pa

from lockgate.endpoints.delta.death import TableDead, table_dead
from lockgate.endpoints.delta.fenced import FencedTable
from lockgate.endpoints.delta.files import live_files, read_file, stream_file
from lockgate.endpoints.delta.graves import is_buried, is_gone
from lockgate.endpoints.delta.place import Place
from lockgate.model.errors import LockgateError, NotFound, ObjectMissing, Transient

__all__ = ["FilesMoved", "read_data", "stream_data", "table_dead", "why_missing"]


class FilesMoved(Transient):
    """Somebody else has put other files in their place meanwhile. Look again."""

    code = "files-moved"


def read_data(
    incarnation: Place,
    layer: str,
    path: str,
    *,
    columns: list[str] | None = None,
    schema: pa.Schema | None = None,
) -> pa.Table:
    """`read_file`, with a better word for a file that is not there."""
    try:
        return read_file(incarnation.child(layer), path, columns, schema)
    except ObjectMissing as error:
        raise why_missing(incarnation, layer, [path], error) from error


def stream_data(
    incarnation: Place, layer: str, path: str, schema: pa.Schema, coded: Collection[str] = ()
) -> Iterator[pa.Table]:
    """The same of `stream_file`."""
    try:
        yield from stream_file(incarnation.child(layer), path, schema, coded)
    except ObjectMissing as error:
        raise why_missing(incarnation, layer, [path], error) from error


def why_missing(
    incarnation: Place, layer: str, paths: list[str], cause: Exception
) -> LockgateError:
    """What to say of files of a layer that were not found."""
    try:
        if FencedTable.open(incarnation.child("stable")).look().dead:
            return table_dead(incarnation)
        named = live_files(FencedTable.open(incarnation.child(layer)).handle)
    except TableDead as dead:
        return dead
    except LockgateError as error:  # of a log that is half deleted, anything may be said
        if is_gone(incarnation) or is_buried(incarnation):
            return table_dead(incarnation)
        if not isinstance(error, (NotFound, ObjectMissing)):
            return error
        return _lost(incarnation, "the table's log is gone", error)
    if not {file.path for file in named} & set(paths):
        return FilesMoved(
            "the table has other files by now",
            object_=incarnation.label,
            hint="read it again",
            operation="read",
            cause=cause,
        )
    return _lost(incarnation, f"a data file of {layer} is gone", cause)


def _lost(incarnation: Place, what: str, cause: Exception) -> ObjectMissing:
    return ObjectMissing(
        what,
        object_=incarnation.label,
        hint="put it back from a copy of the storage, or copy the table anew: "
        "`lockgate feed resync FEED TABLE`",
        operation="read",
        cause=cause,
    )
