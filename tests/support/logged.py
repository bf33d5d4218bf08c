"""Everything that is logged for a while, as lines of JSON; afterwards logging is as it was."""

import io
import logging
from collections.abc import Iterator
from contextlib import contextmanager

import structlog

from lockgate.api.logs import configure_logs
from lockgate.api.scrub import Scrubber

__all__ = ["logged"]


@contextmanager
def logged(scrubber: Scrubber, *, node: str, level: int = logging.INFO) -> Iterator[io.StringIO]:
    """The log of a server, in memory."""
    stream, root, own = io.StringIO(), logging.getLogger(), logging.getLogger("lockgate")
    handlers, before = list(root.handlers), own.level
    configure_logs(stream, scrubber, level=level, node=node)
    try:
        yield stream
    finally:
        structlog.reset_defaults()
        root.handlers[:] = handlers
        own.setLevel(before)
        logging.getLogger("uvicorn").handlers.clear()
