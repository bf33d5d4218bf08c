"""What may happen to a table between the moments of its copy, each forced to happen there."""

import threading
from collections.abc import Callable
from typing import Any

import pytest

from lockgate.endpoints.postgres.sink.fence import PostgresSink
from lockgate.model.errors import Transient
from lockgate.node.feed.applying import Applying
from lockgate.node.feed.copies import Copies
from lockgate.node.feed.copying import Copying
from lockgate.node.feed.running import Running
from lockgate.pipeline import copy
from lockgate.pipeline.copy import CopyOutcome
from tests.support.feeds import LEVEL_S, Pair, level
from tests.support.waiting import until

ROWS = "SELECT n, n FROM generate_series(1, 1000) n"


def _once(
    patch: pytest.MonkeyPatch, place: type, name: str, act: Callable[[], None], *, after: bool
) -> None:
    """Do something once, right before or after the method is called for the first time."""
    old = getattr(place, name)
    done: list[bool] = []

    def called(self: Any, *args: Any) -> Any:
        first = not done
        done.append(True)
        if first and not after:
            act()
        answer = old(self, *args)
        if first and after:
            act()
        return answer

    patch.setattr(place, name, called)


def _after_two_chunks(patch: pytest.MonkeyPatch, table: str, act: Callable[[], None]) -> None:
    """Do something once, when two chunks of the table are copied and the others not yet."""
    old = copy._Run.run
    done: list[bool] = []

    def run(one: Any, held: Any, packs: Any) -> None:
        if not done:
            done.append(True)
            parts = [part for pack in packs for part in pack]
            some = [part for part in parts if part.table.source.name == table][:2]
            old(one, held, [some])
            packs = [[part for part in parts if part not in some]]
            act()
        old(one, held, packs)

    patch.setattr(copy._Run, "run", run)


def test_a_table_that_is_renamed_before_its_copy_is_copied(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair.at_source("CREATE TABLE t (id int PRIMARY KEY, v int)", f"INSERT INTO t {ROWS}")

    def rename() -> None:
        pair.at_source("ALTER TABLE t RENAME TO t2")

    _once(monkeypatch, Copying, "_follow", rename, after=False)
    with pair.running() as runner:
        level(runner)
        pair.assert_equal("public.t2")


def _hold_back(patch: pytest.MonkeyPatch, table: str) -> threading.Event:
    """Copy the table only when the event is set; the others at once."""
    released = threading.Event()
    old = Copying._copy

    def called(self: Copying, batch: list[Running]) -> list[CopyOutcome]:
        held = [] if released.is_set() else [one for one in batch if one.table == table]
        rest = [one for one in batch if one not in held]
        why = Transient("the test holds it back", object_=table, hint="")
        return [*self._failed(held, why), *(old(self, rest) if rest else [])]

    patch.setattr(Copying, "_copy", called)
    return released


def _until_copied(pair: Pair, table: str, *, forgotten: bool) -> None:
    """Its rows are there, and the snapshot is forgotten or not."""
    asked = f"SELECT built, copied FROM lockgate.progress WHERE table_id = '{table}'"
    until(lambda: pair.ask_target(asked) == [(True, forgotten)], LEVEL_S, 0.1)


@pytest.mark.parametrize("forgotten", [True, False])
def test_a_copied_table_swaps_names_with_one_that_is_not_copied(
    pair: Pair, monkeypatch: pytest.MonkeyPatch, forgotten: bool
) -> None:
    pair.at_source(
        "CREATE TABLE a (id int PRIMARY KEY, v int)",
        f"INSERT INTO a {ROWS}",
        "CREATE TABLE b (id int PRIMARY KEY, v int)",
        "INSERT INTO b SELECT n, -n FROM generate_series(500, 2500) n",
    )
    released = _hold_back(monkeypatch, "public.b")
    if not forgotten:
        monkeypatch.setattr(Applying, "_forget_snapshots", lambda *_: None)
    with pair.running() as runner:
        _until_copied(pair, "public.a", forgotten=forgotten)
        pair.at_source(
            "ALTER TABLE a RENAME TO x",
            "ALTER TABLE b RENAME TO a",
            "ALTER TABLE x RENAME TO b",
            "UPDATE a SET v = 0 WHERE id < 510",
            "DELETE FROM b WHERE id < 10",
        )
        released.set()
        level(runner)
        pair.assert_equal("public.a", "public.b")
        pair.at_source("INSERT INTO a VALUES (1, 1)", "INSERT INTO b VALUES (1, 1)")
        level(runner)
        pair.assert_equal("public.a", "public.b")


def test_a_table_that_is_not_copied_takes_the_name_of_one_that_is(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair.at_source(
        "CREATE TABLE t (id int PRIMARY KEY, v int)",
        f"INSERT INTO t {ROWS}",
        "CREATE TABLE t_new (id int PRIMARY KEY, v int)",
        "INSERT INTO t_new SELECT n, -n FROM generate_series(500, 2500) n",
    )
    released = _hold_back(monkeypatch, "public.t_new")
    with pair.running() as runner:
        _until_copied(pair, "public.t", forgotten=True)
        pair.at_source("ALTER TABLE t RENAME TO t_old", "ALTER TABLE t_new RENAME TO t")
        released.set()
        level(runner)
        pair.assert_equal("public.t", "public.t_old")


def test_a_copied_table_is_renamed_together_with_one_that_is_not_copied(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a key, rows that are copied again are there twice."""
    pair.at_source(
        "CREATE TABLE a (id int, v int)",
        "ALTER TABLE a REPLICA IDENTITY FULL",
        f"INSERT INTO a {ROWS}",
        "CREATE TABLE b (id int PRIMARY KEY, v int)",
        f"INSERT INTO b {ROWS}",
    )
    released = _hold_back(monkeypatch, "public.b")
    with pair.running() as runner:
        _until_copied(pair, "public.a", forgotten=True)
        pair.at_source("ALTER TABLE a RENAME TO a2", "ALTER TABLE b RENAME TO b2")
        released.set()
        level(runner)
        pair.assert_equal("public.a2", "public.b2")


def test_a_table_is_renamed_while_its_snapshot_still_counts(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair.at_source(
        "CREATE TABLE a (id int, v int)",
        "ALTER TABLE a REPLICA IDENTITY FULL",
        f"INSERT INTO a {ROWS}",
    )
    monkeypatch.setattr(Applying, "_forget_snapshots", lambda *_: None)
    with pair.running() as runner:
        _until_copied(pair, "public.a", forgotten=False)
        pair.at_source("ALTER TABLE a RENAME TO a2", "INSERT INTO a2 VALUES (0, 0)")
        level(runner)
        pair.assert_equal("public.a2")


def test_a_column_whose_name_another_takes_during_the_copy(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The chunk would read the new column under the old one's name."""
    pair.at_source("CREATE TABLE t (id int PRIMARY KEY, a int)", f"INSERT INTO t {ROWS}")

    def swap() -> None:
        pair.at_source("ALTER TABLE t RENAME a TO old_a", "ALTER TABLE t ADD a int")

    _once(monkeypatch, Copies, "_check_still", swap, after=True)
    with pair.running() as runner:
        level(runner)
        pair.assert_equal("public.t")


def test_tables_that_swap_names_during_their_copy(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A chunk would read the other table under the name of its own."""
    pair.at_source(
        "CREATE TABLE a (id int PRIMARY KEY, v int)",
        f"INSERT INTO a {ROWS}",
        "CREATE TABLE b (id int PRIMARY KEY, v int)",
        "INSERT INTO b SELECT n, -n FROM generate_series(500, 2500) n",
    )

    def swap() -> None:
        pair.at_source(
            "ALTER TABLE a RENAME TO x", "ALTER TABLE b RENAME TO a", "ALTER TABLE x RENAME TO b"
        )

    _once(monkeypatch, Copies, "_check_still", swap, after=True)
    with pair.running() as runner:
        level(runner)
        pair.assert_equal("public.a", "public.b")


def test_columns_that_swap_names_while_the_span_follows_the_log(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair.at_source(
        "CREATE TABLE t (id int PRIMARY KEY, a int, b int)",
        "INSERT INTO t SELECT n, 1, 2 FROM generate_series(1, 1000) n",
    )

    def swap() -> None:
        pair.at_source(
            "ALTER TABLE t RENAME a TO c",
            "ALTER TABLE t RENAME b TO a",
            "ALTER TABLE t RENAME c TO b",
        )

    _once(monkeypatch, Copying, "_follow", swap, after=True)
    with pair.running() as runner:
        level(runner)
        assert pair.ask_target("SELECT DISTINCT a, b FROM t") == [(2, 1)]


@pytest.mark.parametrize("failing", ["claim", "is_empty"])
def test_changes_of_two_tables_when_one_of_them_comes_late_to_the_copy(
    pair: Pair, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    """Each waits for the other before a barrier, until a run takes both."""
    for table in ("t", "u"):
        pair.at_source(f"CREATE TABLE {table} (id int PRIMARY KEY, v int)")
        pair.at_source(f"INSERT INTO {table} {ROWS}")
    place: type = PostgresSink if failing == "claim" else Copies
    old = getattr(place, failing)
    late: list[bool] = []

    def called(self: Any, *args: Any) -> Any:
        table = args[1].table if failing == "claim" else args[0].table
        if table == "public.u" and not late:
            late.append(True)
            raise Transient("the connection was reset", object_="target", hint="")
        return old(self, *args)

    def alter() -> None:
        pair.at_source("ALTER TABLE u ADD w int DEFAULT 7")
        pair.at_source("ALTER TABLE t ADD w int DEFAULT 8")

    monkeypatch.setattr(place, failing, called)
    _once(monkeypatch, Copying, "_follow", alter, after=False)
    with pair.running() as runner:
        level(runner)
        assert late
        pair.assert_equal("public.t", "public.u")


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"tables": ["public.t", "public.u"]},
        {"leave_out": ["public.t.w"], "masks": {"public.t.v": "null"}},
    ],
    ids=["by pattern", "by name", "with a column that is hidden"],
)
def test_a_table_that_is_dropped_when_some_of_it_is_copied(
    pair: Pair, monkeypatch: pytest.MonkeyPatch, config: dict[str, Any]
) -> None:
    """The others' copies go on, and so does the log, also where the feed names what is gone."""
    pair.at_source(
        "CREATE TABLE t (id int PRIMARY KEY, v int, w int)",
        "INSERT INTO t SELECT n, n FROM generate_series(1, 5000) n",
        "CREATE TABLE u (id int PRIMARY KEY)",
        "INSERT INTO u VALUES (1)",
    )
    _after_two_chunks(monkeypatch, "t", lambda: pair.at_source("DROP TABLE t"))
    with pair.running(chunk_rows=1000, **config) as runner:
        level(runner)
        assert pair.ask_target("SELECT to_regclass('public.t')") == [(None,)]
        pair.at_source("INSERT INTO u VALUES (2)")
        level(runner)
        pair.assert_equal("public.u")


def test_a_table_that_others_refer_to_is_changed_when_some_of_it_is_copied(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is copied anew, and no TRUNCATE may empty it before."""
    tables = (
        "CREATE TABLE t (id int PRIMARY KEY, v int)",
        "CREATE TABLE u (id int PRIMARY KEY, t int REFERENCES t ON DELETE CASCADE)",
    )
    pair.at_target(*tables)
    pair.at_source(
        *tables,
        "INSERT INTO t SELECT n, n FROM generate_series(1, 5000) n",
        "INSERT INTO u SELECT n, n FROM generate_series(1, 100) n",
    )
    _after_two_chunks(monkeypatch, "t", lambda: pair.at_source("ALTER TABLE t RENAME v TO w"))
    with pair.running(chunk_rows=1000) as runner:
        level(runner)  # the copy is over
        level(runner)  # and so is what came in the middle of it
        pair.assert_equal("public.t", "public.u")


def test_a_reload_by_truncate_that_is_too_big_for_one_part(pair: Pair) -> None:
    pair.at_source("CREATE TABLE t (id int PRIMARY KEY, v int)", f"INSERT INTO t {ROWS}")
    with pair.running() as runner:
        level(runner)
        pair.at_source("TRUNCATE t", "INSERT INTO t SELECT n, n FROM generate_series(1, 200000) n")
        level(runner)
        pair.assert_equal("public.t")
