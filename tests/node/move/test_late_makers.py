"""Who was paused while he made something for a move leaves nothing when he wakes up behind its end.

He is a thread here: of a feeds' keeper, or of a move's, that stands still in the middle.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from lockgate.endpoints.postgres.ddl import log as ddl_log
from lockgate.endpoints.postgres.schema import create
from lockgate.model.errors import LockgateError, StaleOwner, Transient
from lockgate.model.move_instructions import RunStep
from lockgate.model.moves import Command, MoveState, Side, Step
from lockgate.node.feed import setup
from lockgate.node.move import creating
from lockgate.node.service import NodeService
from lockgate.store.feeds import FeedEntry
from tests.support.feeds import Pair
from tests.support.moves import CANCEL, CONFIG, copied, left_behind, order
from tests.support.waiting import until

SOON_S = 60.0
_MADE = """
SELECT 'relation', n.nspname || '.' || c.relname FROM pg_class c
  JOIN pg_namespace n ON n.oid = c.relnamespace
 WHERE n.nspname IN ('public', 'lockgate')
UNION ALL SELECT 'schema', nspname FROM pg_namespace WHERE nspname = 'lockgate'
UNION ALL SELECT 'event trigger', evtname FROM pg_event_trigger
ORDER BY 1, 2
"""


def made(pair: Pair) -> list[list[tuple[str, str]]]:
    """All that there is at both sides."""
    out = []
    for url in (pair.source, pair.target):
        with psycopg.connect(url) as connection:
            out.append(connection.execute(_MADE).fetchall())
    return out


class Late:
    """Somebody who stands still where he is told to, until he is woken."""

    def __init__(self, work: Callable[[], object]) -> None:
        self.stands = threading.Event()
        self.error: BaseException | None = None
        self._wakes = threading.Event()
        self._work = work
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        try:
            self._work()
        except BaseException as error:
            self.error = error

    def begin(self) -> None:
        self._thread.start()
        assert self.stands.wait(SOON_S)

    def at(self, real: Callable[..., Any]) -> Callable[..., Any]:
        """The same, before which he stands still."""

        def stand(*given: Any, **named: Any) -> Any:
            if threading.current_thread() is self._thread:
                self.stands.set()
                assert self._wakes.wait(4 * SOON_S)
            return real(*given, **named)

        return stand

    def wake(self) -> None:
        """And see him end."""
        self._wakes.set()
        self._thread.join(SOON_S)
        assert not self._thread.is_alive()


@contextmanager
def setting_up(service: NodeService, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Late]]:
    """The move's feed is set up by another node's keeper, and by nobody here."""
    make, late = setup.make, list[Late]()

    def elsewhere(*given: Any) -> FeedEntry:
        if not late:
            late.append(Late(lambda: make(*given[:5])))
        raise Transient("it is set up elsewhere", object_="feed", hint="wait")

    monkeypatch.setattr(setup, "make", elsewhere)
    plan = service.moves._plans.checked(CONFIG)
    service._stores.moves.enter(CONFIG, plan.tables, plan.there)
    service._move_hosts.knock()
    until(lambda: bool(late), SOON_S)
    yield late


@pytest.mark.parametrize(
    ("module", "where"), [(setup, "choose"), (create, "create"), (setup, "_install_log")]
)
def test_a_set_up_that_is_late_makes_nothing_behind_the_cancel(
    service: NodeService,
    pair: Pair,
    monkeypatch: pytest.MonkeyPatch,
    module: Any,
    where: str,
) -> None:
    """Before its turn at the target, in it, and in the one at the source."""
    with setting_up(service, monkeypatch) as [late]:
        monkeypatch.setattr(module, where, late.at(getattr(module, where)))
        late.begin()
        assert service.moves.command("orders", CANCEL, "test").verdict == "done"
        assert service.moves.one("orders").state is MoveState.CANCELLED
        there = made(pair)
        assert ("relation", "public.orders") not in there[1]
        late.wake()
    assert isinstance(late.error, LockgateError | psycopg.Error)
    assert made(pair) == there
    assert left_behind(pair) == {}


def _guard(service: NodeService, *, former: bool) -> Callable[[], object]:
    """The last step of the create, of the keeper of now or of one before."""
    entry = service._stores.moves.read("orders")
    assert entry is not None
    record = entry.record
    keeper = record.keeper - former
    run = RunStep(1, Step.GUARD, keeper, Side.SOURCE, order(Command.CREATE), record.facts, 0)
    job = service._move_hosts._job(entry, run, lambda: False)
    return lambda: creating.guard(job)


def test_a_guard_of_a_former_keeper_makes_nothing_behind_the_cancel(
    service: NodeService, pair: Pair
) -> None:
    copied(service)
    guard = _guard(service, former=True)
    assert service.moves.command("orders", CANCEL, "test").verdict == "done"
    there = made(pair)
    with pytest.raises(StaleOwner):
        guard()
    assert made(pair) == there
    assert left_behind(pair) == {}


def test_a_guard_that_stands_still_in_its_turn_makes_nothing_behind_the_cancel(
    service: NodeService, pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    copied(service)
    late = Late(_guard(service, former=False))
    monkeypatch.setattr(ddl_log, "install", late.at(ddl_log.install))
    late.begin()
    assert service.moves.command("orders", CANCEL, "test").verdict == "done"
    there = made(pair)
    late.wake()
    assert isinstance(late.error, LockgateError | psycopg.Error)
    assert made(pair) == there
    assert left_behind(pair) == {}
