"""The data files of a Delta table: written under names that nobody else gives, described exactly.

A file is written before the commit that names it. One that no commit names in the end is nobody's,
and goes with the next vacuum.
"""

import contextlib
import datetime as dt
import secrets
import time
from typing import Any, Final
from urllib.parse import unquote

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable
from deltalake.transaction import AddAction, RemoveAction

from lockgate.endpoints.delta.faults import faults
from lockgate.endpoints.delta.place import Place
from lockgate.model.value import Value

__all__ = [
    "DataFile",
    "added",
    "delete_file",
    "live_files",
    "read_file",
    "read_part",
    "removed",
    "write_file",
    "write_parts",
]

_DICTIONARY_MAX: Final = 0.1
"""A dictionary pays when so small a part of the values is distinct; elsewhere it costs twice."""
_SAMPLE: Final = 4_096


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
    path = f"{secrets.token_hex(16)}.parquet"
    with faults("write", place):
        files, base = place.filesystem()
        with files.open_output_stream(f"{base}/{path}") as out:
            pq.write_table(
                rows,
                out,
                compression="snappy",
                use_dictionary=_with_dictionary(rows),
                write_statistics=known or False,
            )
        size = files.get_file_info(f"{base}/{path}").size
    edges = {name: pc.min_max(rows[name]).as_py() for name in known if _has_edges(rows[name].type)}
    return DataFile(
        path,
        rows.num_rows,
        size,
        {name: edge["min"] for name, edge in edges.items() if edge["min"] is not None},
        {name: edge["max"] for name, edge in edges.items() if edge["max"] is not None},
    )


def read_file(place: Place, path: str, columns: list[str] | None = None) -> pa.Table:
    with faults("read", place):
        files, base = place.filesystem()
        with files.open_input_file(f"{base}/{path}") as source:
            return pq.read_table(source, columns=columns)


def write_parts(place: Place, parts: list[pa.Table]) -> str:
    """One file for several readers: each of the parts is a group of its own, to be read alone."""
    path = f"{secrets.token_hex(16)}.parquet"
    with faults("write", place):
        files, base = place.filesystem()
        files.create_dir(base, recursive=True)
        with (
            files.open_output_stream(f"{base}/{path}") as out,
            pq.ParquetWriter(out, parts[0].schema, compression="lz4") as writer,
        ):
            for part in parts:
                writer.write_table(part, row_group_size=max(1, part.num_rows))
    return path


def read_part(place: Place, path: str, part: int) -> pa.Table:
    with faults("read", place):
        files, base = place.filesystem()
        with files.open_input_file(f"{base}/{path}") as source:
            return pq.ParquetFile(source).read_row_group(part)


def delete_file(place: Place, path: str) -> None:
    """One that is gone already is no matter."""
    with faults("delete", place), contextlib.suppress(FileNotFoundError):
        files, base = place.filesystem()
        files.delete_file(f"{base}/{path}")


def live_files(handle: DeltaTable) -> list[DataFile]:
    """All files of the table, as the handle sees it."""
    actions = pa.table(handle.get_add_actions(flatten=True)).to_pylist()
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


def added(file: DataFile) -> AddAction:
    stats = {
        "numRecords": file.rows,
        "minValues": {name: _json(value) for name, value in file.low.items()},
        "maxValues": {name: _json(value) for name, value in file.high.items()},
    }
    now_ms = int(time.time() * 1000)
    return AddAction(file.path, file.bytes, {}, now_ms, True, msgspec.json.encode(stats).decode())


def removed(file: DataFile) -> RemoveAction:
    return RemoveAction(file.path, True, int(time.time() * 1000), file.bytes)


def _under(action: dict[str, Any], prefix: str) -> dict[str, Any]:
    return {
        name.removeprefix(prefix): value
        for name, value in action.items()
        if name.startswith(prefix) and value is not None
    }


def _has_edges(kind: pa.DataType) -> bool:
    """Types whose order is the same for every reader, and whose values are exact in the log."""
    return bool(pa.types.is_integer(kind) or pa.types.is_date32(kind) or pa.types.is_string(kind))


def _json(value: Any) -> Any:
    return value.isoformat() if isinstance(value, dt.date) else value


def _with_dictionary(rows: pa.Table) -> list[str]:
    sample = rows.slice(rows.num_rows // 2, _SAMPLE)
    if not sample.num_rows:
        return []
    return [
        name
        for name in rows.column_names
        if not pa.types.is_boolean(rows[name].type)
        and pc.count_distinct(sample[name]).as_py() <= _DICTIONARY_MAX * sample.num_rows
    ]
