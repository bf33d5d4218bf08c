"""Whole flips under applications that come through a PgBouncer, which the hook has hold them.

One move for all of them; each test leaves it copied, with its traffic at the source. The writers go
on through all of it, each in one session: an error of any kind ends one, and the test.
"""

import contextlib
import itertools
import secrets
from collections.abc import Iterator
from typing import NamedTuple

import msgspec
import psycopg
import pytest

from lockgate.endpoints.pgbouncer.ini import line_of
from lockgate.endpoints.postgres.embedded import EmbeddedPostgres
from lockgate.endpoints.postgres.sink.fence import PostgresSink
from lockgate.model.errors import MetastoreUnavailable
from lockgate.model.hook_config import HookConfig, PgBouncerConfig
from lockgate.model.moves import Command, MoveOrder, MoveState
from lockgate.model.secret import Secret
from lockgate.node.service import NodeService
from lockgate.node.service.moves import RolledBack
from lockgate.pipeline.session import Spark
from soak.background import Background
from tests.node.move.conftest import serving
from tests.support.databases import fresh_database
from tests.support.feeds import Pair
from tests.support.moves import (
    CONFIG,
    REVERSE,
    SWITCH,
    Asking,
    Writer,
    commanded,
    copied,
    notes,
    order,
)
from tests.support.pgbouncers import Bouncer, bouncer, line_to
from tests.support.proxy import FaultProxy
from tests.support.waiting import until

SOON_S = 120.0
ENDS_S = 30.0
HOOK_S = 3.0
SHORT = order(Command.SWITCH, 8.0, max_lag_ms=60_000)
"""Long enough to get to the block on a busy machine, and short enough to be waited for."""
PATIENT = order(Command.SWITCH, max_lag_ms=60_000)
"""Feeds need a moment to go on where the metastore was away."""
WRITERS = 3


class Pooled(Background):
    """An application: short transactions of three changes, and how many were acknowledged."""

    def __init__(self, front: Bouncer) -> None:
        super().__init__("pooled application", ends_s=ENDS_S)
        self.tag = secrets.token_hex(4)
        """What its rows begin with, and no others."""
        self.acknowledged = 0
        self._front = front

    def _work(self) -> None:
        with self._front.client() as session:
            session.execute("INSERT INTO tallies VALUES (%s, 0)", (self.tag,))
            for number in itertools.count(1):
                if self._stopped.wait(0.002):
                    return
                with session.transaction():
                    self._change(session, number)
                self.acknowledged = number

    def _change(self, session: psycopg.Connection, number: int) -> None:
        session.execute("INSERT INTO orders (note) VALUES (%s)", (f"{self.tag} {number}",))
        last = f"{self.tag} {number - 1}"
        sent = session.execute("UPDATE orders SET note = note || ' sent' WHERE note = %s", (last,))
        assert sent.rowcount == (number > 1), "what was acknowledged last is not there"
        session.execute("UPDATE tallies SET total = total + 1 WHERE writer = %s", (self.tag,))

    def wrote_more(self, transactions: int = 20) -> None:
        """Wait until so many more are acknowledged."""
        wanted = self.acknowledged + transactions
        until(lambda: self.acknowledged >= wanted or not self.alive, SOON_S)
        self.check()

    def is_at(self, url: str, within_s: float = 0.0) -> None:
        """Exactly what was acknowledged is there, and each of it once. It writes no more."""
        number = self.acknowledged
        sent = [f"{self.tag} {each} sent" for each in range(1, number)]
        wanted = [*sent, f"{self.tag} {number}"]
        if within_s:  # tables arrive one by one
            until(lambda: notes(url, tag=self.tag) == wanted, within_s, 0.05)
            until(lambda: self.tally(url) == number, within_s, 0.05)
        assert notes(url, tag=self.tag) == wanted
        assert self.tally(url) == number

    def tally(self, url: str) -> int:
        """How many of its transactions a side has."""
        with psycopg.connect(url) as connection:
            query = "SELECT total FROM tallies WHERE writer = %s"
            [(total,)] = connection.execute(query, (self.tag,)).fetchall()
        return int(total)


class World(NamedTuple):
    service: NodeService
    pair: Pair
    front: Bouncer
    metastore: FaultProxy

    def url(self, traffic: str) -> str:
        return {"source": self.pair.source, "target": self.pair.target}[traffic]

    def is_sent_to(self, traffic: str) -> None:
        """Everybody who tells where the traffic goes says this side, and there it goes."""
        wanted = self.url(traffic)
        assert self.service.moves.one("orders").traffic == traffic
        endpoints = {each.endpoint for each in self.service.moves.routes().routes}
        assert endpoints == {"copy" if traffic == "target" else "shop"}
        assert line_of(self.front.ini.read_bytes(), "shop") == line_to(wanted)
        assert not self.front.paused()
        with self.front.client() as through, psycopg.connect(wanted) as direct:
            [(at,)] = through.execute("SELECT current_database()").fetchall()
            assert at == direct.info.dbname

    def has_acknowledged(self, traffic: str, writers: list[Pooled]) -> None:
        """What writers were told by now is at the side with the traffic."""
        for writer in writers:
            told = writer.acknowledged
            assert writer.tally(self.url(traffic)) >= told

    def step(self) -> str:
        return self.service.moves.one("orders").step

    def rests(self) -> bool:
        """Nothing is under way any more, as far as anybody can tell."""
        with contextlib.suppress(MetastoreUnavailable):
            return not self.step()
        return False

    def error(self) -> str:
        return self.service.moves.one("orders").error

    def writes(self, url: str, note: str) -> None:
        """A write that does not come through PgBouncer."""
        with psycopg.connect(url) as connection:
            connection.execute("INSERT INTO orders (note) VALUES (%s)", (note,))

    def is_open(self, url: str) -> bool:
        """Whether a side takes such writes."""
        try:
            self.writes(url, "round it")
        except psycopg.Error as error:
            if "LOCKGATE" not in str(error):
                raise
            return False
        return True

    @contextlib.contextmanager
    def writing(self) -> Iterator[list[Pooled]]:
        """Writers until the block ends. Then each has exactly what it knows of, at both sides."""
        with contextlib.ExitStack() as stack:
            writers = [stack.enter_context(Pooled(self.front)) for _ in range(WRITERS)]
            for writer in writers:
                writer.wrote_more()
            yield writers
            for writer in writers:
                writer.wrote_more()
        assert self.service.moves.one("orders").state is MoveState.RUNNING
        for writer in writers:
            writer.is_at(self.pair.source)
            writer.is_at(self.pair.target, within_s=SOON_S)

    @contextlib.contextmanager
    def pausing(self, asked: MoveOrder) -> Iterator[tuple[Asking, psycopg.Connection]]:
        """A flip whose hook waits for the transaction of this session."""
        with self.front.client() as session:
            session.execute("BEGIN")
            session.execute("INSERT INTO orders (note) VALUES ('the last one')")
            asking = Asking(lambda: commanded(self.service, asked))
            until(lambda: self.step() == "hook-before" or asking.over, SOON_S)
            until(lambda: self.front.paused() or asking.over, SOON_S)
            assert not asking.over, asking.error
            yield asking, session

    @contextlib.contextmanager
    def blocked(self, asked: MoveOrder) -> Iterator[Asking]:
        """A flip that holds everybody, and does not catch up until the block ends."""
        feed = self.service.moves.one("orders").forward
        assert feed is not None
        with PostgresSink(self.pair.target) as sink:
            with self.pausing(asked) as (asking, session):
                sink.hold(feed.feed, "test", None, SOON_S)
                session.execute("COMMIT")
            try:
                until(lambda: self.step() == "catch-up" or asking.over, SOON_S)
                assert not asking.over, asking.error
                yield asking
            finally:
                sink.release(feed.feed, "test")


@pytest.fixture(scope="module")
def world(
    pg16: EmbeddedPostgres,
    pg18: EmbeddedPostgres,
    spark: Spark,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[World]:
    with (
        fresh_database(pg16) as source,
        fresh_database(pg18) as target,
        fresh_database(pg18) as book,
        FaultProxy(pg18.host, pg18.port) as metastore,
        bouncer(pg16, source) as front,
    ):
        pair = Pair(source, target, tmp_path_factory.mktemp("pooled"), spark)
        pair.at_source("CREATE TABLE tallies (writer text PRIMARY KEY, total int)")
        pooled = PgBouncerConfig(
            admin=Secret(front.admin),
            ini=str(front.ini),
            database="shop",
            source=Secret(line_to(source)),
            target=Secret(line_to(target)),
        )
        hooks = {"bouncer": HookConfig(pgbouncer=pooled, timeout_s=HOOK_S)}
        through = book.replace(f":{pg18.port}/", f":{metastore.port}/")
        with serving(pair, hooks, through) as node:
            copied(node, msgspec.structs.replace(CONFIG, hook="bouncer"))
            yield World(node, pair, front, metastore)


def test_nobody_meets_an_error_on_the_way_there_and_back(world: World) -> None:
    """M13: they are held up, not refused."""
    world.is_sent_to("source")
    with world.writing() as writers:
        for command, traffic in ((SWITCH, "target"), (REVERSE, "source")):
            assert commanded(world.service, command) == "done"
            world.is_sent_to(traffic)
            for writer in writers:
                writer.wrote_more()
            world.has_acknowledged(traffic, writers)


def test_a_pgbouncer_that_falls_silent_before_it_holds_anybody_puts_the_flip_back(
    world: World,
) -> None:
    with world.writing(), world.pausing(SWITCH) as (asking, session):
        with world.front.stopped():
            until(lambda: world.error() or asking.over, SOON_S)
            assert not asking.over, "somebody may be held, and the flip is back"
            world.writes(world.pair.source, "round it")
        asking.ended()
        assert isinstance(asking.error, RolledBack), (asking.verdict, asking.error)
        session.execute("COMMIT")
        world.is_sent_to("source")


def test_a_pgbouncer_that_falls_silent_while_it_holds_them_does_not_keep_the_source_closed(
    world: World,
) -> None:
    """Who comes round it writes at the source again in time; who was held goes on there, too."""
    with world.writing():
        with world.blocked(SHORT) as asking, world.front.stopped():
            assert not world.is_open(world.pair.source), "it is blocked"
            until(lambda: world.is_open(world.pair.source), SOON_S, 0.05)
            assert not asking.over, "they are held, and the flip is back"
        asking.ended()
        assert isinstance(asking.error, RolledBack), (asking.verdict, asking.error)
        world.is_sent_to("source")


def test_a_pgbouncer_that_falls_silent_behind_the_seal_sends_them_on_when_it_is_back(
    world: World,
) -> None:
    with world.writing() as writers:
        with contextlib.ExitStack() as silent:
            with world.blocked(SWITCH) as asking:
                silent.enter_context(world.front.stopped())
            until(lambda: (world.step() == "hook-after" and world.error()) or asking.over, SOON_S)
            assert not asking.over, asking.error
            assert not world.is_open(world.pair.source), "it is sealed"
            world.writes(world.pair.target, "round it")
        assert asking.ended().verdict == "done", asking.error
        world.is_sent_to("target")
        for writer in writers:
            writer.wrote_more()
        world.has_acknowledged("target", writers)
        assert commanded(world.service, REVERSE) == "done"
        world.is_sent_to("source")


def test_without_the_metastore_the_source_is_open_in_time_and_the_flip_is_put_back_afterwards(
    world: World,
) -> None:
    """The database keeps the deadline of the block. Nobody keeps the hook's: who was held by it
    goes on when the metastore is back, and no sooner."""
    pair = world.pair
    with world.writing() as writers, Writer(pair.source, pair.target).running() as direct:
        with world.blocked(SHORT):
            assert not world.is_open(pair.source), "it is blocked"
            world.metastore.refuse()
            world.metastore.cut()
        direct.wrote_more()
        assert world.is_open(pair.source)
        assert not world.is_open(pair.target)
        assert world.front.paused()
        world.metastore.heal()
        until(world.rests, SOON_S, 0.1)
        steps = {each.name: each.state for each in world.service.moves.one("orders").steps}
        assert (steps["hook-before"], steps["block"]) == ("undone", "undone")
        world.is_sent_to("source")
        for command, traffic in ((PATIENT, "target"), (REVERSE, "source")):
            assert commanded(world.service, command) == "done"
            world.is_sent_to(traffic)
            direct.wrote_more()
            for writer in writers:
                writer.wrote_more()
    assert notes(pair.source, tag=direct.tag) == direct.notes
