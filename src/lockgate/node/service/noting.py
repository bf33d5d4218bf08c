"""What came of a verb, written into the history whichever way it went."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from lockgate.model.errors import LockgateError, OutcomeUnknown, Transient
from lockgate.store.history import History

__all__ = ["BEGUN", "RECORDED", "noted"]

RECORDED: Final = "recorded"
"""It is durable that it is to be so; whoever owns what it is about makes it so."""
BEGUN: Final = "begun"


@contextmanager
def noted(
    history: History, who: str, verb: str, object_: str, detail: str = "", outcome: str = RECORDED
) -> Iterator[None]:
    """Around what is asked for: the history has `outcome` when it went well, and else why not."""
    try:
        yield
    except LockgateError as error:
        with suppress(LockgateError):  # why it failed is what people are to be told
            history.write(who, verb, object_, detail, f"{_kind(error)}: {error}")
        raise
    history.write(who, verb, object_, detail, outcome)


def _kind(error: LockgateError) -> str:
    if isinstance(error, OutcomeUnknown):
        return "not certain"
    return "not begun" if isinstance(error, Transient) else "refused"
