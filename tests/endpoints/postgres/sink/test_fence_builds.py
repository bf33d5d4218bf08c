"""Indexes and constraints are made behind the fence too: by the owner, or not at all (F11, F12)."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import psycopg
import pytest

from lockgate.endpoints.postgres.sink.gate import Refused, enter_build
from lockgate.model.floors import Refusal
from lockgate.model.ids import Token
from lockgate.model.spans import TRIGGER_SPEC, WHOLE, SpanSpec
from tests.endpoints.postgres.sink.target import A, Target, token
from tests.support.waiting import until

OLD, NEW = token(1, 2), token(2, 1)
OWNED = pytest.mark.parametrize("spec", [A, TRIGGER_SPEC], ids=["span", "trigger"])


@contextmanager
def building(target: Target, spec: SpanSpec, by: Token = OLD) -> Iterator[psycopg.Connection]:
    """Somebody who has made an index and not committed yet."""
    with target.session(spec.id) as connection, connection.cursor() as cursor:
        enter_build(cursor, target.feed, spec.id, by)
        cursor.execute(f"CREATE INDEX {target.feed}_made ON {target.name('t00')} (value)")
        yield connection


def made(target: Target) -> bool:
    found = target.admin.execute("SELECT to_regclass(%s)", (f"{target.feed}_made",)).fetchone()
    return found != (None,)


@OWNED
def test_a_stale_owner_builds_nothing(target: Target, spec: SpanSpec) -> None:
    target.claim(spec, NEW)
    with pytest.raises(Refused) as refused, building(target, spec):
        pass
    assert refused.value.refusal is Refusal.NEWER


def test_nothing_is_built_for_a_span_that_is_gone(target: Target) -> None:
    with pytest.raises(Refused) as refused, building(target, SpanSpec("gone", "t00")):
        pass
    assert refused.value.refusal is Refusal.GONE


@OWNED
def test_a_claim_waits_for_a_build(target: Target, spec: SpanSpec) -> None:
    target.claim(spec, OLD)
    with building(target, spec) as connection, ThreadPoolExecutor(1) as threads:
        claimed = threads.submit(target.claim, spec, NEW)
        until(lambda: claimed.done() or target.waiting())
        assert not claimed.done()
        connection.commit()
        assert claimed.result() == ((WHOLE, 0),)
    assert made(target)


@OWNED
def test_after_the_grace_a_claim_ends_a_build(hasty: Target, spec: SpanSpec) -> None:
    """As of an owner that was stopped between its statement and its commit."""
    hasty.claim(spec, OLD)
    with building(hasty, spec) as connection:
        assert hasty.claim(spec, NEW) == ((WHOLE, 0),)
        with pytest.raises(psycopg.OperationalError):
            connection.commit()
    assert not made(hasty)


@OWNED
def test_a_removal_ends_a_build(hasty: Target, spec: SpanSpec) -> None:
    hasty.claim(spec, OLD)
    with building(hasty, spec) as connection:
        assert hasty.sink.close(hasty.feed, token(1, 9), forget=True)
        with pytest.raises(psycopg.OperationalError):
            connection.commit()
    assert not made(hasty)


@OWNED
def test_the_owner_goes_on_while_it_builds(target: Target, spec: SpanSpec) -> None:
    floors = target.floors(spec, OLD)
    with building(target, spec) as connection:
        assert target.advance(spec, OLD, floors, 5) == ((WHOLE, 5),)
        connection.commit()
    assert made(target)
