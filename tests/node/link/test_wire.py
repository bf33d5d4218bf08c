"""Bytes of the link: everything that is sent is read as it was said, and nothing else is read."""

from typing import get_args

import msgspec
import pytest

from lockgate.model.errors import UsageError
from lockgate.model.instructions import Answer
from lockgate.model.messages import Heartbeat, Message
from lockgate.model.requests import Request
from lockgate.model.statuses import DispatcherStatus
from lockgate.node.link import wire
from tests.node.link.examples import MESSAGES, REQUESTS, STATUSES, VERBS, beat


def _told(*messages: Message) -> bytes:
    return wire.encode_told("a", "b", [wire.encode_message(one) for one in messages])


@pytest.mark.parametrize(
    ("union", "examples"),
    [(Message, MESSAGES), (Request, REQUESTS), (wire.Verb, VERBS)],
    ids=["messages", "requests", "verbs"],
)
def test_there_is_an_example_of_each(union: object, examples: tuple[object, ...]) -> None:
    assert set(get_args(union)) == {type(example) for example in examples}


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_a_message_is_read_as_it_was_said(message: Message) -> None:
    assert wire.decode_told(_told(message)).messages == (message,)


def test_an_envelope_keeps_names_and_order() -> None:
    assert wire.decode_told(_told(*MESSAGES)) == wire.Told(wire.VERSION, "a", "b", MESSAGES)


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: type(verb).__name__)
def test_a_verb_is_read_as_it_was_said(verb: wire.Verb) -> None:
    asked = wire.decode_asked(wire.encode_asked("a", "b", verb))
    assert asked == wire.Asked(wire.VERSION, "a", "b", verb)


def test_an_answer_is_read_as_it_was_said() -> None:
    answer = Answer("r1", "conflict", "it is not to be", "ask for something else")
    assert wire.decode_answer(wire.encode_answer(answer)) == answer


def test_a_heartbeat_of_a_hundred_thousand_spans_fits_into_a_body() -> None:
    status = msgspec.structs.replace(STATUSES[1], span="1234-56789")
    many: tuple[DispatcherStatus, ...] = (status,) * 100_000
    body = _told(Heartbeat("orders", 7, MESSAGES[3].owner, 1, True, many))  # type: ignore[union-attr]
    assert len(body) < wire.BODY_BYTES_MAX / 4
    (message,) = wire.decode_told(body).messages
    assert isinstance(message, Heartbeat)
    assert len(message.statuses) == 100_000


def _pack(**fields: object) -> bytes:
    return msgspec.msgpack.encode(fields)


_FINE = {"version": wire.VERSION, "sender": "a", "to": "b", "messages": []}

UNREADABLE = {
    "nothing": b"",
    "text": b"hunter2",
    "bytes after the end": _pack(**_FINE) + b"\x00",
    "cut off": _pack(**_FINE)[:-1],
    "a message of no known type": _pack(
        **_FINE | {"messages": [{"type": "hunter2", "feed": "hunter2"}]}
    ),
    "a wrong value in a message": _pack(
        **_FINE | {"messages": [{"type": "StopMaintainer", "term": "hunter2"}]}
    ),
    "a field that nobody knows": _pack(**_FINE, hunter2=1),
    "text that is not UTF-8": _pack(**_FINE).replace(b"\xa1a", b"\xa1\xff"),
    "nested beyond reason": _pack(**_FINE | {"messages": 0})[:-1] + b"\x91" * 100_000,
    "a length beyond reason": _pack(**_FINE | {"messages": 0})[:-1] + b"\xdd\xff\xff\xff\xff",
    "no version": _pack(sender="a", to="b", messages=[]),
}


@pytest.mark.parametrize("body", UNREADABLE.values(), ids=UNREADABLE)
def test_what_cannot_be_read_is_refused_without_its_contents(body: bytes) -> None:
    with pytest.raises(UsageError, match="cannot be read") as refused:
        wire.decode_told(body)
    assert "hunter2" not in str(refused.value.as_dict())
    assert refused.value.__cause__ is None


def test_what_is_fine_is_read() -> None:
    assert wire.decode_told(_pack(**_FINE)).messages == ()


@pytest.mark.parametrize("messages", [[], "in a shape of its own"])
def test_another_version_is_refused_as_such(messages: object) -> None:
    with pytest.raises(UsageError, match="version 2 of the link is not spoken"):
        wire.decode_told(_pack(version=2, sender="a", to="b", messages=messages))


def test_a_verb_is_not_taken_for_an_answer() -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        wire.decode_answer(wire.encode_asked("a", "b", VERBS[0]))


def test_a_body_beyond_the_limit_is_not_even_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    body = _told(beat(1))
    monkeypatch.setattr(wire, "BODY_BYTES_MAX", len(body) - 1)
    with pytest.raises(UsageError, match=f"{len(body)} bytes is more"):
        wire.decode_told(body)
