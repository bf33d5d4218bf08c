"""The capture of a feed: from the source's stream into the change log, each change once.

capture   the loop: fetch, decode, buffer, and when to flush
buffers   what is decoded and not yet written
landing   beside it, on a thread of its own: files, rows in the metastore, acknowledgement
status    how far it is
"""

from lockgate.endpoints.postgres.capture.capture import (
    Capture,
    CaptureOptions,
    Follower,
    LoggedDdl,
    Source,
    Understand,
)
from lockgate.endpoints.postgres.capture.status import CaptureStatus

__all__ = [
    "Capture",
    "CaptureOptions",
    "CaptureStatus",
    "Follower",
    "LoggedDdl",
    "Source",
    "Understand",
]
