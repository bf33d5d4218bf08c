"""A straightforward decoder of pgoutput: one message, one row, one value at a time.

It is what the vectorised decoder must agree with, and what it is measured against. It is
written to be read, and shares no code with what it checks.
"""

import hashlib
import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import Any

from lockgate.endpoints.postgres.pgoutput.relations import (
    MaskKind,
    Relation,
    RelationColumn,
    TablePlan,
)
from lockgate.model.tables import Identity, TableName

EPOCH = datetime(2000, 1, 1, tzinfo=UTC)
EPOCH_MICROS = 946_684_800_000_000

Row = dict[str, Any]


@dataclass(slots=True)
class Change:
    """One change of one row, or one truncated table."""

    table: TableName
    position: int
    seq: int
    op: str
    xid: int
    time: int
    unchanged: set[str] = field(default_factory=set)
    new: Row | None = None
    old: Row | None = None


def _date(text: str) -> Any:
    try:
        return date.fromisoformat(text)
    except ValueError:
        if text.endswith("infinity"):
            return -(2**31) if text.startswith("-") else 2**31 - 1
        return _far(text + " 00:00:00")[0]


def _time(text: str) -> Any:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        if text.endswith("infinity"):
            return -(2**63) if text.startswith("-") else 2**63 - 1
        days, micros = _far(text)
        return days * 86_400_000_000 + micros


def _far(text: str) -> tuple[int, int]:
    """A time in a year that Python does not have: the same time some 400 years away, and back."""
    before = " BC" in text
    text = text.replace(" BC", "").replace("+00", "")
    year, rest = text.split("-", 1)
    number = 1 - int(year) if before else int(year)
    cycles = (number - 2000) // 400
    near = datetime.fromisoformat(f"{number - cycles * 400:04}-{rest}")
    since = near - datetime(1970, 1, 1)  # noqa: DTZ001
    micros = (since - timedelta(days=since.days)) // timedelta(microseconds=1)
    return since.days + cycles * 146_097, micros


CONVERTERS: dict[int, Callable[[str], Any]] = {
    16: lambda text: text == "t",
    17: lambda text: bytes.fromhex(text[2:]),
    20: int,
    21: int,
    23: int,
    700: lambda text: struct.unpack("f", struct.pack("f", float(text)))[0],
    701: float,
    1082: _date,
    1114: _time,
    1184: _time,
}


@dataclass(slots=True)
class _Known:
    relation: Relation
    plan: TablePlan | None
    fields: list[tuple[str, Callable[[str], Any] | None] | None] = field(default_factory=list)
    """For each column sent: its name and how it is read, or None when it does not travel."""
    old: set[str] = field(default_factory=set)


class ReferenceDecoder:
    """The same decoder as `pgoutput.decoder.Decoder`, row by row."""

    def __init__(
        self,
        ddl_table: TableName,
        plan: Callable[[Relation], TablePlan | None],
        next_seq: int,
    ) -> None:
        self.ddl_table = ddl_table
        self.plan = plan
        self.next_seq = next_seq
        self.known: dict[int, _Known] = {}
        self.begun: tuple[int, int, int] | None = None
        self.runs = 0
        self.in_run = False
        self.changes: list[Change] = []
        self.schema_rows: list[tuple[int, dict[str, str | None]]] = []
        self.commits: list[tuple[int, int, int]] = []

    def decode(self, messages: Iterable[bytes]) -> list[Change]:
        """The changes of these messages."""
        self.changes = []
        for message in messages:
            kind = message[0:1]
            if kind in b"IUD":
                self._row(message, kind.decode())
            elif kind == b"B":
                lsn, time, xid = struct.unpack_from(">qqI", message, 1)
                self.begun = (lsn, time + EPOCH_MICROS, xid)
                self.runs, self.in_run = 0, False
            elif kind == b"C":
                _, lsn, end, time = struct.unpack_from(">bqqq", message, 1)
                assert self.begun is not None
                assert self.begun[0] == lsn
                self.commits.append((lsn, end, time + EPOCH_MICROS))
                self.begun = None
            elif kind == b"R":
                self._relation(message)
            elif kind == b"T":
                (count,) = struct.unpack_from(">I", message, 1)
                for oid in struct.unpack_from(f">{count}I", message, 6):
                    if self.known[oid].plan is not None:
                        self._add(self.known[oid], "T", set(), None, None)
        return self.changes

    def _relation(self, message: bytes) -> None:
        (oid,) = struct.unpack_from(">I", message, 1)
        schema, name, rest = message[5:].split(b"\0", 2)
        identity, count = struct.unpack_from(">cH", rest)
        rest = rest[3:]
        columns = []
        for _ in range(count):
            flags = rest[0]
            column, rest = rest[1:].split(b"\0", 1)
            type_id, modifier = struct.unpack_from(">Ii", rest)
            rest = rest[8:]
            columns.append(RelationColumn(column.decode(), type_id, modifier, flags == 1))
        table = TableName(schema.decode() or "pg_catalog", name.decode())
        relation = Relation(oid, table, identity.decode(), tuple(columns))
        plan = None if table == self.ddl_table else self.plan(relation)
        known = self.known[oid] = _Known(relation, plan)
        if plan is None:
            return
        travelling = {column.name: column for column in plan.shape.columns}
        for column in columns:
            if column.name not in travelling:
                known.fields.append(None)
                continue
            read = CONVERTERS.get(travelling[column.name].type_id)
            if mask := plan.masks.get(column.name):
                read = None
                if mask.kind is MaskKind.HASH:
                    read = _hashed
            known.fields.append((column.name, read))
        by_key = plan.shape.identity is Identity.KEY and plan.shape.key
        known.old = set(plan.shape.key if by_key else travelling)

    def _row(self, message: bytes, op: str) -> None:
        (oid,) = struct.unpack_from(">I", message, 1)
        known = self.known[oid]
        if known.plan is None:
            if known.relation.table == self.ddl_table and op == "I":
                self._schema_row(message, known)
            return
        at = 5
        old = new = None
        unchanged: set[str] = set()
        while at < len(message):
            letter = message[at : at + 1]
            row, absent, at = self._tuple(message, at + 1, known)
            if letter == b"N":
                new, unchanged = row, absent
            else:
                assert not absent
                old = {name: value for name, value in row.items() if name in known.old}
        self._add(known, op, unchanged, new, old)

    def _add(
        self, known: _Known, op: str, unchanged: set[str], new: Row | None, old: Row | None
    ) -> None:
        assert self.begun is not None
        lsn, time, xid = self.begun
        self.in_run = False
        for row in (new, old):
            if row is not None and known.plan is not None and known.plan.masks:
                _mask(row, unchanged, known.plan)
        position = lsn + 2 * self.runs
        table = known.relation.table
        self.changes.append(
            Change(table, position, self.next_seq, op, xid, time, unchanged, new, old)
        )
        self.next_seq += 1

    def _tuple(self, message: bytes, at: int, known: _Known) -> tuple[Row, set[str], int]:
        (count,) = struct.unpack_from(">H", message, at)
        assert count == len(known.fields)
        at += 2
        row: Row = {}
        unchanged: set[str] = set()
        for wanted in known.fields:
            kind = message[at]
            at += 1
            value = None
            if kind == 0x74:  # t
                (length,) = struct.unpack_from(">I", message, at)
                at += 4
                if wanted is not None:
                    value = message[at : at + length].decode()
                    if wanted[1] is not None:
                        value = wanted[1](value)
                at += length
            elif kind == 0x75 and wanted is not None:  # u
                unchanged.add(wanted[0])
            if wanted is not None:
                row[wanted[0]] = value
        return row, unchanged, at

    def _schema_row(self, message: bytes, known: _Known) -> None:
        assert self.begun is not None
        if not self.in_run:
            self.runs += 1
            self.in_run = True
        at = 8
        values: dict[str, str | None] = {}
        for column in known.relation.columns:
            if message[at : at + 1] == b"n":
                values[column.name] = None
                at += 1
                continue
            (length,) = struct.unpack_from(">I", message, at + 1)
            values[column.name] = message[at + 5 : at + 5 + length].decode()
            at += 5 + length
        self.schema_rows.append((self.begun[0] + 2 * self.runs - 1, values))


def _hashed(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _mask(row: Row, unchanged: set[str], plan: TablePlan) -> None:
    for name, mask in plan.masks.items():
        if name in row and mask.kind is not MaskKind.HASH:
            row[name] = mask.text if mask.kind is MaskKind.FIXED else None
            unchanged.discard(name)
