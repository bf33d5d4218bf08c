"""The SQL metastore and the one in memory give the same answers, operation by operation.

The simulator proves the core on the one in memory; that counts only if the real one is the same.
"""

import tempfile
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

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

NODES = ("a", "b", "c")
SCOPES = (COORDINATOR, "feed:x", "feed:y", *map(node_scope, NODES))

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

    @rule(node=nodes, back=st.integers(-1, 1), asked_at=st.integers(0, 9))
    def renew(self, node: str, back: int, asked_at: int) -> None:
        life = self.memory.scope(node_scope(node)).fence - back
        self.both("renew", NodeRef(node, life), asked_at)

    @rule(
        scope=scopes,
        fence_off=st.sampled_from([0, 0, 0, 0, -1, 1]),
        serial_off=st.sampled_from([1, 1, 1, 1, 0, -1]),
        puts=st.lists(records, max_size=4),
        deletes=st.lists(keys, max_size=4),
        raised=st.lists(
            st.tuples(scopes, st.sampled_from([0, 0, 0, 1, -1]), st.integers(1, 2)),
            max_size=2,
            unique_by=lambda one: one[0],
        ),
    )
    def commit(
        self,
        scope: str,
        fence_off: int,
        serial_off: int,
        puts: list[Record],
        deletes: list[RecordKey],
        raised: list[tuple[str, int, int]],
    ) -> None:
        row = self.memory.scope(scope)
        raises = []
        for raised_scope, off, step in raised:
            old = self.memory.scope(raised_scope).fence + off
            raises.append(Raise(raised_scope, old, old + step))
        batch = Batch(
            scope,
            row.fence + fence_off,
            row.serial + serial_off,
            tuple(puts),
            tuple(deletes),
            tuple(raises),
        )
        answer = self.both("commit", batch)
        if isinstance(answer, Landed):
            self.both("commit", batch)

    @rule()
    def open_again(self) -> None:
        self.sql.close()
        self.sql = self.opened()

    @invariant()
    def hold_the_same(self) -> None:
        for scope in SCOPES:
            self.both("load", scope)


TestSameAnswers = SameAnswers.TestCase
TestSameAnswers.settings = settings(
    max_examples=40,
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
