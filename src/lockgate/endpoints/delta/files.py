"""The data files of a Delta table: written under names that nobody else gives, described exactly.

A file is written, and on the disk, before the commit that names it: a power failure takes no file
that a table names. Whoever wrote it flushes it, which tasks do side by side, and each while it
writes the next. One that no commit names in the end is nobody's, and goes with the first vacuum
that finds it older than `vacuum.GRACE_S`.
"""

import contextlib
import datetime as dt
import itertools
import operator
import secrets
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any, Final
from urllib.parse import unquote

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable
from deltalake.transaction import AddAction, RemoveAction

from lockgate.endpoints.delta.coded import coded_columns, trimmed, with_codes
from lockgate.endpoints.delta.death import layer_faults
from lockgate.endpoints.delta.encoding import options
from lockgate.endpoints.delta.faults import faults
from lockgate.endpoints.delta.place import Place
from lockgate.endpoints.delta.schemas import conform
from lockgate.model.errors import DidNotLand, LockgateError
from lockgate.model.value import Value

__all__ = [
    "DataFile",
    "Flush",
    "added",
    "check_there",
    "delete_file",
    "delete_files",
    "live_files",
    "not_there",
    "read_file",
    "removed",
    "stream_file",
    "write_file",
    "write_stream",
]

_GROUP_ROWS: Final = 131_072
_GROUP_BYTES: Final = 64 << 20
"""A row group is full with either: what a writer holds in memory, and what a reader may skip."""
_PIECE_BYTES: Final = 4 << 20
"""What is read at a time of a file that is streamed: it stays in the processor's cache."""
_PIECE_ROWS: Final = 65_536


Flush = Callable[[Place, str], None]
"""Have a file on the disk, by its name below a place."""


class DataFile(Value, frozen=True):
    """One file of a table."""

    path: str
    """Below the table's directory."""
    rows: int
    bytes: int
    low: dict[str, Any] = msgspec.field(default_factory=dict)
    high: dict[str, Any] = msgspec.field(default_factory=dict)
    """The least and the greatest value of columns, as far as they are known."""


def write_file(place: Place, rows: pa.Table, known: list[str]) -> DataFile:
    """Write rows; the least and the greatest value are noted of the columns `known`."""
    slices = range(0, max(1, rows.num_rows), _GROUP_ROWS)
    return _written(place, rows.schema, (rows.slice(at, _GROUP_ROWS) for at in slices), known)


def write_stream(
    place: Place,
    schema: pa.Schema,
    pieces: Iterable[pa.Table],
    known: list[str],
    rows_max: int,
    flush: Flush = Place.flush,
) -> list[DataFile]:
    """The same of rows that come piece by piece, in files of so many at most. None comes: none.

    Where one cannot be written, none is left behind: a disk that is full is not filled further.
    Whoever gives another `flush` sees to it himself that what it has begun comes to its end.
    """
    files: list[DataFile] = []
    try:
        for _, mine in itertools.groupby(_cut(pieces, rows_max), key=operator.itemgetter(0)):
            groups = _groups(piece for _, piece in mine)
            files.append(_written(place, schema, groups, known, flush))
    except BaseException:
        delete_files(place, files)
        raise
    return files


def _cut(pieces: Iterable[pa.Table], rows_max: int) -> Iterator[tuple[int, pa.Table]]:
    """The same rows in pieces that go into one file each, with the number of the file."""
    rows = 0
    for piece in pieces:
        left = piece
        while left.num_rows:
            mine = left.slice(0, rows_max - rows % rows_max)
            yield rows // rows_max, mine
            rows += mine.num_rows
            left = left.slice(mine.num_rows)


def _written(
    place: Place,
    schema: pa.Schema,
    groups: Iterable[pa.Table],
    known: list[str],
    flush: Flush = Place.flush,
) -> DataFile:
    path = f"{secrets.token_hex(16)}.parquet"
    try:
        return _described(place, path, schema, groups, known, flush)
    except BaseException:
        delete_files(place, [DataFile(path, 0, 0)])
        raise


def _described(
    place: Place,
    path: str,
    schema: pa.Schema,
    groups: Iterable[pa.Table],
    known: list[str],
    flush: Flush,
) -> DataFile:
    rows = 0
    edges = {name: _Edges(schema.field(name).type) for name in known}
    with layer_faults("write", place), contextlib.ExitStack() as opened:
        files, base = place.filesystem()
        writer, form = None, schema
        for group in groups:
            if writer is None:
                out = opened.enter_context(files.open_output_stream(f"{base}/{path}"))
                how = options(group, known)
                form = group.schema
                writer = opened.enter_context(pq.ParquetWriter(out, form, **how))
            writer.write_table(conform(group, form), row_group_size=max(1, group.num_rows))
            rows += group.num_rows
            for name, edge in edges.items():
                edge.take(group[name])
        opened.close()
        flush(place, path)
        size = files.get_file_info(f"{base}/{path}").size
    told = {name: edge for name, edge in edges.items() if edge.told}
    low = {name: edge.low for name, edge in told.items()}
    high = {name: edge.high for name, edge in told.items()}
    return DataFile(path, rows, size, low, high)


def _groups(pieces: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """The rows of as many pieces as go into a row group."""
    held: list[pa.Table] = []
    rows = size = 0
    for piece in pieces:
        if not piece.num_rows:
            continue
        held.append(trimmed(conform(piece, held[0].schema) if held else piece))
        rows += piece.num_rows
        size += held[-1].nbytes
        if rows >= _GROUP_ROWS or size >= _GROUP_BYTES:
            yield _joined(held)
            held, rows, size = [], 0, 0
    if held:
        yield _joined(held)


def _joined(pieces: list[pa.Table]) -> pa.Table:
    """One dictionary for all of them: the writer takes that of a group over as it is, one only."""
    return pa.concat_tables(pieces).unify_dictionaries()


def read_file(
    place: Place,
    path: str,
    columns: list[str] | None = None,
    schema: pa.Schema | None = None,
) -> pa.Table:
    """The rows of a file; with `schema`, in its columns, of which an older file may lack some."""
    with layer_faults("read", place, path):
        files, base = place.filesystem()
        with files.open_input_file(f"{base}/{path}") as source:
            file = pq.ParquetFile(source, page_checksum_verification=True)
            if schema is None:
                return file.read(columns)
            there = set(file.schema_arrow.names)
            return conform(file.read([name for name in schema.names if name in there]), schema)


def stream_file(
    place: Place, path: str, schema: pa.Schema, coded: Collection[str] = ()
) -> Iterator[pa.Table]:
    """The same piece by piece, so that a large file is never in memory as a whole.

    Of the columns `coded`, those that the file has as a dictionary stay so.
    """
    with layer_faults("read", place, path):
        files, base = place.filesystem()
        with files.open_input_file(f"{base}/{path}") as source:
            metadata = pq.read_metadata(source)
            coded = coded_columns(metadata, coded)
            file = pq.ParquetFile(
                source, metadata=metadata, read_dictionary=coded, page_checksum_verification=True
            )
            form = with_codes(schema, coded)
            there = set(file.schema_arrow.names)
            wanted = [name for name in schema.names if name in there]
            for batch in file.iter_batches(_piece_rows(metadata), columns=wanted):
                yield conform(pa.Table.from_batches([batch]), form)


def _piece_rows(file: Any) -> int:
    size = sum(int(file.row_group(no).total_byte_size) for no in range(file.num_row_groups))
    return max(1, min(_PIECE_ROWS, _PIECE_BYTES * int(file.num_rows) // max(1, size)))


def check_there(place: Place, wanted: Iterable[DataFile]) -> None:
    """DidNotLand unless all the files are there, as long as they were written.

    Before a commit names them: what it names must be there for ever.
    """
    for file in not_there(place, wanted):
        raise DidNotLand(
            "a file that was written is not there any more",
            object_=f"{place.label}/{file.path}",
            hint="nothing: nothing was committed, and it is done again",
            operation="commit",
        )


def not_there(place: Place, wanted: Iterable[DataFile]) -> list[DataFile]:
    """Those of the files that are gone, or not as long as they were written."""
    with layer_faults("read", place):
        files, base = place.filesystem()
        described = list(wanted)
        found = files.get_file_info([f"{base}/{file.path}" for file in described])
        both = zip(described, found, strict=True)
        return [file for file, info in both if info.size != file.bytes]


def delete_file(place: Place, path: str) -> None:
    """One that is gone already is no matter."""
    with faults("delete", place), contextlib.suppress(FileNotFoundError):
        files, base = place.filesystem()
        files.delete_file(f"{base}/{path}")


def delete_files(place: Place, these: Iterable[DataFile]) -> None:
    """Of what was written and is not to be: nothing depends on it, a vacuum finds what is left."""
    for file in these:
        with contextlib.suppress(LockgateError, OSError):
            delete_file(place, file.path)


def live_files(handle: DeltaTable) -> list[DataFile]:
    """All files of the table, as the handle sees it."""
    found = pa.table(handle.get_add_actions(flatten=True))
    # Of a wide table most columns have no statistics in any file.
    told = [name for name in found.column_names if found[name].null_count < found.num_rows]
    actions = found.select(told).to_pylist()
    return [
        DataFile(
            unquote(action["path"]),
            action.get("num_records") or 0,
            action["size_bytes"],
            _under(action, "min."),
            _under(action, "max."),
        )
        for action in actions
    ]


def added(file: DataFile, *, changes: bool = True) -> AddAction:
    """`changes` is not set where the same rows only move to another file."""
    stats = {
        "numRecords": file.rows,
        "minValues": {name: _json(value) for name, value in file.low.items()},
        "maxValues": {name: _json(value) for name, value in file.high.items()},
    }
    now_ms = int(time.time() * 1000)
    said = msgspec.json.encode(stats).decode()
    return AddAction(file.path, file.bytes, {}, now_ms, changes, said)


def removed(file: DataFile, *, changes: bool = True) -> RemoveAction:
    return RemoveAction(file.path, changes, int(time.time() * 1000), file.bytes)


def _under(action: dict[str, Any], prefix: str) -> dict[str, Any]:
    return {
        name.removeprefix(prefix): value
        for name, value in action.items()
        if name.startswith(prefix) and value is not None
    }


class _Edges:
    """The least and the greatest value of a column, as far as they can be told."""

    def __init__(self, kind: pa.DataType) -> None:
        self._can = _has_edges(kind)
        self.low: Any = None
        self.high: Any = None

    @property
    def told(self) -> bool:
        return self._can and self.low is not None

    def take(self, column: Any) -> None:
        if not self._can:
            return
        found = pc.min_max(column)
        try:
            low, high = found["min"].as_py(), found["max"].as_py()
        except OverflowError:  # a date before the year 1, after 9999, or infinity: not written
            self._can = False
            return
        if low is not None:
            self.low = low if self.low is None else min(self.low, low)
            self.high = high if self.high is None else max(self.high, high)


def _has_edges(kind: pa.DataType) -> bool:
    """Types whose order is the same for every reader, and whose values are exact in the log."""
    return bool(pa.types.is_integer(kind) or pa.types.is_date32(kind) or pa.types.is_string(kind))


def _json(value: Any) -> Any:
    return value.isoformat() if isinstance(value, dt.date) else value
