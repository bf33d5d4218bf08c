"""What a feed needs at its target before it begins, by the kind of target."""

import hashlib
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Final, Self

import msgspec
import psycopg

from lockgate.endpoints.delta.sink import LakeSink
from lockgate.endpoints.delta.url import LakeUrl
from lockgate.endpoints.postgres import turn
from lockgate.endpoints.postgres.connect import connect
from lockgate.endpoints.postgres.faults import faults
from lockgate.endpoints.postgres.schema import create, discover
from lockgate.endpoints.postgres.schema.compose import TablePlan
from lockgate.endpoints.postgres.schema.deferred import deferred, outstanding, run
from lockgate.endpoints.postgres.sink import tables
from lockgate.endpoints.postgres.sink.fence import PostgresSink
from lockgate.endpoints.postgres.source.identity import identity
from lockgate.endpoints.postgres.source.slot import log_end
from lockgate.endpoints.postgres.url import PostgresUrl
from lockgate.model.errors import LockgateError, UsageError
from lockgate.model.feed_config import FeedConfig
from lockgate.model.ids import TableId
from lockgate.model.positions import Position
from lockgate.model.selection import target_of
from lockgate.model.tables import parse_table
from lockgate.model.value import Value
from lockgate.node.feed.chosen import Chosen
from lockgate.node.feed.ends import Url
from lockgate.store.feeds import FeedBook, FeedEntry

__all__ = ["TURN_GRACE_S", "SourceLog", "lake_obstacles", "lake_sink", "prepare", "turn_at"]

TURN_GRACE_S: Final = 5.0
"""How long one who was outrun may take to notice, before his connection is ended."""
_PLAIN: Final = re.compile(r"[a-z0-9]{1,40}")


def prepare(
    book: FeedBook,
    target: Url,
    config: FeedConfig,
    entry: FeedEntry,
    chosen: list[Chosen],
    home: str,
    source: psycopg.Connection,
) -> FeedEntry:
    """Have the fence and the tables."""
    if isinstance(target, LakeUrl):
        _prepare_lake(target, config, chosen, home, SourceLog.of(source))
        return entry
    return _prepare_database(book, target, config, entry, chosen)


def _prepare_database(
    book: FeedBook,
    target: PostgresUrl,
    config: FeedConfig,
    entry: FeedEntry,
    chosen: list[Chosen],
) -> FeedEntry:
    """What an earlier attempt made before somebody changed the source is made again: which tables
    those are is in the book before the first of them is made. All of it is made by turns, and on
    the connection that has the turn: whoever was outrun makes nothing any more."""
    plans = [each.plan for each in chosen]
    with turn_at(target, entry) as connection:
        book.check_attempt(entry)
        _prepare_fence(connection, target)
        with PostgresSink(target) as sink:
            if sink.least_position(config.name) is not None:
                raise _taken(config, target.label)
        create.unmake(connection, plans, [parse_table(name) for name in entry.making])
        there = discover.describe(connection, [plan.target for plan in plans])
        new = {plan.target.id for plan in plans if plan.target not in there}
        if not new <= set(entry.making):
            entry = msgspec.structs.replace(entry, making=tuple(sorted({*entry.making, *new})))
            book.write(entry)
        ours = set(entry.making) if config.copy else set()
        create.create(
            connection,
            [replace(plan, with_key=plan.target.id not in ours) for plan in plans],
            must_be_empty=config.copy,
        )
        if ours and not config.defer_indexes:
            _build(connection, [plan for plan in plans if plan.target.id in ours])
    return entry


@contextmanager
def turn_at(target: PostgresUrl, entry: FeedEntry) -> Iterator[psycopg.Connection]:
    """A connection that has the turn of the feed's set-up at its target. Who had it before is over,
    or ended."""
    with (
        connect(target, purpose=f"setup {entry.feed}", autocommit=True) as connection,
        turn.taken(connection, entry.publication, TURN_GRACE_S),
    ):
        yield connection


def _prepare_fence(connection: psycopg.Connection, target: PostgresUrl) -> None:
    with (
        faults(object_=target.label, operation="prepare the target"),
        connection.transaction(),
        connection.cursor() as cursor,
    ):
        tables.prepare(cursor, target.label)


def _build(connection: psycopg.Connection, plans: list[TablePlan]) -> None:
    """Keys and indexes of empty tables. What goes between tables comes with the rows."""
    todo, _ = deferred(plans, foreign_keys=False)
    for each in outstanding(connection, todo):
        if each.kind.stage == 0:
            run(connection, each)


# --- lakes ---------------------------------------------------------------------------------------


class SourceLog(Value, frozen=True):
    """The log that a feed is to read, when it is set up."""

    id: str
    end: Position
    """It begins there or later."""

    @classmethod
    def of(cls, source: psycopg.Connection) -> Self:
        return cls(identity(source), log_end(source))


def lake_sink(
    target: LakeUrl,
    config: FeedConfig,
    home: str,
    birth: int = 0,
    source: Callable[[], str] = str,
) -> LakeSink:
    """The feed's fence at a lake. Who makes or writes tables there says of which `birth` it is, and
    from which `source`."""

    def name_of(table: TableId) -> TableId:
        return target_of(config, parse_table(table)).id

    return LakeSink(target.place(), config.name, _folder(home), name_of, birth, source)


def _folder(home: str) -> str:
    """The installation's name as a part of names of directories."""
    if _PLAIN.fullmatch(home):
        return home
    return hashlib.blake2b(home.encode(), digest_size=8).hexdigest()


def _prepare_lake(
    target: LakeUrl, config: FeedConfig, chosen: list[Chosen], home: str, log: SourceLog
) -> None:
    """Take part in the lake. Its tables are made when the feed is born: they need its position."""
    sink = lake_sink(target, config, home)
    if sink.least_position() is not None:
        raise _taken(config, target.label)
    for obstacle in lake_obstacles(target, config, chosen, home, log):
        raise obstacle
    sink.head.join()


def lake_obstacles(
    target: LakeUrl, config: FeedConfig, chosen: list[Chosen], home: str, log: SourceLog
) -> list[LockgateError]:
    """Why tables cannot be in the lake, before anything is made. A name is free again as soon as
    its table is dropped."""
    sink = lake_sink(target, config, home, source=lambda: log.id)
    head = sink.head.read()
    follows = bool(head.leader) and head.leader != sink.home
    found: list[LockgateError] = []
    for each in chosen:
        name = each.selection.target.id
        try:
            each.lake_schema()
            living = sink.tables.lake.living(name)
            if living is None:
                sink.tables.check_free(name, log.end, first=True)
            elif follows:
                sink.tables.check_source(name, living)
        except LockgateError as error:
            found.append(error)
            continue
        if living is not None and not follows:
            found.append(
                UsageError(
                    "the lake has such a table already",
                    object_=f"{target.label}: {name}",
                    hint="drop it (`lockgate lake drop`), or have this one under another name",
                    operation="set up a feed",
                )
            )
    return found


def _taken(config: FeedConfig, label: str) -> UsageError:
    return UsageError(
        "the target has a feed of this name already, which another home runs or ran",
        object_=f"{config.name}, {label}",
        hint="give this one another name, or run and remove the other from its own home",
        operation="set up a feed",
    )
