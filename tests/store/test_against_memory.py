"""The SQL metastore and the one in memory give the same answers, operation by operation.

The simulator proves the core on the one in memory; that counts only if the real one is the same.
"""

import tempfile
from pathlib import Path
from typing import Any

import msgspec
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from lockgate.model.batch import Batch, Landed, Raise
from lockgate.model.ids import NodeRef
from lockgate.model.records import (
    COORDINATOR,
    DrainRecord,
    DrainState,
    ProgressRecord,
    Record,
    RecordKey,
    key_of,
    node_scope,
)
from lockgate.store.memory import MemoryMetastore
from lockgate.store.metastore import SqlMetastore
from tests.support.stores import LEASE_MS, StoreClock, span, sqlite_url

NODES = ("a", "b")
SCOPES = (COORDINATOR, "feed:x", *map(node_scope, NODES))

scopes = st.sampled_from(SCOPES)
nodes = st.sampled_from(NODES)
records: st.SearchStrategy[Record] = st.one_of(
    st.builds(span, st.integers(0, 3), node=nodes),
    st.builds(ProgressRecord, st.integers(0, 5)),
    st.builds(
        DrainRecord, st.builds(NodeRef, nodes, st.integers(1, 3)), st.sampled_from(DrainState)
    ),
)
keys: st.SearchStrategy[RecordKey] = records.map(key_of)


class SameAnswers(RuleBasedStateMachine):
    """Both stores share one clock and are asked the same, in the same order."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = StoreClock()
        self.home = tempfile.TemporaryDirectory(prefix="lockgate-test-")
        self.memory = MemoryMetastore(clock=self.clock, lease_ms=LEASE_MS)
        self.sql = self.opened()

    def opened(self) -> SqlMetastore:
        store = SqlMetastore.open(
            sqlite_url(Path(self.home.name)), lease_ms=LEASE_MS, now_ms=self.clock
        )
        with store._backend.engine.connect() as connection:
            # Nobody pulls the plug here, and a thousand flushes take their time.
            connection.connection.driver_connection.execute("PRAGMA synchronous = OFF")
        return store

    def teardown(self) -> None:
        try:
            for scope in SCOPES:
                self.both("load", scope)
        finally:
            self.sql.close()
            self.home.cleanup()

    def both(self, verb: str, *arguments: Any) -> Any:
        expected = getattr(self.memory, verb)(*arguments)
        assert getattr(self.sql, verb)(*arguments) == expected
        return expected

    @initialize()
    def begin(self) -> None:
        self.both("join", "a", 0)

    @rule(ms=st.sampled_from([1, LEASE_MS // 2, LEASE_MS - 1, LEASE_MS]))
    def time_passes(self, ms: int) -> None:
        self.clock.advance(ms)

    @rule(node=nodes, asked_at=st.integers(0, 9))
    def join(self, node: str, asked_at: int) -> None:
        self.both("join", node, asked_at)

    @rule(ms=st.sampled_from([0, 1, LEASE_MS - 1, LEASE_MS]), asked_at=st.integers(0, 9))
    def everybody_renews(self, ms: int, asked_at: int) -> None:
        self.clock.advance(ms)
        for node in NODES:
            if node in self.memory.leases:
                self.both("renew", self.memory.leases[node][0], asked_at)

    @rule(node=nodes, off=st.sampled_from([-1, 1]))
    def another_life_renews(self, node: str, off: int) -> None:
        self.both("renew", NodeRef(node, self.memory.scope(node_scope(node)).fence + off), 0)

    @rule(node=nodes, off=st.sampled_from([0, 0, -1]), state=st.sampled_from(DrainState))
    def drain(self, node: str, off: int, state: DrainState) -> None:
        """The coordinator drains a life of a node: the present one, or one that is over."""
        life = NodeRef(node, self.memory.scope(node_scope(node)).fence + off)
        self.commit(self.next_batch(COORDINATOR, puts=(DrainRecord(life, state),)))

    @rule(scope=scopes, puts=st.lists(records, max_size=4), deletes=st.lists(keys, max_size=4))
    def write(self, scope: str, puts: list[Record], deletes: list[RecordKey]) -> None:
        """The owner of a scope writes, and repeats itself."""
        batch = self.next_batch(scope, puts=tuple(puts), deletes=tuple(deletes))
        assert isinstance(self.commit(batch), Landed)
        self.commit(batch)

    @rule(scope=scopes, raised=scopes, off=st.sampled_from([0, 0, -1, 1]), step=st.integers(1, 3))
    def hand_over(self, scope: str, raised: str, off: int, step: int) -> None:
        """The owner of a scope raises a fence, from where it stands or from elsewhere."""
        old = self.memory.scope(raised).fence + off
        batch = self.next_batch(scope, puts=(span(1),), raises=(Raise(raised, old, old + step),))
        self.commit(batch)
        self.commit(batch)

    @rule(
        scope=scopes,
        fence_off=st.integers(-1, 1),
        serial_off=st.integers(-2, 0),
        record=records,
        raised=st.lists(scopes, unique=True, max_size=2),
    )
    def misfire(
        self, scope: str, fence_off: int, serial_off: int, record: Record, raised: list[str]
    ) -> None:
        """Somebody comes late, or never was the owner."""
        fences = [self.memory.scope(one).fence for one in raised]
        raises = [Raise(one, old, old + 1) for one, old in zip(raised, fences, strict=True)]
        due = self.next_batch(scope, puts=(record,), raises=tuple(raises))
        self.commit(
            msgspec.structs.replace(
                due, fence=due.fence + fence_off, serial=due.serial + serial_off
            )
        )

    def next_batch(self, scope: str, **content: Any) -> Batch:
        row = self.memory.scope(scope)
        return Batch(scope, row.fence, row.serial + 1, **content)

    def commit(self, batch: Batch) -> Any:
        answer = self.both("commit", batch)
        for concerned in dict.fromkeys([batch.scope, *(one.scope for one in batch.raises)]):
            self.both("load", concerned)
        return answer

    @rule()
    def open_again(self) -> None:
        self.sql.close()
        self.sql = self.opened()


TestSameAnswers = SameAnswers.TestCase
TestSameAnswers.settings = settings(
    max_examples=50,
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
