"""What may happen to a table between the moments of its copy, each forced to happen there."""

from collections.abc import Callable
from typing import Any

import pytest

from lockgate.endpoints.postgres.sink.fence import PostgresSink
from lockgate.model.errors import Transient
from lockgate.node.feed.copies import Copies
from lockgate.node.feed.copying import Copying
from lockgate.pipeline import copy
from tests.support.feeds import Pair, level

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


def test_a_table_that_is_dropped_when_some_of_it_is_copied(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others' copies go on, and so does the log."""
    pair.at_source(
        "CREATE TABLE t (id int PRIMARY KEY, v int)",
        "INSERT INTO t SELECT n, n FROM generate_series(1, 5000) n",
        "CREATE TABLE u (id int PRIMARY KEY)",
        "INSERT INTO u VALUES (1)",
    )
    old = copy._Run._job
    done: list[bool] = []

    def job(run: Any, held: Any) -> None:
        if not done:
            done.append(True)
            left = dict(run.left)
            some = {k: v for k, v in left.items() if v.table.source.name == "t"}
            some = dict(list(some.items())[:2])
            run.left = dict(some)
            old(run, held)
            run.left = {k: v for k, v in left.items() if k not in some}
            pair.at_source("DROP TABLE t")
        old(run, held)

    monkeypatch.setattr(copy._Run, "_job", job)
    with pair.running(chunk_rows=1000) as runner:
        level(runner)
        assert pair.ask_target("SELECT to_regclass('public.t')") == [(None,)]
        pair.at_source("INSERT INTO u VALUES (2)")
        level(runner)
        pair.assert_equal("public.u")


def test_a_reload_by_truncate_that_is_too_big_for_one_part(pair: Pair) -> None:
    pair.at_source("CREATE TABLE t (id int PRIMARY KEY, v int)", f"INSERT INTO t {ROWS}")
    with pair.running() as runner:
        level(runner)
        pair.at_source("TRUNCATE t", "INSERT INTO t SELECT n, n FROM generate_series(1, 200000) n")
        level(runner)
        pair.assert_equal("public.t")
