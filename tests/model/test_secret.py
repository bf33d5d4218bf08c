"""A secret is carried anywhere and shown nowhere."""

import copy
import dataclasses
import json
import logging
import pickle
import traceback
from collections.abc import Callable

import msgspec
import pytest
from rich.console import Console
from rich.pretty import pretty_repr

from lockgate.model.secret import MASK, Secret

VALUE = "hunter2-é"
SECRET = Secret(VALUE)


@dataclasses.dataclass
class Login:
    user: str
    password: Secret


def test_reveal_gives_the_value() -> None:
    assert SECRET.reveal() == VALUE


@pytest.mark.parametrize(
    "show",
    [
        str,
        repr,
        lambda s: f"{s}",
        lambda s: f"{s!r}",
        lambda s: "%s %r" % (s, s),  # noqa: UP031
        lambda s: f"{s:>8}",
        lambda s: repr({"login": [Login("app", s)]}),
        lambda s: repr(dataclasses.asdict(Login("app", s))),
        pretty_repr,
        lambda s: json.dumps(s, default=str),
        lambda s: msgspec.json.encode(s, enc_hook=str).decode(),
        lambda s: repr(copy.deepcopy([s])),
    ],
)
def test_every_way_to_show_it_gives_the_mask(show: Callable[[Secret], str]) -> None:
    text = show(SECRET)
    assert MASK in text
    assert VALUE not in text


@pytest.mark.parametrize(
    "encode",
    [json.dumps, msgspec.json.encode, msgspec.msgpack.encode, msgspec.to_builtins, pickle.dumps],
)
def test_encoders_refuse_it_without_quoting_it(encode: Callable[[object], object]) -> None:
    with pytest.raises(TypeError) as refused:
        encode({"password": SECRET})
    assert VALUE not in str(refused.value)


def test_it_is_masked_in_log_records(caplog: pytest.LogCaptureFixture) -> None:
    logging.getLogger("lockgate.test").warning("connecting with %s", SECRET)
    assert MASK in caplog.text
    assert VALUE not in caplog.text


def test_it_is_masked_in_tracebacks_that_show_locals() -> None:
    def connect(password: Secret) -> None:
        raise ConnectionError(f"refused for {password}")

    with pytest.raises(ConnectionError) as failed:
        connect(SECRET)
    error = failed.value
    plain = "".join(
        traceback.TracebackException.from_exception(error, capture_locals=True).format()
    )
    console = Console(width=200)
    with console.capture() as rich:
        try:
            raise error
        except ConnectionError:
            console.print_exception(show_locals=True)
    assert f"password = {MASK}" in plain
    assert f"password = {MASK}" in rich.get()


def test_equal_secrets_are_equal_and_hash_alike() -> None:
    assert Secret("a") == Secret("a")
    assert Secret("a") != Secret("b")
    assert len({Secret("a"), Secret("a"), Secret("b")}) == 2


def test_it_does_not_equal_its_text() -> None:
    assert Secret("a") != "a"


def test_it_is_false_only_when_empty() -> None:
    assert Secret("a")
    assert not Secret("")


def test_it_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        SECRET._reveal = lambda: "other"  # type: ignore[method-assign]
