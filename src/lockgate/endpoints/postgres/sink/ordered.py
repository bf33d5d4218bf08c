"""Changes applied one by one, in the order of the log: slow, and never wrong.

For a session whose writes set off foreign keys and triggers. There a row must not be deleted and
inserted again just because it swaps a unique value or changes its key: that could cascade. What
the source did row by row, in the order of its commits, the target can do in the same way.

Statements of one kind that follow each other go out together, without waiting for answers.
"""

from collections.abc import Iterator
from functools import cached_property
from itertools import groupby
from typing import Final

import numpy as np
import psycopg
import pyarrow as pa
from psycopg import sql

from lockgate.endpoints.postgres.sink.copytext import texts
from lockgate.endpoints.postgres.sink.log import DELETE, INSERT
from lockgate.endpoints.postgres.sink.merge import Step
from lockgate.endpoints.postgres.sink.net import Index, Mask, Net, taken
from lockgate.endpoints.postgres.sink.target import Target

__all__ = ["Ordered"]

_BLOCK: Final = 1_000
_COMMA: Final = sql.SQL(", ")

_Call = tuple[str, tuple[int, ...], list[str | None]]
"""What to do, to which columns, with which values."""


class Ordered:
    """The events of a net effect that count, as one step over all of them."""

    def __init__(self, connection: psycopg.Connection, target: Target, net: Net) -> None:
        assert net.events is not None
        self._connection = connection
        self._target = target
        self._net = net
        self._events = net.events
        self._numbers = [i for i, _ in target.fed]
        self._names = dict(target.fed)
        self._key = net.log.key

    def step(self) -> Step:
        """Everything, in order."""
        return Step("change row by row", len(self._picked), self._run, self._row, True)

    @cached_property
    def _picked(self) -> Index:
        """The events to be run. The first half of a key's change is run with its second."""
        events = self._events
        picked: Index = np.flatnonzero(events.counts)
        rest: Index = picked[~self._is_first_half[picked]]
        return rest

    @cached_property
    def _is_first_half(self) -> Mask:
        """Events that take a key, when the next event brings the same row's new one, for us too."""
        events = self._events
        out: Mask = np.zeros(len(events.row), dtype=np.bool_)
        takes = (events.kind == DELETE) & events.moved[events.row]
        at = np.flatnonzero(takes & events.counts)
        out[at] = events.counts[at + 1]
        return out

    def _run(self, start: int, stop: int) -> int:
        found = 0
        with self._connection.cursor() as cursor:
            for low in range(start, stop, _BLOCK):
                picked = self._picked[low : min(stop, low + _BLOCK)]
                calls = list(self._calls(picked))
                found += len(picked) - len(calls)  # nothing to do, so nothing is missing
                for (what, columns), run in groupby(calls, key=lambda call: call[:2]):
                    cursor.executemany(self._statement(what, columns), [call[2] for call in run])
                    found += cursor.rowcount
        return found

    def _row(self, i: int) -> str:
        events = self._events
        at = int(self._picked[i])
        said = texts([column.slice(at, 1) for column in events.keys])
        return ", ".join(
            f"{name}={column[0].as_py()}"
            for name, column in zip(self._net.log.shape.key, said, strict=True)
        )

    # --- events as statements ---------------------------------------------------------------------

    def _calls(self, picked: Index) -> Iterator[_Call]:
        events, net = self._events, self._net
        row = events.row[picked]
        values: dict[int, list[str | None]] = {}
        kept: dict[int, Mask] = {}
        for i in self._numbers:
            stands = net.known[i][row] if i in net.known else row
            values[i] = texts([taken(net.log.new[i], stands)])[0].to_pylist()
            if i in net.known:
                kept[i] = net.log.unknown[i][stands]
        # The key under which the row is found: of the first half, where there is one.
        finds = picked - self._is_first_half[np.maximum(picked - 1, 0)]
        keys = [text.to_pylist() for text in texts([c.take(pa.array(finds)) for c in events.keys])]
        for n, event in enumerate(picked.tolist()):
            key = [column[n] for column in keys]
            kind = int(events.kind[event])
            if kind == DELETE:
                yield "delete", (), key
                continue
            if kind == INSERT and finds[n] == event:
                yield "insert", (), [values[i][n] for i in self._numbers]
                continue
            found = dict(zip(self._key, key, strict=True))
            changed = tuple(
                i
                for i in self._numbers
                # An identity that is GENERATED ALWAYS cannot be set. Another key is set all the
                # same: the server refuses it, and that is seen.
                if not (self._names[i].always_identity and found.get(i) in (None, values[i][n]))
                and not (i in self._key and finds[n] == event)
                and not (i in kept and kept[i][n])
            )
            if changed:
                yield "update", changed, [*(values[i][n] for i in changed), *key]

    def _statement(self, what: str, columns: tuple[int, ...]) -> sql.Composed:
        table = self._target.name_sql
        where = sql.SQL(" AND ").join(
            sql.SQL("{} = %s").format(column.name_sql) for column in self._target.key
        )
        if what == "delete":
            return sql.SQL("DELETE FROM {} WHERE {}").format(table, where)
        if what == "insert":
            return sql.SQL("INSERT INTO {} ({}) OVERRIDING SYSTEM VALUE VALUES ({})").format(
                table,
                _COMMA.join(self._names[i].name_sql for i in self._numbers),
                _COMMA.join([sql.Placeholder()] * len(self._numbers)),
            )
        return sql.SQL("UPDATE {} SET {} WHERE {}").format(
            table,
            _COMMA.join(sql.SQL("{} = %s").format(self._names[i].name_sql) for i in columns),
            where,
        )
