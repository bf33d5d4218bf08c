"""Waiting for something that was asked of a lake, with a look now and then at how far it is.

The request waits at the node, in a thread of its own here, so that Ctrl-C is heard at once and the
looks go on beside it. What was asked goes on without whoever asked.
"""

import contextlib
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeVar

from lockgate.cli import progress
from lockgate.model.errors import LockgateError

if TYPE_CHECKING:
    from lockgate.client import Client

__all__ = ["looked_on"]

T = TypeVar("T")

LOOK_S: Final = 0.5
"""What is over sooner is not looked at."""


def looked_on(lg: "Client", endpoint: str, ask: Callable[[], T]) -> T:
    """What `ask` returns or raises."""
    answers: list[T] = []
    errors: list[BaseException] = []

    def work() -> None:
        try:
            answers.append(ask())
        except BaseException as error:
            errors.append(error)

    worker = threading.Thread(target=work, name="lake", daemon=True)
    worker.start()
    with contextlib.ExitStack() as shown:
        advance: Callable[[int, int], None] | None = None
        worker.join(LOOK_S)
        while worker.is_alive():
            # A look that fails says nothing about what is waited for: that says it itself.
            with contextlib.suppress(LockgateError):
                lake = lg.lakes.show(endpoint)
                if lake.total:
                    # Only now: of what is not counted there is no bar.
                    advance = advance or shown.enter_context(
                        progress.counted(f"{endpoint}: {lake.role}, tables")
                    )
                    advance(lake.done, lake.total)
            worker.join(LOOK_S)
    if errors:
        raise errors[0]
    return answers[0]
