"""Rows of the log, read: what each says of every table, and what a run of them comes to.

A run is all rows of the log between two row changes of one transaction. Nobody has seen the
states in between, so only the first *before* and the last *after* of each table count.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec

from lockgate.endpoints.postgres.ddl.functions import VERSION
from lockgate.endpoints.postgres.schema.definitions import TableDefinition
from lockgate.model.errors import Terminal
from lockgate.model.value import Value

__all__ = ["LogRow", "SchemaLogUnreadable", "Story", "read_row", "stories"]

FAILED: Final = "failed"


class SchemaLogUnreadable(Terminal):
    """A row of the log is not what this version of Lockgate writes."""

    code = "schema-log-unreadable"


class _Entry(Value, frozen=True):
    """One table, in one row."""

    before: TableDefinition | None
    after: TableDefinition | None
    fills: dict[int, str] = msgspec.field(default_factory=dict)
    filled: tuple[int, ...] = ()
    detached: tuple[int, ...] = ()
    truncated: tuple[int, ...] = ()
    rewritten: int = 0


class _Objects(Value, frozen=True):
    """The column `objects`."""

    version: int
    tables: tuple[_Entry, ...] = ()
    forms: dict[str, str] = msgspec.field(default_factory=dict)
    by: str | None = None
    """The feed that did it, when it was not people."""
    error: str = ""
    feed: str | None = None
    tag: str = ""


class LogRow(Value, frozen=True):
    """One command at the source, or that it could not be logged."""

    id: int
    tag: str
    statement: str
    objects: _Objects

    @property
    def failed(self) -> bool:
        return self.tag == FAILED


class _Version(Value, frozen=True):
    version: int


def read_row(row: Mapping[str, str | None]) -> LogRow:
    """A row of the log as the stream has it, texts by column."""
    objects = row.get("objects") or "{}"
    try:
        version = msgspec.json.decode(objects, type=_Version).version
        if version > VERSION:
            raise SchemaLogUnreadable(
                "a newer Lockgate logs schema changes at this source",
                object_=f"row {row.get('id')} of lockgate.ddl_log, version {version}",
                hint="run this feed with that version of Lockgate, too",
                operation="read schema changes",
            )
        return LogRow(
            int(row["id"] or ""),
            row["tag"] or "",
            row["statement"] or "",
            msgspec.json.decode(objects, type=_Objects),
        )
    except (msgspec.MsgspecError, KeyError, ValueError) as error:
        raise SchemaLogUnreadable(
            "a row of the log of schema changes cannot be read",
            object_=f"row {row.get('id')} of lockgate.ddl_log",
            hint="nobody but Lockgate's triggers may write there; see who did",
            operation="read schema changes",
            cause=error,
        ) from error


@dataclass
class Story:
    """What a run did to one table."""

    before: TableDefinition | None
    after: TableDefinition | None
    statements: list[str] = field(default_factory=list)
    fills: dict[int, str] = field(default_factory=dict)
    filled: set[int] = field(default_factory=set)
    detached: set[int] = field(default_factory=set)
    truncated: set[int] = field(default_factory=set)
    rewritten: int = 0

    @property
    def statement(self) -> str:
        return "; ".join(dict.fromkeys(self.statements))


def stories(rows: Iterable[LogRow]) -> list[Story]:
    """What the run did to each table that it touched, in the order in which they came up."""
    found: dict[int, Story] = {}
    for row in rows:
        for entry in row.objects.tables:
            known = entry.after or entry.before
            if known is None:
                continue
            story = found.get(known.oid)
            if story is None:
                story = found[known.oid] = Story(entry.before, entry.after)
            story.statements.append(row.statement)
            if entry.truncated:
                story.truncated |= set(entry.truncated)
                continue
            story.after = entry.after
            story.fills = {**entry.fills, **story.fills}
            story.filled = set(entry.filled)
            story.detached |= set(entry.detached)
            story.rewritten |= entry.rewritten
    return [story for story in found.values() if story.before or story.after]
