"""From a problem document (RFC 9457) back to the error that the node raised.

`code` names the class, so that `except Conflict` works on both sides of the wire. A code that this
version does not know keeps its name, and its status says whether trying again may help.
"""

import functools
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from lockgate.model import errors
from lockgate.model.errors import (
    Conflict,
    IllegalTransition,
    LockgateError,
    Terminal,
    Transient,
    UsageError,
)

__all__ = ["Problem", "of_problem", "read_problem"]

_TRANSIENT: Final = frozenset({408, 425, 429, 502, 503, 504})


class Problem(msgspec.Struct, frozen=True):
    """The document. Members that are not there are empty: another version may leave them out."""

    code: str
    title: str = ""
    detail: str = ""
    status: int = 0
    object: str = ""
    hint: str = ""
    operation: str = ""


def read_problem(content_type: str, body: bytes) -> Problem | None:
    """The problem in an answer, or None when it has none that we know."""
    if content_type.split(";", maxsplit=1)[0].strip().lower() != "application/problem+json":
        return None
    try:
        return msgspec.json.decode(body, type=Problem)
    except msgspec.MsgspecError:
        return None


def of_problem(problem: Problem, status: int) -> LockgateError:
    """The error that the node raised."""
    kind = _kind(problem.code, status)
    return kind(
        problem.detail or problem.title or "the server refused",
        object_=problem.object,
        hint=problem.hint,
        operation=problem.operation,
    )


@functools.cache
def _kind(code: str, status: int) -> type[LockgateError]:
    known = _known().get(code)
    if known is not None:
        return known
    base: type[LockgateError] = Terminal
    if status in _TRANSIENT:
        base = Transient
    elif status in {400, 422}:
        base = UsageError
    elif status == 409:
        base = Conflict
    return type(base.__name__, (base,), {"code": code})


@functools.cache
def _known() -> dict[str, type[LockgateError]]:
    # An illegal transition is a bug there, with its trace in the log there: here it is a refusal.
    return {kind.code: kind for kind in _kinds(LockgateError) if kind is not IllegalTransition}


def _kinds(root: type[LockgateError]) -> Iterator[Any]:
    yield root
    for kind in root.__subclasses__():
        if kind.__module__ == errors.__name__:
            yield from _kinds(kind)
