"""What a feed needs at its endpoints, made in an order that leaves nothing nameless behind.

    book ──► target: fence, tables ──► source: DDL log, publication, slot ──► book: start

Every step finds what an earlier attempt has made, so a set-up that was broken off is simply done
again. The slot is made before anything is copied: from its position on no change is missed. Each
attempt has a slot of its own: what came into the log before it, schema changes too, is in the
tables that are made now. Attempts are numbered in the book: whoever comes later is the one that
sets the feed up, and an earlier one, however long it was paused, has no say in the end.

Those who make something at an endpoint, or clear it away, take turns there, and ask the book once
they have the turn: a set-up or a removal that was paused finds its connection ended, or is told by
the book that its time is over. And it knows the names of its own entry only, in which no feed that
is created later has a part: whatever it still did, it did to its own.
"""

import contextlib
from collections.abc import Callable, Collection, Iterable
from functools import partial

import msgspec
import psycopg

from lockgate.endpoints.postgres import turn
from lockgate.endpoints.postgres.connect import connect
from lockgate.endpoints.postgres.ddl import log as ddl_log
from lockgate.endpoints.postgres.running import Running, held_up
from lockgate.endpoints.postgres.schema import discover
from lockgate.endpoints.postgres.source import publication, slot
from lockgate.endpoints.postgres.source.errors import NotOurs
from lockgate.endpoints.postgres.source.identity import identity
from lockgate.endpoints.postgres.source.names import publication_name, slot_name
from lockgate.endpoints.postgres.url import PostgresUrl
from lockgate.model.errors import (
    Conflict,
    EndpointBusy,
    MissingPrivilege,
    StaleOwner,
    Transient,
    UsageError,
)
from lockgate.model.feed_config import FeedConfig, config_from_json
from lockgate.model.ids import TableId
from lockgate.model.selection import check_selection, selections
from lockgate.model.tables import TableName, TableShape
from lockgate.node.feed.chosen import Chosen
from lockgate.node.feed.ends import Ends, Url
from lockgate.node.feed.preparing import TURN_GRACE_S, prepare, turn_at
from lockgate.store.feeds import FeedBook, FeedEntry

ATTEMPTS = 5
DDL_TABLE = TableName("lockgate", "ddl_log")
SLOT_GRACE_S = 5.0

Waits = Callable[[Running | None], None]
"""Is told of the oldest transaction that holds a slot up, where that can be known."""
Check = Callable[[list[Chosen]], None]
"""Raises what is to be said against the tables that are chosen."""


def entry_of(config: FeedConfig, home: str, birth: int) -> FeedEntry:
    """A feed of which nothing is made yet. `home` tells installations of Lockgate apart, `birth`
    feeds that have one name one after the other."""
    return FeedEntry(
        config.name,
        msgspec.Raw(config.to_json()),
        slot_name(config.name, home, birth),
        publication_name(config.name, home, birth),
        birth=birth,
    )


def set_up(book: FeedBook, config: FeedConfig, home: str) -> FeedEntry:
    """Have everything that the feed needs, and its entry in the book."""
    entered = book.enter(config.name, lambda birth: entry_of(config, home, birth))
    entry = _reconfigured(book, entered, config)
    if entry.removing:
        return entry
    return make(book, entry, config, Ends.of(config), home)


def make(
    book: FeedBook,
    entry: FeedEntry,
    config: FeedConfig,
    ends: Ends,
    home: str,
    began: Callable[[FeedEntry], None] = lambda _: None,
    waits: Waits = lambda _: None,
    check: Check = lambda _: None,
) -> FeedEntry:
    """Have everything at the endpoints that the feed of this entry needs.

    Raises StaleOwner when somebody else began to do the same after us, or the feed is removed. As
    long as the slot waits for transactions to end, this is looked for each second, and `waits` is
    told; what that one raises ends the attempt, and so does what `check` has to say against the
    tables, before the first is made, and before the start is recorded. `began` is told of every
    attempt: who has something to say of one has to know which it was.
    """
    for _ in range(ATTEMPTS):
        if entry.start is not None:
            return entry
        entry = book.begin_attempt(entry)
        began(entry)
        entry = _made(book, config, entry, ends, home, waits, check)
    raise Transient(
        "the source's tables keep changing",
        object_=config.name,
        hint="start the feed when no schema change is under way",
        operation="set up a feed",
    )


def _reconfigured(book: FeedBook, entry: FeedEntry, config: FeedConfig) -> FeedEntry:
    """A password or a limit may change; what is taken, and from where to where, may not."""
    before = config_from_json(bytes(entry.config))
    if before == config:
        return entry
    if _essence(before) != _essence(config):
        raise UsageError(
            "the feed exists with another configuration",
            object_=config.name,
            hint="give it the same endpoints, tables, columns and rows, or remove the feed first",
            operation="set up a feed",
        )
    new = msgspec.Raw(config.to_json())
    return book.change(entry.feed, lambda found: msgspec.structs.replace(found, config=new))


def _essence(config: FeedConfig) -> tuple[object, ...]:
    """What the rows at the target depend on."""
    ends = Ends.of(config)
    return (
        ends.source.label,
        ends.target.label,
        sorted(config.tables),
        sorted(config.leave_out),
        config.masks,
        config.rows,
        config.rename,
        config.copy,
    )


def _made(
    book: FeedBook,
    config: FeedConfig,
    entry: FeedEntry,
    ends: Ends,
    home: str,
    waits: Waits,
    check: Check,
) -> FeedEntry:
    """One attempt. Without a start, somebody changed a table while it was described."""
    with connect(ends.source, purpose=f"setup {config.name}", autocommit=True) as connection:
        chosen = choose(connection, config)
        check(chosen)
        entry = prepare(book, ends.target, config, entry, chosen, home, connection)
        with turn.taken(connection, entry.publication, TURN_GRACE_S):
            book.check_attempt(entry)
            logged = _install_log(connection)
        still_wanted = partial(
            _check_waiting, book, entry, ends.source, connection.info.backend_pid, waits
        )
        with discover.hold_still(connection, [each.definition.table for each in chosen]):
            entry = _prepare_source(book, ends.source, config, entry, chosen, logged, still_wanted)
        if entry.start is not None and logged and _missed(connection, entry, chosen):
            entry = msgspec.structs.replace(entry, start=None)
        try:
            if entry.start is not None:
                check(chosen)
                book.write(entry)
        except (StaleOwner, Conflict):
            slot.drop(connection, entry.slot, SLOT_GRACE_S)
            raise
    return entry


def _check_waiting(
    book: FeedBook, entry: FeedEntry, source: PostgresUrl, holder: int, waits: Waits
) -> None:
    """Raise when the slot is not to be waited for any longer.

    Whoever removes the feed waits for this attempt. And whoever waits for a table that `holder`
    holds still may be the very one that the slot waits for: the server sees no deadlock in that,
    and everybody else waits behind him.
    """
    with contextlib.suppress(Transient):  # a book that cannot be asked has not said no
        book.check_attempt(entry)
    oldest, in_the_way = held_up(source, holder)
    if in_the_way:
        raise EndpointBusy(
            "somebody waits for a table that is held still for the feed's slot",
            object_=entry.feed,
            hint="it is tried again when the change of the table is over"
            + (f"; the slot waits for {oldest}" if oldest is not None else ""),
            operation="set up a feed",
        )
    waits(oldest)


def _missed(connection: psycopg.Connection, entry: FeedEntry, chosen: list[Chosen]) -> bool:
    """True when a table came that was not looked at: published already, or not even that."""
    known = {each.definition.table for each in chosen} | {DDL_TABLE}
    published = set(publication.check(connection, entry.publication))
    return published != known or bool(ddl_log.stragglers(connection, entry.publication))


def _install_log(connection: psycopg.Connection) -> bool:
    """Have schema changes logged, where the role may."""
    try:
        ddl_log.install(connection)
    except MissingPrivilege:
        return False
    return True


def choose(connection: psycopg.Connection, config: FeedConfig) -> list[Chosen]:
    """What the configuration takes; UsageError when some of it fits nothing that there is."""
    # One of them may be dropped, or become a partition, while it is looked at: it is none then.
    definitions = {
        name: definition
        for name, definition in discover.describe(connection, discover.tables(connection)).items()
        if definition.partition_of is None
    }
    major = connection.info.server_version // 10_000
    shapes = [definition.shape() for definition in definitions.values()]
    found = check_selection(config, shapes, server_major=major)
    return [Chosen(definitions[each.table], each) for each in found]


def still_chosen(
    connection: psycopg.Connection, config: FeedConfig, tables: Collection[TableId]
) -> list[Chosen]:
    """What the configuration takes of these tables, as far as they are there.

    What it names and does not find was there when the feed was made, and was dropped since.
    """
    names = [name for name in discover.tables(connection) if name.id in tables]
    definitions = discover.describe(connection, names)
    found = selections(config, [definition.shape() for definition in definitions.values()])
    return [Chosen(definitions[each.table], each) for each in found]


def _prepare_source(
    book: FeedBook,
    source: PostgresUrl,
    config: FeedConfig,
    entry: FeedEntry,
    chosen: list[Chosen],
    logged: bool,
    still_wanted: Callable[[], None],
) -> FeedEntry:
    """Publication and slot, while the tables are held still."""
    with (
        connect(source, purpose=f"setup {config.name}", autocommit=True) as connection,
        turn.taken(connection, entry.publication, TURN_GRACE_S),
    ):
        book.check_attempt(entry)
        if choose(connection, config) != chosen:
            return entry
        tables = [
            publication.Published(each.definition.table, each.selection.row_filter)
            for each in chosen
        ]
        with connection.transaction():
            publication.create(connection, entry.publication, tables)
            if logged:
                ddl_log.add_capture(
                    connection, config.name, entry.publication, config.tables, config.rows
                )
        _drop_slots(connection, entry.former_slots)
        made = slot.create(connection, entry.slot, still_wanted)
        source_id = identity(connection)
    shapes: dict[TableId, TableShape] = {each.definition.table.id: each.shape for each in chosen}
    return msgspec.structs.replace(
        entry,
        start=made.confirmed - 1,
        making=(),
        tables=tuple(shapes),
        shapes=msgspec.Raw(msgspec.json.encode(shapes)),
        numbers={each.definition.table.id: each.definition.oid for each in chosen},
        logged=logged,
        source=source_id,
    )


def end_attempts(entry: FeedEntry, target: Url) -> None:
    """Have nobody make anything at the target who began the set-up before the book said that it
    comes no further. Who is at it, paused maybe, is ended; who comes later is told by the book."""
    if isinstance(target, PostgresUrl):
        with turn_at(target, entry):
            pass


def clear(book: FeedBook, entry: FeedEntry, source: PostgresUrl) -> None:
    """Remove what was made for the feed at its source, and its entry; the target's tables stay.

    Raises StaleOwner as soon as the book does not say any more that this feed is to be removed.
    """
    clear_source(book, entry, source)
    book.remove(entry)


def clear_source(book: FeedBook, entry: FeedEntry, source: PostgresUrl) -> None:
    """As `clear`, and the entry stays."""
    book.check_removing(entry)
    with (
        connect(source, purpose=f"clear {entry.feed}", autocommit=True) as connection,
        turn.taken(connection, entry.publication, TURN_GRACE_S),
    ):
        for name in (*entry.former_slots, entry.slot):
            book.check_removing(entry)
            _drop_slots(connection, [name])
        book.check_removing(entry)
        publication.drop(connection, entry.publication)
        if entry.logged:
            book.check_removing(entry)
            ddl_log.remove_capture(connection, entry.publication)


def _drop_slots(connection: psycopg.Connection, names: Iterable[str]) -> None:
    """Slots of earlier attempts. What bears such a name and is not ours, none of them has made."""
    for name in names:
        with contextlib.suppress(NotOurs):
            slot.drop(connection, name, SLOT_GRACE_S)


def shapes_of(entry: FeedEntry) -> dict[TableId, TableShape]:
    """The shapes of the feed's tables at its start."""
    return msgspec.json.decode(bytes(entry.shapes), type=dict[str, TableShape])


def numbered_shapes(entry: FeedEntry) -> dict[int, TableShape]:
    """The shapes of the feed's tables at its start, by the tables' lasting numbers."""
    return {entry.numbers[table]: shape for table, shape in shapes_of(entry).items()}
