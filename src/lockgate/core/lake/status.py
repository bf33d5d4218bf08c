"""What a keeper tells of itself: for people, and for whoever looks after it from outside."""

from lockgate.core.lake.asks import Ask
from lockgate.core.lake.book import Book
from lockgate.core.lake.entry import Entry
from lockgate.core.lake.works import Works
from lockgate.model.lake import Figures, LakeTrouble, TableKey, WorkKind
from lockgate.model.lake_status import TableState, TableStatus

__all__ = ["progress", "table_statuses"]


def table_statuses(book: Book, works: Works) -> tuple[TableStatus, ...]:
    """All tables that are known of, in the order of their names."""
    queued = _queued_kinds(works)
    told = [
        _table_status(one, queued.get(one.key, ()), meant=book.newest(one.table) is one)
        for one in book
    ]
    told += [_unknown_status(key, why) for key, why in book.unknown().items()]
    return tuple(sorted(told, key=lambda one: (one.table, one.incarnation)))


def _queued_kinds(works: Works) -> dict[TableKey, tuple[WorkKind, ...]]:
    """The work that waits, by table. Work of dead tables waits only to be let go."""
    queued: dict[TableKey, tuple[WorkKind, ...]] = {}
    for job in works.waiting():
        if works.is_wanted(job):
            queued[job.entry.key] = (*queued.get(job.entry.key, ()), job.kind)
    return queued


def _table_status(entry: Entry, queued: tuple[WorkKind, ...], *, meant: bool) -> TableStatus:
    """One incarnation of a table, as people are shown it."""
    active = entry.active.kind if entry.active is not None else None
    state = TableState.DRAINING if active is WorkKind.DRAIN else TableState.LIVE
    return TableStatus(
        entry.table,
        entry.incarnation,
        TableState.DEAD if entry.is_dead else state,
        entry.figures,
        active,
        queued,
        entry.trouble,
        max((failure.attempts for failure in entry.failures.values()), default=0),
        meant,
    )


def _unknown_status(key: TableKey, why: LakeTrouble) -> TableStatus:
    """One that is there, and of which nothing could be found out."""
    return TableStatus(*key, TableState.LIVE, Figures(), trouble=why, meant=True)


def progress(ask: Ask) -> tuple[int, int]:
    """How many tables are through, and of how many."""
    return len(ask.results), len(ask.results) + len(ask.left)
