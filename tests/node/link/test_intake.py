"""The receiving end: what is for this node reaches its core, and nothing else does."""

import pytest

from lockgate.model.errors import Conflict, Transient, UsageError
from lockgate.model.instructions import Answer
from lockgate.model.messages import Message
from lockgate.node.link import wire
from lockgate.node.link.counters import PeerCounts
from lockgate.node.link.intake import Intake
from tests.node.link.examples import MESSAGES, VERBS


def _told(to: str) -> bytes:
    return wire.encode_told("a", to, [wire.encode_message(one) for one in MESSAGES])


def test_messages_reach_the_core_in_their_order() -> None:
    got: list[Message] = []
    intake = Intake("b", got.append)
    intake.receive(_told("b"))
    assert got == list(MESSAGES)
    assert intake.counters.of("a") == PeerCounts(received=len(MESSAGES))


def test_messages_for_another_node_do_not_reach_the_core() -> None:
    got: list[Message] = []
    intake = Intake("c", got.append)
    intake.receive(_told("b"))
    assert got == []
    assert intake.counters.of("a") == PeerCounts(strayed=len(MESSAGES))


def test_one_message_that_cannot_be_read_keeps_the_others_out() -> None:
    got: list[Message] = []
    body = wire.encode_told("a", "b", [wire.encode_message(MESSAGES[0]), b"\xc0"])
    with pytest.raises(UsageError):
        Intake("b", got.append).receive(body)
    assert got == []


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: type(verb).__name__)
def test_a_verb_is_carried_out_and_answered(verb: wire.Verb) -> None:
    asked: list[wire.Verb] = []

    def ask_here(verb: wire.Verb) -> Answer:
        asked.append(verb)
        return Answer(verb.request, "conflict", "no", "wait")

    body = Intake("b", lambda _: None).carry_out(wire.encode_asked("a", "b", verb), ask_here)
    assert wire.decode_answer(body) == Answer(verb.request, "conflict", "no", "wait")
    assert asked == [verb]


def _never(verb: wire.Verb) -> Answer:
    raise AssertionError(verb)


def test_a_verb_for_another_node_is_not_carried_out() -> None:
    with pytest.raises(Transient, match="another node"):
        Intake("c", lambda _: None).carry_out(wire.encode_asked("a", "b", VERBS[0]), _never)


def test_a_verb_that_cannot_be_read_is_refused() -> None:
    with pytest.raises(UsageError):
        Intake("b", lambda _: None).carry_out(b"\xc0", _never)


def test_what_carrying_out_raises_is_raised() -> None:
    def busy(verb: wire.Verb) -> Answer:
        raise Conflict("busy", object_="feed", hint="wait")

    with pytest.raises(Conflict):
        Intake("b", lambda _: None).carry_out(wire.encode_asked("a", "b", VERBS[0]), busy)
