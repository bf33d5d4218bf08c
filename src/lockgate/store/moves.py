"""Moves: what each was asked to be, how far it is, and where its tables' traffic goes.

    moves    one row per move: what people asked for, and the record that its keeper goes by
    routes   one row per table that is being moved, with the version of its last change

A keeper that begins makes the record its own first (`begin`): from then on what the one before it
still has on its way is refused, here and at both sides. Routes follow from the record: whenever it
is written they are made to say what it says, in the same transaction. So nobody reads of traffic
that the record does not know of, and no route is left of a move that is over.

A move has a birth, as a feed has (`births`): one of the same name that is created later is another.
"""

from collections.abc import Callable, Collection
from typing import Final

import msgspec
import sqlalchemy as sa

from lockgate.model.errors import Conflict, NotFound, StaleOwner
from lockgate.model.ids import Millis, TableId
from lockgate.model.move_config import MoveConfig
from lockgate.model.move_status import Route, Routes
from lockgate.model.moves import Command, MoveId, MoveRecord, Side, accepted, begun
from lockgate.model.value import Value
from lockgate.store.births import take_turn, write_birth
from lockgate.store.tables import moves, routes, settings, upsert
from lockgate.store.texts import fits
from lockgate.store.transactions import Alive, Clock, Transactions

__all__ = ["MoveBook", "MoveEntry", "all_moves", "is_over", "kept_by", "taken", "unmoved"]

_VERSION: Final = "routes_version"


class MoveEntry(Value, frozen=True):
    """One move. Which tables it is about was decided when it was created."""

    config: MoveConfig
    birth: int
    tables: tuple[TableId, ...]
    there: tuple[TableId, ...] = ()
    """Those that the target had already: a cancelled move leaves them."""
    record: MoveRecord = MoveRecord("")

    @property
    def move(self) -> MoveId:
        return self.config.name

    @property
    def over(self) -> bool:
        """Nothing of it is left but the memory."""
        return is_over(self.record)

    def endpoint(self, side: Side) -> str:
        return self.config.source if side is Side.SOURCE else self.config.target


def is_over(record: MoveRecord) -> bool:
    """Completed or cancelled; also a move that came to nothing when it was created."""
    if not record.ended:
        return False
    if record.order.command is Command.CREATE:
        return record.undoing
    return record.order.command in (Command.COMPLETE, Command.CANCEL) and not record.undoing


class MoveBook:
    """All moves of one metastore."""

    def __init__(self, transactions: Transactions, clock: Clock) -> None:
        self._transactions = transactions
        self._clock = clock

    # --- what people asked for --------------------------------------------------------------------

    def enter(
        self,
        config: MoveConfig,
        tables: Collection[TableId],
        there: Collection[TableId],
        check: Callable[[sa.Connection], None] = lambda _: None,
    ) -> MoveEntry:
        """Put a new move in; answers the entry that is there, which may be another one's. One that
        is over makes room. `check` raises what is to be said against it; Conflict when another move
        has one of the tables."""

        def work(connection: sa.Connection, _: Alive) -> tuple[MoveEntry, bool]:
            birth = take_turn(connection) + 1
            found = _found(connection, config.name)
            if found is not None and not found.over:
                return found, False
            check(connection)
            record = MoveRecord(config.name)
            entry = MoveEntry(config, birth, tuple(tables), tuple(there), record)
            _refuse_if_taken(entry, all_moves(connection))
            write_birth(connection, birth)
            connection.execute(upsert(connection, moves), _row(entry))
            _route(connection, entry)
            return entry, True

        with self._transactions.told("write the book of moves"):
            return self._transactions.write(work)

    def all(self) -> list[MoveEntry]:
        """Every move, by name."""
        with self._transactions.told("read the book of moves"):
            return self._transactions.read(lambda connection, _: all_moves(connection))

    def read(self, move: MoveId) -> MoveEntry | None:
        """One of them, or None."""
        if not fits(move):
            return None
        with self._transactions.told("read the book of moves"):
            return self._transactions.read(lambda connection, _: _found(connection, move))

    def remove(self, move: MoveId) -> None:
        """Forget a move that is over. Raises NotFound, or Conflict when it is not over."""

        def work(connection: sa.Connection, _: Alive) -> tuple[None, bool]:
            found = _found(connection, move, update=True)
            if found is None:
                raise NotFound(
                    "there is no move of this name",
                    object_=move,
                    hint="`lockgate move list` shows those that are there",
                )
            if not found.over:
                raise Conflict(
                    "the move is not over",
                    object_=move,
                    hint=f"complete or cancel it first: lockgate move status {move}",
                )
            connection.execute(sa.delete(moves).where(moves.c.move == move))
            return None, True

        with self._transactions.told("write the book of moves"):
            self._transactions.write(work)

    # --- the keeper's record ----------------------------------------------------------------------

    def require_newest(self, move: MoveId, birth: int, keeper: int) -> None:
        """Raises StaleOwner unless this keeper is the newest of that very move."""
        entry = self.read(move)
        if entry is None or entry.birth != birth or entry.record.keeper != keeper:
            raise _stale(move)

    def begin(self, move: MoveId, birth: int) -> tuple[MoveRecord, Millis]:
        """The record for a new keeper, made its own before it does anything, and the metastore's
        time. Raises StaleOwner when that move is not there any more."""

        def work(connection: sa.Connection, _: Alive) -> tuple[tuple[MoveRecord, Millis], bool]:
            entry = _held(connection, move, birth)
            record = begun(entry.record)
            _put(connection, entry, record)
            return (record, self._clock(connection)), True

        with self._transactions.told("begin to keep a move"):
            return self._transactions.write(work)

    def write(self, birth: int, record: MoveRecord) -> bool | None:
        """Have a record durable, and the routes that follow from it. False: a later keeper was
        there; None: a later record of the same one was."""

        def work(connection: sa.Connection, _: Alive) -> tuple[bool | None, bool]:
            entry = _found(connection, record.move, update=True)
            if entry is None or entry.birth != birth:
                return False, False
            may = accepted(entry.record, record)
            if may:
                _put(connection, entry, record)
                _route(connection, msgspec.structs.replace(entry, record=record))
            return may, bool(may)

        with self._transactions.told("record a move"):
            return self._transactions.write(work)

    # --- routes -----------------------------------------------------------------------------------

    def routes(self, tables: Collection[str] = ()) -> Routes:
        """Where the traffic of all tables that are moved goes, or of these."""
        query = sa.select(routes).order_by(routes.c.table, routes.c.move)

        def work(connection: sa.Connection, _: Alive) -> Routes:
            found = [
                Route(row.table, row.endpoint, row.move, row.version)
                for row in connection.execute(query)
                if not tables or row.table in tables
            ]
            return Routes(_version(connection), tuple(found))

        with self._transactions.told("read the routes"):
            return self._transactions.read(work)

    def version(self) -> int:
        """Of all routes: rises with every change."""
        with self._transactions.told("read the routes"):
            return self._transactions.read(lambda connection, _: _version(connection))


def all_moves(connection: sa.Connection) -> list[MoveEntry]:
    """Every entry, by name, as somebody's transaction sees them."""
    return [_entry(row) for row in connection.execute(sa.select(moves).order_by(moves.c.move))]


def kept_by(move: MoveId, birth: int, keeper: int) -> Callable[[sa.Connection], None]:
    """For whoever enters something for a move: raises StaleOwner unless this keeper is the newest
    of that very move. No other begins before the entry is there."""

    def check(connection: sa.Connection) -> None:
        if _held(connection, move, birth).record.keeper != keeper:
            raise _stale(move)

    return check


def taken(by: MoveEntry, table: TableId) -> Conflict:
    """Why another move of this table is refused."""
    return Conflict(
        f"the move {by.move} has this table already",
        object_=table,
        hint=f"leave it out, or end that move first: lockgate move status {by.move}",
    )


def unmoved(
    tables: Collection[TableId], known: Collection[MoveEntry]
) -> Callable[[sa.Connection], None]:
    """For whoever enters a feed or a move of these tables and has looked at the moves `known`:
    raises Conflict when there is another one by now."""
    births = {entry.birth for entry in known}

    def check(connection: sa.Connection) -> None:
        for entry in all_moves(connection):
            if entry.birth not in births and not set(tables).isdisjoint(entry.tables):
                raise Conflict(
                    "a move of this table was created at this moment",
                    object_=entry.move,
                    hint="ask again",
                )

    return check


# --- inside ---------------------------------------------------------------------------------------


def _refuse_if_taken(new: MoveEntry, others: list[MoveEntry]) -> None:
    """A table is in one move at a time, on whichever side; by the names of the sides. Whether two
    names lead to one database is not known here, but to who has looked (`MovePlans`)."""
    ends = {new.config.source, new.config.target}
    for other in others:
        if other.over or other.move == new.move:
            continue
        shared = sorted(set(new.tables) & set(other.tables))
        if shared and ends & {other.config.source, other.config.target}:
            raise taken(other, shared[0])


def _route(connection: sa.Connection, entry: MoveEntry) -> None:
    """Have the routes say what the record says."""
    endpoint = "" if entry.over else entry.endpoint(entry.record.traffic)
    mine = routes.c.move == entry.move
    held = {row.table: row.endpoint for row in connection.execute(sa.select(routes).where(mine))}
    wanted = dict.fromkeys(entry.tables if endpoint else (), endpoint)
    if held == wanted:
        return
    version = _raise_version(connection)
    connection.execute(sa.delete(routes).where(mine))
    if wanted:
        rows = [
            {"table": table, "endpoint": endpoint, "move": entry.move, "version": version}
            for table in wanted
        ]
        connection.execute(sa.insert(routes), rows)


def _raise_version(connection: sa.Connection) -> int:
    row = {"key": _VERSION, "body": "0"}
    connection.execute(upsert(connection, settings, change=False), row)
    query = sa.select(settings.c.body).where(settings.c.key == _VERSION).with_for_update()
    version = int(connection.execute(query).scalar_one()) + 1
    connection.execute(upsert(connection, settings), {"key": _VERSION, "body": str(version)})
    return version


def _version(connection: sa.Connection) -> int:
    query = sa.select(settings.c.body).where(settings.c.key == _VERSION)
    return int(connection.execute(query).scalar_one_or_none() or 0)


def _held(connection: sa.Connection, move: MoveId, birth: int) -> MoveEntry:
    entry = _found(connection, move, update=True)
    if entry is None or entry.birth != birth:
        raise _stale(move)
    return entry


def _stale(move: MoveId) -> StaleOwner:
    return StaleOwner(
        "a later keeper works for the move, or it is gone",
        object_=move,
        hint="nothing: it goes on there",
        operation="keep a move",
    )


def _found(connection: sa.Connection, move: MoveId, *, update: bool = False) -> MoveEntry | None:
    query = sa.select(moves).where(moves.c.move == move)
    row = connection.execute(query.with_for_update() if update else query).one_or_none()
    return None if row is None else _entry(row)


def _put(connection: sa.Connection, entry: MoveEntry, record: MoveRecord) -> None:
    connection.execute(
        sa.update(moves).where(moves.c.move == entry.move).values(record=_text(record))
    )


class _Body(Value, frozen=True):
    """What does not change about a move."""

    config: MoveConfig
    tables: tuple[TableId, ...]
    there: tuple[TableId, ...]


def _row(entry: MoveEntry) -> dict[str, object]:
    body = _Body(entry.config, entry.tables, entry.there)
    return {
        "move": entry.move,
        "birth": entry.birth,
        "body": _text(body),
        "record": _text(entry.record),
    }


def _entry(row: sa.Row[tuple[object, ...]]) -> MoveEntry:
    body = msgspec.json.decode(row.body, type=_Body)
    record = msgspec.json.decode(row.record, type=MoveRecord)
    return MoveEntry(body.config, row.birth, body.tables, body.there, record)


def _text(value: Value) -> str:
    return msgspec.json.encode(value).decode()
