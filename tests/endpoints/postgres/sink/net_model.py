"""What a net effect does to rows, in plain Python: the meaning that the SQL has to have."""

from typing import Any

from lockgate.endpoints.postgres.sink.net import Net, Rows
from tests.support.histories import Key, Row


def landed(net: Net, before: dict[Key, Row]) -> dict[Key, Row]:
    """The rows after the net effect; asserts that it finds what it expects."""
    after = dict(before)
    truncation = net.truncation
    if truncation is not None:
        assert truncation.whole
        after = {}
    kept = dict(after)
    for key in _tuples(net.deletes):
        del after[key]
    for rows in (net.updates, net.moves):
        for key, row, origin in states(net, rows):
            if rows is net.updates:
                assert key in kept
            for name in list(row):
                if row[name] is KEPT:
                    row[name] = kept[origin][name]
            after[key] = row
    for key, row, _ in states(net, net.inserts):
        assert key not in after
        assert KEPT not in row.values()
        after[key] = row
    return after


KEPT = object()


def states(net: Net, rows: Rows) -> list[tuple[Key, Row, Key]]:
    """Final rows: key, values, and the key under which the target has the kept ones."""
    shape = net.log.shape
    columns = [rows.column(i, 0, len(rows)).to_pylist() for i in range(len(shape.columns))]
    names = [column.name for column in shape.columns]
    out = []
    origins = None if rows.origin is None else _tuples(rows.origin)
    for n, values in enumerate(zip(*columns, strict=True)):
        row: Row = dict(zip(names, values, strict=True))
        for i, mask in rows.keeps.items():
            if mask[n]:
                row[names[i]] = KEPT
        key = tuple(row[name] for name in shape.key)
        out.append((key, row, key if origins is None else origins[n]))
    return out


def _tuples(columns: list[Any]) -> list[Key]:
    return list(zip(*(column.to_pylist() for column in columns), strict=True))
