"""How the columns of a data file are written, judged by a few of its rows.

A rewritten file is read, merged and written again for every drain that touches it, so what each
column costs is paid over and over. Two things are judged, column by column:

- *A dictionary* pays where few values are distinct; elsewhere every value is looked up in it for
  nothing, until the writer gives up and writes them all over again.
- *Compression* pays where it saves something. Keys of UUIDs as text save a tenth and take four
  fifths of the time of the whole column, there and back. What is not worth it is left plain.

It is Snappy that compresses, because every reader of Delta knows it.
"""

from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

__all__ = ["options"]

_DICTIONARY_MAX: Final = 0.1
"""A dictionary pays when so small a part of the values is distinct; elsewhere it costs twice."""
_COMPRESSED_MAX: Final = 0.8
"""Compression pays when it leaves no more than this."""
_SAMPLE: Final = 4_096
_ROWS_MIN: Final = 50_000
"""Of fewer rows, trying out what to compress takes longer than it saves."""
_PAGE_ROWS: Final = 1 << 20
"""More than a row group has: pages are cut by their size alone."""
_CODEC: Final = "snappy"


def options(rows: pa.Table, known: list[str]) -> dict[str, Any]:
    """For a Parquet writer of such rows. Statistics are kept of the columns `known`."""
    sample = rows.slice(max(0, (rows.num_rows - _SAMPLE) // 2), _SAMPLE)
    dictionary = _with_dictionary(sample)
    codec: str | dict[str, str] = _CODEC
    if rows.num_rows >= _ROWS_MIN:
        codec = _codecs(sample, dictionary)
    return {
        "compression": codec,
        "use_dictionary": dictionary,
        "write_statistics": known or False,
        "write_page_checksum": True,
        # Of a row group that nobody skips in part, small pages are only headers and checksums.
        "max_rows_per_page": _PAGE_ROWS,
    }


def _with_dictionary(sample: pa.Table) -> list[str]:
    if not sample.num_rows:
        return []
    return [
        name
        for name in sample.column_names
        if not pa.types.is_boolean(sample[name].type)
        and pc.count_distinct(sample[name]).as_py() <= _DICTIONARY_MAX * sample.num_rows
    ]


def _codecs(sample: pa.Table, dictionary: list[str]) -> dict[str, str]:
    """Tried out on the sample, as the file will have it."""
    out = pa.BufferOutputStream()
    pq.write_table(
        sample, out, compression=_CODEC, use_dictionary=dictionary, write_statistics=False
    )
    found = pq.read_metadata(pa.BufferReader(out.getvalue())).row_group(0)
    columns = [found.column(number) for number in range(found.num_columns)]
    return {
        name: _CODEC
        if column.total_compressed_size <= _COMPRESSED_MAX * column.total_uncompressed_size
        else "none"
        for name, column in zip(sample.column_names, columns, strict=True)
    }
