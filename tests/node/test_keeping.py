"""Keepers on threads of a node: begun and ended one by one, whatever others do (F7, L3).

What is kept here is nothing: the tests say when a beginning is over, and when work ends.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from lockgate.model.errors import ObjectMissing, Transient
from lockgate.node.keeping import hosts as hosting
from lockgate.node.keeping.carrier import Carrier
from lockgate.node.keeping.host import KeeperHost
from lockgate.node.keeping.hosts import KeeperHosts
from lockgate.node.telemetry.lines import Lines
from tests.support.waiting import until

WAIT_S = 30.0
TICK, OVER, BREAK = "tick", "over", "break"


class Host(KeeperHost[str, str, int]):
    """Hears of events and wants nothing done."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.heard: list[str] = []
        self.over = False
        self.echoes = False
        """What it hears, it hears once more."""
        super().__init__(
            f"keeper {number}",
            self._hear,
            answers=int,
            tick=TICK,
            over=OVER,
            carry_out=lambda _: None,
            lines=Lines("test"),
            tick_s=0.01,
        )

    def _hear(self, _: int, event: str) -> Sequence[str | int]:
        self.heard.append(event)
        if event == BREAK:
            raise ValueError(event)
        self.over |= event == OVER
        if self.echoes and event != TICK:
            self.post(event)
        return ()

    @property
    def ended(self) -> bool:
        return self.over


class Hosts(KeeperHosts[int, Host]):
    def __init__(self) -> None:
        self.wants: dict[str, int] = {}
        self.leading = True
        super().__init__("thing", lambda: self.leading, lambda: dict(self.wants), Lines("test"))
        self.gates: dict[str, threading.Event] = {}
        """A beginning waits for its gate, where there is one."""
        self.fails: dict[str, Exception] = {}
        self.begun: list[tuple[str, Host, Carrier[str]]] = []
        self.entered: list[str] = []
        self.told: list[tuple[str, str]] = []

    def begin(self, name: str, wanted: int) -> tuple[Host, Carrier[Any]]:
        self.entered.append(name)
        if name in self.gates:
            assert self.gates[name].wait(WAIT_S)
        if name in self.fails:
            raise self.fails[name]
        host, carrier = Host(wanted), Carrier[str]((ThreadPoolExecutor(1),))
        self.begun.append((name, host, carrier))
        return host, carrier

    def troubled(self, name: str, what: str, hint: str) -> None:
        self.told.append((name, what))

    def want(self, **wants: int) -> None:
        self.wants = wants
        self.knock()

    def carriers(self, name: str) -> list[Carrier[str]]:
        return [carrier for each, _, carrier in self.begun if each == name]

    def alive(self) -> list[Host]:
        return [host for _, host, _ in self.begun if host._thread.is_alive()]


@pytest.fixture
def hosts() -> Iterator[Hosts]:
    hosts = Hosts()
    hosts.start()
    yield hosts
    for gate in hosts.gates.values():
        gate.set()
    hosts.stop()
    until(lambda: not hosts.alive(), WAIT_S)


def here(hosts: Hosts, *names: str) -> Callable[[], bool]:
    return lambda: set(hosts.hosts()) == set(names)


# --- beginning and ending ------------------------------------------------------------------------


def test_one_that_does_not_answer_holds_up_nobody_else(hosts: Hosts) -> None:
    hosts.gates["slow"] = threading.Event()
    hosts.want(slow=1, quick=1)
    until(here(hosts, "quick"), WAIT_S)
    hosts.want(slow=1)
    until(here(hosts), WAIT_S)
    hosts.gates["slow"].set()
    until(here(hosts, "slow"), WAIT_S)
    assert hosts.entered.count("slow") == 1, "it was being seen to all the while"


def test_who_asks_hears_that_one_does_not_answer_and_so_do_people(
    hosts: Hosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hosting, "SLOW_S", 0.0)
    hosts.gates["slow"] = threading.Event()
    hosts.want(slow=1)
    until(lambda: hosts.told, WAIT_S)
    with pytest.raises(Transient) as caught:
        hosts.host("slow")
    assert "has not answered" in str(caught.value)
    hosts.knock()
    until(lambda: "slow" in hosts.entered, WAIT_S)
    assert [name for name, _ in hosts.told] == ["slow"], "once for each beginning"


def test_one_name_is_begun_once_however_often_it_is_looked_for(hosts: Hosts) -> None:
    names = [f"n{number}" for number in range(40)]
    stop = threading.Event()

    def knock() -> None:
        while not stop.is_set():
            hosts.knock()

    knocking = threading.Thread(target=knock)
    knocking.start()
    try:
        hosts.want(**dict.fromkeys(names, 1))
        until(here(hosts, *names), WAIT_S)
    finally:
        stop.set()
        knocking.join()
    assert sorted(hosts.entered) == sorted(names)


def test_with_something_else_it_is_begun_anew_when_the_former_one_has_ended(hosts: Hosts) -> None:
    hosts.want(a=1)
    until(here(hosts, "a"), WAIT_S)
    [carrier] = hosts.carriers("a")
    release, running = threading.Event(), threading.Event()

    def work(_: str) -> str:
        running.set()
        assert release.wait(WAIT_S)
        return "done"

    carrier.submit(carrier._pools[0], work, "")
    assert running.wait(WAIT_S)
    hosts.want(a=2)
    until(here(hosts), WAIT_S)
    hosts.knock()
    hosts.want(a=2, b=1)
    until(here(hosts, "b"), WAIT_S)
    assert hosts.entered.count("a") == 1, "what the former one does is not over"
    release.set()
    until(here(hosts, "a", "b"), WAIT_S)
    assert hosts.host("a").number == 2
    assert "done" not in hosts.begun[0][1].heard, "nobody waits for it any more"


def test_where_the_coordinator_has_gone_nothing_is_kept(hosts: Hosts) -> None:
    hosts.want(a=1, b=1)
    until(here(hosts, "a", "b"), WAIT_S)
    hosts.leading = False
    hosts.knock()
    until(here(hosts), WAIT_S)
    until(lambda: not hosts.alive(), WAIT_S)


# --- what goes wrong -----------------------------------------------------------------------------


def test_one_that_cannot_be_begun_rests_longer_each_time(
    hosts: Hosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hosting, "AGAIN_S", 0.02)
    hosts.fails["a"] = ObjectMissing("it is away", object_="a", hint="bring it back")
    hosts.want(a=1)

    def asked() -> bool:
        hosts.knock()
        rest = hosts._rests.get("a")
        return rest is not None and rest.attempts >= 4

    until(asked, WAIT_S)
    with pytest.raises(Transient) as caught:
        hosts.host("a")
    assert "it is away" in str(caught.value)
    assert hosts.told
    del hosts.fails["a"]
    until(lambda: hosts.knock() or here(hosts, "a")(), WAIT_S)
    assert hosts.entered.count("a") == len(hosts.told) + 1


def test_a_keeper_that_breaks_is_told_of_and_not_begun_over_and_over(hosts: Hosts) -> None:
    hosts.want(a=1)
    until(here(hosts, "a"), WAIT_S)
    hosts.host("a").post(BREAK)
    until(lambda: hosts.knock() or here(hosts)(), WAIT_S)
    until(lambda: hosts.told == [("a", "its keeper broke")], WAIT_S)
    until(lambda: "a" in hosts._rests and "a" not in hosts._cares, WAIT_S)
    hosts.want(a=1, b=1)
    until(here(hosts, "b"), WAIT_S)
    assert hosts.entered.count("a") == 1, "it rests"


def test_a_keeper_that_a_later_one_ended_is_begun_again_at_once(hosts: Hosts) -> None:
    hosts.want(a=1)
    until(here(hosts, "a"), WAIT_S)
    hosts.host("a").post(OVER)
    until(lambda: hosts.knock() or hosts.entered.count("a") == 2, WAIT_S)
    until(here(hosts, "a"), WAIT_S)
    assert not hosts.told


# --- stopping ------------------------------------------------------------------------------------


def test_stopped_while_one_begins_nothing_is_left_running() -> None:
    hosts = Hosts()
    hosts.gates["a"] = threading.Event()
    hosts.start()
    hosts.want(a=1, b=1)
    until(here(hosts, "b"), WAIT_S)
    until(lambda: "a" in hosts.entered, WAIT_S)
    opener = threading.Thread(target=lambda: (until(hosts._stopped.is_set), hosts.gates["a"].set()))
    opener.start()
    hosts.stop()
    opener.join()
    assert not hosts.hosts()
    assert not hosts.alive(), "the one that was begun by then was not started"
    assert all(carrier.over for _, _, carrier in hosts.begun)
    assert len(hosts.begun) == 2


def test_stopped_in_the_moment_in_which_one_has_begun_it_is_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Kept already, and the thread that has begun it is not gone yet."""
    hosts = Hosts()
    linger = threading.Event()
    begin = KeeperHosts._begin

    def lingering(self: Hosts, name: str, wanted: int) -> None:
        begin(self, name, wanted)
        assert linger.wait(WAIT_S)

    monkeypatch.setattr(KeeperHosts, "_begin", lingering)
    hosts.start()
    hosts.want(a=1)
    until(here(hosts, "a"), WAIT_S)
    hosts.stop()
    linger.set()
    assert not hosts.hosts()
    until(lambda: not hosts.alive(), WAIT_S)


# --- one host ------------------------------------------------------------------------------------


def test_time_goes_on_for_a_keeper_that_always_has_something_to_hear() -> None:
    host = Host(1)
    host.echoes = True
    host.post("said")
    host.start()
    until(lambda: TICK in host.heard, WAIT_S)
    assert "said" in host.heard
    host.echoes = False
    host.end()
    host.join(WAIT_S)


# --- a carrier -----------------------------------------------------------------------------------


def test_what_is_not_begun_when_it_ends_is_not_done_and_what_runs_is_waited_for() -> None:
    pool = ThreadPoolExecutor(1)
    carrier: Carrier[str] = Carrier((pool,))
    heard: list[str] = []
    carrier.tell(heard.append)
    release, running = threading.Event(), threading.Event()
    done: list[str] = []

    def work(what: str) -> str:
        running.set()
        assert release.wait(WAIT_S)
        done.append(what)
        return what

    carrier.submit(pool, work, "first")
    carrier.submit(pool, work, "second")
    assert running.wait(WAIT_S)
    carrier.end()
    carrier.submit(pool, work, "late")
    assert not carrier.join(0.0)
    release.set()
    assert carrier.join(WAIT_S)
    assert (done, heard) == (["first"], [])
