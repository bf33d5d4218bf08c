"""Bad days of moves: a flip is put back or goes on, nothing is lost, and people are told why.

One move for all of them, on servers that may be killed. Each test leaves it copied, with its
traffic at the source. Its hook is a script that does what the test has written for it: what happens
in the middle of a flip happens while the hook holds it, between the check and the block.
"""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import psycopg
import pytest

from lockgate.endpoints.postgres.cutover import guards
from lockgate.endpoints.postgres.embedded import EmbeddedPostgres
from lockgate.endpoints.postgres.sink.fence import PostgresSink
from lockgate.model.errors import (
    Conflict,
    EndpointRefused,
    LockgateError,
    OutcomeUnknown,
    StaleOwner,
)
from lockgate.model.feed_config import read_config
from lockgate.model.hook_config import HookConfig
from lockgate.model.move_config import MoveConfig
from lockgate.model.moves import Command, MoveOrder, MoveState, Side
from lockgate.model.secret import Secret
from lockgate.model.server_config import ServerConfig
from lockgate.node.hooks import HookContext, HookEnd
from lockgate.node.service import NodeService
from lockgate.node.service.moves import MoveStuck, RolledBack
from lockgate.pipeline.session import Spark
from tests.support.bad_days import gone, small_disk, tablespace
from tests.support.databases import fresh_database
from tests.support.feeds import Pair
from tests.support.moves import (
    CANCEL,
    DROP,
    ORDERS,
    RENAME,
    REVERSE,
    SWITCH,
    Asking,
    commanded,
    copied,
    notes,
    order,
)
from tests.support.waiting import until

SOON_S = 180.0
CONFIG = MoveConfig(name="orders", source="shop", target="copy", tables=("public.*",), hook="flip")
SHORT = order(Command.SWITCH, 6.0, max_lag_ms=60_000)
"""Long enough to get to the block on a busy machine, and short enough to be waited for."""

_SCRIPT = """#!/bin/sh
cd "$1"
echo "$LOCKGATE_PHASE $LOCKGATE_GIVING" >> said
test -f "do-$LOCKGATE_PHASE" && . "./do-$LOCKGATE_PHASE"
exit 0
"""


class Bad(NamedTuple):
    service: NodeService
    pair: Pair
    servers: tuple[EmbeddedPostgres, EmbeddedPostgres]
    folder: Path

    # --- the hook ---------------------------------------------------------------------------------

    def hook(self, phase: str, script: str) -> None:
        """What it does from now on in this phase; nothing: it succeeds."""
        (self.folder / f"do-{phase}").write_text(script)

    def said(self) -> list[str]:
        """The phases that it was run for, since this was asked."""
        file = self.folder / "said"
        lines = file.read_text().splitlines() if file.exists() else []
        file.unlink(missing_ok=True)
        return [each for each in lines if not each.startswith("check")]

    @contextlib.contextmanager
    def held(self, asked: MoveOrder) -> Iterator[Asking]:
        """A flip whose hook holds it until the block ends."""
        self.hook("before", "touch holds; while test -e holds; do sleep 0.05; done\n")
        asking = Asking(lambda: self.command(asked))
        try:
            until(lambda: (self.folder / "holds").exists() or asking.over, SOON_S)
            assert not asking.over, asking.error
            yield asking
        finally:
            self.hook("before", "")
            (self.folder / "holds").unlink(missing_ok=True)

    # --- the move ---------------------------------------------------------------------------------

    def command(self, asked: MoveOrder) -> str:
        return commanded(self.service, asked)

    def state(self) -> tuple[MoveState, str]:
        status = self.service.moves.one("orders")
        return status.state, status.traffic

    def rests(self) -> tuple[MoveState, str]:
        """How it is when nothing is under way any more."""
        until(lambda: not self.service.moves.one("orders").step, SOON_S, 0.1)
        return self.state()

    @contextlib.contextmanager
    def reader(self, source: str, target: str) -> Iterator[None]:
        """While a feed of people's own takes the table to another one."""
        told = {"name": "reader", "source": source, "target": target}
        names = {"tables": ["public.orders"], "rename": {"public.orders": "public.beside"}}
        self.service.create_feed(read_config(told | names), "test")
        try:
            yield
        finally:
            self.service.remove_feed("reader", "test")
            until(lambda: "reader" not in [each.name for each in self.service.feeds()], SOON_S, 0.1)
            at = self.pair.at_target if target == "copy" else self.pair.at_source
            at("DROP TABLE beside")

    def goes_on(self) -> None:
        """It is as before: what is written at the source comes to the target."""
        assert self.rests() == (MoveState.RUNNING, "source")
        self.pair.at_source("INSERT INTO orders (note) VALUES ('goes on')")
        until(lambda: notes(self.pair.target) == notes(self.pair.source), SOON_S, 0.2)


@pytest.fixture(scope="module")
def shared(
    fragile: tuple[EmbeddedPostgres, EmbeddedPostgres],
    spark: Spark,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Bad]:
    folder = tmp_path_factory.mktemp("hook")
    script = folder / "hook"
    script.write_text(_SCRIPT)
    script.chmod(0o755)
    with fresh_database(fragile[0]) as source, fresh_database(fragile[1]) as target:
        pair = Pair(source, target, tmp_path_factory.mktemp("bad"), spark)
        pair.at_source(*ORDERS)
        hooks = {"flip": HookConfig(command=(str(script), str(folder)), timeout_s=60.0)}
        config = ServerConfig(home=str(pair.home), node="one", lease_s=3.0, hooks=hooks)
        node = NodeService(config, spark=spark)
        node.start("http://127.0.0.1:1")
        try:
            node.add_endpoint("shop", Secret(source), "test")
            node.add_endpoint("copy", Secret(target), "test")
            copied(node, CONFIG)
            yield Bad(node, pair, fragile, folder)
        finally:
            node.stop()


@pytest.fixture
def bad(shared: Bad) -> Bad:
    """Whatever became of the test before: traffic is at the source, and the hook succeeds."""
    for phase in ("before", "after", "undo"):
        shared.hook(phase, "")
    if shared.rests()[1] == "target":
        shared.command(REVERSE)
    shared.said()
    return shared


# --- hooks (M13) ----------------------------------------------------------------------------------


def test_a_hook_is_run_once_before_and_once_after_each_flip(bad: Bad) -> None:
    assert bad.command(SWITCH) == "done"
    assert bad.said() == ["before shop", "after shop"]
    assert bad.command(REVERSE) == "done"
    assert bad.said() == ["before copy", "after copy"]
    bad.goes_on()


def test_traffic_is_said_to_be_blocked_as_long_as_the_hook_holds_it(bad: Bad) -> None:
    bad.hook("undo", "while test -e stays; do sleep 0.05; done\n")
    stays = bad.folder / "stays"
    stays.touch()
    with bad.held(order(Command.SWITCH, 2.0, max_lag_ms=60_000)) as asking:
        assert bad.state()[1] == "blocked"
        until(lambda: "undo shop" in bad.said(), SOON_S)
        assert bad.state()[1] == "blocked"
        stays.unlink()
    asking.ended()
    bad.goes_on()


def test_a_hook_that_fails_before_the_point_of_no_return_puts_the_flip_back(bad: Bad) -> None:
    bad.hook("before", "echo no such pool >&2; exit 3\n")
    with pytest.raises(RolledBack, match="no such pool"):
        bad.command(SWITCH)
    bad.hook("before", "")
    assert bad.said() == ["before shop", "undo shop"], "at once, and not again and again"
    bad.goes_on()


def test_a_hook_that_hangs_puts_the_flip_back_in_time(bad: Bad) -> None:
    bad.hook("before", "sleep 600\n")
    # Its node and the keeper of the move both look at the time: one of them is the first.
    with pytest.raises(RolledBack, match=r"the hook took longer than|the flip's time was over"):
        bad.command(SHORT)
    bad.hook("before", "")
    assert bad.said() == ["before shop", "undo shop"]
    bad.goes_on()


def test_a_former_keeper_holds_no_traffic(bad: Bad) -> None:
    entry = bad.service._stores.moves.read("orders")
    assert entry is not None
    ends = HookEnd(Side.SOURCE, "shop"), HookEnd(Side.TARGET, "copy")
    former = HookContext(
        "orders", *ends, entry.tables, entry.record.keeper - 1, 30.0, birth=entry.birth
    )
    hook = bad.service._move_hosts._hook("flip")
    with pytest.raises(StaleOwner):
        hook.before(former)
    assert bad.said() == []
    hook.undo(msgspec.structs.replace(former, attempt=entry.record.keeper))
    assert bad.said() == ["undo shop"]


def test_a_hook_that_fails_behind_it_is_tried_until_it_succeeds(bad: Bad) -> None:
    bad.hook("after", "exit 1\n")
    asking = Asking(lambda: bad.command(SWITCH))
    until(lambda: bad.service.moves.one("orders").step == "hook-after", SOON_S, 0.1)
    bad.pair.at_target("INSERT INTO orders (note) VALUES ('let in')")
    until(lambda: "hook" in bad.service.moves.one("orders").error, SOON_S, 0.1)
    bad.hook("after", "")
    assert asking.ended().verdict == "done" or isinstance(asking.error, MoveStuck)
    assert bad.rests() == (MoveState.SWITCHED, "target")
    assert bad.command(REVERSE) == "done"
    assert "let in" in notes(bad.pair.source)
    bad.goes_on()


# --- servers --------------------------------------------------------------------------------------


def test_the_target_goes_away_in_the_middle_of_a_switch(bad: Bad) -> None:
    with bad.held(SHORT) as asking:
        bad.servers[1].stop("immediate")
    try:
        asking.ended()
        assert isinstance(asking.error, RolledBack), (asking.verdict, asking.error)
        bad.pair.at_source("INSERT INTO orders (note) VALUES ('while it is away')")
    finally:
        bad.servers[1].start()
    bad.goes_on()


def test_the_source_is_restarted_while_it_is_blocked(bad: Bad) -> None:
    """Its guards are in its catalog, and hold: nobody writes there unless the flip is put back."""
    feed = bad.service.moves.one("orders").forward
    assert feed is not None
    with PostgresSink(bad.pair.target) as sink:
        with bad.held(order(Command.SWITCH, 60.0)) as asking:
            sink.hold(feed.feed, "test", None, SOON_S)  # so that it does not catch up yet
            bad.pair.at_source("INSERT INTO orders (note) VALUES ('the last one')")
        until(lambda: bad.service.moves.one("orders").step == "catch-up", SOON_S)
        with gone(bad.servers[0], "fast"):
            pass
        sink.release(feed.feed, "test")
    asking.ended()
    state, traffic = bad.rests()
    closed = {"target": bad.pair.source, "source": bad.pair.target}[traffic]
    with pytest.raises(psycopg.Error, match="LOCKGATE"), psycopg.connect(closed) as connection:
        connection.execute("INSERT INTO orders (note) VALUES ('nowhere')")
    if state is MoveState.SWITCHED:
        assert bad.command(REVERSE) == "done"
    bad.goes_on()


def test_the_targets_disk_is_full_in_the_middle_of_a_switch(bad: Bad) -> None:
    pair, server = bad.pair, bad.servers[1]
    with small_disk(server.directory / "space", "2m") as disk, tablespace(server, disk.path):
        pair.at_target("ALTER TABLE orders SET TABLESPACE small")
        with bad.held(SHORT) as asking:
            pair.at_source(
                "INSERT INTO orders (note) SELECT repeat(md5(g::text), 30) "
                "FROM generate_series(1, 4000) g"
            )
        asking.ended()
        assert isinstance(asking.error, RolledBack), (asking.verdict, asking.error)
        assert "No space left" in str(asking.error), "people are told what keeps the feed"
        assert bad.rests() == (MoveState.RUNNING, "source")
        pair.at_source("INSERT INTO orders (note) VALUES ('while it is full')")
        disk.resize("64m")
        bad.goes_on()
        pair.at_target("ALTER TABLE orders SET TABLESPACE pg_default")
    bad.goes_on()


def test_a_seal_that_may_be_on_is_not_undone_because_nobody_can_ask_for_it(
    bad: Bad, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its answer is lost, and then the server lets nobody in: that says nothing of the seal."""
    lost: list[LockgateError] = [
        EndpointRefused("nobody is let in", object_="shop", hint="wait"),
        OutcomeUnknown("the answer is lost", object_="shop", hint="wait"),
    ]
    seal = guards.seal

    def sealed(*args: Any, **more: Any) -> bool:
        answer = seal(*args, **more)
        if lost:
            raise lost.pop()
        return answer

    monkeypatch.setattr(guards, "seal", sealed)
    assert bad.command(SWITCH) == "done"
    assert lost == []
    assert bad.command(REVERSE) == "done"
    bad.goes_on()


# --- people ---------------------------------------------------------------------------------------


def test_a_sequence_at_its_end_is_refused_before_anybody_is_held_up(bad: Bad) -> None:
    bad.pair.at_source("SELECT setval('orders_id_seq', 2000000)")
    bad.pair.at_target("ALTER SEQUENCE orders_id_seq MAXVALUE 1000000")
    with pytest.raises(Conflict, match="orders_id_seq") as refused:
        bad.command(SHORT)
    assert not isinstance(refused.value, RolledBack)
    assert bad.said() == []
    bad.pair.at_target("ALTER SEQUENCE orders_id_seq NO MAXVALUE")
    bad.goes_on()


def test_an_old_name_that_is_in_use_is_refused_and_the_move_is_as_it_was(bad: Bad) -> None:
    assert bad.command(SWITCH) == "done"
    bad.pair.at_source("CREATE TABLE _orders_old (id int)")
    with pytest.raises(Conflict, match="_orders_old"):
        bad.command(RENAME)
    assert bad.rests() == (MoveState.SWITCHED, "target")
    bad.pair.at_source("DROP TABLE _orders_old")
    bad.pair.at_target("INSERT INTO orders (note) VALUES ('goes back')")
    until(lambda: "goes back" in notes(bad.pair.source), SOON_S, 0.1)
    assert bad.command(REVERSE) == "done"
    bad.goes_on()


@pytest.mark.parametrize("command", [RENAME, DROP, CANCEL])
def test_tables_that_a_feed_follows_are_not_taken_from_under_it(
    bad: Bad, command: MoveOrder
) -> None:
    """It would bring to its own target what becomes of them."""
    ends = ("copy", "shop") if command is CANCEL else ("shop", "copy")
    if command is not CANCEL:
        assert bad.command(SWITCH) == "done"
    before = bad.rests()
    with bad.reader(*ends):
        with pytest.raises(Conflict, match="a feed of Lockgate follows it") as refused:
            bad.command(command)
        assert "lockgate_reader" in refused.value.what
        assert bad.rests() == before
    if command is not CANCEL:
        assert bad.command(REVERSE) == "done"
    bad.goes_on()


def test_a_move_that_is_switched_is_not_cancelled(bad: Bad) -> None:
    assert bad.command(SWITCH) == "done"
    with pytest.raises(Conflict, match="traffic is at the target"):
        bad.command(CANCEL)
    assert bad.command(SWITCH) == "nothing-to-do"
    assert bad.command(REVERSE) == "done"
    bad.goes_on()


def test_a_target_table_that_somebody_drops_is_named_and_the_move_can_be_cancelled(
    bad: Bad,
) -> None:
    """The last one: nothing is left of the move."""
    bad.pair.at_target("DROP TABLE orders")
    with pytest.raises(Conflict, match=r"public\.orders"):
        bad.command(SHORT)
    bad.pair.at_source("INSERT INTO orders (note) VALUES ('still mine')")
    assert bad.command(CANCEL) == "done"
    assert bad.state()[0] is MoveState.CANCELLED
    assert bad.command(CANCEL) == "nothing-to-do"
