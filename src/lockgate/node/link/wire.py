"""What nodes say to each other, as bytes: MessagePack in an envelope with a version.

    messages   {version, sender, to, messages: […]}
    a verb     {version, sender, to, verb}
    an answer  {version, answer}

The envelope names whom it is meant for. An address may have passed to another node since it was
read, and a core tells apart the lives of its own node only: it would take a request for the third
life of its neighbour as one for its own third life.

Messages are encoded one by one when they are sent, because a queue's limit is in bytes; an
envelope is then put together from bytes. What cannot be read is refused without a word of its
contents: they may be anybody's.
"""

from typing import Final, TypeVar

import msgspec

from lockgate.model.errors import UsageError
from lockgate.model.events import FeedVerb, SpanVerb
from lockgate.model.ids import FeedId, NodeId, SpanId
from lockgate.model.instructions import Answer
from lockgate.model.lake_events import LakeVerb
from lockgate.model.messages import Message
from lockgate.model.move_events import MoveCommand
from lockgate.model.moves import MoveId
from lockgate.model.value import Value

__all__ = [
    "BODY_BYTES_MAX",
    "CONTENT_TYPE",
    "ENVELOPE_BYTES_MAX",
    "MESSAGES_PATH",
    "VERBS_PATH",
    "VERSION",
    "AskLake",
    "AskMove",
    "Asked",
    "ResyncSpan",
    "Told",
    "Verb",
    "decode_answer",
    "decode_asked",
    "decode_told",
    "encode_answer",
    "encode_asked",
    "encode_message",
    "encode_told",
]

VERSION: Final = 1
"""Raised when a node of the former version would misread what a node of this one says."""

MESSAGES_PATH: Final = "/link/v1/messages"
VERBS_PATH: Final = "/link/v1/verbs"
CONTENT_TYPE: Final = "application/msgpack"

BODY_BYTES_MAX: Final = 64 * 1024 * 1024
"""A full heartbeat of 100,000 spans is 5 MB, and several times that when all are in trouble."""

ENVELOPE_BYTES_MAX: Final = 4 * 1024
"""What an envelope adds to its messages, at most; names are short."""


class ResyncSpan(Value, frozen=True, tag=True):
    """For the node that runs a span, not for its core: copy the span's rows anew."""

    request: str
    feed: FeedId
    span: SpanId


class AskLake(Value, frozen=True, tag=True):
    """For the node that keeps a lake, not for its core."""

    request: str
    lake: str
    verb: LakeVerb


class AskMove(Value, frozen=True, tag=True):
    """For the node that keeps a move, not for its core."""

    request: str
    move: MoveId
    command: MoveCommand


Verb = FeedVerb | SpanVerb | ResyncSpan | AskLake | AskMove


class Told(Value, frozen=True, forbid_unknown_fields=True):
    """Messages, as they are received."""

    version: int
    sender: NodeId
    to: NodeId
    messages: tuple[Message, ...]


class _Telling(Value, frozen=True):
    """The same, as they are sent: each message is bytes already."""

    version: int
    sender: NodeId
    to: NodeId
    messages: list[msgspec.Raw]


class Asked(Value, frozen=True, forbid_unknown_fields=True):
    """A verb for the node that can answer it."""

    version: int
    sender: NodeId
    to: NodeId
    verb: Verb


class _Answered(Value, frozen=True, forbid_unknown_fields=True):
    """What came of it."""

    version: int
    answer: Answer


class _Any(Value, frozen=True):
    """What every version has: looked at when the rest cannot be read, to say why."""

    version: int


_Envelope = TypeVar("_Envelope", Told, Asked, _Answered)

_encode = msgspec.msgpack.Encoder().encode
_told = msgspec.msgpack.Decoder(Told)
_asked = msgspec.msgpack.Decoder(Asked)
_answered = msgspec.msgpack.Decoder(_Answered)
_any = msgspec.msgpack.Decoder(_Any)

_UNREADABLE: Final = (ValueError, RecursionError, MemoryError)
"""What a decoder raises over bytes that nobody should have sent. msgspec's errors, and those of
text that is not UTF-8, are ValueErrors."""


def encode_message(message: Message) -> bytes:
    """One message, to be put into an envelope."""
    return _encode(message)


def encode_told(sender: NodeId, to: NodeId, messages: list[bytes]) -> bytes:
    """An envelope around messages that were encoded before."""
    return _encode(_Telling(VERSION, sender, to, [msgspec.Raw(one) for one in messages]))


def decode_told(body: bytes) -> Told:
    """Raises UsageError for bytes that are not messages of this version."""
    return _read(_told, body, "messages")


def encode_asked(sender: NodeId, to: NodeId, verb: Verb) -> bytes:
    """A verb in its envelope."""
    return _encode(Asked(VERSION, sender, to, verb))


def decode_asked(body: bytes) -> Asked:
    """Raises UsageError for bytes that are not a verb of this version."""
    return _read(_asked, body, "a verb")


def encode_answer(answer: Answer) -> bytes:
    """An answer in its envelope."""
    return _encode(_Answered(VERSION, answer))


def decode_answer(body: bytes) -> Answer:
    """Raises UsageError for bytes that are not an answer of this version."""
    return _read(_answered, body, "an answer").answer


def _read(decoder: msgspec.msgpack.Decoder[_Envelope], body: bytes, what: str) -> _Envelope:
    if len(body) > BODY_BYTES_MAX:
        raise UsageError(
            f"a body of {len(body)} bytes is more than the {BODY_BYTES_MAX} that are read",
            object_=what,
            hint="send less at once",
        )
    try:
        envelope = decoder.decode(body)
    except _UNREADABLE:
        envelope = None
    version = _version(body) if envelope is None else envelope.version
    if version not in {VERSION, None}:
        raise UsageError(
            f"version {version} of the link is not spoken here, only {VERSION}",
            object_=what,
            hint="run the same version of Lockgate on all nodes of a cluster",
        )
    if envelope is None:
        # The decoder's own words may quote the body, so they are not handed on.
        raise UsageError(
            "the body cannot be read",
            object_=what,
            hint="only nodes of this cluster speak to the link, in the same version of Lockgate",
        )
    return envelope


def _version(body: bytes) -> int | None:
    try:
        return _any.decode(body).version
    except _UNREADABLE:
        return None
