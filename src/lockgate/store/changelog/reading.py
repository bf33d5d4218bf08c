"""Reading segments: anywhere, with nothing but their addresses. A Spark task uses this."""

import contextlib
import functools
from collections.abc import Iterator, Sequence
from typing import Final
from urllib.parse import unquote, urlsplit, urlunsplit

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import fs

from lockgate.model.errors import LockgateError, ObjectMissing, Terminal
from lockgate.model.positions import Position
from lockgate.model.spans import KeyRange
from lockgate.model.tables import TableShape
from lockgate.store.changelog.groups import meeting
from lockgate.store.changelog.packs import Slice, slice_of, unpacked
from lockgate.store.changelog.shapes import digest_of, shape_of

__all__ = ["leaves_values", "read_segments", "read_shape"]

_LEAST: Final = -(2**63)
_GREATEST: Final = 2**63 - 1


def read_segments(
    uris: Sequence[str],
    after: Position | None = None,
    upto: Position | None = None,
    keys: Sequence[KeyRange] | None = None,
    *,
    columns: Sequence[str] | None = None,
) -> pa.Table:
    """The changes in segments of one table in one shape, with after < position <= upto.

    With `keys`, those of other keys may be missing: they are left out where that saves reading.
    In no order: `seq` is the order. ValueError when there is no segment, or several shapes;
    ObjectMissing when a file is gone, Terminal when one cannot be read.
    """
    if not uris:
        raise ValueError("no segments to read")
    parts: list[pa.Table] = []
    for uri in uris:
        part = _segment(uri, after, upto, keys, columns)
        if parts and digest_of(part.schema) != digest_of(parts[0].schema):
            raise ValueError("segments of several shapes")
        parts.append(part)
    return parts[0] if len(parts) == 1 else pa.concat_tables(parts)


def read_shape(uri: str) -> TableShape:
    """The shape of a segment's rows; reads the file's foot only."""
    place = slice_of(uri)
    if place is not None:
        return shape_of(_unpacked(uri, place).schema)
    with _opened(uri) as file:
        return shape_of(file.schema_arrow)


def leaves_values(uris: Sequence[str]) -> bool:
    """True when an update in these segments may leave a value as it is in the target's row.

    Such an update has to find the row, so it cannot be told apart from what happens to the row's
    other keys. Reads the files' feet only.
    """
    for uri in uris:
        place = slice_of(uri)
        if place is not None:
            said = _unpacked(uri, place)["unchanged"]
            if said.null_count < len(said):
                return True
            continue
        with _opened(uri) as file:
            metadata, number = file.metadata, file.schema_arrow.get_field_index("unchanged")
            for group in range(metadata.num_row_groups):
                column = metadata.row_group(group).column(number)
                stats = column.statistics
                known = stats is not None and stats.has_null_count
                if not known or stats.null_count < column.num_values:
                    return True
    return False


def _segment(
    uri: str,
    after: Position | None,
    upto: Position | None,
    keys: Sequence[KeyRange] | None,
    columns: Sequence[str] | None,
) -> pa.Table:
    place = slice_of(uri)
    if place is None:
        with _opened(uri) as file:
            return _read(file, uri, after, upto, keys, columns)
    table = _unpacked(uri, place)
    ends = pc.min_max(table["position"])
    table = _between(table, ends["min"].as_py(), ends["max"].as_py(), after, upto)
    return table if columns is None else table.select(list(columns))


def _unpacked(uri: str, place: Slice) -> pa.Table:
    """The whole of a segment in a pack: it is small."""
    with _faults(uri):
        return unpacked(place, _load).read_all()


def _load(uri: str) -> pa.Buffer:
    if not urlsplit(uri).scheme:
        with pa.OSFile(uri) as file:
            return file.read_buffer()
    files, path = _place(uri)
    with files.open_input_file(path) as file:
        return file.read_buffer()


def _read(
    file: pq.ParquetFile,
    uri: str,
    after: Position | None,
    upto: Position | None,
    keys: Sequence[KeyRange] | None,
    columns: Sequence[str] | None,
) -> pa.Table:
    groups = None if keys is None else meeting(file, keys)
    low, high = _range(file.metadata)
    wanted = None if columns is None else list(dict.fromkeys([*columns, "position"]))
    try:
        if (after is not None and high <= after) or (upto is not None and low > upto):
            table = file.schema_arrow.empty_table()
        elif groups is None:
            table = file.read(columns=wanted)
        else:
            table = file.read_row_groups(groups, columns=wanted)
    except (pa.ArrowException, OSError) as error:
        raise _unreadable(uri, error) from error
    table = _between(table, low, high, after, upto)
    return table if columns is None else table.select(list(columns))


def _between(
    table: pa.Table,
    low: Position,
    high: Position,
    after: Position | None,
    upto: Position | None,
) -> pa.Table:
    """The changes of a table after a position, up to another; its own lie from `low` to `high`."""
    if after is not None and low <= after:
        table = table.filter(pc.greater(table["position"], after))
    if upto is not None and high > upto:
        table = table.filter(pc.less_equal(table["position"], upto))
    return table


def _range(metadata: pq.FileMetaData) -> tuple[Position, Position]:
    """Between which positions the changes of a file lie, as far as its statistics tell."""
    stats = [metadata.row_group(n).column(0).statistics for n in range(metadata.num_row_groups)]
    if any(each is None or not each.has_min_max for each in stats):
        return _LEAST, _GREATEST
    return (
        min((each.min for each in stats), default=_LEAST),
        max((each.max for each in stats), default=_GREATEST),
    )


def _opened(uri: str) -> pq.ParquetFile:
    with _faults(uri):
        if not urlsplit(uri).scheme:
            return pq.ParquetFile(uri)
        files, path = _place(uri)
        return pq.ParquetFile(path, filesystem=files)


@contextlib.contextmanager
def _faults(uri: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise ObjectMissing(
            "a file of the change log is not there",
            object_=uri,
            hint="it was removed because all of it was applied, or by other hands; if the table "
            "at the target is behind it, the table has to be copied anew",
            operation="read the change log",
            cause=error,
        ) from error
    except (pa.ArrowException, OSError) as error:
        raise _unreadable(uri, error) from error


def _place(uri: str) -> tuple[fs.FileSystem, str]:
    """The file system of a URI, and the path in it."""
    parts = urlsplit(uri)
    files, base = _file_system(urlunsplit(parts._replace(path="/")))
    return files, f"{base.rstrip('/')}/{unquote(parts.path).lstrip('/')}"


@functools.lru_cache(maxsize=64)
def _file_system(uri: str) -> tuple[fs.FileSystem, str]:
    """Made once for all files in one place: for an object store this opens connections."""
    files, base = fs.FileSystem.from_uri(uri)
    return files, str(base)


def _unreadable(uri: str, error: Exception) -> LockgateError:
    return Terminal(
        "a file of the change log cannot be read",
        object_=uri,
        hint="see that it is reached from this machine and whole; if it is damaged, the tables "
        "in it have to be copied anew",
        operation="read the change log",
        cause=error,
    )
