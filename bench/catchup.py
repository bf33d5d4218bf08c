"""A backlog caught up with: Lockgate and PostgreSQL's own logical replication, on the same changes.

All are set up and level, then stopped; then the backlog is made; then each catches up in its turn.
The table has as many rows as the backlog inserts. Updates and deletes meet rows of before, in no
order of their keys, and no row is changed twice: there is nothing to be saved by leaving out what a
later change undoes.

Lockgate's time begins with the start of its runner (see `rig.ours` for what is inside) and ends
when it says that everything up to the end is applied. Native replication's begins with `ALTER
SUBSCRIPTION … ENABLE` and ends when the last row is seen, be it on disk or not.
"""

import time
from contextlib import ExitStack
from pathlib import Path
from typing import Final, NamedTuple

import psycopg
from psycopg import sql

from bench.figures import Figure, Limit
from bench.registry import Benchmark, Case
from bench.rig import orders, ours, servers
from bench.rig.cpu import Cpu
from bench.rig.native import Native
from bench.watch import Watch, seconds

ONE, MANY = "one transaction", "transactions of 10 rows"
INSERTS = 1_000_000
PER_TRANSACTION: Final = 10
NATIVE = ("native", "native, binary")
OURS = "Lockgate"
_STRIDE: Final = 7919
"""A prime that divides no count of rows here, so that its multiples meet every row once."""

_INSERT: Final = sql.SQL(
    f"INSERT INTO orders SELECT {orders.ROW} "
    "FROM generate_series({first}::bigint, {last}::bigint) i"
)
_UPDATE: Final = sql.SQL(
    "UPDATE orders SET customer = customer + 1, amount = amount + 1, note = 'changed' FROM "
    "(SELECT 1 + n::bigint * {stride} % {before} AS key FROM generate_series({first}, {last}) n) k "
    "WHERE id = k.key"
)
_DELETE: Final = sql.SQL(
    "DELETE FROM orders USING "
    "(SELECT 1 + n::bigint * {stride} % {before} AS key FROM generate_series({first}, {last}) n) k "
    "WHERE id = k.key"
)
_MANY: Final = sql.SQL(
    """
DO $$
DECLARE
    t bigint := 0; i0 bigint; i1 bigint; u0 bigint; u1 bigint; d0 bigint; d1 bigint;
BEGIN
    WHILE t < {transactions} LOOP
        i0 := t * {inserts} / {transactions};
        i1 := (t + 1) * {inserts} / {transactions};
        u0 := t * {updates} / {transactions};
        u1 := (t + 1) * {updates} / {transactions};
        d0 := t * {size} - i0 - u0;
        d1 := (t + 1) * {size} - i1 - u1;
        {insert};
        {update};
        {delete};
        COMMIT;
        t := t + 1;
    END LOOP;
END $$
"""
)


class Backlog(NamedTuple):
    """How many changes there are of each kind."""

    before: int
    """Rows that are there already."""
    inserts: int
    updates: int
    deletes: int

    @property
    def changes(self) -> int:
        return self.inserts + self.updates + self.deletes

    @property
    def last(self) -> int:
        """The key of a row that the last transaction inserts."""
        return self.before + self.inserts

    def make(self, url: str, case: str) -> str:
        """Make the changes, in one transaction or in many; answers where the log then ends."""
        with psycopg.connect(url, autocommit=True) as connection:
            # Nobody waits for these commits; the source's disk is not what is measured.
            connection.execute("SET synchronous_commit = off")
            if case == ONE:
                with connection.transaction():
                    for statement in self._statements():
                        connection.execute(statement)
            else:
                connection.execute(self._many())
            connection.execute("SET synchronous_commit = on")
            connection.execute("SELECT pg_logical_emit_message(true, 'bench', 'flushed')")
            row = connection.execute("SELECT pg_current_wal_flush_lsn()::text").fetchone()
        assert row is not None
        return str(row[0])

    def _statements(self) -> tuple[sql.Composed, ...]:
        upto = self.updates + self.deletes
        return (
            _INSERT.format(first=self.before + 1, last=self.last),
            _UPDATE.format(stride=_STRIDE, before=self.before, first=0, last=self.updates - 1),
            _DELETE.format(stride=_STRIDE, before=self.before, first=self.updates, last=upto - 1),
        )

    def _many(self) -> sql.Composed:
        """Ten rows each, of all three kinds, until all are used up."""
        word = sql.SQL
        common = {"stride": sql.Literal(_STRIDE), "before": sql.Literal(self.before)}
        first_delete = word("{} + d0").format(self.updates)
        last_delete = word("{} + d1 - 1").format(self.updates)
        return _MANY.format(
            transactions=self.changes // PER_TRANSACTION,
            inserts=self.inserts,
            updates=self.updates,
            size=PER_TRANSACTION,
            insert=_INSERT.format(
                first=word("({} + i0 + 1)").format(self.before),
                last=word("({} + i1)").format(self.before),
            ),
            update=_UPDATE.format(first=word("u0"), last=word("u1 - 1"), **common),
            delete=_DELETE.format(first=first_delete, last=last_delete, **common),
        )


def backlog_of(size: int) -> Backlog:
    """The goal's proportions: ten to five to three."""
    return Backlog(size, size, size // 2, size * 3 // 10)


def cases(quick: bool) -> tuple[Case, ...]:
    """The same changes in one transaction, and in many."""
    return tuple(Case(name, INSERTS // 20 if quick else INSERTS) for name in (ONE, MANY))


def measure(case: Case, directory: Path) -> tuple[Figure, ...]:
    """Set all up, make the backlog, let them catch up one after the other."""
    backlog = backlog_of(case.size)
    watch = Watch()
    with ExitStack() as stack:
        enter = stack.enter_context
        source = enter(servers.server())
        targets = {name: enter(servers.server()) for name in (OURS, *NATIVE)}
        spark = enter(ours.warm_spark())
        orders.create(source)
        orders.fill(source, backlog.before)

        home = directory / "home"
        with ours.feed(home, source, targets[OURS], spark) as runner:
            runner.wait_level(ours.LEVEL_S)
        natives = [
            Native(source, targets[name], name=f"bench_{number}", binary=number == 1)
            for number, name in enumerate(NATIVE)
        ]
        for native in natives:
            native.copy()
            native.disable()
        servers.settle(source, *targets.values())
        end = backlog.make(source, case.name)
        servers.settle(source)

        spent = {name: Cpu(source, targets[name]) for name in targets}
        runner = ours.feed(home, source, targets[OURS], spark)
        began = time.perf_counter()
        try:
            with spent[OURS], watch.lap(OURS):
                runner.start()
                watch.seconds["of that, starting"] = time.perf_counter() - began
                with ours.Captured(runner, end) as captured:
                    runner.wait_level(ours.LEVEL_S)
            watch.seconds["of that, until captured"] = (captured.at or began) - began
            orders.same_rows(source, targets[OURS])
            runner.remove()
        finally:
            runner.stop()
        for name, native in zip(NATIVE, natives, strict=True):
            with spent[name], watch.lap(name):
                native.catch_up(backlog.last)
            orders.same_rows(source, targets[name])
            native.drop()
    return _figures(watch, backlog.changes) + tuple(
        figure for name, cpu in spent.items() for figure in cpu.figures(name)
    )


def _figures(watch: Watch, changes: int) -> tuple[Figure, ...]:
    spent = watch.seconds
    shown = (OURS, "of that, starting", "of that, until captured", *NATIVE)
    return (
        Figure("changes", changes, "rows"),
        *(seconds(name, spent[name]) for name in shown),
        *(
            Figure(f"{name}, rate", round(changes / spent[name]), "rows/s")
            for name in (OURS, *NATIVE)
        ),
        Figure(
            "rate, by that of native",
            round(min(spent[name] for name in NATIVE) / spent[OURS], 3),
            "",
        ),
    )


BENCHMARK = Benchmark(
    name="catchup",
    title="Catching up with a backlog of inserts, updates and deletes, PostgreSQL 18 to 18",
    cases=cases,
    measure=measure,
    limits=tuple(
        Limit(
            case,
            "rate, by that of native",
            None,
            "",
            f"catching up with {case} at least {times} times as fast as native replication{more}",
            at_least=times,
        )
        for times, more in ((1.3, ""), (2.0, " (moonshot)"))
        for case in (ONE, MANY)
    ),
)
