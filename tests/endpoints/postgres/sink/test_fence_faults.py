"""A sink that is cut off, restarted or slow: typed errors, and a claim that tells what landed."""

from collections.abc import Iterator

import psycopg
import pytest

from lockgate.endpoints.postgres.embedded import EmbeddedPostgres
from lockgate.endpoints.postgres.sink.fence import PostgresSink
from lockgate.endpoints.postgres.sink.session import Limits
from lockgate.model.ddl import Ddl, DdlKind
from lockgate.model.errors import EndpointBusy, ObjectMissing, OutcomeUnknown, Transient
from lockgate.model.floors import Refusal
from lockgate.model.spans import TRIGGER_SPEC, WHOLE, Birth
from tests.endpoints.postgres.sink.target import A, Target, token
from tests.support.proxy import FaultProxy

ME = token(1, 2)


@pytest.fixture
def proxy(target: Target) -> Iterator[FaultProxy]:
    info = target.admin.info
    with FaultProxy(info.host, info.port) as proxy:
        yield proxy


@pytest.fixture
def cut(target: Target, proxy: FaultProxy) -> Iterator[PostgresSink]:
    """The same sink, over a line that can be cut."""
    url = target.url.replace(f":{target.admin.info.port}/", f":{proxy.port}/")
    with PostgresSink(url) as sink:
        yield sink


@pytest.mark.parametrize("landed", [True, False])
def test_a_claim_cut_in_its_commit_is_asked_again(
    target: Target, proxy: FaultProxy, cut: PostgresSink, landed: bool
) -> None:
    proxy.cut_at(b"COMMIT", forward=landed)
    with pytest.raises(OutcomeUnknown):
        cut.claim(target.feed, A, ME)
    assert (target.spans()["a"].token == ME) is landed
    assert cut.claim(target.feed, A, ME) == ((WHOLE, 0),)


@pytest.mark.parametrize("landed", [True, False])
def test_an_advance_cut_in_its_commit_is_told_by_a_claim(
    target: Target, proxy: FaultProxy, cut: PostgresSink, landed: bool
) -> None:
    floors = target.floors(A, ME)
    proxy.cut_at(b"COMMIT", forward=landed)
    with pytest.raises(OutcomeUnknown):
        cut.advance(target.feed, [("a", ME, floors, 9)])
    assert cut.claim(target.feed, A, ME) == ((WHOLE, 9 if landed else 0),)


@pytest.mark.parametrize("landed", [True, False])
def test_a_ddl_cut_in_its_commit_is_written_once(
    target: Target, proxy: FaultProxy, cut: PostgresSink, landed: bool
) -> None:
    runs = []
    ddl = Ddl(1, DdlKind.ALTER, ("t00",))

    def change(cursor: psycopg.Cursor) -> None:
        runs.append(cursor.execute(f"ALTER TABLE {target.name('t00')} ADD COLUMN note text"))

    proxy.cut_at(b"COMMIT", forward=landed)
    with pytest.raises(OutcomeUnknown):
        cut.write_ddl(target.feed, token(), ddl, (), change)
    assert target.trigger() == (1 if landed else 0)
    assert cut.write_ddl(target.feed, token(), ddl, (), change) == 1
    assert len(runs) == (1 if landed else 2)


@pytest.mark.parametrize("landed", [True, False])
def test_a_birth_cut_in_its_commit_happens_once(
    target: Target, proxy: FaultProxy, cut: PostgresSink, landed: bool
) -> None:
    feed, birth = target.feed + "-born", Birth(3, (A,))
    proxy.cut_at(b"COMMIT", forward=landed)
    with pytest.raises(OutcomeUnknown):
        cut.claim(feed, TRIGGER_SPEC, ME, birth=birth)
    assert cut.claim(feed, TRIGGER_SPEC, ME, birth=birth) == ((WHOLE, 3),)


def test_a_line_cut_before_the_commit_is_transient_and_nothing_happened(
    target: Target, proxy: FaultProxy, cut: PostgresSink
) -> None:
    proxy.cut_at(b"UPDATE lockgate.progress", forward=False)
    with pytest.raises(Transient) as error:
        cut.claim(target.feed, A, ME)
    assert error.value.hint
    assert f"{target.feed}/a" in str(error.value)
    assert target.spans()["a"].token == token().floor()


def test_a_session_that_the_server_ended_is_not_used_again(target: Target) -> None:
    target.claim(A, ME)
    target.admin.execute(
        "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity "
        "WHERE application_name = 'lockgate sink' AND datname = current_database()"
    )
    assert target.claim(A, ME) == ((WHOLE, 0),)


def test_a_lock_that_is_held_for_too_long_is_transient(target: Target) -> None:
    floors = target.floors(A, ME)
    with (
        psycopg.connect(target.url) as other,
        PostgresSink(target.url, Limits(grace_s=0.1, patience_s=0.1)) as impatient,
    ):
        other.execute("SELECT FROM lockgate.progress WHERE feed = %s FOR UPDATE", (target.feed,))
        with pytest.raises(EndpointBusy):
            impatient.advance(target.feed, [("a", ME, floors, 9)])
        other.rollback()
        assert impatient.advance(target.feed, [("a", ME, floors, 9)]) == {"a": ((WHOLE, 9),)}


def test_a_sink_that_was_not_prepared_says_so(database: str) -> None:
    with PostgresSink(database) as sink, pytest.raises(ObjectMissing) as error:
        sink.claim("orders", A, ME)
    assert "lockgate" in str(error.value)


def test_a_crash_of_the_server_loses_nothing_that_was_answered() -> None:
    with EmbeddedPostgres(18) as server:
        target = Target(server.url(), Limits())
        floors = target.floors(A, ME)
        assert target.apply(A, ME, floors, 7, key=3) == ((WHOLE, 7),)
        server.stop("immediate")
        with pytest.raises(Transient):
            target.claim(A, ME)
        server.start()
        assert target.claim(A, token(1, 1)) is Refusal.NEWER
        assert target.claim(A, ME) == ((WHOLE, 7),)
        target.admin.close()
        target.admin = psycopg.connect(server.url(), autocommit=True)
        assert target.rows() == {3: 7}
        target.close()
