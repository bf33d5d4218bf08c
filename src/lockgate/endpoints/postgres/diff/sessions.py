"""The two sessions of a task, one at each side, each under its snapshot; asking both at once."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any, Final, Self

import psycopg
from psycopg import sql

from lockgate.endpoints.postgres.connect import connect
from lockgate.endpoints.postgres.copy.session import CHANGED
from lockgate.endpoints.postgres.copy.snapshot import SOURCE_OPTIONS, TableRewritten
from lockgate.endpoints.postgres.diff.items import Compared, DiffItem, SideTable
from lockgate.endpoints.postgres.diff.statements import OPTIONS
from lockgate.endpoints.postgres.faults import faults
from lockgate.endpoints.postgres.url import PostgresUrl

__all__ = ["Rows", "Side", "Sides"]

Rows = list[tuple[Any, ...]]
Statement = Callable[[SideTable], sql.Composed]

_STORAGE: Final = """
SELECT count(*) FROM unnest(%s::oid[], %s::oid[]) AS w(oid, node)
WHERE pg_relation_filenode(w.oid) IS DISTINCT FROM w.node
"""


class Side:
    """One session, in a transaction under a snapshot that somebody holds. Opened when needed."""

    def __init__(self, url: PostgresUrl, snapshot: str) -> None:
        self._url = url
        self._snapshot = snapshot
        self._connection: psycopg.Connection | None = None
        self._now: psycopg.Connection | None = None
        """Outside of the snapshot."""

    def ask(self, table: SideTable, statement: Statement) -> Rows:
        """What the statement finds."""
        with faults(object_=f"{table.table}, {self._url.label}", operation="compare"):
            return self._open().execute(statement(table)).fetchall()

    @property
    def session(self) -> psycopg.Connection:
        """In a transaction under the snapshot."""
        return self._open()

    @property
    def url(self) -> PostgresUrl:
        """Where it is."""
        return self._url

    def check(self, table: SideTable) -> None:
        """Raise TableRewritten if what was read may not have been the table's rows.

        Rows of the snapshot are read by the names and from the files of now. Reading has locked
        the table, so if both are still those of before the snapshot, they were so all along.
        """
        about = f"{table.table}, {self._url.label}"
        asked = [oid for oid, _ in table.storage], [node for _, node in table.storage]
        with faults(object_=about, operation="compare"):
            row = self._open().execute(_STORAGE, asked).fetchone()
            if self._now is None:
                self._now = connect(self._url, purpose="diff check", autocommit=True)
            changed = self._now.execute(
                CHANGED,
                {
                    "oid": table.oid,
                    "schema": table.table.schema,
                    "name": table.table.name,
                    "numbers": [number for number, _, _ in table.numbers],
                    "names": [name for _, name, _ in table.numbers],
                    "types": [type_ for _, _, type_ in table.numbers],
                },
            ).fetchone()
        if row is None or row[0] or changed is None or any(changed):
            raise TableRewritten(
                "the table was rewritten, truncated or changed while it was compared",
                object_=about,
                hint="it is compared again, from a new snapshot",
                operation="compare",
            )

    def close(self) -> None:
        for connection in (self._connection, self._now):
            if connection is not None:
                connection.close()
        self._connection = self._now = None

    def _open(self) -> psycopg.Connection:
        if self._connection is None:
            connection = connect(self._url, purpose="diff", options={**SOURCE_OPTIONS, **OPTIONS})
            self._connection = connection
            connection.execute(sql.SQL("SET TRANSACTION SNAPSHOT {}").format(self._snapshot))
        return self._connection


class Sides:
    """Source and target."""

    def __init__(self, item: DiffItem) -> None:
        self.source = Side(PostgresUrl.from_wire(item.source), item.source_snapshot)
        self.target = Side(PostgresUrl.from_wire(item.target), item.target_snapshot)
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="diff")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
        self._pool.shutdown()

    def close(self) -> None:
        """End both sessions; they are opened again when they are needed."""
        self.source.close()
        self.target.close()

    def both(self, table: Compared, statement: Statement) -> tuple[Rows, Rows]:
        """Ask both sides the same, at the same time."""
        there = self._pool.submit(self.target.ask, table.target, statement)
        try:
            here = self.source.ask(table.source, statement)
        except BaseException:
            there.exception()  # both are over before anybody closes a session
            raise
        return here, there.result()

    def check(self, table: Compared) -> None:
        """Both have read the rows of the table that was surveyed."""
        self.source.check(table.source)
        self.target.check(table.target)
