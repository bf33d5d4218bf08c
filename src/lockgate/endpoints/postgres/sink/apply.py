"""One item applied at the target, in one transaction, behind the fence: a task's whole work.

    read segments ─► compact ─► BEGIN, enter ─► truncate, delete, update, insert ─► leave, COMMIT
                                  ▲                   │ a unique value is taken
                                  └── once more, so that no order of rows can collide

`apply` answers with a `Receipt` whatever happens to the data or the connection; it raises for
mistakes of its caller only. Each attempt is a transaction of its own that passes the fence first.

Foreign keys and ordinary triggers do not act on what is applied, as in PostgreSQL's own logical
replication (`session_replication_role = replica`): the source has checked the one and recorded
the effects of the other. Where the role may not set that, they do act; then rows are never
deleted and inserted again, which could cascade, but changed one by one in the order of the log.
"""

import enum
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import chain
from typing import Final

import msgspec
import psycopg
import pyarrow as pa

from lockgate.endpoints.keys import is_whole
from lockgate.endpoints.postgres.faults import fault, faults
from lockgate.endpoints.postgres.pgoutput.segments import segment_schema
from lockgate.endpoints.postgres.sink import few
from lockgate.endpoints.postgres.sink.compact import compact
from lockgate.endpoints.postgres.sink.copybinary import Unfit
from lockgate.endpoints.postgres.sink.gate import Refused, enter, leave, part_landed, part_range
from lockgate.endpoints.postgres.sink.images import compact_images
from lockgate.endpoints.postgres.sink.log import Log, concerned, moves_large_values
from lockgate.endpoints.postgres.sink.merge import Merge, Step
from lockgate.endpoints.postgres.sink.net import NeedsOnePart, Net
from lockgate.endpoints.postgres.sink.ordered import Ordered
from lockgate.endpoints.postgres.sink.refused import about_data, find
from lockgate.endpoints.postgres.sink.reuse import session_for
from lockgate.endpoints.postgres.sink.session import Limits
from lockgate.endpoints.postgres.sink.snapshots import ChunkOf, Snapshot
from lockgate.endpoints.postgres.sink.target import inspect
from lockgate.endpoints.postgres.sink.window import Window
from lockgate.endpoints.postgres.url import PostgresUrl
from lockgate.model.apply import ApplyError, ApplyItem, Receipt
from lockgate.model.errors import DataRefused, LockgateError, Terminal
from lockgate.model.floors import Floors, least
from lockgate.model.positions import Position
from lockgate.model.secret import Secret
from lockgate.model.spans import KeyRange
from lockgate.store.changelog.reading import read_segments

__all__ = ["Read", "Way", "apply", "failure", "land", "log_of", "net_of", "prepare", "quieten"]

_TAKEN = (psycopg.errors.UniqueViolation, psycopg.errors.ExclusionViolation)

_MEMORY: Final = (
    "SELECT set_config('work_mem', '64MB', true) WHERE "
    "pg_size_bytes(current_setting('work_mem')) < pg_size_bytes('64MB')"
)
"""For the joins with staged rows: in less memory they take the rows in no good order."""

Read = Callable[[Sequence[str], Position, Position, Sequence[KeyRange] | None], pa.Table]
"""Where segments of one shape are → their changes past one position, up to another, at least
those of the keys in some ranges."""


class Way(enum.Enum):
    """How the rows are changed."""

    FEW = "few"
    PLAIN = "plain"
    REWRITING = "rewriting"
    ORDERED = "ordered"


def apply(
    item: ApplyItem,
    url: PostgresUrl | str | Secret,
    *,
    read: Read = read_segments,
    chunk_of: ChunkOf | None = None,
    limits: Limits | None = None,
    way: Way | None = None,
) -> Receipt:
    """Apply one item, and say what came of it.

    `chunk_of` is needed when the item has several snapshots. `way` is for tests: the right one is
    chosen by itself.
    """
    began = time.monotonic()
    found = prepare(item, read, chunk_of)
    changes = 0
    if isinstance(found, Net):
        changes = len(found.log)
        found = land(item, found, url, limits, way)
    return msgspec.structs.replace(
        found, changes=changes, seconds=round(time.monotonic() - began, 6)
    )


def prepare(item: ApplyItem, read: Read, chunk_of: ChunkOf | None) -> Net | Receipt:
    """What the item comes to, or why that cannot be said. Nothing happens at the target."""
    try:
        return net_of(item, log_of(item, read), chunk_of)
    except _FAILURES as error:
        return failure(item, error)


def land(
    item: ApplyItem,
    net: Net,
    url: PostgresUrl | str | Secret,
    limits: Limits | None = None,
    way: Way | None = None,
) -> Receipt:
    """Bring a net effect into the target."""
    try:
        return _Landing(item, net, PostgresUrl.parse(url), limits, way).land()
    except _FAILURES as error:
        return failure(item, error)


_FAILURES: Final = (Refused, LockgateError, pa.ArrowException, OverflowError)


def failure(item: ApplyItem, error: Exception) -> Receipt:
    """What went wrong with an item, as its receipt."""
    if isinstance(error, Refused):
        return Receipt(item.span.id, item.part, refusal=error.refusal)
    if not isinstance(error, LockgateError):
        # More in one column than Arrow can hold together, or a file that is not what it says.
        error = Terminal(
            "the changes cannot be brought together",
            object_=str(item.target),
            hint="apply them in more parts or smaller batches",
            operation="compact",
            cause=error,
        )
    return Receipt(item.span.id, item.part, error=ApplyError.of(error))


def log_of(item: ApplyItem, read: Read = read_segments) -> Log:
    """The changes that the item may have to apply."""
    floors = _floors(item)
    if not floors or not item.segments:
        return Log.of(segment_schema(item.shape).empty_table(), item.shape, item.to, item.to)
    after, to = least(floors), item.to
    window = Window(floors, to, item.parts)
    if window.whole or not item.shape.key:
        table = read(item.segments, after, to, None)
    else:
        # File by file, so that no more is ever in memory than one file and what is ours.
        ours = [keys for keys, _ in floors]
        pieces = (read((path,), after, to, ours) for path in item.segments)
        table = pa.concat_tables([concerned(piece, item.shape, window) for piece in pieces])
        if moves_large_values(table, item.shape):
            table = read(item.segments, after, to, None)
    return Log.of(table, item.shape, after, to)


def net_of(item: ApplyItem, log: Log, chunk_of: ChunkOf | None = None) -> Net:
    """What the item comes to."""
    window = Window(
        _floors(item),
        item.to,
        item.parts,
        tuple(Snapshot.parse(text) for text in item.snapshots),
        chunk_of,
    )
    return compact(log, window) if item.shape.key else compact_images(log, window)


def _floors(item: ApplyItem) -> Floors:
    """The item's floors, cut down to its part."""
    if item.parts == 1:
        return item.floors
    mine = part_range(item.span.range, item.part, item.parts)
    return tuple(
        (common, position)
        for keys, position in item.floors
        if (common := keys.intersection(mine)) is not None
    )


class _Landing:
    """The attempts to bring one net effect into the target."""

    def __init__(
        self,
        item: ApplyItem,
        net: Net,
        url: PostgresUrl,
        limits: Limits | None,
        way: Way | None,
    ) -> None:
        self._item = item
        self._net = net
        self._url = url
        self._limits = limits
        self._way = way
        self._about = f"{item.target}, {url.label}"
        self._binary = True
        """COPY in binary form, until that turns out to be wrong for a value."""

    def land(self) -> Receipt:
        """Try, in each way that promises something, until one lands."""
        item = self._item
        with (
            faults(object_=self._about, operation="apply"),
            session_for(self._url, item.feed, item.span.id, self._limits) as connection,
        ):
            return self._attempts(connection)

    def _attempts(self, connection: psycopg.Connection) -> Receipt:
        collided = False
        while True:
            try:
                return self._attempt(connection, collided)
            except Unfit:
                connection.rollback()
                self._binary = False
            except psycopg.Error as error:
                if self._binary and isinstance(error, psycopg.errors.ProtocolViolation):
                    connection.rollback()
                    self._binary = False
                    continue
                if not about_data(error):
                    raise
                connection.rollback()
                if isinstance(error, _TAKEN) and not collided:
                    # Unique values may only have come in an unlucky order; the next way has none.
                    collided = True
                    continue
                if isinstance(error, _TAKEN) and self._item.parts > 1:
                    raise NeedsOnePart(
                        "a unique value may go from one part to another", object_=self._about
                    ) from error
                refused = self._refused(connection, error, collided)
                if refused is not None:
                    return refused
                self._binary = False

    # --- one attempt ------------------------------------------------------------------------------

    def _attempt(self, connection: psycopg.Connection, collided: bool) -> Receipt:
        item = self._item
        with connection.cursor() as cursor:
            if not self._enter(cursor):
                connection.rollback()
                return Receipt(item.span.id, item.part)
            missing = 0
            for step in self._steps(connection, collided):
                done = step.run(0, step.size)
                missing += step.size - done if step.finds else 0
            connection.execute("SET CONSTRAINTS ALL IMMEDIATE")
            if item.parts == 1:
                leave(cursor, item.feed, item.span.id, item.token, item.floors, item.to)
        with faults(object_=self._about, operation="apply", committing=True):
            connection.commit()
        return Receipt(item.span.id, item.part, rows=self._net.rows - missing, missing=missing)

    def _enter(self, cursor: psycopg.Cursor) -> bool:
        """Pass the fence. False: this part has landed already."""
        item = self._item
        share = item.parts > 1
        enter(cursor, item.feed, item.span.id, item.token, item.floors, share)
        return not share or part_landed(
            cursor, item.feed, item.span.id, item.part, item.parts, item.to
        )

    def _steps(
        self,
        connection: psycopg.Connection,
        collided: bool,
        *,
        numbered: bool = False,
    ) -> Iterator[Step]:
        net = self._net
        if not net.rows and net.truncation is None:
            return iter(())
        quiet = quieten(connection)
        connection.execute(_MEMORY)
        target = inspect(connection, self._item.target, self._item.shape)
        way = self._way or self._chosen(quiet, target.rewrites, collided)
        if way is Way.PLAIN and self._way is None and quiet and not numbered:
            way = Way.FEW if few.fits(net) and few.allowed(target) else way
        binary = self._binary and not numbered
        merge = Merge(connection, target, net, numbered=numbered, binary=binary)
        if way is Way.FEW:
            return chain(merge.truncating(), few.steps(connection, target, net))
        if way is Way.PLAIN:
            return merge.plain()
        if way is Way.REWRITING:
            return merge.rewriting()
        return chain(merge.truncating(), [Ordered(connection, target, net).step()])

    def _chosen(self, quiet: bool, no_updates: bool, collided: bool) -> Way:
        net = self._net
        if net.events is None:
            return Way.PLAIN
        if not quiet:
            return Way.ORDERED if collided or net.changes_keys else Way.PLAIN
        rewrite = collided or len(net.moves) or (no_updates and len(net.updates))
        return Way.REWRITING if rewrite else Way.PLAIN

    # --- a row that is refused --------------------------------------------------------------------

    def _refused(
        self, connection: psycopg.Connection, error: psycopg.Error, collided: bool
    ) -> Receipt | None:
        """Go the same way again, in text, to find the row; then leave no trace.

        None: every row is accepted in text form, so it may be tried in that.
        """
        item = self._item
        finding = None
        try:
            with connection.cursor() as cursor:
                if self._enter(cursor):
                    steps = self._steps(connection, collided, numbered=True)
                    finding = find(connection, steps)
        finally:
            with suppress(psycopg.Error):
                connection.rollback()
        if finding is None and self._binary:
            return None
        said = finding.error if finding else error
        found = ApplyError.of(fault(said, object_=self._about, operation="apply"))
        found = msgspec.structs.replace(found, code=DataRefused.code, retryable=False)
        if finding:
            found = msgspec.structs.replace(
                found, object=f"{item.target}, row {finding.row}", operation=finding.step
            )
        if isinstance(said, _TAKEN) and not is_whole(item.span.range):
            found = msgspec.structs.replace(
                found,
                retryable=True,
                hint="a row of another span may hold the value that has not come this far: it is "
                "tried again; if it goes on, merge the table's spans",
            )
        return Receipt(item.span.id, item.part, error=found)


def quieten(connection: psycopg.Connection) -> bool:
    """Keep foreign keys and ordinary triggers out of the open transaction; False if we may not."""
    statement = "SET LOCAL session_replication_role = replica"
    if connection.info.parameter_status("is_superuser") == "on":
        connection.execute(statement)
        return True
    try:
        with connection.transaction():
            connection.execute(statement)
    except psycopg.errors.InsufficientPrivilege:
        return False
    return True
