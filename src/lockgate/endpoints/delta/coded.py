"""Columns of texts that stay dictionaries on their way from file to file.

To spell values out only to look every one up again costs more than all else that is done to such a
column. But a dictionary knows values that no row has any more: what was deleted would stay in the
files for ever, and they would grow with every drain. So whatever is written is *trimmed* first.
"""

from collections.abc import Collection
from typing import Any

import numpy as np
import pyarrow as pa

__all__ = ["coded_columns", "trimmed", "with_codes"]


def coded_columns(file: Any, among: Collection[str]) -> list[str]:
    """The columns of texts of which every row group of a Parquet file has a dictionary."""
    groups = [file.row_group(no) for no in range(file.num_row_groups)]
    return [
        name
        for number, name in enumerate(file.schema.names)
        if name in among
        and file.schema.column(number).physical_type == "BYTE_ARRAY"
        and all(group.column(number).has_dictionary_page for group in groups)
    ]


def with_codes(schema: pa.Schema, names: list[str]) -> pa.Schema:
    """The schema of the same rows with dictionaries of these columns."""
    for name in names:
        field = schema.field(name)
        coded = field.with_type(pa.dictionary(pa.int32(), field.type))
        schema = schema.set(schema.get_field_index(name), coded)
    return schema


def trimmed(rows: pa.Table) -> pa.Table:
    """The same rows, with dictionaries of the values that they have."""
    for number, kind in enumerate(rows.schema.types):
        if pa.types.is_dictionary(kind):
            chunks = [_used(chunk) for chunk in rows.column(number).chunks]
            column = pa.chunked_array(chunks, kind)
            rows = rows.set_column(number, rows.schema.field(number), column)
    return rows


def _used(coded: Any) -> Any:
    is_used = np.zeros(len(coded.dictionary), dtype=np.bool_)
    is_used[np.asarray(coded.indices.drop_null())] = True
    if is_used.all():
        return coded
    numbers = pa.array(np.cumsum(is_used, dtype=np.int32) - 1, pa.int32())
    values = coded.dictionary.filter(pa.array(is_used))
    return pa.DictionaryArray.from_arrays(numbers.take(coded.indices), values)
