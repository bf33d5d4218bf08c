"""Change logs to test: segments without files, told apart by their numbers."""

from collections.abc import Iterator
from contextlib import contextmanager

from lockgate.model.ids import Token
from lockgate.store.changelog.log import Changelog
from lockgate.store.changelog.rows import SchemaChange, Segment
from lockgate.store.metastore import SqlMetastore
from tests.support.stores import LEASE_MS, StoreClock

FEED = "orders"

OLD, OWN, NEW = Token(1, 5, 2), Token(2, 3, 1), Token(2, 3, 2)
"""Three owners of the log, one after the other."""


def segment(
    id_: int, low: int, high: int | None = None, *, table: str = "public.t", size: int = 100
) -> Segment:
    """A segment of one row, unless it spans positions."""
    high = low if high is None else high
    return Segment(
        id=id_,
        table=table,
        shape="0" * 16,
        path=f"{FEED}/{id_}.parquet",
        low=low,
        high=high,
        rows=high - low + 1,
        bytes=size,
    )


def change(position: int) -> SchemaChange:
    """A schema change, told apart by its position."""
    return SchemaChange(position, f'{{"at": {position}}}')


@contextmanager
def log_at(
    url: str, clock: StoreClock | None = None, timeout_ms: int = 5_000
) -> Iterator[Changelog]:
    """The change log of a metastore that is closed at the end."""
    with SqlMetastore.open(url, lease_ms=LEASE_MS, timeout_ms=timeout_ms) as store:
        yield Changelog(store.transactions, now_ms=clock)


def unstamped(segments: tuple[Segment, ...] | list[Segment]) -> list[Segment]:
    """The segments as they were appended, before the log said when."""
    return [
        Segment(**{name: getattr(one, name) for name in Segment.__struct_fields__[:-1]})
        for one in segments
    ]
