"""Streams of real servers."""

from collections.abc import Iterator

import pytest

from tests.support.streams import Stream, stream_of


@pytest.fixture
def stream(database_of: str) -> Iterator[Stream]:
    """A database of a test's own, on each server in turn, and what its slot sends."""
    with stream_of(database_of) as found:
        yield found
