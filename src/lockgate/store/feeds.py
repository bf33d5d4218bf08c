"""The book of feeds: what each was asked to be, and what was made for it at its endpoints.

An entry is written before the first thing is made at an endpoint and removed after the last one
is gone. So whatever of Lockgate's is found at an endpoint is named here, and a set-up that was
broken off is taken up where it stopped, or cleared away.

    enter ──► begin_attempt ──► write … write(start) ──► change(removing) ──► remove
                   └── again, by whoever takes over ──┘

Attempts at a set-up are numbered, and each makes a slot of its own, named here before it is made.
What an earlier attempt still writes is refused: of two that set up the same feed, the later one
does, and neither takes away what the other relies on.

Every entry has a birth, a number that no other entry has or will have, and its names at the source
carry it. Whoever works by an entry hands it in with what he writes: when the feed was removed
meanwhile, and one of the same name was entered, he is refused, and what he has still done at the
source was done to names that the new feed does not use. Entries that were made before there were
births have 0: theirs are the names of that time.
"""

from collections.abc import Callable, Collection, Sequence
from typing import Final, TypeVar

import msgspec
import sqlalchemy as sa

from lockgate.model.errors import Conflict, LockgateError, StaleOwner
from lockgate.model.feed_config import config_from_json
from lockgate.model.ids import FeedId, TableId
from lockgate.model.positions import Position
from lockgate.model.selection import sources_of, target_of
from lockgate.model.tables import parse_table
from lockgate.model.value import Value
from lockgate.store.births import last_birth, take_turn, write_birth
from lockgate.store.faults import as_error
from lockgate.store.tables import feeds, upsert
from lockgate.store.transactions import Alive, Failed, Transactions

__all__ = ["FeedBook", "FeedEntry", "all_feeds", "filled", "unfed"]

T = TypeVar("T")

_SLOT_BYTES_MAX: Final = 63


class FeedEntry(Value, frozen=True):
    """One feed. `config` is the document that people wrote; `slot` and `publication` are names
    at the source. Until `start` is known, the set-up is not finished."""

    feed: FeedId
    config: msgspec.Raw
    slot: str
    publication: str
    start: Position | None = None
    tables: tuple[TableId, ...] = ()
    """The tables that were selected at `start`."""
    making: tuple[TableId, ...] = ()
    """Tables at the target that were not there before the set-up: it may make them again."""
    removing: bool = False
    """The feed is on its way out: nothing of it is to be started or made any more."""
    shapes: msgspec.Raw = msgspec.Raw(b"{}")
    """Their shapes at `start`, by table."""
    numbers: dict[TableId, int] = msgspec.field(default_factory=dict)
    """The source's lasting numbers of them."""
    logged: bool = True
    """The source logs its schema changes; otherwise the stream alone tells."""
    finished: bool = False
    """What the copy left to be built at the target, once the rows are there, is built."""
    attempt: int = 0
    """How often a set-up was begun."""
    former_slots: tuple[str, ...] = ()
    """Slots of earlier attempts, which may be there."""
    error: str = ""
    """Why the set-up cannot succeed until somebody acts; with it, nobody tries again."""
    source: str = ""
    """Which log its positions are of; empty: nobody has looked yet."""
    birth: int = 0
    """Tells it apart from every other feed that had this name, or will have it."""
    forced: bool = False
    """It is removed also from where it cannot be cleared away."""
    keeps_source: bool = False
    """Even so its source is waited for: only its target is given up."""
    left: tuple[str, ...] = ()
    """What such a removal has left behind, for people."""
    move: str = ""
    """The move that it belongs to, whose commands it goes by; empty: it is people's own."""

    def next_attempt(self) -> "FeedEntry":
        """The same feed, to be set up once more, with a slot that nobody else has used."""
        if not self.attempt:
            return msgspec.structs.replace(self, attempt=1, error="")
        first = self.former_slots[0] if self.former_slots else self.slot
        number = self.attempt + 1
        tail = f"_{number}"
        return msgspec.structs.replace(
            self,
            attempt=number,
            error="",
            slot=first[: _SLOT_BYTES_MAX - len(tail)] + tail,
            former_slots=(*self.former_slots, self.slot),
        )


class FeedBook:
    """All entries of one metastore."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    def enter(
        self,
        feed: FeedId,
        make: Callable[[int], FeedEntry],
        check: Callable[[sa.Connection], None] = lambda _: None,
    ) -> FeedEntry:
        """Put a new feed in, as `make` has it for its birth; answers the entry that is there, which
        may be another one's. `check` raises what is to be said against it."""

        def work(connection: sa.Connection, _: Alive) -> tuple[FeedEntry, bool]:
            birth = take_turn(connection) + 1
            found = _found(connection, feed)
            if found is not None:
                return found, False
            check(connection)
            entry = make(birth)
            assert (entry.feed, entry.birth) == (feed, birth)
            write_birth(connection, birth)
            connection.execute(upsert(connection, feeds), _row(entry))
            return entry, True

        return self._write(work)

    def next_birth(self) -> int:
        """What a feed's birth would be that is entered next."""
        try:
            return self._transactions.read(lambda connection, _: last_birth(connection)) + 1
        except Failed as failed:
            raise self._error(failed, "read the book of feeds") from failed

    def begin_attempt(self, entry: FeedEntry) -> FeedEntry:
        """From now on, a set-up of this feed that somebody else has begun comes to nothing.

        Raises StaleOwner when there is nothing to be set up any more: somebody has done it, or
        the feed is being removed.
        """

        def again(found: FeedEntry) -> FeedEntry:
            if found.birth != entry.birth or found.removing or found.start is not None:
                raise _stale(entry.feed)
            return found.next_attempt()

        return self.change(entry.feed, again)

    def write(self, entry: FeedEntry) -> None:
        """What an attempt at a set-up has come to. Raises StaleOwner when there is a later one,
        or when the feed is being removed."""

        def written(found: FeedEntry) -> FeedEntry:
            _check_attempt(found, entry)
            return entry

        self.change(entry.feed, written)

    def fail(self, entry: FeedEntry, why: str) -> None:
        """An attempt at a set-up cannot succeed until somebody acts. Raises StaleOwner when it is
        not the last one any more, or the feed is set up, or is being removed."""

        def failed(found: FeedEntry) -> FeedEntry:
            _check_attempt(found, entry)
            return msgspec.structs.replace(found, error=why)

        self.change(entry.feed, failed)

    def change(
        self,
        feed: FeedId,
        how: Callable[[FeedEntry], FeedEntry],
        check: Callable[[sa.Connection], None] = lambda _: None,
    ) -> FeedEntry:
        """Have `how` change the entry as it is by now. Raises StaleOwner when there is none, and
        what `check` has to say against it."""

        def work(connection: sa.Connection, _: Alive) -> tuple[FeedEntry, bool]:
            check(connection)
            found = _found(connection, feed, update=True)
            if found is None:
                raise _stale(feed)
            changed = how(found)
            if changed != found:
                connection.execute(upsert(connection, feeds), _row(changed))
            return changed, changed != found

        return self._write(work)

    def finish(self, entry: FeedEntry) -> None:
        """Have the feed's entry say that it is finished, and all else as it is by now. Raises
        StaleOwner when that feed is not there any more."""

        def finished(found: FeedEntry) -> FeedEntry:
            if found.birth != entry.birth:
                raise _stale(entry.feed)
            return msgspec.structs.replace(found, finished=True)

        self.change(entry.feed, finished)

    def identify(self, entry: FeedEntry, source: str) -> None:
        """Have the feed's entry say which log its positions are of. Raises StaleOwner when that
        feed is not there any more."""

        def identified(found: FeedEntry) -> FeedEntry:
            if found.birth != entry.birth:
                raise _stale(entry.feed)
            return msgspec.structs.replace(found, source=source)

        self.change(entry.feed, identified)

    def all(self) -> list[FeedEntry]:
        """Every entry, by name."""

        try:
            return self._transactions.read(lambda connection, _: all_feeds(connection))
        except Failed as failed:
            raise self._error(failed, "read the book of feeds") from failed

    def read(self, feed: FeedId) -> FeedEntry | None:
        """The feed's entry, or None."""
        try:
            return self._transactions.read(lambda connection, _: _found(connection, feed))
        except Failed as failed:
            raise self._error(failed, "read the book of feeds") from failed

    def check_attempt(self, entry: FeedEntry) -> None:
        """Raises StaleOwner when the attempt at a set-up has been outrun, as in `write`."""
        found = self.read(entry.feed)
        if found is None:
            raise _stale(entry.feed)
        _check_attempt(found, entry)

    def check_removing(self, entry: FeedEntry) -> None:
        """Raises StaleOwner unless this very feed is there, and is being removed."""
        if not _is_removing(self.read(entry.feed), entry):
            raise _stale(entry.feed)

    def leave(self, entry: FeedEntry, left: Sequence[str]) -> FeedEntry:
        """These stay behind when the feed is removed. Raises StaleOwner unless this very feed is
        there, and is removed by force."""

        def noted(found: FeedEntry) -> FeedEntry:
            if not _is_removing(found, entry) or not found.forced:
                raise _stale(entry.feed)
            return msgspec.structs.replace(found, left=tuple(dict.fromkeys((*found.left, *left))))

        return self.change(entry.feed, noted)

    def remove(self, entry: FeedEntry) -> None:
        """Nothing of the feed is left at its endpoints. Raises StaleOwner, and leaves all as it is,
        unless this very feed is there, and is being removed."""

        def work(connection: sa.Connection, _: Alive) -> tuple[None, bool]:
            if not _is_removing(_found(connection, entry.feed, update=True), entry):
                raise _stale(entry.feed)
            connection.execute(sa.delete(feeds).where(feeds.c.feed == entry.feed))
            return None, True

        self._write(work)

    def _write(self, work: Callable[[sa.Connection, Alive], tuple[T, bool]]) -> T:
        try:
            return self._transactions.write(work)
        except Failed as failed:
            raise self._error(failed, "write the book of feeds") from failed

    def _error(self, failed: Failed, operation: str) -> LockgateError:
        return as_error(failed.fault, self._transactions.label, operation)


def all_feeds(connection: sa.Connection) -> list[FeedEntry]:
    """Every entry, by name, as somebody's transaction sees them."""
    bodies = connection.execute(sa.select(feeds.c.body).order_by(feeds.c.feed)).scalars()
    return [msgspec.json.decode(body, type=FeedEntry) for body in bodies]


def filled(entry: FeedEntry, tables: Collection[TableId]) -> list[TableId]:
    """Which of these tables at its target the feed writes to, or will once it is set up. Until
    then it may be any that its patterns lead to: what is at its source by then decides."""
    config = config_from_json(bytes(entry.config))
    if entry.start is None:
        return [each for each in tables if sources_of(config, parse_table(each))]
    targets = {target_of(config, parse_table(each)).id for each in entry.tables}
    return [each for each in tables if each in targets]


def unfed(
    tables: Collection[TableId], known: Collection[FeedEntry]
) -> Callable[[sa.Connection], None]:
    """For whoever enters a move of these tables and has looked at the feeds `known`: raises
    Conflict when there is another one by now that may lead to them."""
    births = {entry.birth for entry in known}

    def check(connection: sa.Connection) -> None:
        for entry in all_feeds(connection):
            if entry.birth not in births and filled(entry, tables):
                raise Conflict(
                    "a feed into this table was created at this moment",
                    object_=entry.feed,
                    hint="ask again",
                )

    return check


def _row(entry: FeedEntry) -> dict[str, str]:
    return {"feed": entry.feed, "body": msgspec.json.encode(entry).decode()}


def _check_attempt(found: FeedEntry, entry: FeedEntry) -> None:
    """Nobody has come further since than the attempt of `entry`."""
    same = (found.birth, found.attempt) == (entry.birth, entry.attempt)
    if not same or found.removing or found.start is not None:
        raise _stale(entry.feed)


def _is_removing(found: FeedEntry | None, entry: FeedEntry) -> bool:
    return found is not None and found.birth == entry.birth and found.removing


def _stale(feed: FeedId) -> StaleOwner:
    return StaleOwner(
        "somebody else sets the feed up, or removes it",
        object_=feed,
        hint="nothing: it goes on there",
        operation="set up a feed",
    )


def _found(connection: sa.Connection, feed: FeedId, *, update: bool = False) -> FeedEntry | None:
    query = sa.select(feeds.c.body).where(feeds.c.feed == feed)
    if update:
        query = query.with_for_update()
    body: str | None = connection.execute(query).scalar_one_or_none()
    return None if body is None else msgspec.json.decode(body, type=FeedEntry)
