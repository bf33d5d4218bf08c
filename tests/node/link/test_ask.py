"""A verb for another node: its answer, or an error that says whether asking again may help."""

import contextlib
import socket
import threading
import time

import pytest

from lockgate.model.errors import LockgateError, Transient, UsageError
from lockgate.model.instructions import Answer
from lockgate.model.secret import Secret
from lockgate.node.link.wire import Verb
from tests.node.link.examples import VERBS
from tests.node.link.peers import Peer, nowhere, transport
from tests.support.proxy import FaultProxy, Way
from tests.support.waiting import until

VERB = VERBS[0]


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: type(verb).__name__)
def test_a_verb_is_answered_by_the_node_that_was_asked(verb: Verb) -> None:
    asked: list[Verb] = []

    def answer(verb: Verb) -> Answer:
        asked.append(verb)
        return Answer(verb.request, "conflict", "it is busy", "wait")

    with Peer("b") as b, transport({"b": b.address}.get) as link:
        b.answer = answer
        assert link.ask("b", verb) == Answer(verb.request, "conflict", "it is busy", "wait")
    assert asked == [verb]


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (307, UsageError),
        (400, UsageError),
        (401, UsageError),
        (403, UsageError),
        (404, UsageError),
        (408, Transient),
        (413, UsageError),
        (429, Transient),
        (500, Transient),
        (503, Transient),
    ],
)
def test_a_refusal_is_an_error_of_its_kind(status: int, error: type[LockgateError]) -> None:
    with Peer("b") as b, transport({"b": b.address}.get) as link:
        b.status = status
        with pytest.raises(error) as raised:
            link.ask("b", VERB)
        assert raised.value.object == "node b"
        assert raised.value.hint


def test_a_wrong_key_is_refused_and_not_shown() -> None:
    with Peer("b") as b, transport({"b": b.address}.get, key=Secret("hunter2")) as link:
        with pytest.raises(UsageError, match="does not accept") as raised:
            link.ask("b", VERB)
        assert "hunter2" not in str(raised.value.as_dict())


def test_an_answer_that_does_not_come_in_time_may_be_asked_for_again() -> None:
    with Peer("b") as b, transport({"b": b.address}.get) as link:
        b.listening.clear()
        with pytest.raises(Transient, match="did not answer in time"):
            link.ask("b", VERB, timeout_s=0.1)
        b.listening.set()
        assert link.ask("b", VERB) == Answer(VERB.request)


def test_a_verb_whose_answer_was_lost_may_be_asked_for_again() -> None:
    with (
        Peer("b") as b,
        FaultProxy("127.0.0.1", b.port) as proxy,
        transport({"b": f"http://127.0.0.1:{proxy.port}"}.get) as link,
    ):
        proxy.lose(Way.TO_CLIENT)
        with pytest.raises(Transient):
            link.ask("b", VERB, timeout_s=0.3)
        until(lambda: b.bodies == 1)
        proxy.heal()
        assert link.ask("b", VERB) == Answer(VERB.request)


def test_a_node_that_is_not_there_may_be_asked_again() -> None:
    with (
        Peer("b") as b,
        FaultProxy("127.0.0.1", b.port) as proxy,
        transport({"b": f"http://127.0.0.1:{proxy.port}"}.get) as link,
    ):
        proxy.refuse()
        with pytest.raises(Transient, match="cannot be reached"):
            link.ask("b", VERB)
        proxy.heal()
        assert link.ask("b", VERB) == Answer(VERB.request)


def test_a_node_without_an_address_may_be_asked_again() -> None:
    with transport(nowhere) as link, pytest.raises(Transient, match="no address"):
        link.ask("b", VERB)


def test_another_node_at_the_address_does_not_carry_out_the_verb() -> None:
    asked: list[Verb] = []

    def answer(verb: Verb) -> Answer:
        asked.append(verb)
        return Answer(verb.request)

    with Peer("c") as c, transport({"b": c.address}.get) as link:
        c.answer = answer
        with pytest.raises(Transient):
            link.ask("b", VERB)
    assert asked == []


def test_an_answer_to_something_else_is_not_taken() -> None:
    with Peer("b") as b, transport({"b": b.address}.get) as link:
        b.answer = lambda _: Answer("another")
        with pytest.raises(Transient, match="another request"):
            link.ask("b", VERB)


def test_what_is_no_answer_is_refused() -> None:
    with Peer("b") as b, transport({"b": b.address}.get) as link:
        b.status = 200
        with pytest.raises(UsageError, match="cannot be read"):
            link.ask("b", VERB)


def test_an_answer_that_trickles_in_is_not_waited_for() -> None:
    over = threading.Event()

    def trickle(server: socket.socket) -> None:
        with server.accept()[0] as one, contextlib.suppress(OSError):
            one.recv(65536)
            one.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 200\r\n\r\n")
            while not over.wait(0.02):
                one.sendall(b"x")

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=trickle, args=(server,))
        thread.start()
        address = f"http://127.0.0.1:{server.getsockname()[1]}"
        try:
            with (
                transport({"b": address}.get) as link,
                pytest.raises(Transient, match="did not answer in time"),
            ):
                link.ask("b", VERB, timeout_s=0.5)
        finally:
            over.set()
            thread.join()


def test_several_may_ask_at_once() -> None:
    with Peer("b") as b, transport({"b": b.address}.get) as link:
        b.listening.clear()
        answers: list[Answer] = []
        askers = [
            threading.Thread(target=lambda verb=verb: answers.append(link.ask("b", verb)))
            for verb in VERBS
        ]
        for asker in askers:
            asker.start()
        b.listening.set()
        for asker in askers:
            asker.join()
    assert {answer.request for answer in answers} == {verb.request for verb in VERBS}


def test_who_waits_for_an_answer_is_told_when_the_link_ends() -> None:
    raised: list[Exception] = []
    with Peer("b") as b, transport({"b": b.address}.get) as link:
        b.listening.clear()

        def ask() -> None:
            try:
                link.ask("b", VERB, timeout_s=30)
            except Transient as error:
                raised.append(error)

        asker = threading.Thread(target=ask)
        asker.start()
        until(lambda: len(link._client._sockets) == 1)
        before = time.monotonic()
        link.close()
        asker.join()
        assert time.monotonic() - before < 10
        assert len(raised) == 1
        with pytest.raises(Transient, match="the link is closed"):
            link.ask("b", VERB)
