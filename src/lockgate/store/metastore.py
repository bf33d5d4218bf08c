"""The metastore on SQL: `core.ports.Metastore` over SQLite or PostgreSQL.

Every verb is one transaction; `store.transactions` tells what is known when one fails. A batch
that certainly is not there is `NotLanded`; anything else that went wrong is `Unknown`.

Once a batch is `Unknown` it stays in doubt until it is settled, that is landed or refused:
when its repetition fails before COMMIT, that says nothing about the first attempt, so the
answer is `Unknown` again and not `NotLanded`.
"""

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self

import msgspec
import sqlalchemy as sa

from lockgate.model.batch import (
    Batch,
    Joined,
    JoinFailed,
    Landed,
    LeaseLost,
    Loaded,
    LoadFailed,
    NotLanded,
    Refused,
    Renewed,
    RenewFailed,
    Unknown,
)
from lockgate.model.errors import MetastoreTooNew
from lockgate.model.ids import Millis, NodeId, NodeRef
from lockgate.model.records import Scope
from lockgate.model.secret import Secret
from lockgate.store import batches, leases, pools
from lockgate.store.faults import Fault, Kind, Unfit, as_error
from lockgate.store.location import SqliteLocation, locate
from lockgate.store.migrations import NEWEST, migrate, version_of
from lockgate.store.postgres import PostgresBackend
from lockgate.store.sqlite import SqliteBackend
from lockgate.store.survey import Survey, survey
from lockgate.store.transactions import DRIVER_ERRORS, Alive, Backend, Failed, Transactions

__all__ = ["SqlMetastore"]

TIMEOUT_MS: Final = 5_000
"""Longest wait for a lock, or for a server that is to carry a transaction out."""


class SqlMetastore:
    """A metastore in a SQL database. Safe to use from many threads; close it at the end."""

    def __init__(
        self,
        backend: Backend,
        lease_ms: int,
        now_ms: Callable[[], Millis] | None,
        address: str = "",
        home: str = "",
    ) -> None:
        self._backend = backend
        self.transactions = Transactions(backend)
        """For what else is kept in the same database: the service's books."""
        self.data = Transactions(backend, backend.make_engine(*pools.DATA))
        """For the change log."""
        self._core = Transactions(backend, backend.make_engine(*pools.CORE))
        self._lease_ms = lease_ms
        self._now_ms = now_ms
        self._address = address
        self._home = home
        self._doubts: dict[Scope, tuple[int, int]] = {}
        """Per scope, fence and serial of the batch that may have landed."""
        self._doubts_lock = threading.Lock()

    @classmethod
    def open(
        cls,
        url: str | Secret,
        *,
        lease_ms: int,
        now_ms: Callable[[], Millis] | None = None,
        timeout_ms: int = TIMEOUT_MS,
        address: str = "",
        home: str = "",
    ) -> Self:
        """The metastore at `url`, made if nothing is there, migrated if it is an older one.

        `address` and `home` are those of the node that will join through it: where the others
        reach it, and which directory is its own. `now_ms` takes the place of the store's clock,
        for tests. Raises MetastoreTooNew, MetastoreUnreadable, MetastoreUnavailable, StorageFull
        or UsageError; an old metastore is then as it was.
        """
        location = locate(url)
        backend: Backend = (
            SqliteBackend(location, timeout_ms)
            if isinstance(location, SqliteLocation)
            else PostgresBackend(location, timeout_ms)
        )
        store = cls(backend, lease_ms, now_ms, address, home)
        try:
            store._prepare()
        except BaseException:
            store.close()
            raise
        return store

    @property
    def label(self) -> str:
        """The place of the metastore, for people: no credentials."""
        return self._backend.label

    def close(self) -> None:
        """Give all connections back. What landed has landed."""
        for transactions in (self._core, self.data, self.transactions):
            transactions.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # --- leases ---------------------------------------------------------------------------------

    def join(self, node: NodeId, asked_at: Millis) -> Joined | JoinFailed:
        """Raise the incarnation of `node` and give it a lease.

        Raises StaleOwner while a process of another home holds the lease of that name.
        """

        def work(connection: sa.Connection, _: Alive) -> tuple[NodeRef, bool]:
            joined = leases.join(
                connection, node, self.clock, self._lease_ms, self._address, self._home
            )
            return joined, True

        try:
            ref = self._core.write(work)
        except Failed as failed:
            return JoinFailed(failed.fault.why)
        return Joined(ref, asked_at)

    def renew(self, ref: NodeRef, asked_at: Millis) -> Renewed | RenewFailed | LeaseLost:
        """Prolong a running lease, elect `ref` if the coordinator's lease has run out."""

        def work(connection: sa.Connection, _: Alive) -> tuple[Renewed | LeaseLost, bool]:
            seen = leases.renew(connection, ref, self.clock, self._lease_ms)
            if seen is None:
                return LeaseLost(ref), False
            return Renewed(ref, asked_at, members=seen[0], leader=seen[1]), True

        try:
            return self._core.write(work)
        except Failed as failed:
            return RenewFailed(ref, failed.fault.why)
        except msgspec.MsgspecError as error:
            return RenewFailed(ref, f"a drain record cannot be read: {error}")

    def leave(self, ref: NodeRef) -> bool:
        """End the lease of exactly this life now, the coordinator's with it if it holds that.

        True if there was one to end: asked again, or by a former life, it changes nothing.
        Raises what `open` raises.
        """

        def work(connection: sa.Connection, _: Alive) -> tuple[bool, bool]:
            ended = leases.leave(connection, ref, self.clock)
            return ended, ended

        with self._core.told("leave the cluster"):
            return self._core.write(work)

    def clock(self, connection: sa.Connection) -> Millis:
        """The store's clock, for all who write a time within a transaction of theirs."""
        return self._now_ms() if self._now_ms else self._backend.now_ms(connection)

    # --- records --------------------------------------------------------------------------------

    def commit(self, batch: Batch) -> Landed | Refused | NotLanded | Unknown:
        """Make a batch durable under its fence and serial.

        Raises for what only a bug can ask: a serial that skips ahead, a fence that would sink.
        """
        mark = (batch.fence, batch.serial)
        try:
            answer = self._core.write(lambda connection, _: batches.write(connection, batch))
        except Failed as failed:
            with self._doubts_lock:
                if failed.fault.certain and self._doubts.get(batch.scope) != mark:
                    return NotLanded(batch.scope, batch.serial, failed.fault.why)
                self._doubts[batch.scope] = mark
            return Unknown(batch.scope, batch.serial, failed.fault.why)
        with self._doubts_lock:
            if self._doubts.get(batch.scope) == mark:
                del self._doubts[batch.scope]
        return answer

    def load(self, scope: Scope) -> Loaded | LoadFailed:
        """All records of a scope at one moment, for a core."""
        return self._load(scope, self._core)

    def look(self, scope: Scope) -> Loaded | LoadFailed:
        """The same for people, who do not keep a core waiting however many they are."""
        return self._load(scope, self.transactions)

    def _load(self, scope: Scope, transactions: Transactions) -> Loaded | LoadFailed:
        try:
            return transactions.read(
                lambda connection, alive: batches.load(connection, scope, alive)
            )
        except Failed as failed:
            return LoadFailed(scope, failed.fault.why)
        except msgspec.MsgspecError as error:
            return LoadFailed(scope, f"a record cannot be read: {error}")

    def survey(self) -> Survey:
        """What is in it, in numbers. Raises what `open` raises."""
        try:
            return self.transactions.read(lambda connection, _: survey(connection, self.label))
        except Failed as failed:
            raise as_error(failed.fault, self.label) from failed

    # --- opening --------------------------------------------------------------------------------

    def _prepare(self) -> None:
        try:
            self._backend.settle()
            self.transactions.write(self._migrate)
        except Failed as failed:
            fault = failed.fault
        except Unfit as unfit:
            fault = Fault(Kind.DAMAGED, str(unfit), certain=True)
        except DRIVER_ERRORS as error:
            fault = self._backend.fault(error, committing=False)
        else:
            return
        raise as_error(fault, self.label)

    def _migrate(self, connection: sa.Connection, _: Alive) -> tuple[None, bool]:
        version = version_of(connection) if self._backend.lock(connection) else 0
        if version > NEWEST:
            raise MetastoreTooNew(
                f"a newer Lockgate wrote this metastore: version {version}, known up to {NEWEST}",
                object_=self.label,
                hint="use the Lockgate that wrote it, or a newer one",
                operation="open the metastore",
            )
        migrate(connection, version)
        return None, version < NEWEST
