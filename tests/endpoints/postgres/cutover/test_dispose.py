"""Tables that are left behind: renamed or dropped, once, and never one that is in use."""

from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from psycopg import sql

from lockgate.endpoints.postgres.cutover import block, drop, guard, open_tables, rename, seal
from lockgate.endpoints.postgres.schema.identifiers import set_aside
from lockgate.model.errors import Conflict, EndpointBusy, StaleOwner
from lockgate.model.tables import TableName
from tests.endpoints.postgres.cutover.side import ODD, Side


def sealed(side: Side) -> None:
    at = block(side.url, side.mark, side.tables, moved_to="x", deadline_s=60.0, patience_s=9.0)
    assert seal(side.url, side.mark, side.tables, blocked_at=at)


def there(side: Side) -> set[str]:
    found = side.admin.execute(
        "SELECT relname FROM pg_class WHERE relnamespace = to_regnamespace(%s) "
        "AND relkind IN ('r', 'p')",
        (f'"{side.schema}"',),
    )
    return {name for (name,) in found}


@pytest.mark.parametrize(
    ("name", "old"),
    [
        ("orders", "_orders_old"),
        ("x" * 58, "_" + "x" * 58 + "_old"),
        (ODD, None),
        ("漢" * 21, None),
    ],
    ids=["plain", "just-fits", "odd", "wide"],
)
def test_names_are_cut_where_they_must_be(name: str, old: str | None) -> None:
    found = set_aside(TableName("s", name)).name
    assert old is None or found == old
    assert len(found.encode()) <= 63
    assert found.startswith(f"_{name[:10]}")
    assert found.endswith("_old")
    assert set_aside(TableName("s", name[:-1])).name != found


def test_renamed_tables_keep_what_is_theirs_and_lose_their_guard(here: Side) -> None:
    here.insert()
    sealed(here)
    told = rename(here.url, here.mark, here.tables)
    assert told[0] == f'{here.orders} is "{here.schema}"._orders_old now'
    assert there(here) == {set_aside(table).name for table in here.tables}
    assert here.guards() == []
    old = set_aside(here.orders)
    assert here.do("INSERT INTO {} (note) VALUES ('y') RETURNING id", old) == [(2,)]


def test_done_again_nothing_is_renamed_whatever_has_the_name_now(here: Side) -> None:
    sealed(here)
    told = rename(here.url, here.mark, here.tables)
    here.do("CREATE TABLE {} (id int)", here.orders)
    assert rename(here.url, here.keeper(9), here.tables) == told
    assert "orders" in there(here)


def test_a_name_in_use_is_refused_with_nothing_done(here: Side) -> None:
    sealed(here)
    here.do("CREATE TABLE {} (id int)", set_aside(here.tables[1]))
    with pytest.raises(Conflict, match=r"the name .* is in use"):
        rename(here.url, here.mark, here.tables)
    assert {"orders", ODD} <= there(here)
    with pytest.raises(psycopg.Error, match="has moved"):
        here.insert()


def test_dropped_tables_are_gone_together(here: Side) -> None:
    here.do("ALTER TABLE {} ADD FOREIGN KEY (id) REFERENCES {}", *here.tables)
    here.do("ALTER TABLE {} ADD FOREIGN KEY (id) REFERENCES {}", *here.tables[::-1])
    sealed(here)
    for _ in range(2):
        told = drop(here.url, here.mark, here.tables)
        assert told == [f"{table} is dropped" for table in here.tables]
    assert there(here) == set()


def test_what_others_depend_on_is_not_dropped(here: Side) -> None:
    here.do("CREATE VIEW {} AS SELECT * FROM {}", here.name("view"), here.orders)
    sealed(here)
    with pytest.raises(Conflict, match="something else depends on the tables") as refused:
        drop(here.url, here.mark, here.tables)
    assert "view" in refused.value.hint
    assert {"orders", ODD} <= there(here)


def test_tables_that_are_gone_are_skipped(here: Side) -> None:
    sealed(here)
    here.do("DROP TABLE {}", here.orders)
    assert rename(here.url, here.mark, here.tables)[0] == f"{here.orders} was not there any more"
    assert there(here) == {set_aside(here.tables[1]).name}


def opened(side: Side) -> None:
    sealed(side)
    open_tables(side.url, side.mark, side.tables)


def blocked(side: Side) -> None:
    block(side.url, side.mark, side.tables, moved_to="x", deadline_s=60.0, patience_s=9.0)


@pytest.mark.parametrize("state", [opened, blocked])
@pytest.mark.parametrize("verb", [rename, drop])
def test_a_side_that_may_be_in_use_is_not_disposed_of(
    here: Side, state: Callable[[Side], None], verb: Callable[..., Any]
) -> None:
    state(here)
    with pytest.raises(Conflict, match="they may be in use"):
        verb(here.url, here.mark, here.tables)
    assert {"orders", ODD} <= there(here)


def test_only_a_sealed_side_is_renamed(here: Side) -> None:
    guard(here.url, here.mark, here.tables, at="x")
    with pytest.raises(Conflict, match="they may be in use"):
        rename(here.url, here.mark, here.tables)


def test_copies_that_were_made_are_dropped_guarded_or_not_yet(here: Side) -> None:
    drop(here.url, here.mark, here.tables[1:])
    here.tables = here.tables[:1]
    guard(here.url, here.mark, here.tables, at="x")
    drop(here.url, here.mark, here.tables)
    assert there(here) == set()


def test_where_no_feed_ever_wrote_only_what_was_made_and_is_empty_is_dropped(here: Side) -> None:
    here.tables.append(here.name("made"))
    here.do("CREATE TABLE {} ()", here.tables[-1])
    here.insert(here.tables[1])
    for _ in range(2):
        told = drop(here.url, here.mark, here.tables, made=[each.id for each in here.tables[1:]])
        assert told == [
            f"{here.orders} was not made by the move, and is left alone",
            f"{here.tables[1]} has rows that are not the move's, and is kept",
            f"{here.tables[2]} is dropped",
        ]
    assert there(here) == {"orders", ODD}


def test_what_is_guarded_is_dropped_whoever_filled_it(here: Side) -> None:
    here.insert()
    guard(here.url, here.mark, here.tables, at="x")
    drop(here.url, here.mark, here.tables, made=())
    assert there(here) == set()


@pytest.mark.parametrize("verb", [rename, drop])
def test_a_table_that_somebody_made_anew_is_not_touched(
    here: Side, verb: Callable[..., Any]
) -> None:
    sealed(here)
    here.do("DROP TABLE {}", here.orders)
    here.do("CREATE TABLE {} (id int PRIMARY KEY)", here.orders)
    with pytest.raises(Conflict, match="has no guard of this move"):
        verb(here.url, here.mark, here.tables)
    assert {"orders", ODD} <= there(here)


def test_readers_are_waited_for_and_named(here: Side, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lockgate.endpoints.postgres.cutover.dispose.PATIENCE_S", 0.1)
    sealed(here)
    with here.person() as reader:
        here.do("SELECT * FROM {}", here.orders, by=reader)
        with pytest.raises(EndpointBusy, match=rf"session {reader.info.backend_pid} \(app"):
            rename(here.url, here.mark, here.tables)
    rename(here.url, here.mark, here.tables)


@pytest.mark.parametrize("verb", [rename, drop])
def test_a_stale_keeper_disposes_of_nothing(here: Side, verb: Callable[..., Any]) -> None:
    sealed(here)
    with pytest.raises(StaleOwner):
        verb(here.url, here.keeper(1), here.tables)
    assert {"orders", ODD} <= there(here)


def test_partitions_go_along(here: Side) -> None:
    root, part = here.name("parts"), here.name("part")
    here.do("CREATE TABLE {} (id int PRIMARY KEY) PARTITION BY RANGE (id)", root)
    here.do("CREATE TABLE {} PARTITION OF {} DEFAULT", part, root)
    here.tables = [root]
    sealed(here)
    assert here.guards() == [("part", "A"), ("parts", "A")]
    rename(here.url, here.mark, here.tables)
    assert here.guards() == []
    here.do("INSERT INTO {} VALUES (1)", part)
    assert here.do("SELECT count(*) FROM {}", set_aside(root)) == [(1,)]


def test_sql_names_go_through_the_composer(here: Side) -> None:
    """The odd table's name holds a statement; nothing of it was executed."""
    sealed(here)
    rename(here.url, here.mark, here.tables)
    query = sql.SQL("SELECT count(*) FROM {}").format(
        sql.Identifier(here.schema, set_aside(here.tables[1]).name)
    )
    assert here.admin.execute(query).fetchone() == (0,)
