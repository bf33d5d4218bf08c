"""Reading what people wrote (TOML, JSON) into values, with errors that name the key.

The decoder's own errors speak of JSON paths and Python types. Here they become UsageErrors whose
object is the key as a person would write it, `masks."public.users.email"` or `tables[2]`, so that
whoever knows the file can add its line (`toml_lines.py`).
"""

import re
from typing import Any, Final

import msgspec

from lockgate.model.errors import UsageError
from lockgate.model.secret import Secret

__all__ = ["convert", "quoted", "reveal", "unfit"]

_UNKNOWN: Final = re.compile(r"unknown field `(?P<field>.*?)`")
_MISSING: Final = re.compile(r"missing required field `(?P<field>.*?)`")
_AT: Final = re.compile(r" - at `(?:key in )?\$?\.?(?P<at>.*?)`$")


def convert(value: object, kind: Any, key: str = "") -> Any:
    """`value`, which stands at `key`, as a `kind`; UsageError when it is none."""
    try:
        return msgspec.convert(value, kind, dec_hook=_secret)
    except msgspec.ValidationError as error:
        why = str(error)
    # Outside of the handler: the decoder's error may quote a value, and would travel along.
    raise unfit(*_readable(why, key))


def reveal(value: object) -> str:
    """Writes a Secret into a document; a hook for encoders, on purpose and nowhere else."""
    if not isinstance(value, Secret):
        raise TypeError(f"{type(value).__name__} has no place in a configuration")
    return value.reveal()


def unfit(what: str, key: str, hint: str) -> UsageError:
    """What is wrong with a configuration, and at which key."""
    return UsageError(what, object_=key, hint=hint, operation="read the configuration")


def quoted(table: str, key: str) -> str:
    """A key under a table, where the key may hold dots."""
    return f'{table}."{key}"'


def _secret(kind: type, value: object) -> Secret:
    if kind is not Secret or not isinstance(value, str):
        raise ValueError("expected a text")
    return Secret(value)


def _readable(why: str, key: str) -> tuple[str, str, str]:
    """What a validation error means, at which key, and what helps."""
    place = _AT.search(why)
    what = why[: place.start()] if place else why
    at = [key, place["at"] if place else ""]
    for words, said, hint in (
        (_UNKNOWN, "there is no such key", "see its spelling"),
        (_MISSING, "a key is missing", "add it"),
    ):
        if found := words.search(what):
            return said, ".".join(filter(None, [*at, found["field"]])), hint
    return (
        what[:1].lower() + what[1:],
        ".".join(filter(None, at)),
        "names with dots in them stand in quotes; see the documentation for what may stand here",
    )
