"""Waiting for a socket works whatever its number is."""

import contextlib
import os
import resource
import socket
from collections.abc import Iterator

import pytest

from lockgate.endpoints.postgres.waiting import readable, wait_either, wait_writable

SELECT_MAX = 1024
"""What `select` would not take any more."""


@pytest.fixture(params=["low", "high"])
def pair(request: pytest.FixtureRequest) -> Iterator[tuple[socket.socket, socket.socket]]:
    here, there = socket.socketpair()
    with contextlib.ExitStack() as stack:
        stack.enter_context(here)
        stack.enter_context(there)
        if request.param == "high":
            if resource.getrlimit(resource.RLIMIT_NOFILE)[0] <= SELECT_MAX + 1:
                soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
                resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4 * SELECT_MAX), hard))
                stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
            high = socket.socket(fileno=_dup_above(here.fileno(), SELECT_MAX))
            here = stack.enter_context(high)
        yield here, there


def _dup_above(descriptor: int, least: int) -> int:
    made: list[int] = []
    try:
        while not made or made[-1] < least:
            made.append(os.dup(descriptor))
        return made.pop()
    finally:
        for one in made:
            os.close(one)


def test_a_quiet_socket_has_nothing_to_read(pair: tuple[socket.socket, socket.socket]) -> None:
    assert not readable(pair[0], 0)
    assert not wait_either(pair[0], 0)


def test_what_has_come_is_seen(pair: tuple[socket.socket, socket.socket]) -> None:
    pair[1].send(b"x")
    assert readable(pair[0], 10)
    assert wait_either(pair[0], 10)


def test_an_end_is_something_to_read(pair: tuple[socket.socket, socket.socket]) -> None:
    pair[1].close()
    assert readable(pair[0], 10)


def test_a_socket_that_takes_bytes_is_waited_for_no_longer(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    wait_writable(pair[0], None)
    pair[0].send(b"x")
    assert pair[1].recv(1) == b"x"
