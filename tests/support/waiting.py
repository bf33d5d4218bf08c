"""Waiting for a condition with a deadline, instead of sleeping and hoping."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def until(condition: Callable[[], T], timeout_s: float = 10.0, every_s: float = 0.01) -> T:
    """The first true answer of `condition`; fails the test if there is none in time."""
    deadline = time.monotonic() + timeout_s
    while not (answer := condition()):
        assert time.monotonic() < deadline, f"not within {timeout_s} s: {condition}"
        time.sleep(every_s)
    return answer
