"""The process that Spark forks its Python workers from, with what tasks need already imported.

A worker of Spark's own daemon begins with nothing and imports everything anew: over a second of
processor time for each, and again whenever Spark has let an idle worker go (after a minute), so
that the first change after a pause comes late. Here the imports happen once, before any fork; the
workers begin at once and share the memory.

Spark imports nothing before the fork because libraries may start threads, which do not survive it.
So no thread may be left when the workers are forked: NumPy's is not started, and Arrow's pools are
started by their first use, which is after the fork. (The one thread that Arrow's allocator keeps is
the allocator's own business: it sees to forks.)

For local Spark alone: executors elsewhere may not have Lockgate installed when their daemon starts.
"""

import contextlib
import importlib
import os
from typing import Final

__all__ = ["MODULE"]

MODULE: Final = "lockgate.pipeline.daemon"
"""For `spark.python.daemon.module`."""


def preload() -> None:
    """Import what tasks need. What cannot be imported is for the task to tell that needs it."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from lockgate.pipeline.jobs import KINDS, settle

    modules = [path.partition(":")[0] for path in KINDS.values()]
    for module in ("pyspark.worker", *modules):
        with contextlib.suppress(ImportError):
            importlib.import_module(module)
    settle()  # so that no collection in a worker touches, and thereby copies, what is shared


if __name__ == "__main__":
    preload()
    from pyspark.daemon import manager

    manager()
