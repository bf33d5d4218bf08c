"""Captures of a real source, and what came into their logs, row by row.

Also a process of its own that captures until it is killed:
`python -m tests.support.captures URL FEED START METASTORE ROOT TOKEN ROWS_MAX UPTO FOLLOWING`.
"""

import contextlib
import resource
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import psycopg

from lockgate.endpoints.postgres.capture import Capture, CaptureOptions, Source
from lockgate.endpoints.postgres.pgoutput.following import Follow, Followed
from lockgate.endpoints.postgres.pgoutput.relations import Relation, TablePlan
from lockgate.endpoints.postgres.source import publication, slot
from lockgate.endpoints.postgres.source.chunks import Chunk
from lockgate.endpoints.postgres.source.fetch import Fetch, FetchOptions
from lockgate.endpoints.postgres.source.names import publication_name, slot_name
from lockgate.endpoints.postgres.source.publication import Published
from lockgate.endpoints.postgres.url import PostgresUrl
from lockgate.model.ids import Token
from lockgate.model.schema_changes import SchemaStep
from lockgate.model.tables import Column, TableName, TableShape
from lockgate.store.changelog import Changelog, SegmentFiles, read_segments
from lockgate.store.changelog.places import file_of
from lockgate.store.metastore import SqlMetastore
from tests.support.stores import LEASE_MS
from tests.support.waiting import until

FEED = "orders"
DDL = TableName("lockgate_test", "ddl")
TABLES = [TableName("public", "a"), TableName("public", "b"), DDL]
TOKEN = Token(1, 1, 1)
SOON = CaptureOptions(flush_ms=10, idle_ms=10)


def plan(relation: Relation) -> TablePlan | None:
    """All columns of all tables; their types are known by number."""
    columns = tuple(Column(column.name, "", column.type_id) for column in relation.columns)
    key = tuple(column.name for column in relation.columns if column.key)
    return TablePlan(TableShape(relation.table, columns, key))


def follower(at_start: Mapping[str, str]) -> Callable[[Mapping[int, TableShape]], Follow]:
    """Follows tables by the names of their columns, given those at the start, by table."""

    def begin(since: Mapping[int, TableShape]) -> Follow:
        known = {**at_start, **{shape.table.name: names(shape) for shape in since.values()}}

        def follow(relation: Relation, plan: TablePlan | None) -> Followed | None:
            assert plan is not None
            was, now = known[relation.table.name], names(plan.shape)
            known[relation.table.name] = now
            step = SchemaStep(f"{relation.table.name}: {was} to {now}", ())
            return None if was == now else Followed(step, plan.shape)

        return follow

    return begin


def names(shape: TableShape) -> str:
    """The columns of a shape, in order."""
    return ",".join(column.name for column in shape.columns)


class Change(NamedTuple):
    """A change as a test looks at it."""

    position: int
    seq: int
    table: str
    op: str
    new: dict[str, Any] | None
    old: dict[str, Any] | None


@dataclass
class Workshop:
    """A source with two tables and a log of DDL, and a change log to capture them into."""

    connection: psycopg.Connection[Any]
    dsn: str
    url: PostgresUrl
    slot: str
    publication: str
    start: int
    root: Path
    metastore: str
    log: Changelog
    files: SegmentFiles

    def execute(self, *statements: str) -> None:
        """Run statements in one transaction."""
        with self.connection.transaction():
            for statement in statements:
                self.connection.execute(statement.encode())

    def fetch(self, resolved: int, backlog_bytes: int = 0) -> Fetch:
        """The source from a position on, by streaming; in bulk where there is so much of it."""
        options = FetchOptions(backlog_bytes=backlog_bytes, grace_s=0.0)
        return Fetch(self.url, self.slot, self.publication, resolved, options=options)

    def capture(self, token: Token = TOKEN, **changed: Any) -> Capture:
        """A capture that is not running yet."""
        given: dict[str, Any] = {
            "changelog": self.log,
            "files": self.files,
            "open_source": self.fetch,
            "ddl_table": DDL,
            "plan": plan,
            "start": self.start - 1,
            "options": SOON,
        }
        return Capture(FEED, token, **given | changed)

    @contextlib.contextmanager
    def running(self, token: Token = TOKEN, **changed: Any) -> Iterator["Run"]:
        """A capture on a thread of its own. It must not fail; it is stopped at the end."""
        with Run(self.capture(token, **changed)) as run:
            yield run

    def end(self) -> int:
        """Where the source's log ends, everything before it being on disk."""
        row = self.connection.execute(
            "SELECT (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::bigint"
        ).fetchone()
        assert row is not None
        return int(row[0])

    def confirmed(self) -> int:
        """Up to where the source has been told that everything is durable."""
        return slot.check(self.connection, self.slot).confirmed

    def changes(self) -> list[Change]:
        """Everything in the log, in its order."""
        return changes_of(self.log, self.files, self.start - 1)

    def there(self) -> set[str]:
        """The files of the log."""
        found = (path for path in self.root.rglob("*") if path.is_file())
        return {str(path.relative_to(self.root)) for path in found}

    def named(self) -> set[str]:
        """The files that the log names."""
        return {file_of(one.path) for one in self.log.read(FEED, self.start - 1).segments}


@dataclass
class Run:
    """A capture on a thread."""

    capture: Capture
    error: BaseException | None = None
    expected: bool = False
    thread: threading.Thread = field(init=False)

    def __enter__(self) -> "Run":
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.capture.stop()
        self.thread.join(60)
        assert not self.thread.is_alive()
        if self.error is not None and not self.expected:
            raise self.error

    def _run(self) -> None:
        try:
            self.capture.run()
        except BaseException as error:
            self.error = error

    def until(self, condition: Callable[[], Any], timeout_s: float = 60.0) -> None:
        """Wait for a condition, or until the capture fails."""
        until(lambda: self.error is not None or condition(), timeout_s)
        if self.error is not None:
            raise self.error

    def until_resolved(self, position: int, timeout_s: float = 60.0) -> None:
        """Wait until everything before a position is in the log."""
        self.until(lambda: (self.capture.resolved or 0) + 1 >= position, timeout_s)

    def failure(self, timeout_s: float = 60.0) -> BaseException:
        """What the capture ends with."""
        self.expected = True
        self.thread.join(timeout_s)
        assert not self.thread.is_alive(), "it goes on"
        assert self.error is not None, "it ended well"
        return self.error


class Gate:
    """A source that hands out chunks until so many messages have passed, then nothing more.

    How a server cuts what it sends into chunks is its own affair, so messages are counted.
    """

    def __init__(self, source: Source, messages: int = 0) -> None:
        self.source = source
        self.messages = messages
        self.passed = 0
        self.open = threading.Event()

    @property
    def shut(self) -> bool:
        return self.passed >= self.messages and not self.open.is_set()

    def read(self, timeout_s: float) -> Chunk | None:
        if self.shut:
            self.open.wait(min(timeout_s, 0.01))
            return None
        chunk = self.source.read(timeout_s)
        if chunk is not None:
            self.passed += len(chunk.starts)
        return chunk

    def acknowledge(self, resolved: int) -> None:
        self.source.acknowledge(resolved)

    def close(self) -> None:
        self.source.close()


def changes_of(log: Changelog, files: SegmentFiles, after: int) -> list[Change]:
    """Everything in the log after a position, in the log's order."""
    found: list[Change] = []
    for segment in log.read(FEED, after).segments:
        table = read_segments([files.uri(segment.path)])
        assert table.num_rows == segment.rows
        found += [
            Change(
                row["position"], row["seq"], segment.table, chr(row["op"]), row["new"], row["old"]
            )
            for row in table.to_pylist()
        ]
    return sorted(found, key=lambda change: change.seq)


@contextlib.contextmanager
def workshop(url: str, root: Path, metastore: str) -> Iterator[Workshop]:
    """A workshop in a database of one's own."""
    with (
        psycopg.connect(url, autocommit=True) as connection,
        SqlMetastore.open(metastore, lease_ms=LEASE_MS, timeout_ms=20_000) as store,
    ):
        home = connection.info.dbname
        connection.execute("CREATE TABLE a (id bigint PRIMARY KEY, note text)")
        connection.execute("CREATE TABLE b (id bigint PRIMARY KEY, n integer)")
        connection.execute("CREATE TABLE unpublished (id bigint)")
        connection.execute("CREATE SCHEMA lockgate_test")
        connection.execute("CREATE TABLE lockgate_test.ddl (id bigserial PRIMARY KEY, said text)")
        own = publication_name(FEED, home)
        publication.create(connection, own, [Published(table) for table in TABLES])
        made = slot.create(connection, slot_name(FEED, home))
        yield Workshop(
            connection,
            url,
            PostgresUrl.parse(url),
            made.name,
            own,
            made.confirmed,
            root,
            metastore,
            Changelog(store.transactions),
            SegmentFiles(str(root)),
        )
        slot.drop(connection, made.name, 0.0)


def _main(
    url: str,
    slot_: str,
    publication_: str,
    start: str,
    metastore: str,
    root: str,
    token: str,
    rows_max: str,
    upto: str,
    following: str,
) -> None:
    """Capture until killed, or until everything before `upto` is in the log; then say how."""
    with SqlMetastore.open(metastore, lease_ms=LEASE_MS, timeout_ms=20_000) as store:
        capture = Capture(
            FEED,
            Token(*map(int, token.split("."))),
            changelog=Changelog(store.transactions),
            files=SegmentFiles(root),
            open_source=lambda resolved: Fetch(
                PostgresUrl.parse(url),
                slot_,
                publication_,
                resolved,
                options=FetchOptions(backlog_bytes=0, grace_s=0.0),
            ),
            ddl_table=DDL,
            plan=plan,
            follower=follower({"a": "id,note", "b": "id,n"}) if int(following) else None,
            start=int(start),
            options=CaptureOptions(flush_ms=5, idle_ms=5, rows_max=int(rows_max)),
            landed=lambda: _say(capture, int(upto)),
        )
        capture.run()
        peak_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        sys.stdout.write(f"peak {peak_kib}\n")


def _say(capture: Capture, upto: int) -> None:
    resolved = capture.resolved or 0
    sys.stdout.write(f"{resolved}\n")
    sys.stdout.flush()
    if upto and resolved + 1 >= upto:
        capture.stop()


if __name__ == "__main__":
    _main(*sys.argv[1:])
