"""Metastores to test: in memory, in a SQLite file, in a database of a real PostgreSQL."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from lockgate.core.ports import Metastore
from lockgate.model.batch import Batch, Landed, Raise
from lockgate.model.ids import NodeRef, Token
from lockgate.model.records import Record, Scope, SpanRecord
from lockgate.model.spans import KeyRange, SpanSpec
from lockgate.store.memory import MemoryMetastore
from lockgate.store.metastore import SqlMetastore

LEASE_MS = 1_000

FEED: Scope = "feed:orders"


@dataclass
class StoreClock:
    """The store's clock, moved by hand."""

    now: int = 1_000_000

    def __call__(self) -> int:
        return self.now

    def advance(self, ms: int) -> None:
        self.now += ms


@dataclass
class Place:
    """Somewhere a metastore lies: handles to it can be opened, one after another or at once."""

    kind: str
    url: str
    clock: StoreClock
    open: Callable[[], Metastore]
    handles: list[SqlMetastore] = field(default_factory=list)


def memory_place() -> Place:
    clock = StoreClock()
    store = MemoryMetastore(clock=clock, lease_ms=LEASE_MS)
    return Place("memory", "", clock, lambda: store)


@contextmanager
def sql_place(kind: str, url: str) -> Iterator[Place]:
    """A place at `url`; every handle opened there is closed at the end."""
    clock = StoreClock()

    def open_one() -> SqlMetastore:
        handle = SqlMetastore.open(url, lease_ms=LEASE_MS, now_ms=clock)
        place.handles.append(handle)
        return handle

    place = Place(kind, url, clock, open_one)
    try:
        yield place
    finally:
        for handle in place.handles:
            handle.close()


def sqlite_url(directory: Path) -> str:
    return f"sqlite:///{directory / 'metastore.db'}"


# --- things to write ----------------------------------------------------------------------------


def span(number: int, *, table: str = "public.orders", node: str = "a") -> SpanRecord:
    """A record, told apart by its number."""
    low = number.to_bytes(4, "big")
    high = (number + 1).to_bytes(4, "big")
    spec = SpanSpec(f"s{number:06d}", table, KeyRange(low, high))
    return SpanRecord(spec, NodeRef(node, 1), Token(1, number, 1))


def own(store: Metastore, scope: Scope = FEED, fence: int = 1) -> None:
    """Make `scope` stand at `fence`, raised from 0 by the scope of some owner of owners."""
    answer = store.commit(Batch(f"owner of {scope}", 0, 1, raises=(Raise(scope, 0, fence),)))
    assert isinstance(answer, Landed)


def put(serial: int, *records: Record, scope: Scope = FEED, fence: int = 1) -> Batch:
    """A batch that puts records."""
    return Batch(scope, fence, serial, puts=records)
