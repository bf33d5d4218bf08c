"""What a driver hands to its tasks: one file, of which each reads a part.

Read once and deleted, so rows lie in it as they lie in memory: nothing is encoded for nobody. Each
part comes with its sum, for what a task gets wrong here would be a wrong row for ever.
"""

import secrets
import zlib

import pyarrow as pa

from lockgate.endpoints.delta.death import layer_faults
from lockgate.endpoints.delta.files import DataFile, delete_files
from lockgate.endpoints.delta.place import Place
from lockgate.model.errors import Transient
from lockgate.model.value import Value

__all__ = ["Part", "PartDamaged", "read_part", "write_parts"]


class PartDamaged(Transient):
    """A part is not what was written. Written anew, it will be."""

    code = "part-damaged"


class Part(Value, frozen=True):
    """Where some rows are, and their sum."""

    path: str
    start: int
    size: int
    sum: int


def write_parts(place: Place, tables: list[pa.Table]) -> list[Part]:
    """One file for several readers. There is at least one table."""
    path = f"{secrets.token_hex(16)}.arrow"
    parts: list[Part] = []
    try:
        with layer_faults("write", place):
            files, base = place.filesystem()
            files.create_dir(base, recursive=True)
            with files.open_output_stream(f"{base}/{path}") as out:
                for table in tables:
                    rows = _packed(table)
                    parts.append(Part(path, out.tell(), rows.size, zlib.crc32(rows)))
                    out.write(rows)
    except BaseException:
        delete_files(place, [DataFile(path, 0, 0)])
        raise
    return parts


def read_part(place: Place, part: Part) -> pa.Table:
    """Its rows. PartDamaged if they are not the ones that were written."""
    with layer_faults("read", place, part.path):
        files, base = place.filesystem()
        with files.open_input_file(f"{base}/{part.path}") as source:
            rows = source.read_at(part.size, part.start)
    if len(rows) != part.size or zlib.crc32(rows) != part.sum:
        raise PartDamaged(
            "what was written for the tasks of a drain is not what they read",
            object_=f"{place.label}/{part.path}",
            hint="nothing: it is written anew. If it happens again, look at the storage",
            operation="read",
        )
    return pa.ipc.open_stream(rows).read_all()


def _packed(table: pa.Table) -> pa.Buffer:
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, table.schema) as stream:
        stream.write_table(table)
    return out.getvalue()
