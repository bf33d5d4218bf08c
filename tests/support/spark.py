"""Spark sessions for tests, and work functions that only tests have a use for.

Tasks import this module too, so it is reached by its name from the root of the source tree.
"""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec
import pytest
from pyspark import TaskContext

from lockgate.pipeline import jobs
from lockgate.pipeline.jobs import KINDS, TOGETHER, warm_up
from lockgate.pipeline.session import Spark, SparkOptions, start

ROOT: Final = Path(__file__).parents[2]
TEST_KINDS: Final = {
    "test-daemon": "tests.support.spark:daemon",
    "test-count": "tests.support.spark:count",
    "test-fail": "tests.support.spark:fail",
    "test-hold": "tests.support.spark:hold",
    "test-hold-some": "tests.support.spark:hold_some",
    "test-home": "tests.support.spark:home",
    "test-leave": "tests.support.spark:leave",
    "test-where": "tests.support.spark:where",
}


@contextmanager
def started(master: str = "local[2]", *, events: Path | None = None) -> Iterator[Spark]:
    """A session whose tasks can import the tests."""
    settings = {}
    if events is not None:
        settings = {
            "spark.eventLog.enabled": "true",
            "spark.eventLog.dir": events.as_uri(),
            "spark.eventLog.compress": "false",
        }
    KINDS.update(TEST_KINDS)
    TOGETHER.add("test-count")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(ROOT), prepend=os.pathsep)
        spark = start(SparkOptions(master, settings=settings))
    with spark:
        warm_up(spark)
        yield spark


def fail(item: bytes) -> bytes:
    """Raises on the item `bad`."""
    if item == b"bad":
        raise RuntimeError("no such luck")
    return item


def count(items: list[bytes]) -> list[bytes]:
    """To each item, how many came with it. Raises where one is `bad`."""
    for item in items:
        fail(item)
    return [b"%s of %d" % (item, len(items)) for item in items]


def leave(item: bytes) -> bytes:
    """Ends the worker's process on the item `bad`, as the kernel does when memory is short."""
    if item == b"bad":
        os._exit(9)
    return item


def hold(item: bytes) -> bytes:
    """Writes its process number to the file that the item names, then stays."""
    path = Path(item.decode())
    path.with_suffix(".part").write_text(str(os.getpid()))
    path.with_suffix(".part").rename(path)
    time.sleep(600)
    return item


def hold_some(item: bytes) -> bytes:
    """The same, but for the item `quick`."""
    return item if item == b"quick" else hold(item)


def home(item: bytes) -> bytes:
    """Where this task's Lockgate is, and who started its worker."""
    time.sleep(1)  # so that no slot is free for all of them
    return f"{jobs.__file__} {os.getppid()}".encode()


def where(item: bytes) -> bytes:
    """The number of the partition, which is the task's."""
    context = TaskContext.get()
    assert context is not None
    return str(context.partitionId()).encode()


def daemon(item: bytes) -> bytes:
    """Whether the process that we are forked from has Arrow loaded, and which threads it has."""
    process = Path("/proc", str(os.getppid()))
    arrow = b"libarrow" in (process / "maps").read_bytes()
    threads = sorted((task / "comm").read_text().strip() for task in (process / "task").iterdir())
    return msgspec.json.encode((arrow, threads))
