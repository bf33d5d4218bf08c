"""Lakes, as this installation knows them: what it wants to be to each, and the catalog of tables.

The wish is the record that a keeper goes by: written before anything is done about it, and only by
the newest keeper (`model.lake.accepted`). The catalog is what the keeper has seen: every node can
show it, and nothing depends on it.
"""

from typing import Final

import msgspec
import sqlalchemy as sa

from lockgate.model.lake import NOBODY, LakeRole, LakeTrouble, WishRecord, accepted, begun
from lockgate.model.lake_status import LakeStatus, TableStatus
from lockgate.model.value import Value
from lockgate.store.tables import lake_tables, lakes, upsert
from lockgate.store.texts import fits, wanted
from lockgate.store.transactions import Alive, Transactions

__all__ = ["LakeBook", "Shown"]

_UNSEEN: Final = LakeStatus(LakeRole.FOLLOWER, "starting", 0, NOBODY, ())


class Shown(Value, frozen=True):
    """What was last seen of a lake, and when, by the clock of who saw it."""

    status: LakeStatus
    at_ms: int


class LakeBook:
    """All lakes of one metastore."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    def begin(self, lake: str, first: WishRecord) -> WishRecord:
        """The record for a new keeper, made its own before it does anything. `first` is what a
        lake begins with that nobody has kept before."""
        name = wanted(lake, "the lake's name")

        def work(connection: sa.Connection, _: Alive) -> tuple[WishRecord, bool]:
            row = {"lake": name, "wish": _text(first), "status": "", "at": 0}
            connection.execute(upsert(connection, lakes, change=False), row)
            record = begun(_wish(connection, name) or first)
            _put(connection, name, record)
            return record, True

        with self._transactions.told("begin to keep a lake"):
            return self._transactions.write(work)

    def wish(self, lake: str, record: WishRecord) -> bool | None:
        """Have a wish durable. False: a later keeper was there; None: a later wish was."""

        def work(connection: sa.Connection, _: Alive) -> tuple[bool | None, bool]:
            may = accepted(_wish(connection, lake) or WishRecord(), record)
            if may:
                _put(connection, lake, record)
            return may, bool(may)

        with self._transactions.told("record a wish for a lake"):
            return self._transactions.write(work)

    def show(self, lake: str, keeper: int, status: LakeStatus, at_ms: int) -> None:
        """Let people see what the keeper has seen; one that is over has nothing to show."""
        seen = {(each.table, each.incarnation): _text(each) for each in status.tables}
        head = msgspec.structs.replace(status, tables=())

        def work(connection: sa.Connection, _: Alive) -> tuple[None, bool]:
            held = _wish(connection, lake)
            if held is None or held.keeper != keeper:
                return None, False
            values = {"status": _text(head), "at": at_ms}
            connection.execute(sa.update(lakes).where(lakes.c.lake == lake).values(values))
            known = dict(_pairs(connection, lake))
            for table, incarnation in known.keys() - seen.keys():
                connection.execute(
                    sa.delete(lake_tables).where(
                        lake_tables.c.lake == lake,
                        lake_tables.c.table == table,
                        lake_tables.c.incarnation == incarnation,
                    )
                )
            changed = [
                {"lake": lake, "table": table, "incarnation": incarnation, "body": body}
                for (table, incarnation), body in seen.items()
                if known.get((table, incarnation)) != body
            ]
            if changed:
                connection.execute(upsert(connection, lake_tables), changed)
            return None, True

        with self._transactions.told("write the catalog of a lake"):
            self._transactions.write(work)

    def ail(self, lake: str, trouble: LakeTrouble, at_ms: int) -> None:
        """Let people see why nobody can keep the lake; what was seen of its tables stays."""
        name = wanted(lake, "the lake's name")

        def work(connection: sa.Connection, _: Alive) -> tuple[None, bool]:
            row = {"lake": name, "wish": "", "status": "", "at": 0}
            connection.execute(upsert(connection, lakes, change=False), row)
            query = sa.select(lakes.c.status).where(lakes.c.lake == name)
            text: str = connection.execute(query).scalar_one()
            seen = msgspec.json.decode(text, type=LakeStatus) if text else _UNSEEN
            values = {"status": _text(msgspec.structs.replace(seen, trouble=trouble)), "at": at_ms}
            connection.execute(sa.update(lakes).where(lakes.c.lake == name).values(values))
            return None, True

        with self._transactions.told("write the catalog of a lake"):
            self._transactions.write(work)

    def shown(self, lake: str) -> Shown | None:
        """What people may see; None before anybody has looked."""
        if not fits(lake):
            return None

        def work(connection: sa.Connection, _: Alive) -> Shown | None:
            query = sa.select(lakes.c.status, lakes.c.at).where(lakes.c.lake == lake)
            found = connection.execute(query).one_or_none()
            if found is None or not found.status:
                return None
            status = msgspec.json.decode(found.status, type=LakeStatus)
            tables = tuple(
                msgspec.json.decode(body, type=TableStatus) for _, body in _pairs(connection, lake)
            )
            return Shown(msgspec.structs.replace(status, tables=tables), found.at)

        with self._transactions.told("read the catalog of a lake"):
            return self._transactions.read(work)


def _wish(connection: sa.Connection, lake: str) -> WishRecord | None:
    query = sa.select(lakes.c.wish).where(lakes.c.lake == lake).with_for_update()
    body: str | None = connection.execute(query).scalar_one_or_none()
    return msgspec.json.decode(body, type=WishRecord) if body else None


def _put(connection: sa.Connection, lake: str, record: WishRecord) -> None:
    connection.execute(sa.update(lakes).where(lakes.c.lake == lake).values(wish=_text(record)))


def _pairs(connection: sa.Connection, lake: str) -> list[tuple[tuple[str, int], str]]:
    query = (
        sa.select(lake_tables.c.table, lake_tables.c.incarnation, lake_tables.c.body)
        .where(lake_tables.c.lake == lake)
        .order_by(lake_tables.c.table, lake_tables.c.incarnation)
    )
    return [((row.table, row.incarnation), row.body) for row in connection.execute(query)]


def _text(value: Value) -> str:
    return msgspec.json.encode(value).decode()
