"""Whatever is done to a layered table, and wherever it breaks off, rows and sizes are right.

L1 (the answer for one position is the same), L8 (a drain run again changes nothing), L9 (sizes are
those of the files), L10 (a vacuum never breaks a pinned reader), over real files.
"""

import shutil
import tempfile
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from lockgate.endpoints.delta import drain_plan, draining
from lockgate.endpoints.delta.compact import compact, land_compaction, plan_compaction
from lockgate.endpoints.delta.delete import delete
from lockgate.endpoints.delta.draining import DrainOvertaken, Snapshot
from lockgate.endpoints.delta.fenced import TableDead
from lockgate.endpoints.delta.lake import Lake
from lockgate.endpoints.delta.layered import LayeredTable
from lockgate.endpoints.delta.pins import Pinned
from lockgate.endpoints.delta.place import Place
from lockgate.endpoints.delta.rewrite import rewrite
from lockgate.endpoints.delta.vacuum import vacuum
from lockgate.model.errors import StaleOwner
from lockgate.model.ids import Token
from lockgate.node.lake.surveying import Surveyor
from tests.support.lake_files import bytes_named, data_files
from tests.support.lakes import DELETE, DISPATCHER, PUT, ROWS, WIPE, Rows, Writer, rows_in

T = "public.t"

changes = st.tuples(
    st.sampled_from([PUT] * 6 + [DELETE] * 3 + [WIPE]),
    st.integers(0, 30),
    st.sampled_from("ab"),
    st.none() | st.integers(0, 9),
)
parts = st.sampled_from(["plan", "some files", "all files", "commit"])


class Crash(Exception):
    """The process is gone."""


class LakeTable(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(drain_plan, "ROWS_MAX", 8)
        self.folder = Path(tempfile.mkdtemp())
        self.lake = Lake(Place(str(self.folder), "lake"))
        self.incarnation = 0
        self.leader = Token(1, 0, 1)
        self.pinned: list[tuple[LayeredTable, Snapshot, Rows, Pinned]] = []

    def teardown(self) -> None:
        self.patch.undo()
        shutil.rmtree(self.folder)

    @initialize()
    def make(self) -> None:
        self.incarnation += 1
        place = self.lake.place(T, self.incarnation)
        table = LayeredTable.create(place, "h", ROWS, ["id", "part"], self.leader, DISPATCHER)
        self.writer = Writer(table)
        self.drained: Rows = {}
        """What stable says alone."""

    @property
    def table(self) -> LayeredTable:
        return self.writer.table

    # --- what goes right ------------------------------------------------------------------------

    @rule(batch=st.lists(changes, min_size=1, max_size=10))
    def land(self, batch: list[Any]) -> None:
        self.writer.land(*batch)

    @rule()
    def drain(self) -> None:
        self.table.drain(self.leader)
        self.drained = dict(self.writer.rows)
        version = self.table.stable.look().version
        assert self.table.drain(self.leader) is None
        assert self.table.stable.look().version == version

    @rule()
    def compact(self) -> None:
        compact(self.table, self.leader)

    @rule()
    def prune(self) -> None:
        self.table.prune(DISPATCHER)

    @rule()
    def vacuum(self) -> None:
        vacuum(self.table.place, retention_s=0, grace_s=0)
        if not self.pinned and self.table.snapshot().stable:
            named = {file.path for file in self.table.snapshot().stable}
            assert data_files(f"{self.table.place.url}/stable") == named, "nothing is left over"

    # --- what goes wrong ------------------------------------------------------------------------

    @rule(upto=parts)
    def drain_and_die(self, upto: str) -> None:
        """Another process drains, and is killed: after this part of it, files and all stay."""
        table = LayeredTable.open(self.table.place, "h")
        table.follow_ingest(self.leader)
        plan = table.plan_drain()
        if plan is None or upto == "plan":
            return
        orders = plan.orders[:1] if upto == "some files" else plan.orders
        new = [file for order in orders for file in rewrite(table.place, order)]
        if upto == "commit":
            table.land_drain(self.leader, plan, new)
            self.drained = dict(self.writer.rows)

    @rule(upto=parts)
    def compact_and_die(self, upto: str) -> None:
        table = LayeredTable.open(self.table.place, "h")
        plan = plan_compaction(table)
        if plan is None or upto == "plan":
            return
        orders = plan.orders[:1] if upto == "some files" else plan.orders
        new = [file for order in orders for file in rewrite(table.place, order)]
        if upto == "commit":
            land_compaction(table, self.leader, plan, new)

    @rule(batch=st.lists(changes, min_size=1, max_size=5))
    def land_and_die(self, batch: list[Any]) -> None:
        """The file is written, the commit is not; then the batch comes again."""
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(self.table.ingest, "commit", _die)
            before = (dict(self.writer.rows), self.writer.position, self.writer.seq)
            try:
                self.writer.land(*batch)
            except Crash:
                self.writer.rows, self.writer.position, self.writer.seq = before
        self.writer.land(*batch)

    @rule()
    def two_drain_at_once(self) -> None:
        """Both plan and write, the second one to commit lands nothing."""
        tables = [LayeredTable.open(self.table.place, "h") for _ in range(2)]
        plans = [table.plan_drain() for table in tables]
        landed = 0
        for table, plan in zip(tables, plans, strict=True):
            if plan is None:
                return
            new = [file for order in plan.orders for file in rewrite(table.place, order)]
            try:
                table.land_drain(self.leader, plan, new)
                landed += 1
            except DrainOvertaken:
                pass
            table.forget_plan(plan)
        assert landed == 1
        self.drained = dict(self.writer.rows)

    @rule()
    def a_new_leader(self) -> None:
        """The former one, who knows of nothing, commits no drain any more."""
        former = self.leader
        plan = self.table.plan_drain()
        self.leader = Token(former.epoch + 1, 0, 1)
        LayeredTable.open(self.table.place, "h").stable.claim(self.leader)
        if plan is None:
            return
        new = [file for order in plan.orders for file in rewrite(self.table.place, order)]
        try:
            self.table.land_drain(former, plan, new)
        except StaleOwner:
            self.table.forget_plan(plan)
        else:
            raise AssertionError("a former leader has drained")

    # --- readers, and the end -------------------------------------------------------------------

    @rule()
    def pin(self) -> None:
        seen = self.table.snapshot()
        pinned = Pinned.take(self.table.place, "h", seen, "reader")
        self.pinned.append((self.table, seen, dict(self.writer.rows), pinned))

    @precondition(lambda self: self.pinned)
    @rule()
    def unpin(self) -> None:
        self.pinned.pop(0)[-1].release()

    @rule()
    def drop_and_make_anew(self) -> None:
        zombie = self.writer
        self.table.kill(self.leader)
        before = self.incarnation
        self.make()
        for work in (lambda: zombie.put(1), lambda: zombie.table.drain(self.leader)):
            try:
                work()
            except TableDead:
                continue
            raise AssertionError("a dead table was written to")
        self._delete(before)

    @rule()
    def delete_what_is_dead(self) -> None:
        for incarnation in self.lake.incarnations(T)[:-1]:
            self._delete(incarnation)

    def _delete(self, incarnation: int) -> None:
        place = self.lake.place(T, incarnation)
        held = any(table.place == place for table, *_ in self.pinned)
        assert bool(delete(self.lake, T, incarnation, 0).waits_for) == held
        assert Path(place.url).exists() == held

    # --- what always holds ----------------------------------------------------------------------

    @invariant()
    def rows_are_what_was_landed(self) -> None:
        for table in (self.table, LayeredTable.open(self.lake.live(T), "h")):
            assert rows_in(table.read()) == self.writer.rows

    @invariant()
    def sizes_are_those_of_the_files(self) -> None:
        _, seen, _ = Surveyor(Place(str(self.folder), "lake"), "h").survey(T)
        self.table.snapshot()
        told = {one.incarnation: one.figures.size_bytes for one in seen}
        assert told[self.incarnation] == bytes_named(self.table)

    @invariant()
    def any_reader_of_delta_reads_what_was_drained(self) -> None:
        stable = pl.read_delta(f"{self.table.place.url}/stable").to_arrow().cast(ROWS)
        assert rows_in(stable) == self.drained

    @invariant()
    def pinned_readers_see_what_they_saw(self) -> None:
        for table, seen, then, _ in self.pinned:
            assert rows_in(table.read(seen)) == then


def _die(*_: object, **__: object) -> None:
    raise Crash


assert draining.DRAIN_ROWS_MAX > 1_000, "a drain takes all that a test lands"

TestLakeTable = LakeTable.TestCase
TestLakeTable.settings = settings(
    max_examples=20,
    stateful_step_count=20,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
