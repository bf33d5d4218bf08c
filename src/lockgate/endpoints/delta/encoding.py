"""How the columns of a data file are written, judged by a few of its rows.

A rewritten file is read, merged and written again for every drain that touches it, so what each
column costs is paid over and over. Three things are judged, column by column:

- *A dictionary* pays where few values are distinct; elsewhere every value is looked up in it for
  nothing, until the writer gives up and writes them all over again.
- *Differences* pay where numbers or times lie close to those before them, as keys and creation
  times do. They are quicker to write and to read than what they replace, compressed or not.
- *Compression* pays where it saves something. Keys of UUIDs as text save a tenth and take four
  fifths of the time of the whole column, there and back. What is not worth it is left plain.

It is Snappy that compresses, because every reader of Delta knows it. Decimals are kept as whole
numbers as far as those reach, as Spark writes them: bytes of any number are read byte by byte.
"""

from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

__all__ = ["options"]

_DICTIONARY_MAX: Final = 0.1
"""A dictionary pays when so small a part of the values is distinct; elsewhere it costs twice."""
_DIFFERENCES_MAX: Final = 0.4
"""Differences pay when they leave no more than this of the numbers."""
_COMPRESSED_MAX: Final = 0.8
"""Compression pays when it leaves no more than this."""
_SAMPLE: Final = 4_096
_ROWS_MIN: Final = 50_000
"""Of fewer rows, trying out what to compress takes longer than it saves."""
_PAGE_ROWS: Final = 1 << 20
"""More than a row group has: pages are cut by their size alone."""
_CODEC: Final = "snappy"
_DIFFERENCES: Final = "DELTA_BINARY_PACKED"
_DIGITS_MAX: Final = 18
"""Of a decimal that Parquet can keep as a whole number."""


def options(rows: pa.Table, known: list[str]) -> dict[str, Any]:
    """For a Parquet writer of such rows. Statistics are kept of the columns `known`."""
    sample = _plain(rows.slice(max(0, (rows.num_rows - _SAMPLE) // 2), _SAMPLE))
    dictionary = _with_dictionary(sample)
    differences: list[str] = []
    codec: str | dict[str, str] = _CODEC
    if rows.num_rows >= _ROWS_MIN:
        differences = _with_differences(sample, dictionary)
        codec = _codecs(sample, dictionary, differences)
    return {
        "compression": codec,
        "use_dictionary": dictionary,
        "column_encoding": dict.fromkeys(differences, _DIFFERENCES),
        "store_decimal_as_integer": True,
        "write_statistics": known or False,
        "write_page_checksum": True,
        # Of a row group that nobody skips in part, small pages are only headers and checksums.
        "max_rows_per_page": _PAGE_ROWS,
        # Every type of a lake is one of Parquet's. Stored, it would say for ever which columns
        # happened to be in memory as a dictionary.
        "store_schema": False,
    }


def _plain(sample: pa.Table) -> pa.Table:
    kinds = [
        field.with_type(field.type.value_type) if pa.types.is_dictionary(field.type) else field
        for field in sample.schema
    ]
    return sample.cast(pa.schema(kinds))


def _with_dictionary(sample: pa.Table) -> list[str]:
    if not sample.num_rows:
        return []
    return [
        name
        for name in sample.column_names
        if not pa.types.is_boolean(sample[name].type)
        and pc.count_distinct(sample[name]).as_py() <= _DICTIONARY_MAX * sample.num_rows
    ]


def _with_differences(sample: pa.Table, dictionary: list[str]) -> list[str]:
    able = [
        field.name
        for field in sample.schema
        if field.name not in dictionary and _is_number(field.type)
    ]
    plain = _columns(sample.select(able))
    small = _columns(sample.select(able), column_encoding=dict.fromkeys(able, _DIFFERENCES))
    return [
        name
        for name in able
        if small[name].total_uncompressed_size
        <= _DIFFERENCES_MAX * plain[name].total_uncompressed_size
    ]


def _is_number(kind: pa.DataType) -> bool:
    """Whether Parquet keeps it as a whole number."""
    if pa.types.is_decimal(kind):
        return bool(kind.precision <= _DIGITS_MAX)
    return bool(pa.types.is_integer(kind) or pa.types.is_temporal(kind))


def _codecs(sample: pa.Table, dictionary: list[str], differences: list[str]) -> dict[str, str]:
    found = _columns(
        sample,
        compression=_CODEC,
        use_dictionary=dictionary,
        column_encoding=dict.fromkeys(differences, _DIFFERENCES),
    )
    return {
        name: _CODEC
        if column.total_compressed_size <= _COMPRESSED_MAX * column.total_uncompressed_size
        else "none"
        for name, column in found.items()
    }


def _columns(sample: pa.Table, **how: Any) -> dict[str, Any]:
    """What becomes of each column of the sample when it is written so: tried out."""
    how = {"compression": "none", "use_dictionary": False, **how}
    out = pa.BufferOutputStream()
    pq.write_table(sample, out, write_statistics=False, store_decimal_as_integer=True, **how)
    found = pq.read_metadata(pa.BufferReader(out.getvalue())).row_group(0)
    columns = [found.column(number) for number in range(found.num_columns)]
    return dict(zip(sample.column_names, columns, strict=True))
